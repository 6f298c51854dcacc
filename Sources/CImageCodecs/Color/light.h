// Colours whose light may be brighter than a document's white (PQ, HLG).
#ifndef LIGHT_H
#define LIGHT_H

#include "ColorConversion.h"

typedef struct codec_light codec_light;

/// Returns whether the bytes are a description of such colours, which codec_profile_for_cicp makes in place of a profile.
int codec_light_is_described(const uint8_t *bytes, size_t length);
/// Creates the conversion for a description; NULL without memory.
codec_light *codec_light_create(const uint8_t *description);
/// Converts `count` pixels of four bytes to sRGB in place; red is at `red`. Colours brighter than white are reduced to the brightest that sRGB has
/// with the same ratio of red, green and blue light.
void codec_light_convert(const codec_light *light, uint8_t *pixels, size_t count, int red);

#endif
