#include "ImageSteps.h"
#include "pixels.h"
#include "processors.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/// The same channel position of four neighbouring lines: what one pass filters at once.
typedef float lines __attribute__((vector_size(64), aligned(64)));

static inline pixel divided(pixel value) {
    float alpha = value[3];
    value *= all(alpha > 0 ? 255 / alpha : 0);
    value[3] = alpha;
    return clamped(value, all(255));
}

FOR_EACH_PROCESSOR
void steps_apply(uint8_t *bytes, size_t pixels, const steps_function *functions, size_t count) {
    for (size_t i = 0; i < pixels; i++, bytes += 4) {
        pixel value = unpacked(bytes);
        for (const steps_function *f = functions; f < functions + count; f++) {
            const pixel *columns = (const pixel *)f->columns;
            if (f->is_background) {
                float share = value[3] * (1.0f / 255);
                value = columns[4] + (value - columns[4]) * all(share);
                value[3] = 255;
            } else {
                value = columns[0] * all(value[0]) + columns[1] * all(value[1]) + columns[2] * all(value[2])
                    + columns[3] * all(value[3]) + columns[4];
                value = clamped(value, all(255));
            }
        }
        pack(value, bytes);
    }
}

FOR_EACH_PROCESSOR
void steps_blend_over(uint8_t *bytes, size_t pixels, const uint8_t *color) {
    pixel below = multiplied(unpacked(color));
    for (size_t i = 0; i < pixels; i++, bytes += 4) {
        if (bytes[3] == 255) continue;
        pixel value = multiplied(unpacked(bytes));
        value += below * all(1 - value[3] * (1.0f / 255));
        pack(divided(value), bytes);
    }
}

void steps_cover(uint8_t *bytes, const float *coverages, size_t pixels) {
    for (size_t i = 0; i < pixels; i++) bytes[i * 4 + 3] = (uint8_t)(bytes[i * 4 + 3] * coverages[i] + 0.5f);
}

FOR_EACH_PROCESSOR
void steps_sharpen(uint8_t *bytes, const uint8_t *blurred, size_t pixels, float amount) {
    for (size_t i = 0; i < pixels; i++, bytes += 4, blurred += 4) {
        pixel value = multiplied(unpacked(bytes)), smooth = multiplied(unpacked(blurred));
        float alpha = value[3];
        value = clamped(value + (value - smooth) * all(amount), all(alpha));
        value[3] = alpha;
        pack(divided(value), bytes);
    }
}

// MARK: Blur

/// Below this, the Gaussian is sampled: the recursive filter's error grows towards small sigmas, and the sum is short.
#define LEAST_RECURSIVE 2.0
/// The sampled Gaussian ends at this many sigmas, where its weight is below 1/10000 of the middle's.
#define REACH 4.5
#define MOST_TAPS 10

/// A Gaussian in one dimension.
typedef struct {
    /// The number of taps on each side of the sampled Gaussian; 0 for the recursive filter.
    int reach;
    float taps[MOST_TAPS];
    /// Two recursive filters of second order for the pixels up to this one, and two for those after it: numerators,
    /// denominators, and the state for a constant 1 at the edge.
    float before[2][2], after[2][2], poles[2][2], rest[2];
} gaussian;

/// R. Deriche, "Recursively implementing the Gaussian and its derivatives", INRIA research report 1893, 1993: half a Gaussian
/// as a sum of two damped waves, here of fourth order. Since each half is filtered from the input, a constant beyond the edge
/// is exact.
static gaussian make_gaussian(double sigma) {
    gaussian g = {0};
    if (sigma < LEAST_RECURSIVE) {
        double sum = 0, taps[MOST_TAPS];
        g.reach = (int)ceil(sigma * REACH);
        for (int i = 0; i <= g.reach; i++) {
            taps[i] = exp(-0.5 * i * i / (sigma * sigma));
            sum += i == 0 ? taps[i] : 2 * taps[i];
        }
        for (int i = 0; i <= g.reach; i++) g.taps[i] = (float)(taps[i] / sum);
        return g;
    }
    static const double cosines[2] = {1.68, -0.6803}, sines[2] = {3.735, -0.2598};
    static const double decays[2] = {1.783, 1.723}, waves[2] = {0.6318, 1.997};
    double before[2][2], after[2][2], poles[2][2], sum = 0;
    for (int k = 0; k < 2; k++) {
        double radius = exp(-decays[k] / sigma), angle = waves[k] / sigma;
        // The wave at n is radius^n (cosine cos(n angle) + sine sin(n angle)).
        before[k][0] = cosines[k];
        before[k][1] = radius * (sines[k] * sin(angle) - cosines[k] * cos(angle));
        double first = radius * (cosines[k] * cos(angle) + sines[k] * sin(angle));
        double second = radius * radius * (cosines[k] * cos(2 * angle) + sines[k] * sin(2 * angle));
        poles[k][0] = 2 * radius * cos(angle);
        poles[k][1] = -radius * radius;
        after[k][0] = first;
        after[k][1] = second - poles[k][0] * first;
        double rest = 1 / (1 - poles[k][0] - poles[k][1]);
        sum += (before[k][0] + before[k][1] + after[k][0] + after[k][1]) * rest;
        g.rest[k] = (float)rest;
    }
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 2; i++) {
            g.before[k][i] = (float)(before[k][i] / sum);
            g.after[k][i] = (float)(after[k][i] / sum);
            g.poles[k][i] = (float)poles[k][i];
        }
        // With the rounded denominators, so that a constant stays exactly what it is.
        g.rest[k] = 1 / (1 - g.poles[k][0] - g.poles[k][1]);
    }
    return g;
}

