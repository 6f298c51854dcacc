#ifndef WITHOUT_JXL
#include <jxl/decode.h>
#include <jxl/encode.h>
#include <stdlib.h>
#include <string.h>

#include "TestFamilies.h"

/// Reads what a file begins with; returns whether it could.
static int read_info(const uint8_t *bytes, size_t length, JxlBasicInfo *info) {
    JxlDecoder *decoder = JxlDecoderCreate(NULL);
    memset(info, 0, sizeof *info);
    JxlDecoderSubscribeEvents(decoder, JXL_DEC_BASIC_INFO);
    JxlDecoderSetInput(decoder, bytes, length);
    int is_read = JxlDecoderProcessInput(decoder) == JXL_DEC_BASIC_INFO && !JxlDecoderGetBasicInfo(decoder, info);
    JxlDecoderDestroy(decoder);
    return is_read;
}

/// libjxl 0.7 cannot write files whose colour is multiplied by alpha: one bit of the description of the channel says that.
static int state_premultiplied(uint8_t *bytes, size_t length) {
    JxlBasicInfo plain, info;
    if (!read_info(bytes, length, &plain)) return 0;
    plain.alpha_premultiplied = 1;
    for (size_t bit = 0; bit < 512; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (read_info(bytes, length, &info) && memcmp(&plain, &info, sizeof info) == 0) return 1;
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    return 0;
}

uint8_t *ctest_jxl_encode(
    const uint8_t *pixels, uint32_t width, uint32_t height, int count, uint32_t delay, int has_alpha, int is_premultiplied,
    int quality, int turns, size_t *length) {
    JxlEncoder *encoder = JxlEncoderCreate(NULL);
    JxlBasicInfo info;
    JxlEncoderInitBasicInfo(&info);
    info.xsize = width;
    info.ysize = height;
    info.bits_per_sample = 8;
    info.alpha_bits = has_alpha ? 8 : 0;
    info.num_extra_channels = has_alpha ? 1 : 0;
    info.uses_original_profile = quality == 100;
    info.orientation = (JxlOrientation)turns;
    info.have_animation = count > 1;
    info.animation = (JxlAnimationHeader){.tps_numerator = 1000, .tps_denominator = 1, .num_loops = 3};
    JxlColorEncoding color;
    JxlColorEncodingSetToSRGB(&color, JXL_FALSE);
    JxlPixelFormat format = {has_alpha ? 4 : 3, JXL_TYPE_UINT8, JXL_NATIVE_ENDIAN, 0};
    size_t channels = has_alpha ? 4 : 3, area = (size_t)width * height, capacity = 0;
    uint8_t *samples = malloc(area * channels), *output = NULL;
    *length = 0;
    int fails = JxlEncoderSetBasicInfo(encoder, &info) || JxlEncoderSetColorEncoding(encoder, &color);
    // With a name, the channel is described in full.
    if (is_premultiplied) fails |= JxlEncoderSetExtraChannelName(encoder, 0, "a", 1) != JXL_ENC_SUCCESS;
    for (int frame = 0; frame < count && !fails; frame++) {
        for (size_t i = 0; i < area * channels; i++) samples[i] = pixels[(frame * area + i / channels) * 4 + i % channels];
        JxlEncoderFrameSettings *settings = JxlEncoderFrameSettingsCreate(encoder, NULL);
        if (quality == 100) {
            JxlEncoderSetFrameLossless(settings, JXL_TRUE);
        } else {
            JxlEncoderSetFrameDistance(settings, 1);
        }
        JxlEncoderFrameSettingsSetOption(settings, JXL_ENC_FRAME_SETTING_EFFORT, 3);
        JxlFrameHeader header;
        JxlEncoderInitFrameHeader(&header);
        header.duration = count > 1 ? delay : 0;
        JxlEncoderSetFrameHeader(settings, &header);
        fails = JxlEncoderAddImageFrame(settings, &format, samples, area * channels) != JXL_ENC_SUCCESS;
    }
    JxlEncoderCloseInput(encoder);
    JxlEncoderStatus status = JXL_ENC_NEED_MORE_OUTPUT;
    while (!fails && status == JXL_ENC_NEED_MORE_OUTPUT) {
        capacity += 1 << 16;
        output = realloc(output, capacity);
        uint8_t *next = output + *length;
        size_t room = capacity - *length;
        status = JxlEncoderProcessOutput(encoder, &next, &room);
        *length = (size_t)(next - output);
    }
    JxlEncoderDestroy(encoder);
    free(samples);
    if (status == JXL_ENC_SUCCESS && (!is_premultiplied || state_premultiplied(output, *length))) return output;
    free(output);
    return NULL;
}
#endif
