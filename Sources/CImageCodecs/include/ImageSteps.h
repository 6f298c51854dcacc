// The inner loops of the steps that follow scaling: arithmetic on four-byte pixels with straight alpha, alpha last. In C for
// its vector types, and because each function is compiled for several processor generations.
#ifndef IMAGESTEPS_H
#define IMAGESTEPS_H

#include <stddef.h>
#include <stdint.h>

/// A function of a pixel's four channels, 0 … 255 each. Its result is clamped to that range.
typedef struct {
    /// The factors of the four channels, and the constant: five groups of one float for each resulting channel.
    float columns[20];
    /// Whether the constant is a colour under the pixel instead, which becomes opaque.
    int is_background;
} steps_function;

/// Applies functions one after the other to `pixels` pixels, and rounds once.
void steps_apply(uint8_t *bytes, size_t pixels, const steps_function *functions, size_t count);

/// Returns the number of floats that blurring an image of this size needs as scratch memory.
size_t steps_blur_scratch(size_t width, size_t height);
/// Blurs an image without padding between its rows, with multiplied colour, by a Gaussian of standard deviation `sigma`,
/// 0.1 … 250. Pixels at the edges are repeated outside.
void steps_blur(uint8_t *bytes, size_t width, size_t height, double sigma, float *scratch);

/// Adds to each pixel `amount` times its difference from the blurred one, both with multiplied colour. Alpha stays.
void steps_sharpen(uint8_t *bytes, const uint8_t *blurred, size_t pixels, float amount);

/// Blends pixels over an opaque or transparent colour, four bytes.
void steps_blend_over(uint8_t *bytes, size_t pixels, const uint8_t *color);

/// Multiplies the alpha of `pixels` pixels by coverages, 0 … 1 each.
void steps_cover(uint8_t *bytes, const float *coverages, size_t pixels);

#endif