/// Filters `count` elements. `result` is other memory of the same size.
static inline __attribute__((always_inline)) void filter(
    const gaussian *g, const lines *source, lines *result, size_t count) {
    if (g->reach > 0) {
        size_t last = count - 1;
        for (size_t i = 0; i < count; i++) {
            lines sum = source[i] * g->taps[0];
            for (size_t k = 1; k <= (size_t)g->reach; k++) {
                lines left = source[i < k ? 0 : i - k], right = source[last - i < k ? last : i + k];
                sum += (left + right) * g->taps[k];
            }
            result[i] = sum;
        }
        return;
    }
    lines a1 = source[0] * g->rest[0], a2 = a1, b1 = source[0] * g->rest[1], b2 = b1;
    for (size_t i = 0; i < count; i++) {
        lines a = source[i] + a1 * g->poles[0][0] + a2 * g->poles[0][1];
        lines b = source[i] + b1 * g->poles[1][0] + b2 * g->poles[1][1];
        result[i] = a * g->before[0][0] + a1 * g->before[0][1] + b * g->before[1][0] + b1 * g->before[1][1];
        a2 = a1, a1 = a, b2 = b1, b1 = b;
    }
    lines next = source[count - 1];
    a1 = next * g->rest[0], a2 = a1, b1 = next * g->rest[1], b2 = b1;
    for (size_t i = count; i-- > 0;) {
        // `a` and `b` have seen the elements after this one.
        lines a = a1, b = b1;
        result[i] += a * g->after[0][0] + a2 * g->after[0][1] + b * g->after[1][0] + b2 * g->after[1][1];
        lines value = source[i];
        a1 = value + a * g->poles[0][0] + a2 * g->poles[0][1];
        b1 = value + b * g->poles[1][0] + b2 * g->poles[1][1];
        a2 = a, b2 = b;
    }
}

size_t steps_blur_scratch(size_t width, size_t height) { return 32 * (width > height ? width : height) + 16; }

/// Returns the first aligned place in scratch memory.
static lines *aligned(float *scratch) { return (lines *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63); }

FOR_EACH_PROCESSOR
static void blur_rows(uint8_t *bytes, size_t width, size_t height, const gaussian *g, lines *source, lines *result) {
    for (size_t top = 0; top < height; top += 4) {
        size_t count = height - top < 4 ? height - top : 4;
        for (size_t row = 0; row < count; row++) {
            const uint8_t *place = bytes + (top + row) * width * 4;
            for (size_t x = 0; x < width; x++) ((pixel *)&source[x])[row] = multiplied(unpacked(place + x * 4));
        }
        filter(g, source, result, width);
        for (size_t row = 0; row < count; row++) {
            uint8_t *place = bytes + (top + row) * width * 4;
            for (size_t x = 0; x < width; x++) pack(clamped(((pixel *)&result[x])[row], all(255)), place + x * 4);
        }
    }
}

FOR_EACH_PROCESSOR
static void blur_columns(uint8_t *bytes, size_t width, size_t height, const gaussian *g, lines *source, lines *result) {
    for (size_t left = 0; left < width; left += 4) {
        size_t count = width - left < 4 ? width - left : 4;
        for (size_t y = 0; y < height; y++) {
            const uint8_t *place = bytes + (y * width + left) * 4;
            for (size_t x = 0; x < count; x++) ((pixel *)&source[y])[x] = unpacked(place + x * 4);
        }
        filter(g, source, result, height);
        for (size_t y = 0; y < height; y++) {
            uint8_t *place = bytes + (y * width + left) * 4;
            for (size_t x = 0; x < count; x++) {
                pixel value = clamped(((pixel *)&result[y])[x], all(255));
                pack(divided(value), place + x * 4);
            }
        }
    }
}

