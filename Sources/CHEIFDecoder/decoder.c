#include "decoder.h"

#include <libde265/de265.h>
#include <libheif/heif.h>
#include <libheif/heif_plugin.h>
#include <pthread.h>
#include <string.h>

static _Thread_local codec_heif_budget *budget;

void codec_heif_set_budget(codec_heif_budget *given) { budget = given; }

static const struct heif_error fine = {heif_error_Ok, heif_suberror_Unspecified, "Success"};

static struct heif_error failure(const char *message) {
    return (struct heif_error){heif_error_Decoder_plugin_error, heif_suberror_Unspecified, message};
}

static struct heif_error too_large(void) {
    return (struct heif_error){
        heif_error_Memory_allocation_error, heif_suberror_Security_limit_exceeded, "more pixels than the file declares"};
}

// MARK: Frames

/// Allocates a frame within the budget. libde265 allocates nothing else of its size before this.
static int get_buffer(
    de265_decoder_context *context, struct de265_image_spec *spec, struct de265_image *image, void *own) {
    uint64_t pixels = (uint64_t)spec->width * (uint64_t)spec->height;
    if (!budget || spec->width <= 0 || spec->height <= 0 || pixels > budget->pixels) {
        if (budget) budget->is_exceeded = 1;
        return 0;
    }
    budget->pixels -= pixels;
    return de265_get_default_image_allocation_functions()->get_buffer(context, spec, image, own);
}

static void release_buffer(de265_decoder_context *context, struct de265_image *image, void *own) {
    de265_get_default_image_allocation_functions()->release_buffer(context, image, own);
}

/// Copies a channel of a frame.
static struct heif_error copy(
    const struct de265_image *frame, int channel, struct heif_image *image, enum heif_channel target) {
    int width = de265_get_image_width(frame, channel), height = de265_get_image_height(frame, channel);
    int depth = de265_get_bits_per_pixel(frame, channel), from_stride, to_stride;
    if (width <= 0 || height <= 0 || depth < 8 || depth > 16) return failure("a channel has no pixels");
    struct heif_error error = heif_image_add_plane(image, target, width, height, depth);
    if (error.code != heif_error_Ok) return error;
    const uint8_t *from = de265_get_image_plane(frame, channel, &from_stride);
    uint8_t *to = heif_image_get_plane(image, target, &to_stride);
    if (!from || !to) return failure("a channel is missing");
    size_t length = (size_t)width * (depth > 8 ? 2 : 1);
    for (int row = 0; row < height; row++) memcpy(to + (size_t)row * to_stride, from + (size_t)row * from_stride, length);
    return fine;
}

/// States the colours as the bitstream does; libheif prefers those of the container.
static struct heif_error describe(const struct de265_image *frame, struct heif_image *image) {
    struct heif_color_profile_nclx *colors = heif_nclx_color_profile_alloc();
    if (!colors) return failure("no memory");
    colors->full_range_flag = de265_get_image_full_range_flag(frame) != 0;
    colors->matrix_coefficients = (enum heif_matrix_coefficients)de265_get_image_matrix_coefficients(frame);
    colors->color_primaries = (enum heif_color_primaries)de265_get_image_colour_primaries(frame);
    colors->transfer_characteristics =
        (enum heif_transfer_characteristics)de265_get_image_transfer_characteristics(frame);
    struct heif_error error = heif_image_set_nclx_color_profile(image, colors);
    heif_nclx_color_profile_free(colors);
    return error;
}

static struct heif_error convert(const struct de265_image *frame, struct heif_image **result) {
    static const enum heif_chroma chromas[] = {heif_chroma_monochrome, heif_chroma_420, heif_chroma_422, heif_chroma_444};
    enum de265_chroma chroma = de265_get_chroma_format(frame);
    if ((unsigned)chroma > de265_chroma_444) return failure("unknown chroma");
    int is_gray = chroma == de265_chroma_mono;
    struct heif_image *image = NULL;
    struct heif_error error = heif_image_create(
        de265_get_image_width(frame, 0), de265_get_image_height(frame, 0),
        is_gray ? heif_colorspace_monochrome : heif_colorspace_YCbCr, chromas[chroma], &image);
    if (error.code != heif_error_Ok) return error;
    error = copy(frame, 0, image, heif_channel_Y);
    if (error.code == heif_error_Ok && !is_gray) error = copy(frame, 1, image, heif_channel_Cb);
    if (error.code == heif_error_Ok && !is_gray) error = copy(frame, 2, image, heif_channel_Cr);
    if (error.code == heif_error_Ok) error = describe(frame, image);
    if (error.code != heif_error_Ok) {
        heif_image_release(image);
        return error;
    }
    *result = image;
    return fine;
}

