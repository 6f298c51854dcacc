#ifndef WITHOUT_JXL
#include <jxl/encode.h>
#include <stdlib.h>

#include "TestFamilies.h"

uint8_t *ctest_jxl_encode(
    const uint8_t *pixels, uint32_t width, uint32_t height, int count, uint32_t delay, int has_alpha, int quality, int turns,
    size_t *length) {
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
    if (status == JXL_ENC_SUCCESS) return output;
    free(output);
    return NULL;
}
#endif
