// HEIC, JPEG 2000, JPEG XL and TIFF files for tests, encoded by their libraries. Each function returns memory to be freed with free; NULL if the
// library has no such encoder.
#ifndef TESTFAMILIES_H
#define TESTFAMILIES_H

#include <stddef.h>
#include <stdint.h>

/// Encodes RGBA as HEIC in 4:4:4, without loss if `quality` is 100. `turns` is the value of EXIF's tag Orientation. `slices` is the
/// number of parts that are coded independently, below 10.
uint8_t *ctest_heif_encode(
    const uint8_t *pixels, uint32_t width, uint32_t height, int has_alpha, int quality, int turns, int slices, size_t *length);

/// Encodes `count` frames of RGBA as JPEG XL, without loss if `quality` is 100. Several are an animation of `delay` ms each.
uint8_t *ctest_jxl_encode(
    const uint8_t *pixels, uint32_t width, uint32_t height, int count, uint32_t delay, int has_alpha, int is_premultiplied,
    int quality, int turns, size_t *length);

typedef struct {
    /// The number of components, the first ones of each pixel, and their bits: 1 to 16.
    int components, bits;
    int is_signed;
    /// The distance of the samples of all components but the first, and the fourth.
    int step;
    /// The side of tiles; 0 for one tile.
    int tile;
    /// The numbers of resolutions and layers.
    int resolutions, layers;
    /// Where the image begins on its grid.
    int left, top;
    /// Whether samples change, by the rate 3.
    int is_lossy;
} ctest_jp2;

/// Encodes a codestream of JPEG 2000.
uint8_t *ctest_jp2_encode(const ctest_jp2 *file, const uint8_t *pixels, uint32_t width, uint32_t height, size_t *length);

typedef struct {
    /// Bits of a sample: 8 or 16, or 1 of a single one.
    int bits;
    /// 1 (gray), 3, 4 (alpha, or black of CMYK).
    int samples;
    /// The values of the tags.
    int photometric, compression, orientation;
    /// Whether each sample has a plane of its own.
    int is_separate;
    /// The side of tiles, a multiple of 16; 0 for strips.
    uint32_t tile;
} ctest_tiff;

/// Writes a TIFF of the first samples of each pixel.
uint8_t *ctest_tiff_write(const ctest_tiff *file, const uint8_t *pixels, uint32_t width, uint32_t height, size_t *length);

#endif
