#include "RowFilter.h"
#include "pixels.h"
#include "processors.h"

#include <math.h>
#include <pthread.h>

/// Four pixels, in as many registers as the processor needs.
typedef float four_pixels __attribute__((vector_size(64), aligned(4)));

static inline pixel load(const float *place) { return *(const pixel *)place; }
static inline void store(float *place, pixel value) { *(pixel *)place = value; }
// Macros, because vectors larger than a register cannot be passed to functions on every processor.
#define load_four(place) (*(const four_pixels *)(place))
#define each_four_times(place)                                                                                         \
    __builtin_shufflevector(load(place), load(place), 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3)

FOR_EACH_PROCESSOR
void filter_load(const uint8_t *bytes, float *row, size_t pixels, int premultiply) {
    if (!premultiply) {
        for (size_t i = 0; i < pixels * 4; i++) row[i] = bytes[i];
        return;
    }
    for (size_t i = 0; i < pixels; i++) store(row + i * 4, multiplied(unpacked(bytes + i * 4)));
}

FOR_EACH_PROCESSOR
void filter_across(
    const float *row, float *result, size_t pixels, const uint32_t *starts, const uint32_t *counts,
    const float *weights, size_t stride) {
    for (size_t i = 0; i < pixels; i++, weights += stride) {
        const float *source = row + (size_t)starts[i] * 4;
        uint32_t count = counts[i], tap = 0;
        // Eight sums, so that an addition does not depend on the previous one. Up to four last taps may have weight
        // zero.
        four_pixels sums = {0}, others = {0};
        for (; tap + 4 < count; tap += 8, source += 32) {
            sums += load_four(source) * each_four_times(weights + tap);
            others += load_four(source + 16) * each_four_times(weights + tap + 4);
        }
        if (tap < count) sums += load_four(source) * each_four_times(weights + tap);
        sums += others;
        pixel a = __builtin_shufflevector(sums, sums, 0, 1, 2, 3);
        pixel b = __builtin_shufflevector(sums, sums, 4, 5, 6, 7);
        pixel c = __builtin_shufflevector(sums, sums, 8, 9, 10, 11);
        pixel d = __builtin_shufflevector(sums, sums, 12, 13, 14, 15);
        store(result + i * 4, (a + b) + (c + d));
    }
}

FOR_EACH_PROCESSOR
void filter_add(float *sum, const float *row, float weight, size_t pixels) {
    for (size_t i = 0; i < pixels * 4; i++) sum[i] += row[i] * weight;
}

static inline float clamped_number(float value, float most) { return value < 0 ? 0 : value > most ? most : value; }

FOR_EACH_PROCESSOR
void filter_store(const float *row, uint8_t *bytes, size_t pixels, filter_alpha alpha) {
    for (size_t i = 0; i < pixels; i++, row += 4, bytes += 4) {
        pixel value = load(row);
        float most = 255;
        if (alpha == FILTER_OPAQUE) {
            value[3] = 255;
        } else {
            // If alpha overshoots, colour does too and is scaled back with it. Premultiplied colour cannot exceed
            // alpha.
            float full = value[3] < 0.5f ? 0 : 255 / value[3];
            if (alpha == FILTER_STRAIGHT) {
                value *= (pixel){full, full, full, 1};
            } else {
                if (value[3] > 255) value *= all(full);
                most = clamped_number(value[3], 255);
            }
        }
        pack(clamped(value, all(most)), bytes);
    }
}

FOR_EACH_PROCESSOR
void filter_sum(const uint8_t *row, double *sums, const uint32_t *bounds, size_t cells, int has_alpha) {
    for (size_t cell = 0; cell < cells; cell++, sums += 4) {
        // A cell has far fewer than 2^24 / 255 columns, so the sums are exact.
        pixel sum = {0};
        for (uint32_t column = bounds[cell]; column < bounds[cell + 1]; column++) {
            pixel value = unpacked(row + (size_t)column * 4);
            if (has_alpha) value = multiplied(value);
            else value[3] = 255;
            sum += value;
        }
        for (int channel = 0; channel < 4; channel++) sums[channel] += sum[channel];
    }
}

/// Four numbers of a cell or of a coefficient.
typedef double cell __attribute__((vector_size(32), aligned(8)));

FOR_EACH_PROCESSOR
void filter_frequencies(
    const double *cells, size_t width, size_t height, const double *across, const double *down, double *coefficients) {
    for (size_t row = 0; row < height; row++, down += FILTER_FREQUENCIES) {
        cell sums[FILTER_FREQUENCIES] = {0};
        const double *factors = across;
        for (size_t column = 0; column < width; column++, cells += 4, factors += FILTER_FREQUENCIES) {
            cell value = *(const cell *)cells;
            for (int x = 0; x < FILTER_FREQUENCIES; x++) sums[x] += value * factors[x];
        }
        cell *result = (cell *)coefficients;
        for (int y = 0; y < FILTER_FREQUENCIES; y++) {
            for (int x = 0; x < FILTER_FREQUENCIES; x++) *result++ += sums[x] * down[y];
        }
    }
}

// sRGB's transfer curve as tables: the light for each byte, and the byte for each of 65,536 steps of light. A step is
// at most a twentieth of a byte, near black.
#define LIGHT_STEPS 65536
static float light_of_byte[256];
static uint8_t byte_of_light[LIGHT_STEPS];

static void make_light_tables(void) {
    for (int i = 0; i < 256; i++) {
        double value = i / 255.0;
        light_of_byte[i] = (float)(255 * (value <= 0.04045 ? value / 12.92 : pow((value + 0.055) / 1.055, 2.4)));
    }
    for (int i = 0; i < LIGHT_STEPS; i++) {
        double light = i / (LIGHT_STEPS - 1.0);
        double value = light <= 0.0031308 ? light * 12.92 : 1.055 * pow(light, 1 / 2.4) - 0.055;
        byte_of_light[i] = (uint8_t)(255 * value + 0.5);
    }
}

static void need_light_tables(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_light_tables);
}

void filter_load_light(const uint8_t *bytes, float *row, size_t pixels, int premultiply) {
    need_light_tables();
    for (size_t i = 0; i < pixels; i++, bytes += 4, row += 4) {
        float part = premultiply ? bytes[3] * (1.0f / 255) : 1;
        for (int channel = 0; channel < 3; channel++) row[channel] = light_of_byte[bytes[channel]] * part;
        row[3] = bytes[3];
    }
}

void filter_store_light(const float *row, uint8_t *bytes, size_t pixels, filter_alpha alpha) {
    need_light_tables();
    for (size_t i = 0; i < pixels; i++, row += 4, bytes += 4) {
        float opacity = alpha == FILTER_OPAQUE ? 255 : clamped_number(row[3], 255);
        // Divides light by the unclamped alpha, so that overshoots cancel, and clamps afterwards.
        float full = alpha == FILTER_OPAQUE ? 1 : row[3] < 0.5f ? 0 : 255 / row[3];
        for (int channel = 0; channel < 3; channel++) {
            float light = clamped_number(row[channel] * full, 255);
            float value = byte_of_light[(int)(light * ((LIGHT_STEPS - 1) / 255.0f) + 0.5f)];
            if (alpha == FILTER_PREMULTIPLIED) value = value * opacity * (1.0f / 255) + 0.5f;
            bytes[channel] = (uint8_t)value;
        }
        bytes[3] = (uint8_t)(opacity + 0.5f);
    }
}
