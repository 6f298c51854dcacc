#include "ColorConversion.h"

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

/// Returns a tabulated curve that clips light brighter than white.
static cmsToneCurve *tabulate(double (*light)(double)) {
    enum { COUNT = 1024 };
    cmsUInt16Number table[COUNT];
    for (int i = 0; i < COUNT; i++) {
        double value = light(i / (double)(COUNT - 1));
        table[i] = (cmsUInt16Number)(fmin(fmax(value, 0), 1) * 65535 + 0.5);
    }
    return cmsBuildTabulatedToneCurve16(NULL, COUNT, table);
}

/// Returns the transfer curve (ITU-T H.273, table 3). Camera curves count as sRGB's, because screens display them so.
static cmsToneCurve *create_curve(int transfer) {
    cmsFloat64Number srgb[5] = {2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045};
    switch (transfer) {
    case 4: return cmsBuildGamma(NULL, 2.2);
    case 5: return cmsBuildGamma(NULL, 2.8);
    case 8: return cmsBuildGamma(NULL, 1);
    case 16: return tabulate(light_of_pq);
    case 17: return cmsBuildGamma(NULL, 2.6);
    case 18: return tabulate(light_of_hlg);
    default: return cmsBuildParametricToneCurve(NULL, 4, srgb);
    }
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

codec_status codec_profile_for_cicp(int primaries, int transfer, uint8_t **profile, size_t *length) {
    *profile = NULL;
    *length = 0;
    const color_primaries *known = find_primaries(primaries);
    int is_plain = transfer != 4 && transfer != 5 && transfer != 8 && (transfer < 16 || transfer > 18);
    if (known->number == 1 && is_plain) return CODEC_OK;
    cmsToneCurve *curve = create_curve(transfer);
    if (!curve) return CODEC_NO_MEMORY;
    cmsToneCurve *curves[3] = {curve, curve, curve};
    cmsHPROFILE made = cmsCreateRGBProfile(&known->white, &known->primaries, curves);
    cmsFreeToneCurve(curve);
    if (!made) return CODEC_NO_MEMORY;
    codec_status status = save(made, profile, length);
    cmsCloseProfile(made);
    return status;
}
