#include <cairo.h>
#include <librsvg/rsvg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "CSVGDecoder.h"
#include "document.h"
#include "images.h"
#include "surfaces.h"

/// The size of an image without one, in CSS pixels (CSS Images 3, section 5.3).
#define DEFAULT_WIDTH 300.0
#define DEFAULT_HEIGHT 150.0
/// The CSS pixels of an inch, and of the font's size.
#define DPI 96.0
#define FONT_SIZE 16.0

struct codec_svg_reader {
    codec_base base;
    codec_document document;
    RsvgHandle *handle;
    /// The intrinsic size, and the same rounded.
    double width, height;
    uint32_t columns, rows;
};

// librsvg's filters work in the pool of threads of the library rayon, which runs nothing in the calling thread.
void codec_svg_limit_threads(void) { setenv("RAYON_NUM_THREADS", "1", 1); }

static void release(void *object) {
    codec_svg_reader *reader = object;
    if (reader->handle) g_object_unref(reader->handle);
    codec_bytes_free(&reader->document.own);
}

codec_svg_reader *codec_svg_reader_create(const uint8_t *bytes, size_t length) {
    return codec_allocate(sizeof(codec_svg_reader), release, bytes, length);
}

/// The size of an em, which librsvg takes as 12.
static const char font_size[] = ":root:not([font-size]) { font-size: 16px }";

static codec_status failed(codec_svg_reader *reader, GError *error) {
    char *message = reader->base.message;
    codec_fail(reader, CODEC_DAMAGED, error ? error->message : "");
    if (error) g_error_free(error);
    for (char *place = message; *place; place++) {
        if (*place == '\n') *place = ' ';
    }
    return strstr(message, "remature end") || strstr(message, "not closed") ? CODEC_TRUNCATED : CODEC_DAMAGED;
}

/// Returns a length in CSS pixels; 0 if it is a share of a size that is not known.
static double pixels(RsvgLength length) {
    switch (length.unit) {
    case RSVG_UNIT_PX: return length.length;
    case RSVG_UNIT_EM: return length.length * FONT_SIZE;
    case RSVG_UNIT_EX: return length.length * FONT_SIZE / 2;
    case RSVG_UNIT_IN: return length.length * DPI;
    case RSVG_UNIT_CM: return length.length * DPI / 2.54;
    case RSVG_UNIT_MM: return length.length * DPI / 25.4;
    case RSVG_UNIT_PT: return length.length * DPI / 72;
    case RSVG_UNIT_PC: return length.length * DPI / 6;
    default: return 0;
    }
}

/// Finds the intrinsic size, with the algorithm for images of CSS.
static void find_size(codec_svg_reader *reader, int is_stretched) {
    gboolean has_width, has_height, has_box;
    RsvgLength width = {0}, height = {0};
    RsvgRectangle box = {0};
    rsvg_handle_get_intrinsic_dimensions(reader->handle, &has_width, &width, &has_height, &height, &has_box, &box);
    int knows_width = has_width && width.unit != RSVG_UNIT_PERCENT;
    int knows_height = has_height && height.unit != RSVG_UNIT_PERCENT;
    double ratio = has_box && !is_stretched && box.width > 0 && box.height > 0 ? box.width / box.height : 0;
    reader->width = knows_width ? pixels(width) : DEFAULT_WIDTH;
    reader->height = knows_height ? pixels(height) : DEFAULT_HEIGHT;
    if (ratio <= 0 || (knows_width && knows_height)) return;
    int is_wide = ratio > DEFAULT_WIDTH / DEFAULT_HEIGHT;
    if (knows_width || (!knows_height && is_wide)) reader->height = reader->width / ratio;
    else reader->width = reader->height * ratio;
}

/// Parses a text as it is, with the font size of browsers.
static codec_status parse(codec_svg_reader *reader, codec_text text, RsvgHandle **handle) {
    GError *error = NULL;
    *handle = rsvg_handle_new_from_data(text.start, (gsize)(text.end - text.start), &error);
    if (!*handle) return failed(reader, error);
    rsvg_handle_set_dpi(*handle, DPI);
    if (!rsvg_handle_set_stylesheet(*handle, (const guint8 *)font_size, sizeof font_size - 1, &error))
        return failed(reader, error);
    return CODEC_OK;
}

