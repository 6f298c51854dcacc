// Rows as a codec makes them, turned into sRGB (IEC 61966-2-1): by an ICC profile (with Little CMS), or without one.
#ifndef COLORCONVERSION_H
#define COLORCONVERSION_H

#include <stddef.h>
#include <stdint.h>

#include "CodecTypes.h"

typedef struct codec_color codec_color;

/// Makes what turns rows of a picture in `space` into sRGB by the `length` bytes of an ICC profile, or, where that is
/// NULL, by what is usual without one. *color is NULL where rows are sRGB as they are; and with any other status than
/// CODEC_OK: CODEC_DAMAGED for a profile that is none or not one for such pictures, CODEC_NO_MEMORY.
///
/// Without a profile, ink becomes light as red = (255 - cyan) * (255 - black) / 255, and so on.
codec_status codec_color_create(
    const uint8_t *profile, size_t length, codec_space space, codec_order order, codec_color **color);
/// Converts `count` pixels of four bytes where they are. Gray comes as red, green and blue alike; ink as cyan, magenta,
/// yellow and black, 255 for none, and becomes opaque; any other alpha stays.
void codec_color_convert(const codec_color *color, uint8_t *pixels, size_t count);
/// Frees the conversion, which may be NULL.
void codec_color_destroy(codec_color *color);

/// Makes the ICC profile of RGB colours that are named by their numbers in ITU-T H.273 (CICP). *profile must be freed
/// with free; it is NULL for sRGB, which is also what unknown numbers stand for. Light brighter than a document's white
/// (PQ, HLG) becomes white.
codec_status codec_profile_for_cicp(int primaries, int transfer, uint8_t **profile, size_t *length);

/// Expands `length` bytes of a zlib stream (RFC 1950) to at most `most`. *output must be freed with free; it is NULL
/// unless CODEC_OK: CODEC_DAMAGED, CODEC_TRUNCATED, CODEC_TOO_LARGE, CODEC_NO_MEMORY.
codec_status codec_inflate(const uint8_t *bytes, size_t length, size_t most, uint8_t **output, size_t *output_length);

#endif
