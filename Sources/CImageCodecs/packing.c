#include "PixelPacking.h"
#include "processors.h"

#include <string.h>

enum {
    /// The pixels that are converted at once, in memory of their own: the result overwrites its source.
    block = 64,
};

/// A block of pixels, channel by channel.
typedef struct {
    uint8_t red[block], green[block], blue[block];
} channels;

/// Returns `value` over `under`, of which the shares are `alpha` and 255 - `alpha`.
static inline uint8_t over(uint8_t value, uint8_t under, uint8_t alpha) {
    // At most 255 * 255 + 127.
    uint16_t sum = (uint16_t)(value * alpha + under * (255 - alpha) + 127);
    return (uint8_t)(sum / 255);
}

typedef uint8_t four_pixels __attribute__((vector_size(16)));

static inline int is_opaque(const uint8_t *bytes) {
    four_pixels common = {0};
    common = ~common;
    for (size_t i = 0; i < block / 4; i++) {
        four_pixels pixels;
        memcpy(&pixels, bytes + 16 * i, sizeof pixels);
        common &= pixels;
    }
    return (common[3] & common[7] & common[11] & common[15]) == 255;
}

static inline void composite(
    const uint8_t *restrict bytes, channels *restrict result, uint8_t red, uint8_t green, uint8_t blue) {
    for (size_t i = 0; i < block; i++) {
        result->red[i] = bytes[4 * i];
        result->green[i] = bytes[4 * i + 1];
        result->blue[i] = bytes[4 * i + 2];
    }
    if (is_opaque(bytes)) return;
    for (size_t i = 0; i < block; i++) {
        uint8_t alpha = bytes[4 * i + 3];
        result->red[i] = over(result->red[i], red, alpha);
        result->green[i] = over(result->green[i], green, alpha);
        result->blue[i] = over(result->blue[i], blue, alpha);
    }
}

/// Returns the next block, of `count` pixels; fewer than a block are copied to `rest` first.
static inline const uint8_t *next_block(const uint8_t *bytes, size_t count, uint8_t *rest) {
    if (count == block) return bytes;
    memset(rest, 255, 4 * block);
    memcpy(rest, bytes, 4 * count);
    return rest;
}

/// Leaves out the fourth byte of each pixel. `result` may be the same memory or precede it, and has room for four bytes more, because
/// each four pixels are written with 16 bytes; none of them belongs to pixels that follow.
static inline void leave_out_alpha(const uint8_t *bytes, uint8_t *result) {
    for (size_t i = 0; i < block / 4; i++) {
        four_pixels pixels;
        memcpy(&pixels, bytes + 16 * i, sizeof pixels);
        pixels = __builtin_shufflevector(pixels, pixels, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 7, 11, 15);
        memcpy(result + 12 * i, &pixels, sizeof pixels);
    }
}

FOR_EACH_PROCESSOR
void pixels_pack_rgb(uint8_t *bytes, size_t pixels, uint8_t red, uint8_t green, uint8_t blue) {
    for (size_t done = 0; done < pixels; done += block) {
        size_t count = pixels - done < block ? pixels - done : block;
        if (count == block && is_opaque(bytes + 4 * done)) {
            leave_out_alpha(bytes + 4 * done, bytes + 3 * done);
            continue;
        }
        uint8_t rest[4 * block], packed[3 * block];
        channels values;
        composite(next_block(bytes + 4 * done, count, rest), &values, red, green, blue);
        for (size_t i = 0; i < block; i++) {
            packed[3 * i] = values.red[i];
            packed[3 * i + 1] = values.green[i];
            packed[3 * i + 2] = values.blue[i];
        }
        memcpy(bytes + 3 * done, packed, 3 * count);
    }
}

FOR_EACH_PROCESSOR
void pixels_pack_gray(uint8_t *bytes, size_t pixels, uint8_t red, uint8_t green, uint8_t blue) {
    for (size_t done = 0; done < pixels; done += block) {
        size_t count = pixels - done < block ? pixels - done : block;
        uint8_t rest[4 * block], packed[block];
        channels values;
        composite(next_block(bytes + 4 * done, count, rest), &values, red, green, blue);
        // The weights in units of 2^-24, and a half. They are exact to 10^-4 of a step of the result, and the sums are multiples of
        // 10^-3 of one, so a half that is larger by 10^-4 rounds all of them correctly.
        for (size_t i = 0; i < block; i++) {
            packed[i] = (uint8_t)(
                (values.red[i] * 5016388u + values.green[i] * 9848226u + values.blue[i] * 1912603u + 8390286u) >> 24);
        }
        memcpy(bytes + done, packed, count);
    }
}
