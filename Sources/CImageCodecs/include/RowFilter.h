// The inner loops of scaling: arithmetic on rows of pixels with four channels, alpha last. In C for its vector types,
// and because each function is compiled for several processor generations.
#ifndef ROWFILTER_H
#define ROWFILTER_H

#include <stddef.h>
#include <stdint.h>

/// The alpha of stored pixels.
typedef enum {
    /// Alpha is 255; its filtered value is ignored.
    FILTER_OPAQUE = 0,
    /// Colour is multiplied by alpha.
    FILTER_PREMULTIPLIED,
    /// Colour is not multiplied by alpha.
    FILTER_STRAIGHT,
} filter_alpha;

/// Converts `pixels` pixels with straight alpha to floats, 0 … 255; multiplies colour by alpha if `premultiply`.
void filter_load(const uint8_t *bytes, float *row, size_t pixels, int premultiply);
/// Filters `row` to `pixels` pixels: pixel i is the weighted sum of `counts[i]` pixels from `starts[i]`. The weights of
/// consecutive pixels are `stride` floats apart. Reads weights in groups of four: up to three weights after the last
/// one, which must be zero, and up to three pixels after the last one, which must be finite.
void filter_across(
    const float *row, float *result, size_t pixels, const uint32_t *starts, const uint32_t *counts,
    const float *weights, size_t stride);
/// Adds `row` times `weight` to `sum`.
void filter_add(float *sum, const float *row, float weight, size_t pixels);
/// Rounds `row` to the nearest bytes, and clamps values that overshoot at edges.
void filter_store(const float *row, uint8_t *bytes, size_t pixels, filter_alpha alpha);

/// Converts pixels to linear light, 0 … 255, instead of sRGB values (IEC 61966-2-1).
void filter_load_light(const uint8_t *bytes, float *row, size_t pixels, int premultiply);
/// Rounds `row`, which is linear light, to the nearest sRGB values.
void filter_store_light(const float *row, uint8_t *bytes, size_t pixels, filter_alpha alpha);

/// Adds the pixels of a row to `sums`, four per cell: red, green and blue (multiplied by alpha if `has_alpha`), and
/// alpha, 0 … 255 each. Cell i covers the columns bounds[i] ..< bounds[i + 1].
void filter_sum(const uint8_t *row, double *sums, const uint32_t *bounds, size_t cells, int has_alpha);

/// The frequencies of `filter_frequencies` in each direction.
#define FILTER_FREQUENCIES 7

/// Transforms an image of `width` x `height` cells, four numbers each, into the coefficients of its lowest frequencies: rows of
/// FILTER_FREQUENCIES, four numbers each, zero at the call. `across` and `down` have FILTER_FREQUENCIES factors for each column and row.
void filter_frequencies(
    const double *cells, size_t width, size_t height, const double *across, const double *down, double *coefficients);

#endif
