// Pixels of four channels as vectors, alpha last.
#ifndef PIXELS_H
#define PIXELS_H

#include <stdint.h>
#include <string.h>

typedef float pixel __attribute__((vector_size(16), aligned(4)));
typedef uint8_t packed_pixel __attribute__((vector_size(4), aligned(1)));
typedef int32_t whole_pixel __attribute__((vector_size(16)));

static inline pixel all(float value) { return (pixel){value, value, value, value}; }

static inline pixel unpacked(const uint8_t *bytes) {
    packed_pixel packed;
    memcpy(&packed, bytes, sizeof packed);
    return __builtin_convertvector(packed, pixel);
}

/// Rounds a pixel of values 0 … 255.
static inline void pack(pixel value, uint8_t *bytes) {
    packed_pixel packed = __builtin_convertvector(__builtin_convertvector(value + all(0.5f), whole_pixel), packed_pixel);
    memcpy(bytes, &packed, sizeof packed);
}

static inline pixel multiplied(pixel value) {
    float alpha = value[3];
    value *= all(alpha * (1.0f / 255));
    value[3] = alpha;
    return value;
}

/// Clamps a pixel to 0 … `most`.
static inline pixel clamped(pixel value, pixel most) {
    // Comparisons give masks of ones.
    whole_pixel above = value > most;
    value = (pixel)(((whole_pixel)most & above) | ((whole_pixel)value & ~above));
    whole_pixel positive = value > all(0);
    return (pixel)((whole_pixel)value & positive);
}

#endif
