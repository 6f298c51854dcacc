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
    // Of more than a kilobyte, which some C libraries sort in other memory, for which they ask how much there is: the
    // encoder of WebP without loss sorts as much.
    unsigned char words[32][64];
    for (size_t i = 0; i < 32; i++) words[i][0] = (unsigned char)(i * 7);
    qsort(words, 32, sizeof words[0], compare);
}