// MARK: The decoder

static const char *name(void) { return "libde265 without threads"; }
static int decodes_hevc(enum heif_compression_format format) { return format == heif_compression_HEVC ? 1000 : 0; }
static void set_strict(void *decoder, int flag) { (void)decoder, (void)flag; }

static struct heif_error create(void **decoder) {
    static struct de265_image_allocation allocation = {get_buffer, release_buffer};
    *decoder = de265_new_decoder();
    if (!*decoder) return failure("no memory");
    de265_set_image_allocation_functions(*decoder, &allocation, NULL);
    return fine;
}

static void destroy(void *decoder) { de265_free_decoder(decoder); }

/// Takes units, each after its length of four bytes.
static struct heif_error push(void *decoder, const void *data, size_t size) {
    const uint8_t *bytes = data;
    while (size > 0) {
        if (size < 4) return failure("a unit is cut off");
        size_t length = (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
        bytes += 4;
        size -= 4;
        if (length > size) return failure("a unit is cut off");
        if (de265_push_NAL(decoder, bytes, (int)length, 0, NULL) != DE265_OK) return failure("no memory");
        bytes += length;
        size -= length;
    }
    return fine;
}

static struct heif_error decode(void *decoder, struct heif_image **result) {
    *result = NULL;
    de265_flush_data(decoder);
    int more = 1;
    while (more && !*result) {
        more = 0;
        de265_error error = de265_decode(decoder, &more);
        if (budget && budget->is_exceeded) return too_large();
        if (error != DE265_OK && !(error == DE265_ERROR_WAITING_FOR_INPUT_DATA && !more))
            return failure(de265_get_error_text(error));
        const struct de265_image *frame = de265_get_next_picture(decoder);
        if (!frame) continue;
        struct heif_error status = convert(frame, result);
        if (status.code != heif_error_Ok) return status;
    }
    // An error within a picture is reported as a warning.
    for (de265_error warning; *result && (warning = de265_get_warning(decoder)) != DE265_OK;) {
        heif_image_release(*result);
        *result = NULL;
        return failure(de265_get_error_text(warning));
    }
    return *result ? fine : failure("no picture");
}

// MARK: All other codecs

static const char *none(void) { return "none"; }
static int refuses(enum heif_compression_format format) { return format == heif_compression_HEVC ? 0 : 1000; }

static struct heif_error refuse(void **decoder) {
    *decoder = NULL;
    return (struct heif_error){heif_error_Unsupported_feature, heif_suberror_Unsupported_codec, "another codec than HEVC"};
}

static void destroy_none(void *decoder) { (void)decoder; }

static struct heif_error push_none(void *decoder, const void *data, size_t size) {
    (void)decoder, (void)data, (void)size;
    return failure("another codec than HEVC");
}

static struct heif_error decode_none(void *decoder, struct heif_image **image) {
    (void)decoder, (void)image;
    return failure("another codec than HEVC");
}

static const struct heif_decoder_plugin hevc = {
    .plugin_api_version = 3,
    .get_plugin_name = name,
    .does_support_format = decodes_hevc,
    .new_decoder = create,
    .free_decoder = destroy,
    .push_data = push,
    .decode_image = decode,
    .set_strict_decoding = set_strict,
    .id_name = "imgbroker",
};

static const struct heif_decoder_plugin others = {
    .plugin_api_version = 3,
    .get_plugin_name = none,
    .does_support_format = refuses,
    .new_decoder = refuse,
    .free_decoder = destroy_none,
    .push_data = push_none,
    .decode_image = decode_none,
    .set_strict_decoding = set_strict,
    .id_name = "none",
};

static void register_all(void) {
    heif_register_decoder_plugin(&hevc);
    heif_register_decoder_plugin(&others);
}

void codec_heif_register(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_all);
}
