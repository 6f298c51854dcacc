// The scans of a JPEG file, found by walking its markers without decoding any coefficient. All functions require that
// libjpeg has read the file's header up to the end of the first scan's header.
#ifndef CODEC_JPEG_SCANS_H
#define CODEC_JPEG_SCANS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <jpeglib.h>

/// Returns the number of blocks of a component, padded to whole MCUs.
uint64_t jpeg_component_blocks(const jpeg_component_info *component);

/// Returns whether the scans exceed CODEC_MAXIMUM_SCANS or CODEC_MAXIMUM_SCANNED_BLOCKS, because all scans are read
/// before the first row is returned. Stops at the first missing marker.
int jpeg_has_too_many_scans(const struct jpeg_decompress_struct *jpeg);

/// Counts the complete scans and returns their length in bytes.
size_t jpeg_complete_scans(const struct jpeg_decompress_struct *jpeg, uint32_t *scans);

/// Returns whether some scans do not affect the rows at the configured output size (jpeg_calc_output_dimensions). For a
/// component with one output sample per block, only the DC coefficient is used, which AC scans do not contain. Requires
/// a complete file with scans in the standard's order, so that skipping leaves the used coefficients unchanged.
int jpeg_can_skip_scans(const struct jpeg_decompress_struct *jpeg);

/// Returns the number of bytes from `start` to the next skippable scan, or to `end`.
size_t jpeg_count_until_skipped(const struct jpeg_decompress_struct *jpeg, const uint8_t *start, const uint8_t *end);

/// Returns the position after the scan at `start` and all skippable scans that follow it.
const uint8_t *jpeg_skip_scans(const struct jpeg_decompress_struct *jpeg, const uint8_t *start, const uint8_t *end);

#endif
