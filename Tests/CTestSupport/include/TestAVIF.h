// AVIF files for tests, written by libavif's encoder.
#ifndef TESTAVIF_H
#define TESTAVIF_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t width, height;
    /// 8, 10 or 12.
    int depth;
    /// 400, 420, 422 or 444.
    int sampling;
    /// 0 (nothing is lost) … 63.
    int quantizer;
    int has_alpha, is_premultiplied, is_limited;
    /// Numbers of ITU-T H.273.
    int primaries, transfer, matrix;
    /// A value of EXIF's tag, written as irot and imir; 0 for none.
    int orientation;
    /// The left and top edge, width and height of the part to be shown; no width for none.
    uint32_t crop[4];
    /// The cells of a grid, which its sides are multiples of; 1 and 1 for none.
    int columns, rows;
    /// More than one for a sequence, of the same picture again and again.
    int frames;
} ctest_avif;

/// Encodes pixels of four channels, as deep as the file, with a profile if it has a length. The caller frees the bytes;
/// NULL when it failed.
uint8_t *ctest_avif_encode(
    const ctest_avif *file, const uint16_t *pixels, const uint8_t *icc, size_t icc_length, size_t *length);
/// Decodes a file as a whole into RGBA, without turning, cropping or converting it. Whether that worked.
int ctest_avif_decode(const uint8_t *bytes, size_t length, uint8_t *pixels);

#endif
