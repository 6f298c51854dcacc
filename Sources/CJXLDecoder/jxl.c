#define _GNU_SOURCE
#include <jxl/decode.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "CJXLDecoder.h"

/// The most bytes of a profile, as in ColorProfile.swift.
#define LONGEST_PROFILE (4u << 20)

typedef struct {
    uint32_t delay;
    /// The pixels of all layers up to this frame.
    uint64_t pixels;
} shown_frame;

struct codec_jxl_reader {
    codec_base base;
    /// Decodes; made anew for each reading of the file.
    JxlDecoder *decoder;
    JxlBasicInfo info;
    shown_frame *frames;
    uint32_t count, capacity;
    uint64_t largest_layer, most_groups, layers;
    /// The place of the first frame's header in the file.
    size_t first_frame;
    /// Whether the first frame is the last one.
    int is_single;
    uint8_t *profile;
    /// Whether libjxl converts to sRGB, because the file does not store the samples of its profile.
    int converts;
};

static const JxlPixelFormat pixel_format = {4, JXL_TYPE_UINT8, JXL_NATIVE_ENDIAN, 0};

static codec_status restart(codec_jxl_reader *reader, int events, JXL_BOOL composes) {
    if (reader->decoder) JxlDecoderDestroy(reader->decoder);
    // Without a runner it uses no other thread.
    JxlDecoder *decoder = reader->decoder = JxlDecoderCreate(NULL);
    if (!decoder) return CODEC_NO_MEMORY;
    if (JxlDecoderSubscribeEvents(decoder, events) != JXL_DEC_SUCCESS ||
        JxlDecoderSetKeepOrientation(decoder, JXL_TRUE) != JXL_DEC_SUCCESS ||
        JxlDecoderSetUnpremultiplyAlpha(decoder, JXL_TRUE) != JXL_DEC_SUCCESS ||
        JxlDecoderSetCoalescing(decoder, composes) != JXL_DEC_SUCCESS ||
        JxlDecoderSetInput(decoder, reader->base.bytes, reader->base.length) != JXL_DEC_SUCCESS) {
        return CODEC_NO_MEMORY;
    }
    // Of a closed input, it reports missing bytes as damage, and draws nothing.
    if (!reader->base.accepts_damage) JxlDecoderCloseInput(decoder);
    return CODEC_OK;
}

static codec_status failed(codec_jxl_reader *reader, JxlDecoderStatus status) {
    if (status == JXL_DEC_NEED_MORE_INPUT) return codec_fail(reader, CODEC_TRUNCATED, "");
    return codec_fail(reader, CODEC_DAMAGED, "libjxl refuses it");
}

static void release(void *object) {
    codec_jxl_reader *reader = object;
    if (reader->decoder) JxlDecoderDestroy(reader->decoder);
    free(reader->frames);
    free(reader->profile);
}

codec_jxl_reader *codec_jxl_reader_create(const uint8_t *bytes, size_t length) {
    return codec_allocate(sizeof(codec_jxl_reader), release, bytes, length);
}

// MARK: Colour

static int is_known(const JxlColorEncoding *color) {
    int has_primaries = color->color_space == JXL_COLOR_SPACE_GRAY || color->primaries == JXL_PRIMARIES_SRGB ||
        color->primaries == JXL_PRIMARIES_2100 || color->primaries == JXL_PRIMARIES_P3;
    return (color->color_space == JXL_COLOR_SPACE_RGB || color->color_space == JXL_COLOR_SPACE_GRAY) &&
        color->white_point == JXL_WHITE_POINT_D65 && has_primaries &&
        color->transfer_function != JXL_TRANSFER_FUNCTION_GAMMA &&
        color->transfer_function != JXL_TRANSFER_FUNCTION_UNKNOWN;
}

