#include "png_filters.h"

#include <string.h>

#include "../processors.h"

typedef uint8_t packed __attribute__((vector_size(16)));
typedef int16_t lanes __attribute__((vector_size(16)));

/// A row of pixels on its way; all but `order` and `channels`, which are constants where this is used, as above.
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

/// The bytes of a pixel in lanes of their own, whose upper halves are zero.
static inline lanes widened(packed pixel) {
    const packed zero = {0};
    return (lanes)__builtin_shufflevector(pixel, zero, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

/// What the file has of pixel `index`, in the order of the result. Without alpha, its lane has anything.
static inline lanes stored(const filtered_row *row, size_t index) {
    lanes pixel = widened(load(row->row + index * (size_t)row->channels));
    return row->order == CODEC_BGRA ? __builtin_shufflevector(pixel, pixel, 2, 1, 0, 3, 4, 5, 6, 7) : pixel;
}

static inline lanes above(const filtered_row *row, size_t index) { return widened(load(row->above + index * 4)); }

/// Adds bytes as PNG does, without a carry.
static inline lanes sum(lanes a, lanes b) { return (lanes)((packed)a + (packed)b); }

static inline lanes chosen(lanes mask, lanes yes, lanes no) { return (yes & mask) | (no & ~mask); }

static inline void put(const filtered_row *row, size_t index, lanes pixel) {
    packed bytes = (packed)pixel;
    bytes = __builtin_shufflevector(bytes, bytes, 0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12, 14);
    if (row->channels == 3) bytes[3] = 255;
    memcpy(row->result + index * 4, &bytes, 4);
}

/// The one of `left`, `up` and `corner` that is nearest to left + up - corner, the first of them where two are as near.
///
/// With the corner beyond both that is the one farther from it, else the corner, unless the sum has come closer to
/// one of them: either way the smaller one where 3 * corner - (left + up) is not below the larger, and the larger one where
/// it is not above the smaller. Each pixel waits for the one to its left, and this takes fewer steps from there on than
/// three distances do.
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
    filtered_row work = {row + 1, above, result, pixels, channels, order};
    // Constants, so that each has loops of its own.
    if (channels == 4) {
        work.channels = 4;
        if (order == CODEC_BGRA) return work.order = CODEC_BGRA, undo(*row, work);
        return work.order = CODEC_RGBA, undo(*row, work);
    }
    work.channels = 3;
    if (order == CODEC_BGRA) return work.order = CODEC_BGRA, undo(*row, work);
    return work.order = CODEC_RGBA, undo(*row, work);
}

/// As many bytes are added up at once, in several lanes.
#define STEP 32
/// So many bytes keep the sums below 2^32.
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
