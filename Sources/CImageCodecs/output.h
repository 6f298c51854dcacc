// A buffer of encoded bytes until they are taken from a writer.
#ifndef CODEC_OUTPUT_H
#define CODEC_OUTPUT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint8_t *bytes;
    size_t length, capacity;
} codec_output;

/// Reserves room for `count` more bytes and returns its address; NULL without memory.
static inline uint8_t *codec_output_reserve(codec_output *output, size_t count) {
    if (count > SIZE_MAX / 2 - output->length) return NULL;
    size_t needed = output->length + count;
    if (needed > output->capacity) {
        size_t capacity = output->capacity * 2 > needed ? output->capacity * 2 : needed;
        if (capacity < 65536) capacity = 65536;
        uint8_t *bytes = realloc(output->bytes, capacity);
        if (!bytes) return NULL;
        output->bytes = bytes;
        output->capacity = capacity;
    }
    return output->bytes + output->length;
}

#endif