/// Takes the profile of the rows that will be decoded. Gray without sRGB's curve has the profile of libjxl.
static codec_status read_profile(codec_jxl_reader *reader) {
    JxlColorEncoding color;
    int is_encoded = JxlDecoderGetColorAsEncodedProfile(
                         reader->decoder, &pixel_format, JXL_COLOR_PROFILE_TARGET_ORIGINAL, &color) == JXL_DEC_SUCCESS;
    int is_bright = is_encoded &&
        (color.transfer_function == JXL_TRANSFER_FUNCTION_PQ || color.transfer_function == JXL_TRANSFER_FUNCTION_HLG);
    // Values brighter than white are reduced as in other formats, which libjxl would not do.
    reader->converts = !reader->info.uses_original_profile && !is_bright;
    if (reader->converts) return CODEC_OK;
    if (is_encoded && is_known(&color)) {
        // libjxl's numbers are those of ITU-T H.273.
        int is_gray = color.color_space == JXL_COLOR_SPACE_GRAY;
        int is_plain = color.transfer_function == JXL_TRANSFER_FUNCTION_SRGB ||
            color.transfer_function == JXL_TRANSFER_FUNCTION_709;
        if (!is_gray)
            return codec_profile_for_cicp(
                color.primaries == JXL_PRIMARIES_P3 ? 12 : (int)color.primaries, (int)color.transfer_function,
                &reader->profile, &reader->base.profile_length, &reader->base.light);
        if (is_plain) return CODEC_OK;
    }
    size_t length = 0;
    JxlColorProfileTarget target = JXL_COLOR_PROFILE_TARGET_DATA;
    if (JxlDecoderGetICCProfileSize(reader->decoder, &pixel_format, target, &length) != JXL_DEC_SUCCESS || length == 0)
        return CODEC_OK;
    // A longer one is not used.
    if (length > LONGEST_PROFILE) length = 0;
    reader->profile = malloc(length + 1);
    if (!reader->profile) return CODEC_NO_MEMORY;
    reader->base.profile_length = length;
    if (length > 0 &&
        JxlDecoderGetColorAsICCProfile(reader->decoder, &pixel_format, target, reader->profile, length) != JXL_DEC_SUCCESS)
        reader->base.profile_length = 0;
    return CODEC_OK;
}

/// Lets libjxl convert to sRGB.
static codec_status convert(codec_jxl_reader *reader) {
    JxlColorEncoding color = {
        .color_space = reader->info.num_color_channels == 1 ? JXL_COLOR_SPACE_GRAY : JXL_COLOR_SPACE_RGB,
        .white_point = JXL_WHITE_POINT_D65,
        .primaries = JXL_PRIMARIES_SRGB,
        .transfer_function = JXL_TRANSFER_FUNCTION_SRGB,
        .rendering_intent = JXL_RENDERING_INTENT_PERCEPTUAL,
    };
    JxlDecoderStatus status = JxlDecoderSetPreferredColorProfile(reader->decoder, &color);
    return status == JXL_DEC_SUCCESS ? CODEC_OK : failed(reader, status);
}

// MARK: Headers

static codec_status add(codec_jxl_reader *reader, uint32_t ticks) {
    if (reader->count == CODEC_MAXIMUM_FRAMES) return CODEC_TOO_LARGE;
    if (reader->count == reader->capacity) {
        uint32_t capacity = reader->capacity ? reader->capacity * 2 : 16;
        shown_frame *frames = realloc(reader->frames, capacity * sizeof *frames);
        if (!frames) return CODEC_NO_MEMORY;
        reader->frames = frames;
        reader->capacity = capacity;
    }
    const JxlAnimationHeader *time = &reader->info.animation;
    double delay = time->tps_numerator ? 1000.0 * ticks * time->tps_denominator / time->tps_numerator : 0;
    reader->frames[reader->count++] = (shown_frame){.delay = delay < UINT32_MAX ? (uint32_t)(delay + 0.5) : UINT32_MAX};
    return CODEC_OK;
}

