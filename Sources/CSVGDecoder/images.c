// Images in `data:` URLs. librsvg draws PNG and JPEG whose media type says so. Others become PNG before it reads the document:
// GIF would need a loader that the sandbox does not load, and documents would not be subject to the limits here.
#define _GNU_SOURCE
#include "images.h"

#include <CImageCodecs.h>
#include <cairo.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/// The bytes before and after a URL in which its tag has other attributes.
#define TAG 4096
/// The most documents within each other.
#define MAXIMUM_DEPTH 4
/// The most pixels of an image, and of a document that is rendered above its size.
#define MAXIMUM_PIXELS (16u << 20)
#define MAXIMUM_ENLARGED (4u << 20)

typedef struct {
    codec_text value;
    /// The media type without parameters, and the data.
    codec_text type, data;
    int is_base64;
    /// The tag that contains it.
    codec_text tag;
} data_url;

/// Finds the next `data:` URL of an attribute `href` in `rest`, and moves behind it. Returns whether there is one.
static int next_url(codec_text document, codec_text *rest, data_url *url) {
    for (const uint8_t *place; (place = codec_text_find(*rest, "href")) != NULL;) {
        rest->start = place + strlen("href");
        codec_text value;
        if (!codec_text_value(document, rest->start, &value)) continue;
        const uint8_t *end = value.end;
        if (!end) return 0;
        rest->start = end;
        value.start = codec_skip_spaces(value, value.start);
        const uint8_t *comma = memchr(value.start, ',', (size_t)(end - value.start));
        if (!comma || comma - value.start < 5 || strncasecmp((const char *)value.start, "data:", 5) != 0) continue;
        const uint8_t *type = value.start + 5, *semicolon = memchr(type, ';', (size_t)(comma - type));
        const uint8_t *first = place - document.start > TAG ? place - TAG : document.start;
        const uint8_t *tag = memrchr(first, '<', (size_t)(place - first));
        const uint8_t *close = memchr(end, '>', document.end - end > TAG ? TAG : (size_t)(document.end - end));
        *url = (data_url){value, {type, semicolon ? semicolon : comma}, {comma + 1, end}, 0, {0}};
        url->is_base64 = comma - type >= 6 && strncasecmp((const char *)comma - 6, "base64", 6) == 0;
        if (tag && close) url->tag = (codec_text){tag, close};
        return 1;
    }
    return 0;
}

/// Reads a character's reference at the start of a text: its number, and moves behind it. Returns -1 for any other text.
static long read_reference(codec_text *text) {
    static const struct {
        const char *name;
        int code;
    } names[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    size_t left = (size_t)(text->end - text->start);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i].name);
        if (left < length || memcmp(text->start, names[i].name, length) != 0) continue;
        text->start += length;
        return names[i].code;
    }
    const uint8_t *semicolon = memchr(text->start, ';', left < 12 ? left : 12);
    if (left < 4 || text->start[1] != '#' || !semicolon) return -1;
    char digits[16] = "", *end;
    int is_hex = text->start[2] == 'x';
    memcpy(digits, text->start + 2 + is_hex, (size_t)(semicolon - text->start - 2 - is_hex));
    unsigned long code = strtoul(digits, &end, is_hex ? 16 : 10);
    if (*end || code == 0 || code > 0x10FFFF) return -1;
    text->start = semicolon + 1;
    return (long)code;
}

