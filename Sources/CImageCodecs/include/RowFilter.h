// The inner loops of scaling: arithmetic on rows of pixels, four channels each, alpha last. In C for its vector types,
// and because one function is compiled for several generations of processors at once.
#ifndef ROWFILTER_H
#define ROWFILTER_H

#include <stddef.h>
#include <stdint.h>

/// How filtered pixels are stored.
typedef enum {
    /// Alpha is full, whatever the filter says.
    FILTER_OPAQUE = 0,
    /// Colour stays multiplied by alpha.
    FILTER_PREMULTIPLIED,
    /// Colour is divided by alpha.
    FILTER_STRAIGHT,
} filter_alpha;

/// Converts `pixels` pixels with straight alpha to numbers, 0 … 255, colour multiplied by alpha if `premultiply`.
void filter_load(const uint8_t *bytes, float *row, size_t pixels, int premultiply);
/// Makes `pixels` pixels of `row`: pixel i is the sum of `counts[i]` pixels from `starts[i]` on, each times its weight.
/// Weights of one pixel begin `stride` numbers behind those of the pixel before. They are read by fours, up to three
/// behind the last that counts, which must be zero, and so are up to three pixels behind the last, which must be numbers.
void filter_across(
    const float *row, float *result, size_t pixels, const uint32_t *starts, const uint32_t *counts,
    const float *weights, size_t stride);
/// Adds `row` times `weight` to `sum`.
void filter_add(float *sum, const float *row, float weight, size_t pixels);
/// Rounds `row` to the nearest bytes. Filters overshoot at edges: what leaves its range is brought back to it.
void filter_store(const float *row, uint8_t *bytes, size_t pixels, filter_alpha alpha);

/// The same on light instead of sRGB's values (IEC 61966-2-1): 0 … 255 is from none to all of it.
void filter_load_light(const uint8_t *bytes, float *row, size_t pixels, int premultiply);
/// Rounds `row`, which is light, to the nearest bytes of sRGB.
void filter_store_light(const float *row, uint8_t *bytes, size_t pixels, filter_alpha alpha);

/// Adds the pixels of a row to `sums`, four to a cell: red, green and blue (multiplied by alpha if `has_alpha`), and alpha,
/// 0 … 255 each. Cell i has the columns from bounds[i] up to bounds[i + 1].
void filter_sum(const uint8_t *row, double *sums, const uint32_t *bounds, size_t cells, int has_alpha);

#endif
