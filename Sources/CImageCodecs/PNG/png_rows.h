// The rows of plain PNGs, which most files are: 8 bits per channel, RGB or RGBA, not interlaced.
//
// Reads IDAT chunks, inflates them with zlib and reverses the filters. libpng, which decodes all other PNGs, reverses
// filters byte by byte as distributions build it, which takes longer than all other steps together.
#ifndef PNG_ROWS_H
#define PNG_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "CodecTypes.h"

typedef struct png_rows png_rows;

/// Returns a reader of the rows of a PNG file whose first IDAT chunk begins at `position`. Stored pixels have
/// `channels` bytes, 3 or 4; read pixels have four in `order`. Failures are noted in `base`. NULL without memory.
png_rows *png_rows_create(
    codec_base *base, const uint8_t *bytes, size_t length, size_t position, uint32_t width, uint32_t height,
    int channels, codec_order order);
/// Reads the next `count` rows, or the remaining ones, into `rows`, `stride` bytes apart.
codec_status png_rows_read(png_rows *reader, uint8_t *rows, size_t stride, uint32_t count);
/// Returns the number of the file's bytes that were read and are not read again.
size_t png_rows_position(const png_rows *reader);
void png_rows_destroy(png_rows *reader);

#endif
