// JPEG and WebP files of kinds that the decode worker reads but never writes.
#ifndef TESTENCODERS_H
#define TESTENCODERS_H

#include <stddef.h>
#include <stdint.h>

/// A kind of JPEG file.
typedef enum {
    CTEST_JPEG_BASELINE = 0,
    CTEST_JPEG_PROGRESSIVE,
    /// The four bytes of a pixel are cyan, magenta, yellow and black, 255 for no ink, as Adobe's programs store them.
    CTEST_JPEG_CMYK,
    /// The same, converted to YCCK.
    CTEST_JPEG_YCCK,
    /// Arithmetic instead of Huffman coding, in one scan.
    CTEST_JPEG_ARITHMETIC,
    /// Arithmetic instead of Huffman coding, in the scans of a progressive file.
    CTEST_JPEG_ARITHMETIC_PROGRESSIVE,
} ctest_jpeg_kind;

/// Encodes pixels of four bytes as JPEG with `quality` 1 … 100. The fourth byte is ignored, except as black ink. The
/// caller frees the result.
uint8_t *ctest_jpeg_encode(
    const uint8_t *pixels, uint32_t width, uint32_t height, ctest_jpeg_kind kind, int quality, size_t *length);

/// Encodes RGBA as WebP. A lossless file keeps the colour of transparent pixels; `quality` is then the effort. The caller
/// frees the result; NULL if encoding fails.
uint8_t *ctest_webp_encode(
    const uint8_t *pixels, uint32_t width, uint32_t height, int lossless, int quality, size_t *length);

#endif
