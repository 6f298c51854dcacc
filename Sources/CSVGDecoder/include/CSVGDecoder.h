// SVG with librsvg, behind functions that follow the rules of CImageCodecs.h.
//
// References to other files and to servers are ignored, because the document has no address.
#ifndef CSVGDECODER_H
#define CSVGDECODER_H

#include <CImageCodecs.h>

// MARK: Reading SVG: create, read_header, render, destroy.

typedef struct codec_svg_reader codec_svg_reader;

/// Limits librsvg to one thread besides the calling one, which it starts for the first filter. Call before that.
void codec_svg_limit_threads(void);
/// Loads the tables of encodings other than UTF-8 and UTF-16, which a sandbox prevents.
void codec_svg_load_encodings(void);
codec_svg_reader *codec_svg_reader_create(const uint8_t *bytes, size_t length);
/// Reads the document. The size is the intrinsic one in CSS pixels, as browsers compute it for an image, rounded: width and
/// height, or one of them and the ratio of `viewBox`, or the largest size of that ratio within 300 × 150.
codec_status codec_svg_reader_read_header(codec_svg_reader *reader, codec_header *header);
/// Renders a part of the document into `pixels`, rows of `width` × `height` pixels without padding: blue, green, red and alpha,
/// which the others are multiplied by. The part begins at `x` and `y`, in pixels of the header's size, of which each becomes `horizontal` × `vertical`
/// pixels. `most` is the number of pixels of all groups, masks, patterns and results of filters together.
codec_status codec_svg_reader_render(
    codec_svg_reader *reader, double x, double y, double horizontal, double vertical, uint32_t width, uint32_t height,
    uint64_t most, uint8_t *pixels);

const char *codec_svg_version(void);

#endif
