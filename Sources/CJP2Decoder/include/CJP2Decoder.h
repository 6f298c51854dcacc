// A JPEG 2000 codestream with OpenJPEG, behind functions that follow the rules of CImageCodecs.h.
//
// The caller reads the boxes of a JP2 file and the headers of the codestream itself, because OpenJPEG allocates for each tile and
// component that a header declares.
#ifndef CJP2DECODER_H
#define CJP2DECODER_H

#include <CImageCodecs.h>

// MARK: Reading JPEG 2000: create, set the channels, start, read_rows until all rows are read, destroy.

typedef struct codec_jp2_reader codec_jp2_reader;

/// What the first three channels of a pixel are, or all four if these are inks.
typedef enum { CODEC_JP2_RGB = 0, CODEC_JP2_YCC, CODEC_JP2_INKS } codec_jp2_colors;

codec_jp2_reader *codec_jp2_reader_create(const uint8_t *bytes, size_t length);
/// Ends the last tile part, which begins at `place`, with the codestream. OpenJPEG allocates what the part declares. Call before the start.
void codec_jp2_reader_cut_part(codec_jp2_reader *reader, size_t place);
/// Sets the source of a channel of each pixel: 0 to 2 are the colours, 3 is alpha or the last ink. A sample of `component`,
/// increased by `offset` and limited to `count` values, selects one of `values`, which are copied. A channel without a source
/// is 255.
codec_status codec_jp2_reader_set_channel(
    codec_jp2_reader *reader, int channel, uint32_t component, int32_t offset, const uint8_t *values, uint32_t count);
/// Decodes all components, without the `reduction` highest resolutions, to an image of `width` × `height` pixels. Where
/// damage is accepted, missing data are no error.
codec_status codec_jp2_reader_start(
    codec_jp2_reader *reader, codec_order order, codec_jp2_colors colors, uint32_t reduction, uint32_t width,
    uint32_t height);
/// A component with fewer samples is repeated.
codec_status codec_jp2_reader_read_rows(codec_jp2_reader *reader, uint8_t *rows, size_t stride, uint32_t count);

const char *codec_jp2_version(void);

#endif
