#define _GNU_SOURCE
#include "CReference.h"

#include <setjmp.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <avif/avif.h>
#include <gif_lib.h>
#include <jpeglib.h>
#include <png.h>
#include <webp/decode.h>
#include <webp/encode.h>

static long nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

// MARK: Images

static uint32_t hash(uint32_t x, uint32_t y) {
    uint32_t value = x * 0x9E3779B1u ^ y * 0x85EBCA77u;
    value = (value ^ value >> 15) * 0x2C1B3C6Du;
    return value ^ value >> 13;
}

/// A wave from 0 to 255 and back with a period of 2^`bits` pixels: a gradient with an edge in its slope.
static int wave(uint32_t position, int bits) {
    uint32_t phase = position & ((1u << bits) - 1), half = 1u << (bits - 1);
    return (int)((phase < half ? phase : (1u << bits) - 1 - phase) * 255 / (half - 1));
}

static uint8_t clamped(int value) { return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value); }

/// Row `y`: three bytes a pixel.
static void paint(uint8_t *row, uint32_t width, uint32_t y, int noise) {
    for (uint32_t x = 0; x < width; x++, row += 3) {
        // Blocks of 512 pixels of which some are smooth as a sky is, with a slanting edge across each.
        uint32_t block = hash(x >> 9, y >> 9);
        int smooth = block & 1;
        int light = (wave(x + y / 3, 10) + wave(y, 9)) / 2;
        if ((x & 511) + (y & 511) / 2 > (block >> 8 & 511)) light = 255 - light / 2;
        int grain = smooth ? 0 : (int)(hash(x, y) & 15) * noise / 16;
        row[0] = clamped(light + grain);
        row[1] = clamped(light * 3 / 4 + (int)(block >> 17 & 63) + grain);
        row[2] = clamped(255 - light + grain / 2);
    }
}

/// A smooth random field from -1 to 1 with a new value every `cell` pixels.
static float field(float x, float y, float cell, uint32_t seed) {
    float column = x / cell, line = y / cell;
    uint32_t left = (uint32_t)column, top = (uint32_t)line;
    float across = column - (float)left, down = line - (float)top, corners[4];
    for (uint32_t i = 0; i < 4; i++) {
        corners[i] = (float)(hash(left + (i & 1), top + (i >> 1) + seed * 4099) & 0xffff) / 32767.5f - 1;
    }
    across *= across * (3 - 2 * across);
    down *= down * (3 - 2 * down);
    float upper = corners[0] + (corners[1] - corners[0]) * across;
    float lower = corners[2] + (corners[3] - corners[2]) * across;
    return upper + (lower - upper) * down;
}

/// Row `y` of a square image of a head before a background: large and small shapes, an outline, grain.
static void paint_portrait(uint8_t *row, uint32_t side, uint32_t y, uint32_t number) {
    uint32_t seed = number * 8;
    for (uint32_t x = 0; x < side; x++, row += 3) {
        float across = (float)x * 160 / (float)side, down = (float)y * 160 / (float)side;
        float light = 50 * field(across, down, 60, seed) + 30 * field(across, down, 20, seed + 1)
            + 18 * field(across, down, 7, seed + 2);
        float warmth = 45 * field(across, down, 70, seed + 3), blue = 40 * field(across, down, 45, seed + 4);
        float left = across - 80 - 10 * field(down, down, 30, seed + 5), below = (down - 85) * 0.8f;
        if (left * left + below * below < 45 * 45) {
            light += 150;
            warmth = 25 + warmth * 0.3f;
        } else {
            light = light * 1.2f + 100 + 40 * field(across, down, 150, seed + 6);
        }
        light += ((float)(hash(x + seed, y) & 15) - 7.5f) * 1.6f;
        row[0] = clamped((int)(light + warmth));
        row[1] = clamped((int)(light - warmth * 0.3f - blue * 0.2f));
        row[2] = clamped((int)(light - warmth * 0.6f + blue));
    }
}

static void paint_photograph(uint8_t *row, uint32_t width, uint32_t y, uint32_t number) {
    paint(row, width, number * 512 + y, 40);
}

/// Writes rows that `paint_row` makes of the width, the row's position and `number`.
static int write_jpeg(
    FILE *file, int progressive, uint32_t width, uint32_t height,
    void (*paint_row)(uint8_t *, uint32_t, uint32_t, uint32_t), uint32_t number) {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = width;
    jpeg.image_height = height;
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 85, TRUE);
    if (progressive) jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    uint8_t *row = malloc((size_t)width * 3);
    for (uint32_t y = 0; row && y < height; y++) {
        paint_row(row, width, y, number);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    free(row);
    return row ? 0 : -1;
}

