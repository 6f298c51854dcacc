// What a program does that uses the codec libraries itself, in its own process and as plainly as they allow: the
// measure for everything that the broker decodes. And the pictures to decode, made row by row.
#ifndef CREFERENCE_H
#define CREFERENCE_H

#include <stddef.h>
#include <stdint.h>

/// What is encoded, and how.
typedef enum {
    CREF_JPEG = 0,
    CREF_PROGRESSIVE_JPEG,
    CREF_PNG,
    CREF_WEBP,
    /// 8 bits, colour at half the resolution; and 10 bits in full resolution.
    CREF_AVIF,
    CREF_DEEP_AVIF,
    CREF_GIF,
} cref_format;

/// Writes a picture of `width` × `height` pixels that looks like a photograph to a codec (gradients, edges, noise; for
/// PNG, which pays for every bit of noise, less of it) to the file at `path`. Holds a row, but for WebP, AVIF and GIF. 0, or -1.
int cref_write_picture(const char *path, cref_format format, uint32_t width, uint32_t height);

/// Writes a JPEG like that, another one for each `number`. 0, or -1.
int cref_write_jpeg(const char *path, uint32_t width, uint32_t height, uint32_t number);

/// Decodes a whole file into newly allocated memory, four bytes a pixel. Nanoseconds without the freeing, or -1.
long cref_decode(cref_format format, const uint8_t *bytes, size_t length);

/// Reads all rows of a JPEG made smaller by the library to `eighths`/8, into one row of memory. Nanoseconds, or -1.
long cref_read_jpeg_rows(const uint8_t *bytes, size_t length, int eighths);

/// Makes a JPEG smaller by the library to `eighths`/8, and by averages of whole pixels to `width` × `height`. Nanoseconds
/// without the freeing, or -1.
long cref_average_jpeg(const uint8_t *bytes, size_t length, int eighths, unsigned width, unsigned height);

/// Writes `bytes` bytes, in parts of `band`, into a new memfd and seals it; the nanoseconds of both. 0, or -1.
int cref_fill_buffer(size_t bytes, size_t band, long *pages, long *seal);

#endif
