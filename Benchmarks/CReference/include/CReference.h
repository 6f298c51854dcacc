// Direct use of the codec libraries in one process, as the reference for the broker's decodes; and a generator of the
// images to decode.
#ifndef CREFERENCE_H
#define CREFERENCE_H

#include <stddef.h>
#include <stdint.h>

/// The format of an encoded image.
typedef enum {
    CREF_JPEG = 0,
    CREF_PROGRESSIVE_JPEG,
    CREF_PNG,
    CREF_WEBP,
    /// 8 bits with chroma of half the resolution, and 10 bits with chroma of full resolution.
    CREF_AVIF,
    CREF_DEEP_AVIF,
    CREF_GIF,
} cref_format;

/// Writes an image of `width` × `height` pixels that looks like a photograph to a codec (gradients, edges, noise; for
/// PNG, which pays for every bit of noise, less of it) to the file at `path`. Holds a row, but for WebP, AVIF and GIF. 0, or -1.
int cref_write_picture(const char *path, cref_format format, uint32_t width, uint32_t height);

/// Writes such a JPEG with a different content for each `number`. Returns 0, or -1.
int cref_write_jpeg(const char *path, uint32_t width, uint32_t height, uint32_t number);

/// Writes a square JPEG that looks like a photograph of a head, with a different content for each `number`. Returns 0, or -1.
int cref_write_portrait(const char *path, uint32_t side, uint32_t number);

/// Decodes a whole file into newly allocated memory, four bytes per pixel. Returns nanoseconds without freeing it, or -1.
long cref_decode(cref_format format, const uint8_t *bytes, size_t length);

/// Reads all rows of a JPEG made smaller by the library to `eighths`/8, into one row of memory. Nanoseconds, or -1.
long cref_read_jpeg_rows(const uint8_t *bytes, size_t length, int eighths);

/// Makes a JPEG smaller by the library to `eighths`/8, and by averages of whole pixels to `width` × `height`. Nanoseconds
/// without the freeing, or -1.
long cref_average_jpeg(const uint8_t *bytes, size_t length, int eighths, unsigned width, unsigned height);

/// Decodes a JPEG to four bytes per pixel, scaled down to fit `side` × `side` pixels by the library as far as it can and by
/// averages; in full size if `side` is 0. Returns memory to be freed, or NULL.
uint8_t *cref_jpeg_within(const uint8_t *bytes, size_t length, unsigned side);

/// Writes `bytes` bytes, in parts of `band`, into a new memfd and seals it; the nanoseconds of both. 0, or -1.
int cref_fill_buffer(size_t bytes, size_t band, long *pages, long *seal);

/// Runs a program with one or two arguments. Returns the nanoseconds until it has exited with status 0, or -1.
long cref_run(const char *path, const char *first, const char *second);

#endif
