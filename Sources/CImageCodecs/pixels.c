#include "CImageCodecs.h"

#include <stdlib.h>

void *codec_pixels_create(size_t count, int zeroed) {
    if (count == 0) count = 1;
    return zeroed ? calloc(count, 1) : malloc(count);
}

void codec_pixels_destroy(void *pixels) { free(pixels); }
