// ownstart FAMILY FILE: loads the library of a family of codecs, decodes FILE with it as simply as possible, and exits: the
// time that a program of nobody's but the library's takes for its first image. Exits with 1 if the library is missing, 2 if it
// fails.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <avif/avif.h>
#include <jxl/decode.h>
#include <libheif/heif.h>
#include <tiffio.h>

static void *library;

/// A function of the library, with its type.
#define IN_LIBRARY(name) ((__typeof__(name) *)find(#name))

static void *find(const char *name) {
    void *function = dlsym(library, name);
    if (!function) exit(1);
    return function;
}

static void load(const char *name) {
    library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (!library) exit(1);
}

static int decode_avif(const char *path) {
    load("libavif.so.15");
    avifDecoder *decoder = IN_LIBRARY(avifDecoderCreate)();
    avifImage *image = IN_LIBRARY(avifImageCreateEmpty)();
    if (IN_LIBRARY(avifDecoderReadFile)(decoder, image, path) != AVIF_RESULT_OK) return 2;
    avifRGBImage rgb;
    IN_LIBRARY(avifRGBImageSetDefaults)(&rgb, image);
    IN_LIBRARY(avifRGBImageAllocatePixels)(&rgb);
    return IN_LIBRARY(avifImageYUVToRGB)(image, &rgb) == AVIF_RESULT_OK ? 0 : 2;
}

static int decode_heif(const char *path) {
    load("libheif.so.1");
    struct heif_context *context = IN_LIBRARY(heif_context_alloc)();
    struct heif_image_handle *handle = NULL;
    struct heif_image *image = NULL;
    if (IN_LIBRARY(heif_context_read_from_file)(context, path, NULL).code != heif_error_Ok ||
        IN_LIBRARY(heif_context_get_primary_image_handle)(context, &handle).code != heif_error_Ok)
        return 2;
    struct heif_error error = IN_LIBRARY(heif_decode_image)(
        handle, &image, heif_colorspace_RGB, heif_chroma_interleaved_RGBA, NULL);
    return error.code == heif_error_Ok ? 0 : 2;
}

/// Without headers, whose folder only pkg-config knows.
static int decode_jp2(const char *path) {
    load("libopenjp2.so.7");
    void *(*open)(const char *, int) = (void *(*)(const char *, int))find("opj_stream_create_default_file_stream");
    void *(*create)(int) = (void *(*)(int))find("opj_create_decompress");
    void (*set_defaults)(void *) = (void (*)(void *))find("opj_set_default_decoder_parameters");
    int (*set_up)(void *, void *) = (int (*)(void *, void *))find("opj_setup_decoder");
    int (*read_header)(void *, void *, void **) = (int (*)(void *, void *, void **))find("opj_read_header");
    int (*decode)(void *, void *, void *) = (int (*)(void *, void *, void *))find("opj_decode");
    // More than the structure takes.
    static char parameters[1 << 16];
    void *stream = open(path, 1), *codec = create(2), *image = NULL;
    set_defaults(parameters);
    return stream && set_up(codec, parameters) && read_header(stream, codec, &image) && decode(codec, stream, image) ? 0 : 2;
}

static int decode_jxl(const char *path) {
    load("libjxl.so.0.7");
    static uint8_t bytes[1 << 16];
    FILE *file = fopen(path, "rb");
    size_t length = file ? fread(bytes, 1, sizeof bytes, file) : 0, size = 0;
    JxlDecoder *decoder = IN_LIBRARY(JxlDecoderCreate)(NULL);
    JxlPixelFormat format = {4, JXL_TYPE_UINT8, JXL_NATIVE_ENDIAN, 0};
    IN_LIBRARY(JxlDecoderSubscribeEvents)(decoder, JXL_DEC_FULL_IMAGE);
    IN_LIBRARY(JxlDecoderSetInput)(decoder, bytes, length);
    for (;;) {
        switch (IN_LIBRARY(JxlDecoderProcessInput)(decoder)) {
        case JXL_DEC_NEED_IMAGE_OUT_BUFFER:
            IN_LIBRARY(JxlDecoderImageOutBufferSize)(decoder, &format, &size);
            IN_LIBRARY(JxlDecoderSetImageOutBuffer)(decoder, &format, malloc(size), size);
            break;
        case JXL_DEC_FULL_IMAGE: return 0;
        default: return 2;
        }
    }
}

/// Without headers, whose folders only pkg-config knows.
static int decode_svg(const char *path) {
    load("librsvg-2.so.2");
    void *(*open)(const char *, void *) = (void *(*)(const char *, void *))find("rsvg_handle_new_from_file");
    int (*render)(void *, void *) = (int (*)(void *, void *))find("rsvg_handle_render_cairo");
    void *(*surface)(int, int, int) = (void *(*)(int, int, int))find("cairo_image_surface_create");
    void *(*context)(void *) = (void *(*)(void *))find("cairo_create");
    void *handle = open(path, NULL);
    return handle && render(handle, context(surface(0, 64, 64))) ? 0 : 2;
}

static int decode_tiff(const char *path) {
    load("libtiff.so.6");
    static uint32_t pixels[64 * 64];
    TIFF *file = IN_LIBRARY(TIFFOpen)(path, "r");
    return file && IN_LIBRARY(TIFFReadRGBAImage)(file, 64, 64, pixels, 1) ? 0 : 2;
}

int main(int count, char **arguments) {
    static const struct {
        const char *family;
        int (*decode)(const char *path);
    } all[] = {
        {"avif", decode_avif}, {"heif", decode_heif}, {"jp2", decode_jp2}, {"jxl", decode_jxl}, {"svg", decode_svg}, {"tiff", decode_tiff},
    };
    for (size_t i = 0; count == 3 && i < sizeof all / sizeof *all; i++) {
        if (strcmp(arguments[1], all[i].family) == 0) return all[i].decode(arguments[2]);
    }
    return 1;
}
