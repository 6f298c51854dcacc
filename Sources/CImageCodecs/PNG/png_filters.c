#include "png_filters.h"

#include <string.h>

#include "../processors.h"

typedef uint8_t packed __attribute__((vector_size(16)));
typedef int16_t lanes __attribute__((vector_size(16)));

/// The arguments of png_undo_filter. `order` and `channels` are constants in each instance of undo().
typedef struct {
    const uint8_t *row, *above;
    uint8_t *result;
    size_t pixels;
    int channels;
    codec_order order;
} filtered_row;

static inline packed load(const uint8_t *place) {
    uint32_t pixel;
    memcpy(&pixel, place, sizeof pixel);
    typedef uint32_t words __attribute__((vector_size(16)));
    return (packed)(words){pixel};
}

/// Returns the bytes of a pixel, each zero-extended to a lane of 16 bits.
static inline lanes widened(packed pixel) {
    const packed zero = {0};
    return (lanes)__builtin_shufflevector(pixel, zero, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

/// Returns stored pixel `index` in the result's byte order. Without alpha, its alpha lane is arbitrary.
static inline lanes stored(const filtered_row *row, size_t index) {
    lanes pixel = widened(load(row->row + index * (size_t)row->channels));
    return row->order == CODEC_BGRA ? __builtin_shufflevector(pixel, pixel, 2, 1, 0, 3, 4, 5, 6, 7) : pixel;
}

static inline lanes above(const filtered_row *row, size_t index) { return widened(load(row->above + index * 4)); }

/// Adds bytes modulo 256.
static inline lanes sum(lanes a, lanes b) { return (lanes)((packed)a + (packed)b); }

static inline lanes chosen(lanes mask, lanes yes, lanes no) { return (yes & mask) | (no & ~mask); }

static inline void put(const filtered_row *row, size_t index, lanes pixel) {
    packed bytes = (packed)pixel;
    bytes = __builtin_shufflevector(bytes, bytes, 0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12, 14);
    if (row->channels == 3) bytes[3] = 255;
    memcpy(row->result + index * 4, &bytes, 4);
}

/// Returns the Paeth predictor: the one of `left`, `up` and `corner` nearest to left + up - corner, the first of them
/// if two are equally near.
///
/// With bound = 3 * corner - (left + up), the result is min(left, up) if bound >= max(left, up), max(left, up) if bound
/// <= min(left, up), and otherwise the corner. Each pixel depends on the one to its left, and this form has a shorter
/// dependency chain than three distances.
static inline lanes nearest(lanes left, lanes up, lanes corner) {
    lanes bound = corner + corner + corner - up - left;
    lanes less = __builtin_elementwise_min(left, up), more = __builtin_elementwise_max(left, up);
    lanes low = chosen(more <= bound, less, corner);
    return chosen(bound <= less, more, low);
}

static inline __attribute__((always_inline)) int undo(uint8_t kind, filtered_row row) {
    lanes left = {0}, corner = {0};
    switch (kind) {
    case 0:
        for (size_t i = 0; i < row.pixels; i++) put(&row, i, stored(&row, i));
        return 1;
    case 1:
        for (size_t i = 0; i < row.pixels; i++) {
            left = sum(stored(&row, i), left);
            put(&row, i, left);
        }
        return 1;
    case 2:
        for (size_t i = 0; i < row.pixels; i++) put(&row, i, sum(stored(&row, i), above(&row, i)));
        return 1;
    case 3:
        for (size_t i = 0; i < row.pixels; i++) {
            left = sum(stored(&row, i), (left + above(&row, i)) >> 1);
            put(&row, i, left);
        }
        return 1;
    case 4:
        for (size_t i = 0; i < row.pixels; i++) {
            lanes up = above(&row, i);
            left = sum(stored(&row, i), nearest(left, up, corner));
            corner = up;
            put(&row, i, left);
        }
        return 1;
    default: return 0;
    }
}

FOR_EACH_PROCESSOR
int png_undo_filter(
    const uint8_t *row, const uint8_t *above, uint8_t *result, size_t pixels, int channels, codec_order order) {
    // Constant arguments, so that each combination is compiled to loops of its own.
#define UNDO(channels, order) undo(*row, (filtered_row){row + 1, above, result, pixels, channels, order})
    if (channels == 4) return order == CODEC_BGRA ? UNDO(4, CODEC_BGRA) : UNDO(4, CODEC_RGBA);
    return order == CODEC_BGRA ? UNDO(3, CODEC_BGRA) : UNDO(3, CODEC_RGBA);
#undef UNDO
}

/// The number of bytes added at once, in several lanes.
#define STEP 32
/// The most bytes for which the sums stay below 2^32.
#define MOST_BEFORE_DIVISION 4096
#define ADLER_PRIME 65521

FOR_EACH_PROCESSOR
uint32_t png_adler32(uint32_t adler, const uint8_t *bytes, size_t count) {
    uint32_t first = adler & 0xffff, second = adler >> 16;
    while (count > 0) {
        size_t part = count < MOST_BEFORE_DIVISION ? count : MOST_BEFORE_DIVISION;
        count -= part;
        for (; part >= STEP; part -= STEP, bytes += STEP) {
            uint32_t sum = 0, weighted = 0;
            for (uint32_t i = 0; i < STEP; i++) {
                sum += bytes[i];
                weighted += (STEP - i) * bytes[i];
            }
            second += STEP * first + weighted;
            first += sum;
        }
        for (; part > 0; part--) second += first += *bytes++;
        first %= ADLER_PRIME;
        second %= ADLER_PRIME;
    }
    return second << 16 | first;
}