codec_status codec_svg_reader_read_header(codec_svg_reader *reader, codec_header *header) {
    codec_document *document = &reader->document;
    codec_status status = codec_document_read(reader->base.bytes, reader->base.length, document);
    if (status != CODEC_OK) return codec_fail(reader, status, document->message);
    status = parse(reader, document->text, &reader->handle);
    if (status != CODEC_OK) return status;
    find_size(reader, document->is_stretched);
    if (!isfinite(reader->width) || !isfinite(reader->height)) return CODEC_DAMAGED;
    if (reader->width <= 0 || reader->height <= 0) return CODEC_EMPTY;
    double width = fmax(1, round(reader->width)), height = fmax(1, round(reader->height));
    if (width > CODEC_MAXIMUM_SIDE || height > CODEC_MAXIMUM_SIDE) return CODEC_TOO_LARGE;
    header->width = reader->columns = (uint32_t)width;
    header->height = reader->rows = (uint32_t)height;
    header->has_alpha = 1;
    // The tree, with images the document that replaces it, and what they are made of; pixels depend on the size that is rendered.
    header->held_bytes = 10 * (uint64_t)codec_svg_reader_length(reader) + document->own.capacity + 1024 * document->elements;
    if (codec_images_exist(document->text))
        header->held_bytes += 2 * CODEC_MAXIMUM_DOCUMENT + 10 * (uint64_t)reader->base.length;
    return CODEC_OK;
}

/// Replaces the document by one in which librsvg can draw all images in `data:` URLs.
static codec_status replace_images(codec_svg_reader *reader, double scale, codec_image_budget *budget) {
    if (!codec_images_exist(reader->document.text)) return CODEC_OK;
    codec_bytes bytes = {0};
    codec_status status = codec_images_replace(reader->document.text, scale, budget, &bytes);
    if (status == CODEC_OK) {
        g_object_unref(reader->handle);
        status = parse(reader, (codec_text){bytes.bytes, bytes.bytes + bytes.length}, &reader->handle);
    } else if (status == CODEC_TOO_LARGE) {
        codec_fail(reader, status, "images in it");
    }
    codec_bytes_free(&bytes);
    return status;
}

size_t codec_svg_reader_length(const codec_svg_reader *reader) {
    return (size_t)(reader->document.text.end - reader->document.text.start);
}

codec_status codec_svg_reader_draw(
    codec_svg_reader *reader, cairo_surface_t *surface, double x, double y, double horizontal, double vertical,
    codec_image_budget *budget) {
    codec_status status = replace_images(reader, fmax(horizontal, vertical), budget);
    if (status != CODEC_OK) return status;
    cairo_t *context = cairo_create(surface);
    cairo_scale(context, horizontal, vertical);
    cairo_translate(context, -x, -y);
    // The document fills the rounded size.
    cairo_scale(context, reader->columns / reader->width, reader->rows / reader->height);
    RsvgRectangle viewport = {0, 0, reader->width, reader->height};
    GError *error = NULL;
    gboolean is_rendered = rsvg_handle_render_document(reader->handle, context, &viewport, &error);
    cairo_status_t drawn = cairo_status(context);
    cairo_destroy(context);
    cairo_surface_flush(surface);
    if (is_rendered) return CODEC_OK;
    status = failed(reader, error);
    return drawn == CAIRO_STATUS_NO_MEMORY || strstr(reader->base.message, "NoMemory") ? CODEC_NO_MEMORY : status;
}

codec_status codec_svg_reader_render(
    codec_svg_reader *reader, double x, double y, double horizontal, double vertical, uint32_t width, uint32_t height,
    uint64_t most, uint8_t *pixels) {
    if (width == 0 || height == 0 || width > CODEC_MAXIMUM_SIDE || height > CODEC_MAXIMUM_SIDE) return CODEC_TOO_LARGE;
    // cairo's limit is 32,767.
    if (width > INT16_MAX || height > INT16_MAX)
        return codec_fail(reader, CODEC_TOO_LARGE, "a side of more than 32767 pixels");
    memset(pixels, 0, (size_t)width * height * 4);
    cairo_surface_t *surface = cairo_image_surface_create_for_data(
        pixels, CAIRO_FORMAT_ARGB32, (int)width, (int)height, (int)width * 4);
    codec_surface_budget budget = {.pixels = most};
    codec_image_budget images = {.bytes = CODEC_MAXIMUM_DOCUMENT};
    codec_surfaces_limit(&budget);
    codec_status status = codec_svg_reader_draw(reader, surface, x, y, horizontal, vertical, &images);
    codec_surfaces_limit(NULL);
    cairo_surface_destroy(surface);
    return budget.is_exceeded ? codec_fail(reader, CODEC_TOO_LARGE, "filters, masks and groups") : status;
}

const char *codec_svg_version(void) {
    static char text[64];
    snprintf(
        text, sizeof text, "librsvg %u.%u.%u (cairo %s)", rsvg_major_version, rsvg_minor_version, rsvg_micro_version,
        cairo_version_string());
    return text;
}