/// Checks that the image has a size and channels that can be decoded.
static codec_status check(codec_jxl_reader *reader) {
    const JxlBasicInfo *info = &reader->info;
    if (info->xsize == 0 || info->ysize == 0) return CODEC_EMPTY;
    if (info->xsize > CODEC_MAXIMUM_SIDE || info->ysize > CODEC_MAXIMUM_SIDE) return CODEC_TOO_LARGE;
    for (uint32_t i = 0; i < info->num_extra_channels; i++) {
        JxlExtraChannelInfo extra;
        if (JxlDecoderGetExtraChannelInfo(reader->decoder, i, &extra) != JXL_DEC_SUCCESS) return CODEC_DAMAGED;
        if (extra.type == JXL_CHANNEL_BLACK) return codec_fail(reader, CODEC_UNSUPPORTED, "CMYK");
    }
    return CODEC_OK;
}

/// Reads the headers of all frames that are shown.
static codec_status find_frames(codec_jxl_reader *reader) {
    codec_status status = restart(reader, JXL_DEC_BASIC_INFO | JXL_DEC_COLOR_ENCODING | JXL_DEC_FRAME, JXL_TRUE);
    while (status == CODEC_OK) {
        JxlDecoderStatus event = JxlDecoderProcessInput(reader->decoder);
        JxlFrameHeader frame;
        switch (event) {
        case JXL_DEC_BASIC_INFO:
            if (JxlDecoderGetBasicInfo(reader->decoder, &reader->info) != JXL_DEC_SUCCESS) return CODEC_DAMAGED;
            status = check(reader);
            break;
        case JXL_DEC_COLOR_ENCODING: status = read_profile(reader); break;
        case JXL_DEC_FRAME:
            if (JxlDecoderGetFrameHeader(reader->decoder, &frame) != JXL_DEC_SUCCESS) return CODEC_DAMAGED;
            status = add(reader, frame.duration);
            break;
        case JXL_DEC_SUCCESS: return CODEC_OK;
        case JXL_DEC_NEED_MORE_INPUT:
            if (!reader->base.accepts_damage || reader->count == 0) return failed(reader, event);
            // The last frame is incomplete. Of an animation, only the first one is shown in part.
            if (reader->count > 1) reader->count--;
            return CODEC_OK;
        default: return failed(reader, event);
        }
    }
    return status;
}

/// Finds the first frame: its header follows those of the image.
static codec_status find_first_frame(codec_jxl_reader *reader) {
    codec_status status = restart(reader, JXL_DEC_COLOR_ENCODING, JXL_TRUE);
    if (status != CODEC_OK) return status;
    JxlDecoderStatus event = JxlDecoderProcessInput(reader->decoder);
    if (event != JXL_DEC_COLOR_ENCODING) return failed(reader, event);
    reader->first_frame = reader->base.length - JxlDecoderReleaseInput(reader->decoder);
    return CODEC_OK;
}

/// Bits of a codestream, the lowest of each byte first. Those behind the end are 0.
typedef struct {
    const uint8_t *bytes;
    size_t length, position;
} bit_reader;

static uint32_t read_bits(bit_reader *reader, unsigned count) {
    uint32_t value = 0;
    for (unsigned bit = 0; bit < count; bit++, reader->position++) {
        size_t byte = reader->position / 8;
        if (byte < reader->length) value |= (uint32_t)(reader->bytes[byte] >> reader->position % 8 & 1) << bit;
    }
    return value;
}