/// Appends what a URL contains: references and percent-encoding are replaced, and base64 is decoded.
static codec_status read_data(const data_url *url, codec_bytes *result) {
    codec_text rest = url->data;
    codec_status status = CODEC_OK;
    uint32_t bits = 0;
    int count = 0;
    while (rest.start < rest.end && status == CODEC_OK) {
        long code = *rest.start == '&' ? read_reference(&rest) : -1;
        if (code < 0) code = *rest.start++;
        if (code == '%' && rest.end - rest.start >= 2 && isxdigit(rest.start[0]) && isxdigit(rest.start[1])) {
            char digits[3] = {(char)rest.start[0], (char)rest.start[1]};
            code = strtol(digits, NULL, 16);
            rest.start += 2;
        }
        if (!url->is_base64) {
            uint8_t byte = (uint8_t)code;
            status = code > 0xFF ? codec_bytes_append_character(result, (uint32_t)code) : codec_bytes_append(result, &byte, 1);
            continue;
        }
        int digit = code >= 'A' && code <= 'Z' ? (int)code - 'A'
            : code >= 'a' && code <= 'z'       ? (int)code - 'a' + 26
            : code >= '0' && code <= '9'       ? (int)code - '0' + 52
            : code == '+' || code == '-'       ? 62
            : code == '/' || code == '_'       ? 63
                                               : -1;
        if (code == '=') break;
        if (digit < 0) continue;
        bits = bits << 6 | (uint32_t)digit;
        if ((count += 6) < 8) continue;
        count -= 8;
        uint8_t byte = (uint8_t)(bits >> count);
        status = codec_bytes_append(result, &byte, 1);
    }
    return status;
}

static codec_status append_base64(codec_bytes *target, codec_bytes bytes) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    codec_status status = CODEC_OK;
    for (size_t i = 0; i < bytes.length && status == CODEC_OK; i += 3) {
        size_t left = bytes.length - i;
        uint32_t three = (uint32_t)bytes.bytes[i] << 16 | (left > 1 ? (uint32_t)bytes.bytes[i + 1] << 8 : 0) |
            (left > 2 ? bytes.bytes[i + 2] : 0);
        char four[4] = {digits[three >> 18], digits[three >> 12 & 63], '=', '='};
        if (left > 1) four[2] = digits[three >> 6 & 63];
        if (left > 2) four[3] = digits[three & 63];
        status = codec_bytes_append(target, four, 4);
    }
    return status;
}

static cairo_status_t write_png(void *closure, const unsigned char *bytes, unsigned length) {
    return codec_bytes_append(closure, bytes, length) == CODEC_OK ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

/// Replaces `bytes` by the PNG of a surface, which is freed.
static codec_status encode(cairo_surface_t *surface, codec_bytes *bytes) {
    codec_bytes_free(bytes);
    cairo_surface_mark_dirty(surface);
    cairo_status_t status = cairo_surface_write_to_png_stream(surface, write_png, bytes);
    cairo_surface_destroy(surface);
    return status == CAIRO_STATUS_SUCCESS ? CODEC_OK : status == CAIRO_STATUS_NO_MEMORY ? CODEC_NO_MEMORY : CODEC_TOO_LARGE;
}

/// Returns a transparent surface, whose pixels count for the budget; NULL if it is too large.
static cairo_surface_t *create_surface(uint32_t width, uint32_t height) {
    if (width == 0 || height == 0 || width > INT16_MAX || height > INT16_MAX) return NULL;
    if ((uint64_t)width * height > MAXIMUM_PIXELS) return NULL;
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_ARGB32, (int)width, (int)height);
    if (cairo_surface_status(surface) == CAIRO_STATUS_SUCCESS) return surface;
    cairo_surface_destroy(surface);
    return NULL;
}

static uint32_t little_endian(const uint8_t *bytes) { return bytes[0] | (uint32_t)bytes[1] << 8; }

/// Finds the first frame of a GIF, and the canvas. Returns whether it has one.
static int find_frame(codec_bytes file, codec_gif_frame *frame, uint32_t *left, uint32_t *top) {
    size_t place = 13;
    frame->transparent = -1;
    if (file.length < place) return 0;
    if (file.bytes[10] & 0x80) place += (size_t)3 << ((file.bytes[10] & 7) + 1);
    while (place + 10 <= file.length && file.bytes[place] != ';') {
        const uint8_t *block = file.bytes + place;
        if (*block == ',') {
            uint32_t width = little_endian(block + 5), height = little_endian(block + 7);
            uint32_t columns = little_endian(file.bytes + 6), rows = little_endian(file.bytes + 8);
            *left = little_endian(block + 1);
            *top = little_endian(block + 3);
            frame->position = place;
            frame->width = *left >= columns ? 0 : width < columns - *left ? width : columns - *left;
            frame->height = *top >= rows ? 0 : height < rows - *top ? height : rows - *top;
            return frame->width > 0 && frame->height > 0;
        }
        if (*block != '!') return 0;
        if (block[1] == 0xF9 && block[2] == 4) frame->transparent = block[3] & 1 ? block[6] : -1;
        for (place += 2; place < file.length && file.bytes[place] > 0;) place += 1 + (size_t)file.bytes[place];
        place++;
    }
    return 0;
}

