#include "CImageCodecs.h"
#include "light.h"

#include <lcms2.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

struct codec_color {
    codec_base base;
    codec_space space;
    codec_order order;
    /// NULL for CMYK without a profile, and for gray.
    cmsHTRANSFORM transform;
    /// For light brighter than white, in place of a transform; else NULL.
    codec_light *light;
    /// Gray only: the colour of each value, in the pixel's byte order.
    uint8_t shades[256][3];
};

/// The steps per channel at which a profile is compared with sRGB, and the largest difference to count as equal, which
/// rounding causes and the eye does not see.
#define PROBES 9
#define SAME 1

static int is_same(const uint8_t *left, const uint8_t *right, size_t count) {
    for (size_t i = 0; i < count; i++) {
        int difference = left[i] - right[i];
        if (difference > SAME || difference < -SAME) return 0;
    }
    return 1;
}

static int is_identity(cmsHTRANSFORM transform) {
    uint8_t row[PROBES * 4], converted[sizeof row];
    for (int red = 0; red < PROBES; red++) {
        for (int green = 0; green < PROBES; green++) {
            for (int blue = 0; blue < PROBES; blue++) {
                uint8_t *pixel = row + blue * 4;
                pixel[0] = (uint8_t)(red * 255 / (PROBES - 1));
                pixel[1] = (uint8_t)(green * 255 / (PROBES - 1));
                pixel[2] = (uint8_t)(blue * 255 / (PROBES - 1));
                pixel[3] = 255;
            }
            memcpy(converted, row, sizeof row);
            cmsDoTransform(transform, row, converted, PROBES);
            if (!is_same(row, converted, sizeof row)) return 0;
        }
    }
    return 1;
}

/// Creates the transform from `profile` to sRGB with the perceptual intent, as viewers do; NULL if the profile cannot
/// be used for `space`.
static cmsHTRANSFORM create_transform(cmsHPROFILE profile, codec_space space, codec_order order) {
    cmsUInt32Number color = order == CODEC_BGRA ? TYPE_BGRA_8 : TYPE_RGBA_8;
    cmsColorSpaceSignature expected = cmsSigRgbData;
    cmsUInt32Number input = color, output = color, flags = space == CODEC_SPACE_RGB ? cmsFLAGS_COPY_ALPHA : 0;
    if (space == CODEC_SPACE_GRAY) {
        expected = cmsSigGrayData;
        input = TYPE_GRAY_8;
        output = order == CODEC_BGRA ? TYPE_BGR_8 : TYPE_RGB_8;
    } else if (space == CODEC_SPACE_CMYK) {
        expected = cmsSigCmykData;
        input = TYPE_CMYK_8_REV;
    }
    if (cmsGetColorSpace(profile) != expected) return NULL;
    cmsHPROFILE srgb = cmsCreate_sRGBProfile();
    if (!srgb) return NULL;
    cmsHTRANSFORM transform = cmsCreateTransform(profile, input, srgb, output, INTENT_PERCEPTUAL, flags);
    cmsCloseProfile(srgb);
    return transform;
}

/// Fills the table that converts the 256 values of gray. Returns whether it leaves them unchanged.
static int fill_shades(codec_color *color) {
    uint8_t values[256], same[256][3];
    for (int i = 0; i < 256; i++) {
        values[i] = (uint8_t)i;
        memset(same[i], i, 3);
    }
    cmsDoTransform(color->transform, values, color->shades, 256);
    cmsDeleteTransform(color->transform);
    color->transform = NULL;
    return is_same(color->shades[0], same[0], sizeof same);
}

static void release(void *object) {
    codec_color *color = object;
    if (color->transform) cmsDeleteTransform(color->transform);
    free(color->light);
}

codec_status codec_color_create(
    const uint8_t *bytes, size_t length, int light, codec_space space, codec_order order, codec_color **result) {
    *result = NULL;
    int is_light = !bytes && light && space == CODEC_SPACE_RGB;
    if (!bytes && !is_light && space != CODEC_SPACE_CMYK) return CODEC_OK;
    codec_color *color = codec_allocate(sizeof *color, release, NULL, 0);
    if (!color) return CODEC_NO_MEMORY;
    color->space = space;
    color->order = order;
    codec_status status = CODEC_OK;
    int same = 0;
    if (is_light) {
        color->light = codec_light_create(light);
        if (!color->light) status = CODEC_NO_MEMORY;
    } else if (bytes) {
        cmsHPROFILE profile = length <= UINT32_MAX ? cmsOpenProfileFromMem(bytes, (cmsUInt32Number)length) : NULL;
        if (profile) {
            color->transform = create_transform(profile, space, order);
            cmsCloseProfile(profile);
        }
        if (!color->transform) status = CODEC_DAMAGED;
        else if (space == CODEC_SPACE_GRAY) same = fill_shades(color);
        else if (space == CODEC_SPACE_RGB) same = is_identity(color->transform);
    }
    if (status == CODEC_OK && !same) *result = color;
    else codec_destroy(color);
    return status;
}