/// Returns whether the image is one frame of VarDCT in one pass and without alpha, which libjxl decodes group by group. Of a frame in
/// several passes it keeps all coefficients.
static int is_plain(const codec_jxl_reader *reader) {
    const JxlBasicInfo *info = &reader->info;
    if (info->have_animation || info->have_preview || info->num_extra_channels > 0 || reader->layers != 1 ||
        !reader->is_single || reader->first_frame >= reader->base.length)
        return 0;
    // In a container that divides the codestream, the header of another box may be here.
    if (memmem(reader->base.bytes, reader->first_frame, "jxlp", 4)) return 0;
    bit_reader bits = {reader->base.bytes + reader->first_frame, reader->base.length - reader->first_frame, 0};
    // The frame's header (ISO/IEC 18181-1, FrameHeader): all fields have their default values, or they follow.
    if (read_bits(&bits, 1)) return 1;
    // A frame that is shown, of VarDCT.
    if (read_bits(&bits, 2) != 0 || read_bits(&bits, 1) != 0) return 0;
    uint32_t flags = 0;
    switch (read_bits(&bits, 2)) {
    case 0: break;
    case 1: flags = 1 + read_bits(&bits, 4); break;
    case 2: flags = 17 + read_bits(&bits, 8); break;
    default: return 0;
    }
    // The low frequencies are in a frame of their own.
    if (flags & 0x20) return 0;
    if (info->uses_original_profile) {
        // YCbCr as in JPEG, with the sampling of its channels.
        if (read_bits(&bits, 1)) read_bits(&bits, 6);
    }
    if (read_bits(&bits, 2) != 0) return 0;
    // The scales of the quantization of X and B.
    if (!info->uses_original_profile) read_bits(&bits, 6);
    return read_bits(&bits, 2) == 0;
}

/// Reads the headers of all layers, and sums up their pixels for each frame: a frame that is shown has a duration or is the
/// last one, and the layers before it have none.
static codec_status measure_layers(codec_jxl_reader *reader) {
    uint64_t canvas = (uint64_t)reader->info.xsize * reader->info.ysize, pixels = 0;
    uint32_t index = 0;
    codec_status status = restart(reader, JXL_DEC_FRAME, JXL_FALSE);
    if (status != CODEC_OK) return status;
    for (;;) {
        JxlDecoderStatus event = JxlDecoderProcessInput(reader->decoder);
        if (event == JXL_DEC_SUCCESS || (event == JXL_DEC_NEED_MORE_INPUT && reader->base.accepts_damage)) break;
        if (event != JXL_DEC_FRAME) return failed(reader, event);
        JxlFrameHeader frame;
        if (JxlDecoderGetFrameHeader(reader->decoder, &frame) != JXL_DEC_SUCCESS) return CODEC_DAMAGED;
        if (++reader->layers > CODEC_MAXIMUM_FRAMES) return CODEC_TOO_LARGE;
        reader->is_single = reader->layers == 1 && frame.is_last;
        uint64_t layer = (uint64_t)frame.layer_info.xsize * frame.layer_info.ysize;
        if (layer > reader->largest_layer) reader->largest_layer = layer;
        // No sum of 65,535 terms of 32 bits each overflows; larger layers are refused.
        if (layer > UINT32_MAX) return CODEC_TOO_LARGE;
        uint64_t columns = ((uint64_t)frame.layer_info.xsize + 255) / 256;
        uint64_t groups = columns * (((uint64_t)frame.layer_info.ysize + 255) / 256);
        if (groups > reader->most_groups) reader->most_groups = groups;
        pixels += layer > canvas ? layer : canvas;
        if ((frame.duration > 0 || frame.is_last) && index < reader->count) reader->frames[index++].pixels = pixels;
    }
    while (index < reader->count) reader->frames[index++].pixels = pixels;
    return CODEC_OK;
}

