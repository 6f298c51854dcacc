// Undoing the filters of PNG's rows, and their checksum.
#ifndef PNG_FILTERS_H
#define PNG_FILTERS_H

#include <stddef.h>
#include <stdint.h>

#include "CodecTypes.h"

/// Undoes the filter of a row (PNG, section 9) whose pixels have `channels` bytes, 3 or 4, and makes four of them in
/// `order`, alpha being full where there was none.
///
/// @param row the kind of filter, the pixels, and one byte more, which means nothing.
/// @param above the row above as this function made it; zero for the first one.
/// @return 0 where there is no such filter.
int png_undo_filter(
    const uint8_t *row, const uint8_t *above, uint8_t *result, size_t pixels, int channels, codec_order order);

/// The checksum of `bytes` behind others whose checksum is `adler`, 1 for none (RFC 1950). zlib's own adds byte by byte.
uint32_t png_adler32(uint32_t adler, const uint8_t *bytes, size_t count);

#endif