static void convert_ink(uint8_t *pixels, size_t count, int red) {
    for (size_t i = 0; i < count; i++, pixels += 4) {
        unsigned c = pixels[0], m = pixels[1], y = pixels[2], k = pixels[3];
        pixels[red] = (uint8_t)((c * k + 127) / 255);
        pixels[1] = (uint8_t)((m * k + 127) / 255);
        pixels[2 - red] = (uint8_t)((y * k + 127) / 255);
        pixels[3] = 0xff;
    }
}

void codec_color_convert(const codec_color *color, uint8_t *pixels, size_t count) {
    switch (color->space) {
    case CODEC_SPACE_GRAY:
        for (size_t i = 0; i < count; i++) memcpy(pixels + 4 * i, color->shades[pixels[4 * i]], 3);
        break;
    case CODEC_SPACE_CMYK:
        if (!color->transform) {
            convert_ink(pixels, count, color->order == CODEC_BGRA ? 2 : 0);
            break;
        }
        cmsDoTransform(color->transform, pixels, pixels, (cmsUInt32Number)count);
        for (size_t i = 0; i < count; i++) pixels[4 * i + 3] = 0xff;
        break;
    default:
        if (color->light) codec_light_convert(color->light, pixels, count, color->order == CODEC_BGRA ? 2 : 0);
        else cmsDoTransform(color->transform, pixels, pixels, (cmsUInt32Number)count);
    }
}

int codec_profile_is_gray(const uint8_t *profile, size_t length) {
    return length >= 20 && memcmp(profile + 16, "GRAY", 4) == 0;
}

// A codec_lab is a transform of Little CMS.
codec_lab *codec_lab_create(codec_order order) {
    cmsHPROFILE values = cmsCreateLab4Profile(NULL), srgb = cmsCreate_sRGBProfile();
    cmsHTRANSFORM transform = NULL;
    // Without a table between, which would blur the edge of sRGB's colours.
    if (values && srgb)
        transform = cmsCreateTransform(
            values, TYPE_LabV2_16, srgb, order == CODEC_BGRA ? TYPE_BGRA_8 : TYPE_RGBA_8, INTENT_RELATIVE_COLORIMETRIC,
            cmsFLAGS_NOOPTIMIZE);
    if (values) cmsCloseProfile(values);
    if (srgb) cmsCloseProfile(srgb);
    return transform;
}

void codec_lab_convert(const codec_lab *lab, const uint16_t *colors, uint8_t *pixels, size_t count) {
    cmsDoTransform((cmsHTRANSFORM)(uintptr_t)lab, colors, pixels, (cmsUInt32Number)count);
}

void codec_lab_destroy(codec_lab *lab) {
    if (lab) cmsDeleteTransform(lab);
}

codec_status codec_inflate(
    const uint8_t *bytes, size_t length, int is_gzip, size_t most, uint8_t **output, size_t *output_length) {
    *output = NULL;
    *output_length = 0;
    if (length > UINT32_MAX || most > UINT32_MAX) return CODEC_TOO_LARGE;
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)length};
    // 16 demands the header of gzip.
    if (inflateInit2(&stream, MAX_WBITS + (is_gzip ? 16 : 0)) != Z_OK) return CODEC_NO_MEMORY;
    uint8_t *memory = NULL;
    size_t capacity = 0;
    codec_status status = CODEC_OK;
    int result = Z_OK;
    while (result != Z_STREAM_END && status == CODEC_OK) {
        if (stream.total_out == capacity) {
            // Grows with the output, so that a small stream needs little memory.
            size_t wanted = capacity ? capacity * 2 : 4096;
            if (wanted > most) wanted = most;
            uint8_t *larger = wanted > capacity ? realloc(memory, wanted) : NULL;
            if (!larger) {
                status = wanted > capacity ? CODEC_NO_MEMORY : CODEC_TOO_LARGE;
                break;
            }
            memory = larger;
            capacity = wanted;
        }
        stream.next_out = memory + stream.total_out;
        stream.avail_out = (uInt)(capacity - stream.total_out);
        result = inflate(&stream, Z_NO_FLUSH);
        if (result == Z_STREAM_END || result == Z_OK) continue;
        status = result == Z_MEM_ERROR ? CODEC_NO_MEMORY : result == Z_BUF_ERROR ? CODEC_TRUNCATED : CODEC_DAMAGED;
    }
    inflateEnd(&stream);
    if (status != CODEC_OK) {
        free(memory);
        return status;
    }
    uint8_t *exact = stream.total_out > 0 ? realloc(memory, stream.total_out) : NULL;
    *output = exact ? exact : memory;
    *output_length = stream.total_out;
    return CODEC_OK;
}
