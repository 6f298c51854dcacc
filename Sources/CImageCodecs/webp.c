#include "CImageCodecs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <webp/decode.h>
#include <webp/encode.h>
#include <webp/mux.h>

static codec_status decoding_status(VP8StatusCode status) {
    switch (status) {
    case VP8_STATUS_OK: return CODEC_OK;
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED: return CODEC_TRUNCATED;
    case VP8_STATUS_OUT_OF_MEMORY: return CODEC_NO_MEMORY;
    case VP8_STATUS_UNSUPPORTED_FEATURE: return CODEC_UNSUPPORTED;
    default: return CODEC_DAMAGED;
    }
}

static uint32_t little_endian(const uint8_t *bytes) {
    return (uint32_t)bytes[3] << 24 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[1] << 8 | bytes[0];
}

/// Returns whether a chunk that the container announces is incomplete. libwebp only requires the pixels, but the EXIF
/// chunk with the orientation follows them. A missing padding byte at the end is accepted.
static int is_cut_off(const uint8_t *bytes, size_t length) {
    if (length < 12) return 1;
    uint64_t end = (uint64_t)little_endian(bytes + 4) + 8, position = 12;
    while (position + 8 <= end) {
        if (position + 8 > length) return 1;
        uint64_t size = little_endian(bytes + position + 4);
        position += 8 + size;
        if (position > length && position <= end) return 1;
        position += size & 1;
    }
    return 0;
}

/// Returns the bytes that libwebp holds for a lossless bitstream: its pixels, and its tables. Each block of pixels selects
/// a group of prefix codes and has parameters of two transforms. Encoders rarely use blocks below 8 × 8 or more than
/// 2,600 groups, of about 8 KiB each. The actual number is only known while decoding; a file with 65,536 large groups
/// reaches the memory limit of the process.
static uint64_t lossless_bytes(uint64_t pixels) {
    uint64_t blocks = pixels / 64 + 1;
    return pixels * 4 + blocks * 4 * 3 + (blocks < 2600 ? blocks : 2600) * 8192;
}

uint64_t codec_webp_most_held_bytes(uint64_t pixels) { return lossless_bytes(pixels) + pixels; }

codec_status codec_webp_read_header(
    const uint8_t *bytes, size_t length, codec_webp_state state, codec_header *header) {
    WebPBitstreamFeatures features;
    VP8StatusCode status = WebPGetFeatures(bytes, length, &features);
    if (status != VP8_STATUS_OK) return decoding_status(status);
    // The extended header follows the RIFF header; its first byte holds the flags.
    int has_exif = length > 20 && memcmp(bytes + 12, "VP8X", 4) == 0 && bytes[20] & EXIF_FLAG;
    if (state == CODEC_WEBP_PART && (features.has_animation || has_exif)) return CODEC_UNSUPPORTED;
    header->width = (uint32_t)features.width;
    header->height = (uint32_t)features.height;
    // Missing rows are transparent.
    header->has_alpha = features.has_alpha || state != CODEC_WEBP_WHOLE;
    // Lossless: all pixels. Lossy: a window of rows, and the whole alpha channel twice: as a lossless image of its own and
    // as the plane that is applied.
    uint64_t pixels = (uint64_t)header->width * header->height;
    int lossless = features.format == 2, lossy = features.format == 1;
    header->held_bytes = lossy && !features.has_alpha ? 0 : lossless_bytes(pixels) + (lossless ? 0 : pixels);
    // Only for lossless files libwebp multiplies by alpha before it scales.
    header->can_scale = lossless || !features.has_alpha;
    if (features.has_animation) return CODEC_DAMAGED;
    return features.width == 0 || features.height == 0 ? CODEC_EMPTY : CODEC_OK;
}