static int write_png(FILE *file, uint32_t width, uint32_t height) {
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    uint8_t *row = malloc((size_t)width * 3);
    if (!info || !row || setjmp(png_jmpbuf(png))) return -1;
    png_init_io(png, file);
    png_set_IHDR(png, info, width, height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, 0, 0);
    png_set_compression_level(png, 3);
    png_write_info(png, info);
    for (uint32_t y = 0; y < height; y++) {
        paint(row, width, y, 3);
        png_write_row(png, row);
    }
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(row);
    return 0;
}

static int write_webp(FILE *file, uint32_t width, uint32_t height) {
    uint8_t *pixels = malloc((size_t)width * height * 3), *encoded = NULL;
    if (!pixels) return -1;
    for (uint32_t y = 0; y < height; y++) paint(pixels + (size_t)y * width * 3, width, y, 40);
    size_t length = WebPEncodeRGB(pixels, (int)width, (int)height, (int)width * 3, 80, &encoded);
    free(pixels);
    int written = length > 0 && fwrite(encoded, 1, length, file) == length;
    WebPFree(encoded);
    return written ? 0 : -1;
}

static int write_avif(FILE *file, int deep, uint32_t width, uint32_t height) {
    avifImage *image = avifImageCreate(
        width, height, deep ? 10 : 8, deep ? AVIF_PIXEL_FORMAT_YUV444 : AVIF_PIXEL_FORMAT_YUV420);
    image->matrixCoefficients = AVIF_MATRIX_COEFFICIENTS_BT601;
    avifRGBImage rgb;
    avifRGBImageSetDefaults(&rgb, image);
    rgb.depth = 8;
    rgb.format = AVIF_RGB_FORMAT_RGB;
    avifRGBImageAllocatePixels(&rgb);
    for (uint32_t y = 0; y < height; y++) paint(rgb.pixels + (size_t)y * rgb.rowBytes, width, y, 40);
    avifResult result = avifImageRGBToYUV(image, &rgb);
    avifRGBImageFreePixels(&rgb);
    avifEncoder *encoder = avifEncoderCreate();
    encoder->codecChoice = AVIF_CODEC_CHOICE_AOM;
    encoder->speed = 10;
    encoder->maxThreads = 2;
    encoder->minQuantizer = encoder->maxQuantizer = 24;
    avifRWData output = AVIF_DATA_EMPTY;
    if (result == AVIF_RESULT_OK) result = avifEncoderWrite(encoder, image, &output);
    int written = result == AVIF_RESULT_OK && fwrite(output.data, 1, output.size, file) == output.size;
    avifRWDataFree(&output);
    avifEncoderDestroy(encoder);
    avifImageDestroy(image);
    return written ? 0 : -1;
}

/// In the 216 colours of six steps each.
static int write_gif(FILE *file, uint32_t width, uint32_t height) {
    GifColorType colors[256] = {0};
    for (int i = 0; i < 216; i++) {
        colors[i] = (GifColorType){(GifByteType)(i / 36 * 51), (GifByteType)(i / 6 % 6 * 51), (GifByteType)(i % 6 * 51)};
    }
    int error = 0;
    GifFileType *gif = EGifOpenFileHandle(dup(fileno(file)), &error);
    ColorMapObject *map = GifMakeMapObject(256, colors);
    uint8_t *row = malloc((size_t)width * 4);
    int result = gif && map && row && EGifPutScreenDesc(gif, (int)width, (int)height, 8, 0, map) == GIF_OK
            && EGifPutImageDesc(gif, 0, 0, (int)width, (int)height, 0, NULL) == GIF_OK
        ? 0
        : -1;
    for (uint32_t y = 0; y < height && result == 0; y++) {
        paint(row, width, y, 16);
        for (uint32_t x = 0; x < width; x++) {
            row[x] = (uint8_t)((row[3 * x] + 25) / 51 * 36 + (row[3 * x + 1] + 25) / 51 * 6 + (row[3 * x + 2] + 25) / 51);
        }
        if (EGifPutLine(gif, row, (int)width) != GIF_OK) result = -1;
    }
    free(row);
    GifFreeMapObject(map);
    if (gif && EGifCloseFile(gif, &error) != GIF_OK) result = -1;
    return result;
}

