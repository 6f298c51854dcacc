// Images in `data:` URLs of an SVG document.
#ifndef CODEC_IMAGES_H
#define CODEC_IMAGES_H

#include <cairo.h>

#include "CSVGDecoder.h"
#include "document.h"

/// The limits of a rendering, the documents in it included.
typedef struct {
    /// The bytes of documents in `data:` URLs that may still be read, in UTF-8 with entities expanded.
    size_t bytes;
    /// The documents around the one that is rendered.
    int depth;
} codec_image_budget;

/// Returns whether a document has images in `data:` URLs other than PNG and JPEG that librsvg draws.
int codec_images_exist(codec_text document);
/// Appends a document in which librsvg can draw all such images: GIF, documents, and PNG and JPEG without or with a wrong media type
/// become PNG and JPEG. Documents are rendered at `scale` if the element has a size of its own, else in theirs.
codec_status codec_images_replace(codec_text document, double scale, codec_image_budget *budget, codec_bytes *result);

/// Renders a document onto a surface, as `codec_svg_reader_render` does.
codec_status codec_svg_reader_draw(
    codec_svg_reader *reader, cairo_surface_t *surface, double x, double y, double horizontal, double vertical,
    codec_image_budget *budget);
/// Returns the bytes of a document whose header was read.
size_t codec_svg_reader_length(const codec_svg_reader *reader);

#endif