/// Replaces a GIF by the PNG of its first frame.
static codec_status draw_gif(codec_bytes *file) {
    codec_gif_frame frame = {0};
    uint32_t left, top;
    if (!find_frame(*file, &frame, &left, &top)) return CODEC_DAMAGED;
    cairo_surface_t *canvas = create_surface(little_endian(file->bytes + 6), little_endian(file->bytes + 8));
    if (!canvas) return CODEC_TOO_LARGE;
    uint8_t *rows = malloc((size_t)frame.width * frame.height * 4);
    codec_gif_reader *reader = codec_gif_reader_create(file->bytes, file->length, &frame);
    codec_status status = rows && reader ? codec_gif_reader_start(reader, CODEC_BGRA) : CODEC_NO_MEMORY;
    if (status == CODEC_OK) status = codec_gif_reader_read_rows(reader, rows, frame.height);
    cairo_surface_flush(canvas);
    uint8_t *pixels = cairo_image_surface_get_data(canvas);
    size_t stride = (size_t)cairo_image_surface_get_stride(canvas);
    for (uint32_t row = 0; row < frame.height && status == CODEC_OK; row++) {
        memcpy(pixels + (top + row) * stride + left * 4, rows + (size_t)row * frame.width * 4, (size_t)frame.width * 4);
    }
    free(rows);
    codec_destroy(reader);
    if (status == CODEC_OK) return encode(canvas, file);
    cairo_surface_destroy(canvas);
    return status;
}

/// Replaces a document by the PNG of its rendering at `scale`, or at less if that is too large; 0 stands for its own size.
static codec_status draw_document(codec_bytes *file, double scale, codec_image_budget *budget) {
    if (budget->depth == MAXIMUM_DEPTH) return CODEC_UNSUPPORTED;
    codec_svg_reader *reader = codec_svg_reader_create(file->bytes, file->length);
    if (!reader) return CODEC_NO_MEMORY;
    codec_header header = {0};
    codec_status status = codec_svg_reader_read_header(reader, &header);
    size_t length = status == CODEC_OK ? codec_svg_reader_length(reader) : 0;
    if (length > budget->bytes) status = CODEC_TOO_LARGE;
    cairo_surface_t *surface = NULL;
    if (status == CODEC_OK) {
        budget->bytes -= length;
        double area = (double)header.width * header.height;
        double most = area > MAXIMUM_ENLARGED ? fmin(1, sqrt(MAXIMUM_PIXELS / (area + 1))) : sqrt(MAXIMUM_ENLARGED / area);
        scale = scale > 0 ? fmin(scale, most) : 1;
        double width = fmax(1, round(header.width * scale)), height = fmax(1, round(header.height * scale));
        surface = width > INT16_MAX || height > INT16_MAX ? NULL : create_surface((uint32_t)width, (uint32_t)height);
        if (!surface) status = CODEC_TOO_LARGE;
        if (surface) {
            budget->depth++;
            cairo_surface_flush(surface);
            status = codec_svg_reader_draw(reader, surface, 0, 0, width / header.width, height / header.height, budget);
            budget->depth--;
        }
    }
    codec_destroy(reader);
    if (status == CODEC_OK) return encode(surface, file);
    if (surface) cairo_surface_destroy(surface);
    return status;
}

