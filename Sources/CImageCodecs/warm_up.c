#define _GNU_SOURCE
#include "CImageCodecs.h"

#include <lcms2.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void *left, const void *right) {
    return *(const unsigned char *)left - *(const unsigned char *)right;
}

void codec_warm_up(void) {
    // Creating a profile reads the time zone, for its creation time.
    cmsHPROFILE profile = cmsCreate_sRGBProfile();
    if (profile) cmsCloseProfile(profile);
    // Some C libraries sort more than 1 KiB in allocated memory, and first query the size of physical memory. libwebp's
    // encoder sorts that much for alpha and lossless files. Elements above 32 bytes would be sorted indirectly.
    unsigned char words[64][32];
    for (size_t i = 0; i < 64; i++) words[i][0] = (unsigned char)(i * 7);
    qsort(words, 64, sizeof words[0], compare);
}

void codec_silence(void) {
    static const cookie_io_functions_t nothing = {0};
    FILE *silence = fopencookie(NULL, "w", nothing);
    if (silence) stderr = silence;
}
