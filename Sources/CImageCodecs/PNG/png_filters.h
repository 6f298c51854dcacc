// Reversing the filters of PNG rows, and their Adler-32.
#ifndef PNG_FILTERS_H
#define PNG_FILTERS_H

#include <stddef.h>
#include <stdint.h>

#include "CodecTypes.h"

/// Reverses the filter of a row (PNG, section 9) whose pixels have `channels` bytes, 3 or 4, and stores pixels of four
/// bytes in `order`, opaque if the row has no alpha.
///
/// @param row the filter type, the pixels, and one more readable byte.
/// @param above the previous result of this function; zeros for the first row.
/// @return 0 for an unknown filter type.
int png_undo_filter(
    const uint8_t *row, const uint8_t *above, uint8_t *result, size_t pixels, int channels, codec_order order);

/// Returns the Adler-32 (RFC 1950) of the bytes with checksum `adler`, 1 for none, followed by `bytes`. zlib's own
/// function adds byte by byte, as distributions build it.
uint32_t png_adler32(uint32_t adler, const uint8_t *bytes, size_t count);

#endif