static int write_jpeg_file(
    const char *path, uint32_t width, uint32_t height,
    void (*paint_row)(uint8_t *, uint32_t, uint32_t, uint32_t), uint32_t number) {
    FILE *file = fopen(path, "wb");
    if (!file) return -1;
    int result = write_jpeg(file, 0, width, height, paint_row, number);
    return fclose(file) == 0 ? result : -1;
}

int cref_write_jpeg(const char *path, uint32_t width, uint32_t height, uint32_t number) {
    return write_jpeg_file(path, width, height, paint_photograph, number);
}

int cref_write_portrait(const char *path, uint32_t side, uint32_t number) {
    return write_jpeg_file(path, side, side, paint_portrait, number);
}

int cref_write_picture(const char *path, cref_format format, uint32_t width, uint32_t height) {
    FILE *file = fopen(path, "wb");
    if (!file) return -1;
    int result = -1;
    switch (format) {
    case CREF_JPEG: result = write_jpeg(file, 0, width, height, paint_photograph, 0); break;
    case CREF_PROGRESSIVE_JPEG: result = write_jpeg(file, 1, width, height, paint_photograph, 0); break;
    case CREF_PNG: result = write_png(file, width, height); break;
    case CREF_WEBP: result = write_webp(file, width, height); break;
    case CREF_AVIF:
    case CREF_DEEP_AVIF: result = write_avif(file, format == CREF_DEEP_AVIF, width, height); break;
    case CREF_GIF: result = write_gif(file, width, height); break;
    }
    return fclose(file) == 0 ? result : -1;
}

// MARK: Decoding. The files are our own, so the libraries' ways of ending the process on errors are left to them.

enum { new_memory_header = 4096 };

/// Allocates unused pages, as for an image that is kept. `malloc` would reuse the pages of the previous image, up to some
/// size.
static void *new_memory(size_t bytes) {
    size_t whole = bytes + new_memory_header;
    void *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    memcpy(memory, &whole, sizeof whole);
    return (uint8_t *)memory + new_memory_header;
}

static void give_back(uint8_t *memory) {
    if (!memory) return;
    size_t whole;
    memcpy(&whole, memory - new_memory_header, sizeof whole);
    munmap(memory - new_memory_header, whole);
}

/// Reads the header of a JPEG that is to be decoded to four bytes a pixel.
static void open_jpeg(
    struct jpeg_decompress_struct *jpeg, struct jpeg_error_mgr *errors, const uint8_t *bytes, size_t length) {
    jpeg->err = jpeg_std_error(errors);
    jpeg_create_decompress(jpeg);
    jpeg_mem_src(jpeg, bytes, length);
    jpeg_read_header(jpeg, TRUE);
    jpeg->out_color_space = JCS_EXT_RGBA;
}

/// Starts to decode a JPEG that the library scales to `eighths`/8.
static void start_jpeg(
    struct jpeg_decompress_struct *jpeg, struct jpeg_error_mgr *errors, const uint8_t *bytes, size_t length,
    int eighths) {
    open_jpeg(jpeg, errors, bytes, length);
    jpeg->scale_num = (unsigned)eighths;
    jpeg->scale_denom = 8;
    jpeg_start_decompress(jpeg);
}

/// Decodes a JPEG into memory that `allocate` returns.
static uint8_t *decode_jpeg(const uint8_t *bytes, size_t length, void *(*allocate)(size_t)) {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    start_jpeg(&jpeg, &errors, bytes, length, 8);
    size_t stride = (size_t)jpeg.output_width * 4;
    uint8_t *pixels = allocate(stride * jpeg.output_height);
    while (pixels && jpeg.output_scanline < jpeg.output_height) {
        JSAMPROW rows[16];
        JDIMENSION left = jpeg.output_height - jpeg.output_scanline, count = left < 16 ? left : 16;
        for (JDIMENSION i = 0; i < count; i++) rows[i] = pixels + (jpeg.output_scanline + i) * stride;
        jpeg_read_scanlines(&jpeg, rows, count);
    }
    jpeg_finish_decompress(&jpeg);
    jpeg_destroy_decompress(&jpeg);
    return pixels;
}

/// The bytes of a file that were not read yet.
typedef struct {
    const uint8_t *next;
    size_t left;
} span;

static void read_span(png_structp png, png_bytep target, size_t count) {
    span *source = png_get_io_ptr(png);
    if (count > source->left) png_error(png, "cut off");
    memcpy(target, source->next, count);
    source->next += count;
    source->left -= count;
}