/// Whether a text is one of the words, in any case.
static int is_one_of(codec_text text, const char *first, const char *second) {
    size_t length = (size_t)(text.end - text.start);
    return (length == strlen(first) && strncasecmp((const char *)text.start, first, length) == 0) ||
        (length == strlen(second) && strncasecmp((const char *)text.start, second, length) == 0);
}

/// Returns the media type of a PNG or JPEG; NULL for any other.
static const char *drawn_type(codec_bytes data) {
    static const uint8_t png[] = {0x89, 'P', 'N', 'G'}, jpeg[] = {0xFF, 0xD8, 0xFF};
    if (data.length >= sizeof png && memcmp(data.bytes, png, sizeof png) == 0) return "image/png";
    return data.length >= sizeof jpeg && memcmp(data.bytes, jpeg, sizeof jpeg) == 0 ? "image/jpeg" : NULL;
}

/// Whether librsvg can have a URL as it is.
static int is_drawn(data_url url) {
    if (!is_one_of(url.type, "image/png", "image/jpeg")) return 0;
    if (url.data.end - url.data.start > 64) url.data.end = url.data.start + 64;
    codec_bytes beginning = {0};
    const char *type = read_data(&url, &beginning) == CODEC_OK ? drawn_type(beginning) : NULL;
    codec_bytes_free(&beginning);
    return type && is_one_of(url.type, type, type);
}

/// Makes the data of a URL those of a PNG or JPEG. `type` is NULL if that is not possible.
static codec_status replace(const data_url *url, double scale, codec_image_budget *budget, codec_bytes *data, const char **type) {
    *type = NULL;
    codec_status status = read_data(url, data);
    if (status != CODEC_OK || data->length < 8) return status;
    *type = drawn_type(*data);
    if (*type) return CODEC_OK;
    int is_gif = memcmp(data->bytes, "GIF8", 4) == 0;
    int is_document = codec_text_find((codec_text){data->bytes, data->bytes + data->length}, "svg") != NULL ||
        (data->bytes[0] == 0x1F && data->bytes[1] == 0x8B) || is_one_of(url->type, "image/svg+xml", "image/svg");
    if (!is_gif && !is_document) return CODEC_OK;
    codec_text size;
    // Without a size of its own, the element has that of the image.
    int has_size = codec_text_attribute(url->tag, "width", &size) && codec_text_attribute(url->tag, "height", &size);
    status = is_gif ? draw_gif(data) : draw_document(data, has_size ? scale : 0, budget);
    // An image that is damaged, or too deep, is not drawn.
    *type = status == CODEC_OK ? "image/png" : "image/none";
    return status == CODEC_TOO_LARGE || status == CODEC_NO_MEMORY ? status : CODEC_OK;
}

int codec_images_exist(codec_text document) {
    codec_text rest = document;
    data_url url;
    while (next_url(document, &rest, &url)) {
        if (!is_drawn(url)) return 1;
    }
    return 0;
}

codec_status codec_images_replace(codec_text document, double scale, codec_image_budget *budget, codec_bytes *result) {
    codec_text rest = document;
    const uint8_t *copied = document.start;
    codec_status status = CODEC_OK;
    for (data_url url; status == CODEC_OK && next_url(document, &rest, &url);) {
        if (is_drawn(url)) continue;
        codec_bytes data = {0};
        const char *type;
        status = replace(&url, scale, budget, &data, &type);
        if (status == CODEC_OK && type) {
            status = codec_bytes_append(result, copied, (size_t)(url.value.start - copied));
            if (status == CODEC_OK) status = codec_bytes_append(result, "data:", 5);
            if (status == CODEC_OK) status = codec_bytes_append(result, type, strlen(type));
            if (status == CODEC_OK) status = codec_bytes_append(result, ";base64,", 8);
            if (status == CODEC_OK && strcmp(type, "image/none") != 0) status = append_base64(result, data);
            copied = url.value.end;
        }
        codec_bytes_free(&data);
    }
    if (status == CODEC_OK) status = codec_bytes_append(result, copied, (size_t)(document.end - copied));
    return status;
}
