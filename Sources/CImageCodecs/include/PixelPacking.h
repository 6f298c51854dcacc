// The conversion of pixels of red, green, blue and straight alpha to formats without alpha, in place. In C because it is compiled
// for several processor generations.
#ifndef PIXELPACKING_H
#define PIXELPACKING_H

#include <stddef.h>
#include <stdint.h>

/// Composites `pixels` pixels over an opaque colour, rounds to the nearest value, and keeps three bytes of each.
void pixels_pack_rgb(uint8_t *bytes, size_t pixels, uint8_t red, uint8_t green, uint8_t blue);
/// Composites likewise, and keeps the luma (ITU-R BT.601: 0.299, 0.587, 0.114) of the rounded channels, rounded to the nearest
/// value, halves upwards.
void pixels_pack_gray(uint8_t *bytes, size_t pixels, uint8_t red, uint8_t green, uint8_t blue);

#endif
