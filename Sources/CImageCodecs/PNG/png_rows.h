// The rows of plain PNGs, which are nearly all: 8 bits a channel, colour with alpha or without, one row after the other.
//
// libpng would do, and does for all others. But the libraries of distributions undo filters byte by byte, which takes
// longer than all else together. What is here reads chunks of pixels, inflates them with zlib and undoes the filters.
#ifndef PNG_ROWS_H
#define PNG_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "CodecTypes.h"

typedef struct png_rows png_rows;

/// A reader of the rows in the PNG file whose first chunk of pixels begins at `position`, behind the beginning of the
/// file; pixels have `channels` bytes, 3 or 4, and become four in `order`. NULL without memory.
png_rows *png_rows_create(
    const uint8_t *bytes, size_t length, size_t position, uint32_t width, uint32_t height, int channels,
    codec_order order);
/// Reads the next `count` rows, of those that the picture has, into `rows`, `stride` bytes apart.
codec_status png_rows_read(png_rows *reader, uint8_t *rows, size_t stride, uint32_t count);
/// How many of the file's bytes have been read; none before that is looked at again.
size_t png_rows_position(const png_rows *reader);
/// What went wrong.
const char *png_rows_message(const png_rows *reader);
/// Frees the reader, which may be NULL.
void png_rows_destroy(png_rows *reader);

#endif
