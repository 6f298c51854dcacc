#include "light.h"

#include <lcms2.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/// Colour primaries and their white point (ITU-T H.273, table 2).
typedef struct {
    int number;
    cmsCIExyY white;
    cmsCIExyYTRIPLE primaries;
} color_primaries;

#define D65 {0.3127, 0.3290, 1}
#define C {0.310, 0.316, 1}

static const color_primaries known_primaries[] = {
    {1, D65, {{0.640, 0.330, 1}, {0.300, 0.600, 1}, {0.150, 0.060, 1}}},
    {4, C, {{0.670, 0.330, 1}, {0.210, 0.710, 1}, {0.140, 0.080, 1}}},
    {5, D65, {{0.640, 0.330, 1}, {0.290, 0.600, 1}, {0.150, 0.060, 1}}},
    {6, D65, {{0.630, 0.340, 1}, {0.310, 0.595, 1}, {0.155, 0.070, 1}}},
    {7, D65, {{0.630, 0.340, 1}, {0.310, 0.595, 1}, {0.155, 0.070, 1}}},
    {8, C, {{0.681, 0.319, 1}, {0.243, 0.692, 1}, {0.145, 0.049, 1}}},
    {9, D65, {{0.708, 0.292, 1}, {0.170, 0.797, 1}, {0.131, 0.046, 1}}},
    {11, {0.314, 0.351, 1}, {{0.680, 0.320, 1}, {0.265, 0.690, 1}, {0.150, 0.060, 1}}},
    {12, D65, {{0.680, 0.320, 1}, {0.265, 0.690, 1}, {0.150, 0.060, 1}}},
    {22, D65, {{0.630, 0.340, 1}, {0.295, 0.605, 1}, {0.155, 0.077, 1}}},
};

/// Returns the primaries; sRGB's for unknown and unspecified numbers, and for those that three primaries cannot
/// describe.
static const color_primaries *find_primaries(int number) {
    size_t count = sizeof known_primaries / sizeof *known_primaries;
    for (size_t i = 0; i < count; i++) {
        if (known_primaries[i].number == number) return &known_primaries[i];
    }
    return &known_primaries[0];
}

/// Returns the light for a signal of the perceptual quantizer (SMPTE ST 2084); 1 is a document's white, 203 cd/m²
/// (ITU-R BT.2408).
static double light_of_pq(double signal) {
    double power = pow(signal, 1 / 78.84375);
    double above = power - 0.8359375;
    return pow((above > 0 ? above : 0) / (18.8515625 - 18.6875 * power), 1 / 0.1593017578125) * 10000 / 203;
}

/// Returns the scene light for a signal of hybrid log-gamma (ITU-R BT.2100); 1 is a document's white, at 75 % of the
/// signal.
static double light_of_hlg(double signal) {
    double light = signal <= 0.5 ? signal * signal / 3 : (exp((signal - 0.55991073) / 0.17883277) + 0.28466892) / 12;
    return light / 0.26496256;
}

/// Returns the transfer curve (ITU-T H.273, table 3). Camera curves count as sRGB's, because screens display them so.
static cmsToneCurve *create_curve(int transfer) {
    cmsFloat64Number srgb[5] = {2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045};
    switch (transfer) {
    case 4: return cmsBuildGamma(NULL, 2.2);
    case 5: return cmsBuildGamma(NULL, 2.8);
    case 8: return cmsBuildGamma(NULL, 1);
    case 17: return cmsBuildGamma(NULL, 2.6);
    default: return cmsBuildParametricToneCurve(NULL, 4, srgb);
    }
}

/// Creates a profile with the transfer of a number; 8 is that of light itself.
static cmsHPROFILE create_profile(const color_primaries *known, int transfer) {
    cmsToneCurve *curve = create_curve(transfer);
    cmsToneCurve *curves[3] = {curve, curve, curve};
    cmsHPROFILE profile = curve ? cmsCreateRGBProfile(&known->white, &known->primaries, curves) : NULL;
    if (curve) cmsFreeToneCurve(curve);
    return profile;
}

/// Saves the profile without its creation time and profile ID, so that equal colours have equal bytes.
static codec_status save(cmsHPROFILE profile, uint8_t **bytes, size_t *length) {
    cmsUInt32Number count = 0;
    if (!cmsSaveProfileToMem(profile, NULL, &count) || count < 128) return CODEC_NO_MEMORY;
    uint8_t *memory = malloc(count);
    if (!memory || !cmsSaveProfileToMem(profile, memory, &count)) {
        free(memory);
        return CODEC_NO_MEMORY;
    }
    memset(memory + 24, 0, 12);
    *bytes = memory;
    *length = count;
    return CODEC_OK;
}