/// Configures the decoding of one bitstream into `pixels`, scaled down to `width` × `height` if it is larger.
static codec_status configure(
    WebPDecoderConfig *config, const uint8_t *bytes, size_t length, uint32_t width, uint32_t height, codec_order order,
    uint8_t *pixels) {
    if (!WebPInitDecoderConfig(config)) return CODEC_UNSUPPORTED;
    VP8StatusCode status = WebPGetFeatures(bytes, length, &config->input);
    if (status != VP8_STATUS_OK) return decoding_status(status);
    uint32_t stored_width = (uint32_t)config->input.width, stored_height = (uint32_t)config->input.height;
    if (stored_width < width || stored_height < height) return CODEC_DAMAGED;
    if (stored_width != width || stored_height != height) {
        config->options.use_scaling = 1;
        config->options.scaled_width = (int)width;
        config->options.scaled_height = (int)height;
    }
    config->output.colorspace = order == CODEC_BGRA ? MODE_BGRA : MODE_RGBA;
    config->output.is_external_memory = 1;
    config->output.u.RGBA.rgba = pixels;
    config->output.u.RGBA.stride = (int)width * 4;
    config->output.u.RGBA.size = (size_t)height * width * 4;
    return CODEC_OK;
}

codec_status codec_webp_decode(
    const uint8_t *bytes, size_t length, codec_webp_state state, codec_order order, uint32_t width, uint32_t height,
    uint8_t *pixels) {
    WebPDecoderConfig config;
    size_t stride = (size_t)width * 4;
    codec_status result = configure(&config, bytes, length, width, height, order, pixels);
    if (result != CODEC_OK) return result;
    if (state == CODEC_WEBP_WHOLE) {
        // The bitstream of an animation's frame has no container.
        if (memcmp(bytes, "RIFF", 4) == 0 && is_cut_off(bytes, length)) return CODEC_TRUNCATED;
        VP8StatusCode status = WebPDecode(bytes, length, &config);
        WebPFreeDecBuffer(&config.output);
        return decoding_status(status);
    }
    WebPIDecoder *decoder = WebPIDecode(NULL, 0, &config);
    if (!decoder) return CODEC_NO_MEMORY;
    VP8StatusCode status = WebPIUpdate(decoder, bytes, length);
    int rows = 0;
    WebPIDecGetRGB(decoder, &rows, NULL, NULL, NULL);
    WebPIDelete(decoder);
    WebPFreeDecBuffer(&config.output);
    int is_sound = status == VP8_STATUS_OK || status == VP8_STATUS_SUSPENDED;
    int is_accepted = state == CODEC_WEBP_DAMAGED && rows > 0 && decoding_status(status) != CODEC_NO_MEMORY;
    if (!is_sound && !is_accepted) return decoding_status(status);
    if (rows <= 0) return CODEC_TRUNCATED;
    if ((uint32_t)rows < height) memset(pixels + (size_t)rows * stride, 0, (height - (size_t)rows) * stride);
    return CODEC_OK;
}

static int import(WebPPicture *picture, codec_order order, const uint8_t *pixels) {
    int stride = picture->width * 4;
    return order == CODEC_BGRA ? WebPPictureImportBGRA(picture, pixels, stride)
                               : WebPPictureImportRGBA(picture, pixels, stride);
}

static codec_status encoding_status(WebPEncodingError error) {
    switch (error) {
    case VP8_ENC_ERROR_OUT_OF_MEMORY:
    case VP8_ENC_ERROR_BITSTREAM_OUT_OF_MEMORY: return CODEC_NO_MEMORY;
    // The lossy format limits the size of a partition.
    case VP8_ENC_ERROR_PARTITION0_OVERFLOW:
    case VP8_ENC_ERROR_PARTITION_OVERFLOW:
    case VP8_ENC_ERROR_FILE_TOO_BIG: return CODEC_TOO_LARGE;
    default: return CODEC_UNSUPPORTED;
    }
}

