// Everything that usually makes a build differ from place to place and from day to day: __FILE__ (also through
// assert), __DATE__ and __TIME__, and exceptions, which bring their own variant of the C++ libraries.

#include <cassert>
#include <cstdio>
#include <stdexcept>
#include <string>

static int parse(const std::string &text) {
    assert(!text.empty());
    std::size_t used = 0;
    const int value = std::stoi(text, &used);
    if (used != text.size())
        throw std::invalid_argument(text);
    return value;
}

int main(int argc, char **argv) {
    std::printf("%s, compiled %s %s\n", __FILE__, __DATE__, __TIME__);
    try {
        std::printf("%d\n", parse(argc > 1 ? argv[1] : "42"));
    } catch (const std::invalid_argument &error) {
        std::printf("not a number: %s\n", error.what());
        return 1;
    }
}