// MARK: Blur at half the resolution

/// From this sigma on, an image is halved, blurred, and doubled again: what halving loses, the Gaussian would suppress.
#define LEAST_HALVED 8.0
/// The square of the sigma of halving, with weights of 1, 3, 3 and 1 eighths, and of doubling, by linear interpolation.
#define RESAMPLING_VARIANCE (0.75 + 0.75)
/// Where both sides have this many pixels, the half image with its frame, made four rows at a time, never reaches the rows that are
/// still to be read: n rows of it take n (4 width + 20) bytes at most, and those before row 2n - 3 were read. The filter's memory
/// has room for the rows that are being halved.
#define LEAST_HALVED_SIDE 32

/// A pixel of a half image, in sixteenths, so that sixteen of them are below 2^16.
typedef uint16_t half_pixel __attribute__((vector_size(8), aligned(2)));
typedef uint16_t half_lines __attribute__((vector_size(32), aligned(2)));
typedef int32_t whole_lines __attribute__((vector_size(64)));
#define HALF_UNIT 16.0f

/// Half the image, premultiplied, and around it a frame of the pixels at the edge, because these repeat beyond the
/// edge, not means. It takes the place of the image itself, row by row.
typedef struct {
    uint16_t *pixels;
    size_t width, height;
    bool is_opaque;
} half_image;

static inline half_pixel *half_row(half_image half, size_t y) { return (half_pixel *)(half.pixels + y * half.width * 4); }

/// Writes a row's pixels, premultiplied, in quarters. Returns whether all are opaque.
static inline __attribute__((always_inline)) bool premultiply_quarters(const uint8_t *row, size_t width, uint16_t *result) {
    uint8_t least = 255;
    for (size_t x = 0; x < width; x++) least &= row[x * 4 + 3];
    if (least == 255) {
        for (size_t i = 0; i < width * 4; i++) result[i] = row[i] * 4;
        return true;
    }
    for (size_t x = 0; x < width; x++) {
        pixel value = multiplied(unpacked(row + x * 4)) * all(4) + all(0.5f);
        ((half_pixel *)result)[x] = __builtin_convertvector(__builtin_convertvector(value, whole_pixel), half_pixel);
    }
    return false;
}

/// Halves the image and blurs the rows of the result. A pixel of it is made of four by four with weights of 1, 3, 3 and 1 eighths;
/// those of the frame lie beyond the edge by three at most, where the pixels at the edge are repeated.
FOR_EACH_PROCESSOR
static void halve_rows(
    const uint8_t *bytes, size_t width, size_t height, half_image *half, const gaussian *g, lines *source, lines *result) {
    // Behind what the filter takes of its memory, which is enough for twice the width.
    uint16_t *first = (uint16_t *)(source + half->width), *second = (uint16_t *)(result + half->width);
    uint16_t *rows[4] = {first, first + width * 4, second, second + width * 4}, *sums = second + 2 * width * 4;
    size_t padding = 3, padded = 2 * half->width + 2;
    for (size_t top = 0; top < half->height; top += 4) {
        size_t count = half->height - top < 4 ? half->height - top : 4;
        for (size_t line = 0; line < count; line++) {
            // Two of the four rows are new.
            for (size_t i = 0; i < 2; i++) {
                uint16_t *free = rows[i];
                rows[i] = rows[i + 2], rows[i + 2] = free;
            }
            for (size_t i = top + line == 0 ? 0 : 2; i < 4; i++) {
                size_t y = 2 * (top + line) + i;
                y = y < padding ? 0 : y - padding < height ? y - padding : height - 1;
                half->is_opaque &= premultiply_quarters(bytes + y * width * 4, width, rows[i]);
            }
            for (size_t i = 0; i < width * 4; i++)
                sums[padding * 4 + i] = (uint16_t)(rows[0][i] + 3 * (rows[1][i] + rows[2][i]) + rows[3][i]);
            half_pixel *sum = (half_pixel *)sums;
            for (size_t x = 0; x < padding; x++) sum[x] = sum[padding];
            for (size_t x = padding + width; x < padded; x++) sum[x] = sum[padding + width - 1];
            for (size_t x = 0; x < half->width; x++, sum += 2) {
                half_pixel total = sum[0] + (sum[1] + sum[2]) * 3 + sum[3];
                ((pixel *)&source[x])[line] = __builtin_convertvector(total, pixel) * all(1.0f / 256);
            }
        }
        filter(g, source, result, half->width);
        for (size_t line = 0; line < count; line++) {
            half_pixel *row = half_row(*half, top + line);
            for (size_t x = 0; x < half->width; x++) {
                pixel value = clamped(((pixel *)&result[x])[line], all(255)) * all(HALF_UNIT) + all(0.5f);
                row[x] = __builtin_convertvector(__builtin_convertvector(value, whole_pixel), half_pixel);
            }
        }
    }
}