codec_status codec_jxl_reader_read_header(codec_jxl_reader *reader, codec_header *header) {
    codec_status status = find_frames(reader);
    if (status == CODEC_OK && reader->count == 0) status = CODEC_EMPTY;
    if (status == CODEC_OK) status = find_first_frame(reader);
    if (status == CODEC_OK) status = measure_layers(reader);
    if (status != CODEC_OK) return status;
    const JxlBasicInfo *info = &reader->info;
    codec_base *base = &reader->base;
    base->orientation = (int)info->orientation;
    if (base->profile_length > 0) base->profile = reader->profile;
    header->width = info->xsize;
    header->height = info->ysize;
    if (info->have_animation) header->frames = reader->count;
    // Pixels that are not drawn are transparent.
    header->has_alpha = info->alpha_bits > 0 || base->accepts_damage;
    int is_gray = info->num_color_channels == 1 && codec_profile_is_gray(base->profile, base->profile_length);
    if (is_gray) header->space = CODEC_SPACE_GRAY;
    // Samples of 32 bits: those of a frame in up to two and a half copies, measured, and of four frames that later ones refer to.
    // Of a plain frame, up to 4 bytes a pixel were measured. Of one in several passes, libjxl keeps the coefficients of whole groups
    // of 256 × 256 pixels, with 4 bytes for each of three channels.
    uint64_t canvas = (uint64_t)info->xsize * info->ysize;
    uint64_t layer = reader->largest_layer > canvas ? reader->largest_layer : canvas;
    uint64_t channels = 3 + (uint64_t)info->num_extra_channels;
    uint64_t groups = 6 * layer + 12 * 65536 * reader->most_groups;
    uint64_t frame = 10 * channels * layer;
    if (is_plain(reader)) {
        frame = 6 * layer;
    } else if (frame < groups) {
        frame = groups;
    }
    header->held_bytes = frame + 4 * channels * (reader->count > 1 ? 4 * canvas : 0) + base->profile_length +
        reader->capacity * sizeof *reader->frames;
    return CODEC_OK;
}

int codec_jxl_reader_is_animation(const codec_jxl_reader *reader) { return reader->info.have_animation != 0; }

uint32_t codec_jxl_reader_loops(const codec_jxl_reader *reader) { return reader->info.animation.num_loops; }

uint32_t codec_jxl_reader_delay(const codec_jxl_reader *reader, uint32_t index) {
    return index < reader->count ? reader->frames[index].delay : 0;
}

uint64_t codec_jxl_reader_pixels(const codec_jxl_reader *reader, uint32_t index) {
    return index < reader->count ? reader->frames[index].pixels : 0;
}

// MARK: Pixels

codec_status codec_jxl_reader_select(codec_jxl_reader *reader, uint32_t first) {
    codec_status status = restart(reader, JXL_DEC_COLOR_ENCODING | JXL_DEC_FULL_IMAGE, JXL_TRUE);
    if (status == CODEC_OK && first > 0) JxlDecoderSkipFrames(reader->decoder, first);
    return status;
}

codec_status codec_jxl_reader_read_frame(codec_jxl_reader *reader, uint8_t *pixels) {
    size_t size = (size_t)reader->info.xsize * reader->info.ysize * 4, needed = 0;
    codec_status status = CODEC_OK;
    while (status == CODEC_OK) {
        JxlDecoderStatus event = JxlDecoderProcessInput(reader->decoder);
        switch (event) {
        case JXL_DEC_COLOR_ENCODING:
            if (reader->converts) status = convert(reader);
            break;
        case JXL_DEC_NEED_IMAGE_OUT_BUFFER:
            if (JxlDecoderImageOutBufferSize(reader->decoder, &pixel_format, &needed) != JXL_DEC_SUCCESS ||
                needed != size ||
                JxlDecoderSetImageOutBuffer(reader->decoder, &pixel_format, pixels, size) != JXL_DEC_SUCCESS)
                return CODEC_DAMAGED;
            break;
        case JXL_DEC_NEED_MORE_INPUT:
            // What there is: groups without data in an eighth of the resolution, if that is there. Frames of the type kSkipProgressive are
            // not drawn, without an error. Where it divides by alpha, libjxl then copies memory of its own that nothing has filled.
            if (!reader->base.accepts_damage || reader->info.alpha_premultiplied ||
                JxlDecoderFlushImage(reader->decoder) != JXL_DEC_SUCCESS)
                return failed(reader, event);
            // fall through
        case JXL_DEC_FULL_IMAGE: return CODEC_OK;
        case JXL_DEC_SUCCESS: return CODEC_DAMAGED;
        default: return failed(reader, event);
        }
    }
    return status;
}

const char *codec_jxl_version(void) {
    static char text[32];
    uint32_t version = JxlDecoderVersion();
    snprintf(text, sizeof text, "libjxl %u.%u.%u", version / 1000000, version / 1000 % 1000, version % 1000);
    return text;
}
