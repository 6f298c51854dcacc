#include "decoder.h"

#include <libde265/de265.h>
#include <libheif/heif.h>
#include <libheif/heif_plugin.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local codec_heif_budget *budget;

void codec_heif_set_budget(codec_heif_budget *given) { budget = given; }

static const struct heif_error fine = {heif_error_Ok, heif_suberror_Unspecified, "Success"};

static struct heif_error failure(const char *message) {
    return (struct heif_error){heif_error_Decoder_plugin_error, heif_suberror_Unspecified, message};
}

// MARK: Frames

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

// MARK: Units (ITU-T H.265, section 7.3)

/// Reads bits of a unit, without the bytes that keep it from looking like a start code.
typedef struct {
    const uint8_t *bytes;
    size_t length, byte;
    int bit, zeros;
    int is_over;
} bits;

static uint32_t read_bit(bits *bits) {
    if (bits->bit == 0 && bits->zeros >= 2 && bits->byte < bits->length && bits->bytes[bits->byte] == 3) {
        bits->byte++;
        bits->zeros = 0;
    }
    if (bits->byte >= bits->length) {
        bits->is_over = 1;
        return 0;
    }
    uint32_t value = bits->bytes[bits->byte] >> (7 - bits->bit) & 1;
    if (++bits->bit == 8) {
        bits->zeros = bits->bytes[bits->byte] == 0 ? bits->zeros + 1 : 0;
        bits->bit = 0;
        bits->byte++;
    }
    return value;
}

static uint32_t read_bits(bits *bits, int count) {
    uint32_t value = 0;
    while (count-- > 0) value = value << 1 | read_bit(bits);
    return value;
}

/// Reads an Exp-Golomb code.
static uint32_t read_number(bits *bits) {
    int zeros = 0;
    while (!bits->is_over && zeros < 31 && read_bit(bits) == 0) zeros++;
    return (1u << zeros) - 1 + read_bits(bits, zeros);
}

/// Returns the number of pixels of the pictures that a sequence parameter set describes; 0 if it is not valid.
static uint64_t read_pixels(const uint8_t *unit, size_t length) {
    bits bits = {.bytes = unit, .length = length};
    read_bits(&bits, 16 + 4);
    int layers = (int)read_bits(&bits, 3);
    read_bits(&bits, 1 + 96);
    int has_profile[8] = {0}, has_level[8] = {0};
    for (int i = 0; i < layers; i++) {
        has_profile[i] = (int)read_bit(&bits);
        has_level[i] = (int)read_bit(&bits);
    }
    for (int i = layers; layers > 0 && i < 8; i++) read_bits(&bits, 2);
    for (int i = 0; i < layers; i++) read_bits(&bits, 88 * has_profile[i] + 8 * has_level[i]);
    // The number of the set, and whether its three colours are separate.
    read_number(&bits);
    if (read_number(&bits) == 3) read_bit(&bits);
    uint64_t width = read_number(&bits), height = read_number(&bits);
    return bits.is_over ? 0 : width * height;
}

// MARK: The decoder

typedef struct {
    de265_decoder_context *context;
    /// The most pixels that a picture may have.
    uint64_t pixels;
} hevc_decoder;

static const char *name(void) { return "libde265 without threads"; }
static int decodes_hevc(enum heif_compression_format format) { return format == heif_compression_HEVC ? 1000 : 0; }
static void set_strict(void *decoder, int flag) { (void)decoder, (void)flag; }

static struct heif_error create(void **result) {
    hevc_decoder *decoder = calloc(1, sizeof *decoder);
    if (decoder) decoder->context = de265_new_decoder();
    if (!decoder || !decoder->context) {
        free(decoder);
        return failure("no memory");
    }
    *result = decoder;
    return fine;
}

static void destroy(void *decoder) {
    if (!decoder) return;
    de265_free_decoder(((hevc_decoder *)decoder)->context);
    free(decoder);
}

/// Counts the pixels of a picture that begins with a unit. Pictures that refer to others are not those of a still image; libde265
/// would make the missing ones.
static struct heif_error count(hevc_decoder *decoder, const uint8_t *unit, size_t length) {
    enum { FIRST_INDEPENDENT = 16, PICTURES_END = 32, SEQUENCE = 33 };
    if (length < 3) return fine;
    int type = unit[0] >> 1 & 63;
    if (type == SEQUENCE) {
        uint64_t pixels = read_pixels(unit, length);
        if (pixels == 0) return failure("the size of pictures is missing");
        if (pixels > decoder->pixels) decoder->pixels = pixels;
    }
    if (type >= PICTURES_END) return fine;
    if (type < FIRST_INDEPENDENT) return failure("a picture that refers to others");
    int is_first_part = unit[2] >> 7;
    if (!is_first_part) return fine;
    if (!budget || decoder->pixels > budget->pixels) {
        if (budget) budget->is_exceeded = 1;
        return (struct heif_error){
            heif_error_Memory_allocation_error, heif_suberror_Security_limit_exceeded,
            "more pixels than the file declares"};
    }
    budget->pixels -= decoder->pixels;
    return fine;
}

/// Takes units, each after its length of four bytes.
static struct heif_error push(void *own, const void *data, size_t size) {
    hevc_decoder *decoder = own;
    const uint8_t *bytes = data;
    while (size > 0) {
        if (size < 4) return failure("a unit is cut off");
        size_t length = (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
        bytes += 4;
        size -= 4;
        if (length > size || length > INT32_MAX) return failure("a unit is cut off");
        struct heif_error error = count(decoder, bytes, length);
        if (error.code != heif_error_Ok) return error;
        if (de265_push_NAL(decoder->context, bytes, (int)length, 0, NULL) != DE265_OK) return failure("no memory");
        bytes += length;
        size -= length;
    }
    return fine;
}

static struct heif_error decode(void *own, struct heif_image **result) {
    de265_decoder_context *decoder = ((hevc_decoder *)own)->context;
    *result = NULL;
    de265_flush_data(decoder);
    int more = 1;
    while (more && !*result) {
        more = 0;
        de265_error error = de265_decode(decoder, &more);
        if (error != DE265_OK && !(error == DE265_ERROR_WAITING_FOR_INPUT_DATA && !more))
            return failure(de265_get_error_text(error));
        const struct de265_image *frame = de265_get_next_picture(decoder);
        if (!frame) continue;
        struct heif_error status = convert(frame, result);
        if (status.code != heif_error_Ok) return status;
    }
    // An error within a picture is reported as a warning.
    de265_error warning = *result ? de265_get_warning(decoder) : DE265_OK;
    if (warning != DE265_OK) {
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

// The functions that take a decoder are never called, because none is made.
static const struct heif_decoder_plugin others = {
    .plugin_api_version = 3,
    .get_plugin_name = none,
    .does_support_format = refuses,
    .new_decoder = refuse,
    .free_decoder = destroy,
    .push_data = push,
    .decode_image = decode,
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