static uint8_t *decode_png(const uint8_t *bytes, size_t length) {
    span source = {bytes, length};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info || setjmp(png_jmpbuf(png))) return NULL;
    png_set_read_fn(png, &source, read_span);
    png_read_info(png, info);
    png_set_add_alpha(png, 0xff, PNG_FILLER_AFTER);
    png_read_update_info(png, info);
    size_t stride = png_get_rowbytes(png, info);
    uint32_t height = png_get_image_height(png, info);
    uint8_t *pixels = new_memory(stride * height);
    for (uint32_t y = 0; pixels && y < height; y++) png_read_row(png, pixels + y * stride, NULL);
    png_read_end(png, NULL);
    png_destroy_read_struct(&png, &info, NULL);
    return pixels;
}

static uint8_t *decode_webp(const uint8_t *bytes, size_t length) {
    int width, height;
    if (!WebPGetInfo(bytes, length, &width, &height)) return NULL;
    size_t stride = (size_t)width * 4, size = stride * (size_t)height;
    uint8_t *pixels = new_memory(size);
    if (pixels && WebPDecodeRGBAInto(bytes, length, pixels, size, (int)stride)) return pixels;
    give_back(pixels);
    return NULL;
}

static int read_gif(GifFileType *gif, GifByteType *bytes, int count) {
    span *source = gif->UserData;
    size_t taken = (size_t)count < source->left ? (size_t)count : source->left;
    memcpy(bytes, source->next, taken);
    source->next += taken;
    source->left -= taken;
    return (int)taken;
}

/// Decodes a file with one image that fills the screen.
static uint8_t *decode_gif(const uint8_t *bytes, size_t length) {
    span source = {bytes, length};
    int error = 0;
    GifFileType *gif = DGifOpen(&source, read_gif, &error);
    GifRecordType record;
    if (!gif || DGifGetRecordType(gif, &record) != GIF_OK || DGifGetImageDesc(gif) != GIF_OK) return NULL;
    size_t width = (size_t)gif->SWidth, height = (size_t)gif->SHeight;
    uint8_t *pixels = new_memory(width * height * 4), *row = malloc(width);
    for (size_t y = 0; pixels && row && y < height; y++) {
        if (DGifGetLine(gif, row, (int)width) != GIF_OK) break;
        for (size_t x = 0; x < width; x++) {
            GifColorType color = gif->SColorMap->Colors[row[x]];
            uint8_t *pixel = pixels + (y * width + x) * 4;
            pixel[0] = color.Red, pixel[1] = color.Green, pixel[2] = color.Blue, pixel[3] = 255;
        }
    }
    free(row);
    DGifCloseFile(gif, &error);
    return pixels;
}

/// With one thread, as a worker has.
static uint8_t *decode_avif(const uint8_t *bytes, size_t length) {
    avifDecoder *decoder = avifDecoderCreate();
    uint8_t *pixels = NULL;
    if (avifDecoderSetIOMemory(decoder, bytes, length) == AVIF_RESULT_OK &&
        avifDecoderParse(decoder) == AVIF_RESULT_OK && avifDecoderNextImage(decoder) == AVIF_RESULT_OK) {
        avifRGBImage rgb;
        avifRGBImageSetDefaults(&rgb, decoder->image);
        rgb.depth = 8;
        rgb.rowBytes = rgb.width * 4;
        rgb.pixels = pixels = new_memory((size_t)rgb.rowBytes * rgb.height);
        if (pixels && avifImageYUVToRGB(decoder->image, &rgb) != AVIF_RESULT_OK) {
            give_back(pixels);
            pixels = NULL;
        }
    }
    avifDecoderDestroy(decoder);
    return pixels;
}

long cref_decode(cref_format format, const uint8_t *bytes, size_t length) {
    long begun = nanoseconds();
    uint8_t *pixels = NULL;
    switch (format) {
    case CREF_JPEG:
    case CREF_PROGRESSIVE_JPEG: pixels = decode_jpeg(bytes, length, new_memory); break;
    case CREF_PNG: pixels = decode_png(bytes, length); break;
    case CREF_WEBP: pixels = decode_webp(bytes, length); break;
    case CREF_AVIF:
    case CREF_DEEP_AVIF: pixels = decode_avif(bytes, length); break;
    case CREF_GIF: pixels = decode_gif(bytes, length); break;
    }
    long ended = nanoseconds();
    give_back(pixels);
    return pixels ? ended - begun : -1;
}

