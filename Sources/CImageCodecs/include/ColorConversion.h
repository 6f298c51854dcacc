// Conversion of decoded rows to sRGB (IEC 61966-2-1), with an ICC profile (by Little CMS) or without one.
#ifndef COLORCONVERSION_H
#define COLORCONVERSION_H

#include <stddef.h>
#include <stdint.h>

#include "CodecTypes.h"

typedef struct codec_color codec_color;

/// Creates the conversion of rows in `space` to sRGB with the `length` bytes of an ICC profile, or, if that is NULL,
/// with `light` of codec_base, or, if that is 0, with the default for `space`. *color is NULL if rows are sRGB already, and
/// with any status other than CODEC_OK: CODEC_DAMAGED for an invalid profile or one for another colour space,
/// CODEC_NO_MEMORY.
///
/// CMYK without a profile is converted as red = (255 - cyan) * (255 - black) / 255, and so on.
codec_status codec_color_create(
    const uint8_t *profile, size_t length, int light, codec_space space, codec_order order, codec_color **color);
/// Converts `count` pixels of four bytes in place. Gray is passed as equal red, green and blue; CMYK as four bytes, 255
/// for no ink, and becomes opaque. Otherwise alpha is unchanged.
void codec_color_convert(const codec_color *color, uint8_t *pixels, size_t count);

/// A conversion of CIELab colours to sRGB. The white that the values relate to becomes white (ISO 15076-1, media-relative).
typedef struct codec_lab codec_lab;

/// Creates the conversion; NULL without memory.
codec_lab *codec_lab_create(codec_order order);
/// Converts `count` colours of three numbers: L * 652.8, (a + 128) * 256 and (b + 128) * 256 (ISO 15076-1:2004, annex A). The fourth byte
/// of each pixel is unchanged.
void codec_lab_convert(const codec_lab *lab, const uint16_t *colors, uint8_t *pixels, size_t count);
/// Frees the conversion, which may be NULL.
void codec_lab_destroy(codec_lab *lab);

/// Creates the ICC profile for the code points of ITU-T H.273 (CICP) of RGB colours. *profile must be freed with free;
/// it is NULL for sRGB, which also stands for unknown code points, and for light brighter than a document's white (PQ, HLG): *light
/// then describes it as in codec_base, and colours brighter than white keep the ratio of red, green and blue light.
codec_status codec_profile_for_cicp(int primaries, int transfer, uint8_t **profile, size_t *length, int *light);

int codec_profile_is_gray(const uint8_t *profile, size_t length);

/// Inflates `length` bytes of a zlib stream (RFC 1950), or of a gzip file (RFC 1952), to at most `most` bytes. *output must
/// be freed with free; it is NULL with any status other than CODEC_OK: CODEC_DAMAGED, CODEC_TRUNCATED, CODEC_TOO_LARGE,
/// CODEC_NO_MEMORY.
codec_status codec_inflate(
    const uint8_t *bytes, size_t length, int is_gzip, size_t most, uint8_t **output, size_t *output_length);

#endif