FOR_EACH_PROCESSOR
static void blur_half_columns(half_image half, const gaussian *g, lines *source, lines *result) {
    for (size_t left = 0; left < half.width; left += 4) {
        size_t count = half.width - left < 4 ? half.width - left : 4;
        for (size_t y = 0; y < half.height; y++) {
            half_lines values = {0};
            memcpy(&values, half_row(half, y) + left, count * sizeof(half_pixel));
            source[y] = __builtin_convertvector(values, lines);
        }
        filter(g, source, result, half.height);
        for (size_t y = 0; y < half.height; y++) {
            lines value = result[y] + 0.5f;
            whole_lines positive = value > 0.0f, below = value < 255 * HALF_UNIT + 0.5f;
            whole_lines whole = __builtin_convertvector(value, whole_lines);
            whole = ((whole & below) | (((whole_lines){0} + (int)(255 * HALF_UNIT)) & ~below)) & positive;
            half_lines values = __builtin_convertvector(whole, half_lines);
            memcpy(half_row(half, y) + left, &values, count * sizeof(half_pixel));
        }
    }
}

/// Writes one row of the image: three quarters of `near` and one of `far`, in both directions.
static inline __attribute__((always_inline)) void double_row(
    uint8_t *bytes, size_t width, half_image half, const uint16_t *near, const uint16_t *far, uint16_t *sums) {
    for (size_t i = 0; i < half.width * 4; i++) sums[i] = (uint16_t)(near[i] * 3 + far[i]);
    const half_pixel *sum = (const half_pixel *)sums;
    for (size_t x = 0; x < width; x += 2) {
        half_pixel middle = sum[x / 2 + 1] * 3;
        half_pixel values[2] = {middle + sum[x / 2], middle + sum[x / 2 + 2]};
        for (size_t i = 0; i < 2 && x + i < width; i++) {
            if (half.is_opaque) {
                packed_pixel packed = __builtin_convertvector((values[i] + 128) >> 8, packed_pixel);
                memcpy(bytes + (x + i) * 4, &packed, sizeof packed);
            } else {
                pack(divided(__builtin_convertvector(values[i], pixel) * all(1.0f / 256)), bytes + (x + i) * 4);
            }
        }
    }
}

/// Doubles the half image, from its end, because the image takes its place.
FOR_EACH_PROCESSOR
static void double_rows(uint8_t *bytes, size_t width, size_t height, half_image half, uint16_t *scratch) {
    size_t count = half.width * 4;
    uint16_t *sums = scratch, *above = sums + count, *middle = above + count, *below = middle + count;
    memcpy(below, half_row(half, half.height - 1), count * 2);
    memcpy(middle, half_row(half, half.height - 2), count * 2);
    for (size_t y = half.height - 2; y-- > 0;) {
        memcpy(above, half_row(half, y), count * 2);
        double_row(bytes + 2 * y * width * 4, width, half, middle, above, sums);
        if (2 * y + 1 < height) double_row(bytes + (2 * y + 1) * width * 4, width, half, middle, below, sums);
        uint16_t *free = below;
        below = middle, middle = above, above = free;
    }
}

static void blur_halved(uint8_t *bytes, size_t width, size_t height, double sigma, lines *source, lines *result) {
    gaussian g = make_gaussian(sqrt(sigma * sigma - RESAMPLING_VARIANCE) / 2);
    half_image half = {(uint16_t *)bytes, (width + 1) / 2 + 2, (height + 1) / 2 + 2, true};
    halve_rows(bytes, width, height, &half, &g, source, result);
    blur_half_columns(half, &g, source, result);
    double_rows(bytes, width, height, half, (uint16_t *)source);
}

void steps_blur(uint8_t *bytes, size_t width, size_t height, double sigma, float *scratch) {
    gaussian g = make_gaussian(sigma);
    size_t longest = width > height ? width : height;
    lines *source = aligned(scratch), *result = source + longest;
    // Lines that the last group lacks are filtered, too, and must be numbers.
    memset(source, 0, longest * sizeof *source);
    if (sigma >= LEAST_HALVED && width >= LEAST_HALVED_SIDE && height >= LEAST_HALVED_SIDE)
        return blur_halved(bytes, width, height, sigma, source, result);
    blur_rows(bytes, width, height, &g, source, result);
    blur_columns(bytes, width, height, &g, source, result);
}