long cref_read_jpeg_rows(const uint8_t *bytes, size_t length, int eighths) {
    long begun = nanoseconds();
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    start_jpeg(&jpeg, &errors, bytes, length, eighths);
    JSAMPROW row = malloc((size_t)jpeg.output_width * 4);
    while (row && jpeg.output_scanline < jpeg.output_height) jpeg_read_scanlines(&jpeg, &row, 1);
    jpeg_finish_decompress(&jpeg);
    jpeg_destroy_decompress(&jpeg);
    free(row);
    return row ? nanoseconds() - begun : -1;
}

/// Returns the pixels of a JPEG, scaled by the library to `eighths`/8 and by averages to `width` × `height`; or NULL.
static uint8_t *average_jpeg(const uint8_t *bytes, size_t length, int eighths, unsigned width, unsigned height) {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    start_jpeg(&jpeg, &errors, bytes, length, eighths);
    size_t columns = jpeg.output_width, lines = jpeg.output_height;
    JSAMPROW row = malloc(columns * 4);
    uint8_t *result = malloc((size_t)width * height * 4);
    uint32_t *sums = calloc((size_t)width * 4, sizeof *sums), *counts = calloc(width, sizeof *counts);
    uint32_t *cells = malloc(columns * sizeof *cells);
    int complete = row && result && sums && counts && cells;
    for (size_t x = 0; complete && x < columns; x++) counts[cells[x] = (uint32_t)(x * width / columns)]++;
    for (size_t y = 0, line = 0, taken = 0; complete && y < lines; y++) {
        jpeg_read_scanlines(&jpeg, &row, 1);
        for (size_t x = 0; x < columns; x++)
            for (int channel = 0; channel < 4; channel++) sums[cells[x] * 4 + channel] += row[x * 4 + channel];
        taken++;
        if ((y + 1) * height / lines == line) continue;
        for (size_t x = 0; x < width; x++)
            for (int channel = 0; channel < 4; channel++)
                result[(line * width + x) * 4 + channel] = (uint8_t)(sums[x * 4 + channel] / (counts[x] * taken));
        memset(sums, 0, (size_t)width * 4 * sizeof *sums);
        taken = 0;
        line++;
    }
    if (complete) jpeg_finish_decompress(&jpeg);
    jpeg_destroy_decompress(&jpeg);
    free(row), free(sums), free(counts), free(cells);
    if (complete) return result;
    free(result);
    return NULL;
}

long cref_average_jpeg(const uint8_t *bytes, size_t length, int eighths, unsigned width, unsigned height) {
    long begun = nanoseconds();
    uint8_t *result = average_jpeg(bytes, length, eighths, width, height);
    long ended = nanoseconds();
    free(result);
    return result ? ended - begun : -1;
}

uint8_t *cref_jpeg_within(const uint8_t *bytes, size_t length, unsigned side) {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    open_jpeg(&jpeg, &errors, bytes, length);
    unsigned width = jpeg.image_width, height = jpeg.image_height, longer = width > height ? width : height;
    jpeg_destroy_decompress(&jpeg);
    if (side == 0 || longer <= side) return decode_jpeg(bytes, length, malloc);
    // The smallest factor that leaves the target: little work rather than the best quality.
    unsigned eighths = 1;
    while (longer * eighths < side * 8) eighths++;
    return average_jpeg(bytes, length, (int)eighths, width * side / longer, height * side / longer);
}

int cref_fill_buffer(size_t bytes, size_t band, long *pages, long *seal) {
    char *rows = malloc(band);
    int fd = memfd_create("parts", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (!rows || fd < 0 || ftruncate(fd, (off_t)bytes) < 0) return -1;
    memset(rows, 7, band);
    long begun = nanoseconds();
    for (size_t offset = 0; offset < bytes; offset += band) {
        size_t count = bytes - offset < band ? bytes - offset : band;
        if (pwrite(fd, rows, count, (off_t)offset) != (ssize_t)count) return -1;
    }
    long filled = nanoseconds();
    int status = fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    *pages = filled - begun;
    *seal = nanoseconds() - filled;
    close(fd);
    free(rows);
    return status;
}

long cref_run(const char *path, const char *first, const char *second) {
    char *const arguments[] = {(char *)path, (char *)first, (char *)second, NULL};
    long begun = nanoseconds();
    pid_t child;
    int status;
    if (posix_spawn(&child, path, NULL, NULL, arguments, environ) != 0 || waitpid(child, &status, 0) != child) return -1;
    return status == 0 ? nanoseconds() - begun : -1;
}
