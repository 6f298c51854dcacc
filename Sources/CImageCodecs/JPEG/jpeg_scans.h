// What a JPEG file says of its scans, found by going from marker to marker: no coefficient is decoded. All of it is for
// a library that has read the header and stands behind that of the first scan.
#ifndef CODEC_JPEG_SCANS_H
#define CODEC_JPEG_SCANS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <jpeglib.h>

/// The blocks of a component, filled up to whole groups.
uint64_t jpeg_component_blocks(const jpeg_component_info *component);

/// Whether the scans are too many, or too many for the picture's size: all of them are read before the first row comes.
/// Looks as far as there are markers where they belong.
int jpeg_has_too_many_scans(const struct jpeg_decompress_struct *jpeg);

/// Counts the scans that are there as a whole, and returns up to where they reach.
size_t jpeg_complete_scans(const struct jpeg_decompress_struct *jpeg, uint32_t *scans);

/// Whether rows of the size that the library is set to (jpeg_calc_output_dimensions) are the same without some of the
/// scans. Of a component that becomes one sample a block no coefficient but the first is looked at, and no other scan has
/// that one. The file must be complete, and its scans in the order of the standard: then every coefficient that is looked
/// at is as it is after all scans.
int jpeg_can_pass_scans(const struct jpeg_decompress_struct *jpeg);

/// Where that is so: the bytes from `start` to the next scan that can be passed over, or to `end`.
size_t jpeg_count_until_passed(
    const struct jpeg_decompress_struct *jpeg, const uint8_t *start, const uint8_t *end);

/// Where to go on behind the scan that begins at `start`, and those behind it that can be passed over, too.
const uint8_t *jpeg_pass_scans(const struct jpeg_decompress_struct *jpeg, const uint8_t *start, const uint8_t *end);

#endif
