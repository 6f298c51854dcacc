// AVIF files for tests, encoded by libavif.
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
    /// 0 (lossless) … 63.
    int quantizer;
    int has_alpha, is_premultiplied, is_limited;
    /// Code points of ITU-T H.273.
    int primaries, transfer, matrix;
    /// A value of EXIF's tag Orientation, written as irot and imir; 0 for none.
    int orientation;
    /// The clean aperture: left, top, width and height; width 0 for none.
    uint32_t crop[4];
    /// The cells of a grid, which divide its sides evenly; 1 and 1 for none.
    int columns, rows;
    /// The number of frames; more than 1 makes a sequence.
    int frames;
    /// Whether the pixels of all frames follow one another; else all frames have the same ones.
    int has_frames_pixels;
    /// The units of a second, and the duration of each frame in them, repeated; 0 for one unit each.
    int timescale, durations[16];
    /// The most frames from one key frame to the next; 0 for any number.
    int key_interval;
} ctest_avif;

/// Encodes pixels of four channels in the file's depth, with a profile unless it is empty. The caller frees the bytes;
/// NULL if encoding fails.
uint8_t *ctest_avif_encode(
    const ctest_avif *file, const uint16_t *pixels, const uint8_t *icc, size_t icc_length, size_t *length);
/// Decodes the image at `index`, after all before it, into RGBA without rotating, cropping or converting it. Returns
/// whether decoding succeeded.
int ctest_avif_decode(const uint8_t *bytes, size_t length, int index, uint8_t *pixels);

#endif
