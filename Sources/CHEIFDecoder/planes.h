// Conversion of luma and chroma to eight bits of red, green and blue.
#ifndef CODEC_PLANES_H
#define CODEC_PLANES_H

#include <stddef.h>
#include <stdint.h>

/// A plane of samples with `depth` bits, in one byte each up to 8 bits, else in two.
typedef struct {
    const uint8_t *samples;
    size_t stride;
    uint32_t width, height;
    int depth;
} codec_plane;

typedef struct {
    uint32_t width, height;
    /// Luma and both chroma planes; or green, blue and red; or luma alone.
    codec_plane colors[3];
    /// 1, or 3.
    int count;
    /// No samples for an opaque image.
    codec_plane alpha;
    int is_premultiplied;
    /// Whether black is 0 and white the largest value.
    int is_full_range;
    /// The matrix coefficients (ITU-T H.273, table 4).
    int matrix;
    /// Two rows of upsampled chroma, `width` values each; NULL if there is no chroma.
    float *chroma;
} codec_planes;

int codec_planes_knows(int matrix);
/// Converts a row to four bytes a pixel with straight alpha; `red` is the place of red, 0 or 2. Chroma is interpolated
/// between the centres of its samples.
void codec_planes_convert(const codec_planes *planes, uint32_t row, uint8_t *pixels, int red);

#endif
