#include "planes.h"

/// The share of red and blue in luma, by the number of the matrix; 0 for matrices that are computed otherwise.
typedef struct {
    int number;
    float red, blue;
} luma_weights;

static const luma_weights weights[] = {
    {1, 0.2126f, 0.0722f}, {2, 0.299f, 0.114f}, {4, 0.30f, 0.11f},       {5, 0.299f, 0.114f},
    {6, 0.299f, 0.114f},   {7, 0.212f, 0.087f}, {9, 0.2627f, 0.0593f},
};

enum { IDENTITY = 0, YCGCO = 8, WEIGHTS = sizeof weights / sizeof *weights };

static const luma_weights *find_weights(int matrix) {
    for (int i = 0; i < WEIGHTS; i++) {
        if (weights[i].number == matrix) return &weights[i];
    }
    return NULL;
}

int codec_planes_knows(int matrix) { return matrix == IDENTITY || matrix == YCGCO || find_weights(matrix); }

static inline float sample(const codec_plane *plane, uint32_t column, uint32_t row) {
    const uint8_t *line = plane->samples + row * plane->stride;
    if (plane->depth <= 8) return line[column];
    uint16_t value;
    __builtin_memcpy(&value, line + (size_t)column * 2, sizeof value);
    return value;
}

/// Interpolates a row of chroma for all columns of the image.
static void upsample(const codec_planes *planes, const codec_plane *plane, uint32_t row, float *values) {
    uint32_t width = planes->width;
    int is_narrow = plane->width < width, is_low = plane->height < planes->height;
    uint32_t near = is_low ? row / 2 : row, far = near;
    if (is_low && row % 2 == 0 && near > 0) far = near - 1;
    if (is_low && row % 2 == 1 && near + 1 < plane->height) far = near + 1;
    if (!is_narrow) {
        for (uint32_t x = 0; x < width; x++) {
            values[x] = is_low ? 0.75f * sample(plane, x, near) + 0.25f * sample(plane, x, far) : sample(plane, x, near);
        }
        return;
    }
    float here = 0.75f * sample(plane, 0, near) + 0.25f * sample(plane, 0, far), before = here;
    for (uint32_t x = 0; 2 * x < width; x++) {
        uint32_t next = x + 1 < plane->width ? x + 1 : x;
        float after = 0.75f * sample(plane, next, near) + 0.25f * sample(plane, next, far);
        values[2 * x] = 0.75f * here + 0.25f * before;
        if (2 * x + 1 < width) values[2 * x + 1] = 0.75f * here + 0.25f * after;
        before = here;
        here = after;
    }
}

static inline uint8_t rounded(float value) {
    return value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)(value + 0.5f);
}

void codec_planes_convert(const codec_planes *planes, uint32_t row, uint8_t *pixels, int red) {
    const codec_plane *luma = &planes->colors[0];
    float most = (float)((1 << luma->depth) - 1), step = (float)(1 << luma->depth) / 256;
    float black = planes->is_full_range ? 0 : 16 * step;
    float scale = 255 / (planes->is_full_range ? most : 219 * step);
    const luma_weights *shares = find_weights(planes->matrix);
    float kr = shares ? shares->red : 0, kb = shares ? shares->blue : 0;
    int is_identity = planes->matrix == IDENTITY;
    float *first = planes->chroma, *second = planes->chroma ? planes->chroma + planes->width : planes->chroma;
    if (planes->count == 3) {
        upsample(planes, &planes->colors[1], row, first);
        upsample(planes, &planes->colors[2], row, second);
    }
    // Chroma has as many bits as luma; zero is in the middle.
    float zero = 128 * step, gain = 255 / (planes->is_full_range ? most : 224 * step);
    for (uint32_t x = 0; x < planes->width; x++) {
        uint8_t *pixel = pixels + (size_t)x * 4;
        float y = (sample(luma, x, row) - black) * scale;
        float r = y, g = y, b = y;
        if (planes->count == 3 && is_identity) {
            b = (first[x] - black) * scale;
            r = (second[x] - black) * scale;
        } else if (planes->count == 3) {
            float cb = (first[x] - zero) * gain, cr = (second[x] - zero) * gain;
            if (planes->matrix == YCGCO) {
                r = y - cb + cr;
                g = y + cb;
                b = y - cb - cr;
            } else {
                r = y + 2 * (1 - kr) * cr;
                b = y + 2 * (1 - kb) * cb;
                g = (y - kr * r - kb * b) / (1 - kr - kb);
            }
        }
        float opacity = 255;
        if (planes->alpha.samples) {
            opacity = sample(&planes->alpha, x, row) * 255 / (float)((1 << planes->alpha.depth) - 1);
            if (planes->is_premultiplied) {
                float share = opacity > 0 ? 255 / opacity : 0;
                r *= share;
                g *= share;
                b *= share;
            }
        }
        pixel[red] = rounded(r);
        pixel[1] = rounded(g);
        pixel[2 - red] = rounded(b);
        pixel[3] = rounded(opacity);
    }
}