codec_status codec_webp_encode(
    const uint8_t *pixels, uint32_t width, uint32_t height, codec_order order, int quality, uint8_t **output,
    size_t *length) {
    *output = NULL;
    *length = 0;
    if (width > WEBP_MAX_DIMENSION || height > WEBP_MAX_DIMENSION) return CODEC_TOO_LARGE;
    WebPConfig config;
    WebPPicture picture;
    if (!WebPConfigInit(&config) || !WebPPictureInit(&picture)) return CODEC_UNSUPPORTED;
    config.quality = (float)quality;
    picture.width = (int)width;
    picture.height = (int)height;
    WebPMemoryWriter writer;
    WebPMemoryWriterInit(&writer);
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &writer;
    int imported = import(&picture, order, pixels);
    int encoded = imported && WebPEncode(&config, &picture);
    WebPEncodingError error = picture.error_code;
    WebPPictureFree(&picture);
    if (!encoded) {
        WebPMemoryWriterClear(&writer);
        return imported ? encoding_status(error) : CODEC_NO_MEMORY;
    }
    *output = writer.mem;
    *length = writer.size;
    return CODEC_OK;
}

void codec_webp_free(uint8_t *output) { WebPFree(output); }

struct codec_webp_writer {
    codec_base base;
    WebPAnimEncoder *encoder;
    WebPConfig config;
    WebPData file;
    codec_order order;
    int width, height;
    /// When the next frame begins.
    int milliseconds;
};

static void release(void *object) {
    codec_webp_writer *writer = object;
    WebPAnimEncoderDelete(writer->encoder);
    WebPDataClear(&writer->file);
}

codec_webp_writer *codec_webp_writer_create(
    uint32_t width, uint32_t height, codec_order order, int quality, uint16_t loops) {
    if (width > WEBP_MAX_DIMENSION || height > WEBP_MAX_DIMENSION) return NULL;
    codec_webp_writer *writer = codec_allocate(sizeof *writer, release, NULL, 0);
    WebPAnimEncoderOptions options;
    if (!writer) return NULL;
    writer->order = order;
    writer->width = (int)width;
    writer->height = (int)height;
    if (WebPAnimEncoderOptionsInit(&options) && WebPConfigInit(&writer->config)) {
        options.anim_params.loop_count = loops;
        // Transparent; viewers may ignore it.
        options.anim_params.bgcolor = 0;
        writer->config.quality = (float)quality;
        writer->encoder = WebPAnimEncoderNew(writer->width, writer->height, &options);
    }
    if (writer->encoder) return writer;
    codec_destroy(writer);
    return NULL;
}

codec_status codec_webp_writer_add(codec_webp_writer *writer, const uint8_t *pixels, int milliseconds) {
    WebPPicture picture;
    if (!WebPPictureInit(&picture)) return CODEC_UNSUPPORTED;
    picture.use_argb = 1;
    picture.width = writer->width;
    picture.height = writer->height;
    errno = 0;
    int added = import(&picture, writer->order, pixels) &&
        WebPAnimEncoderAdd(writer->encoder, &picture, writer->milliseconds, &writer->config);
    WebPEncodingError error = picture.error_code;
    WebPPictureFree(&picture);
    writer->milliseconds += milliseconds;
    if (added) return CODEC_OK;
    // The error of an area that was encoded is only in the message.
    codec_status status = errno == ENOMEM ? CODEC_NO_MEMORY : encoding_status(error);
    return codec_fail(writer, status, WebPAnimEncoderGetError(writer->encoder));
}

codec_status codec_webp_writer_finish(codec_webp_writer *writer, const uint8_t **output, size_t *length) {
    errno = 0;
    if (!WebPAnimEncoderAdd(writer->encoder, NULL, writer->milliseconds, NULL) ||
        !WebPAnimEncoderAssemble(writer->encoder, &writer->file))
        return codec_fail(
            writer, errno == ENOMEM ? CODEC_NO_MEMORY : CODEC_UNSUPPORTED, WebPAnimEncoderGetError(writer->encoder));
    *output = writer->file.bytes;
    *length = writer->file.size;
    return CODEC_OK;
}

const char *codec_webp_version(void) {
    static char text[32];
    int version = WebPGetDecoderVersion();
    snprintf(text, sizeof text, "libwebp %d.%d.%d", version >> 16, version >> 8 & 0xff, version & 0xff);
    return text;
}