// MARK: Light brighter than white

enum { SIGNALS = 1 << 14 };

struct codec_light {
    /// The light of each sample; 1 is white.
    float light[256];
    /// From the light of the file's primaries to that of sRGB's.
    float matrix[3][3];
    /// The samples of sRGB for light from 0 to white.
    uint8_t signals[SIGNALS];
};

/// Finds the light of sRGB's primaries for each of the file's. Returns whether there was memory.
static int fill_matrix(codec_light *light, const color_primaries *known) {
    cmsHPROFILE from = create_profile(known, 8), to = create_profile(&known_primaries[0], 8);
    cmsHTRANSFORM transform = NULL;
    if (from && to)
        transform = cmsCreateTransform(
            from, TYPE_RGB_FLT, to, TYPE_RGB_FLT, INTENT_RELATIVE_COLORIMETRIC, cmsFLAGS_NOOPTIMIZE | cmsFLAGS_NOCACHE);
    if (from) cmsCloseProfile(from);
    if (to) cmsCloseProfile(to);
    if (!transform) return 0;
    for (int primary = 0; primary < 3; primary++) {
        float one[3] = {0}, found[3];
        one[primary] = 1;
        cmsDoTransform(transform, one, found, 1);
        for (int channel = 0; channel < 3; channel++) light->matrix[channel][primary] = found[channel];
    }
    cmsDeleteTransform(transform);
    // White stays white, without the rounding of profiles.
    for (int channel = 0; channel < 3; channel++) {
        float *row = light->matrix[channel], sum = row[0] + row[1] + row[2];
        for (int primary = 0; primary < 3; primary++) row[primary] /= sum;
    }
    return 1;
}

codec_light *codec_light_create(int description) {
    codec_light *light = malloc(sizeof *light);
    if (!light) return NULL;
    int transfer = description & 0xff;
    for (int i = 0; i < 256; i++)
        light->light[i] = (float)(transfer == 16 ? light_of_pq(i / 255.0) : light_of_hlg(i / 255.0));
    for (int i = 0; i < SIGNALS; i++) {
        double value = i / (double)(SIGNALS - 1);
        double signal = value <= 0.0031308 ? 12.92 * value : 1.055 * pow(value, 1 / 2.4) - 0.055;
        light->signals[i] = (uint8_t)(signal * 255 + 0.5);
    }
    if (fill_matrix(light, find_primaries(description >> 8))) return light;
    free(light);
    return NULL;
}

void codec_light_convert(const codec_light *light, uint8_t *pixels, size_t count, int red) {
    for (size_t i = 0; i < count; i++, pixels += 4) {
        float values[3] = {light->light[pixels[red]], light->light[pixels[1]], light->light[pixels[2 - red]]}, colors[3];
        float most = 1;
        for (int channel = 0; channel < 3; channel++) {
            const float *row = light->matrix[channel];
            float value = row[0] * values[0] + row[1] * values[1] + row[2] * values[2];
            // Outside of sRGB's gamut.
            colors[channel] = value > 0 ? value : 0;
            if (value > most) most = value;
        }
        // A common factor keeps the ratio of the channels, and with it the hue.
        float factor = (SIGNALS - 1) / most;
        pixels[red] = light->signals[(int)(colors[0] * factor + 0.5f)];
        pixels[1] = light->signals[(int)(colors[1] * factor + 0.5f)];
        pixels[2 - red] = light->signals[(int)(colors[2] * factor + 0.5f)];
    }
}

// MARK: Profiles

codec_status codec_profile_for_cicp(int primaries, int transfer, uint8_t **profile, size_t *length, int *light) {
    *profile = NULL;
    *length = 0;
    const color_primaries *known = find_primaries(primaries);
    *light = transfer == 16 || transfer == 18 ? known->number << 8 | transfer : 0;
    if (*light) return CODEC_OK;
    int is_plain = transfer != 4 && transfer != 5 && transfer != 8 && transfer != 17;
    if (known->number == 1 && is_plain) return CODEC_OK;
    cmsHPROFILE made = create_profile(known, transfer);
    if (!made) return CODEC_NO_MEMORY;
    codec_status status = save(made, profile, length);
    cmsCloseProfile(made);
    return status;
}
