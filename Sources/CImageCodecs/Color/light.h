// Colours whose light may be brighter than a document's white (PQ, HLG).
#ifndef LIGHT_H
#define LIGHT_H

#include "ColorConversion.h"

typedef struct codec_light codec_light;

/// Creates the conversion for `light` of codec_base; NULL without memory.
codec_light *codec_light_create(int description);
/// Converts `count` pixels of four bytes to sRGB in place; red is at `red`. Colours brighter than white are reduced to the brightest that sRGB has
/// with the same ratio of red, green and blue light.
void codec_light_convert(const codec_light *light, uint8_t *pixels, size_t count, int red);

#endif
