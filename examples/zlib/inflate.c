/* Inflates a zlib stream that is given as hexadecimal digits, and prints the text that was in it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zlib.h"

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: inflate HEX\n");
        return 2;
    }
    size_t packed = strlen(argv[1]) / 2;
    unsigned char *input = malloc(packed);
    for (size_t i = 0; i < packed; i++) {
        unsigned byte;
        if (sscanf(argv[1] + 2 * i, "%2x", &byte) != 1)
            return 2;
        input[i] = (unsigned char)byte;
    }
    static unsigned char output[1 << 16];
    z_stream stream = {.next_in = input, .avail_in = (uInt)packed, .next_out = output, .avail_out = sizeof output};
    if (inflateInit(&stream) != Z_OK || inflate(&stream, Z_FINISH) != Z_STREAM_END) {
        fprintf(stderr, "inflate: %s\n", stream.msg ? stream.msg : "the stream is not complete");
        return 1;
    }
    printf("%.*s\n", (int)stream.total_out, (const char *)output);
    inflateEnd(&stream);
    free(input);
    return 0;
}
