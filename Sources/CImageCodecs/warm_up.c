#include "CImageCodecs.h"

#include <lcms2.h>
#include <stdlib.h>

static int compare(const void *left, const void *right) {
    return *(const unsigned char *)left - *(const unsigned char *)right;
}

void codec_warm_up(void) {
    // A profile is made at some time of day, for which the time zone is read.
    cmsHPROFILE profile = cmsCreate_sRGBProfile();
    if (profile) cmsCloseProfile(profile);
    // More than a kilobyte some C libraries sort in other memory, for which they ask how much there is: the encoder of
    // WebP sorts as much for alpha and without loss. Words of more than 32 bytes would be sorted by their addresses.
    unsigned char words[64][32];
    for (size_t i = 0; i < 64; i++) words[i][0] = (unsigned char)(i * 7);
    qsort(words, 64, sizeof words[0], compare);
}
