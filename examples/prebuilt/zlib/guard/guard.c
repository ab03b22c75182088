/* Packs and unpacks a text with the prebuilt zlib: what links and runs here does so for others. */

#include <stdio.h>
#include <string.h>

#include <zlib.h>

int main(void) {
    const char text[] = "prebuilt, prebuilt, prebuilt";
    unsigned char packed[64];
    char unpacked[64] = "";
    uLongf packed_size = sizeof packed, unpacked_size = sizeof unpacked;
    if (compress(packed, &packed_size, (const Bytef *)text, sizeof text) != Z_OK ||
        uncompress((Bytef *)unpacked, &unpacked_size, packed, packed_size) != Z_OK ||
        strcmp(text, unpacked) != 0 || strcmp(zlibVersion(), ZLIB_VERSION) != 0) {
        fprintf(stderr, "the prebuilt zlib does not work\n");
        return 1;
    }
    printf("zlib %s: %s\n", zlibVersion(), unpacked);
    return 0;
}
