/* Prints the CRC-32 of a text, and which zlib computed it. */

#include <stdio.h>
#include <string.h>

#include <zlib.h>

int main(int argc, char **argv) {
    const char *text = argc > 1 ? argv[1] : "";
    unsigned long sum = crc32(0, (const Bytef *)text, (uInt)strlen(text));
    printf("%08lx by zlib %s\n", sum, zlibVersion());
    return 0;
}
