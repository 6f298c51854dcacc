#ifndef WITHOUT_AVIF
#include "TestAVIF.h"

#include <avif/avif.h>
#include <stdlib.h>
#include <string.h>

static avifPixelFormat pixel_format(int sampling) {
    switch (sampling) {
    case 400: return AVIF_PIXEL_FORMAT_YUV400;
    case 420: return AVIF_PIXEL_FORMAT_YUV420;
    case 422: return AVIF_PIXEL_FORMAT_YUV422;
    default: return AVIF_PIXEL_FORMAT_YUV444;
    }
}

/// Creates the image of one cell of the grid.
static avifImage *create_image(const ctest_avif *file, const uint16_t *pixels, int column, int row) {
    uint32_t width = file->width / file->columns, height = file->height / file->rows;
    avifImage *image = avifImageCreate(width, height, file->depth, pixel_format(file->sampling));
    image->yuvRange = file->is_limited ? AVIF_RANGE_LIMITED : AVIF_RANGE_FULL;
    image->colorPrimaries = file->primaries;
    image->transferCharacteristics = file->transfer;
    image->matrixCoefficients = file->matrix;
    image->alphaPremultiplied = file->is_premultiplied;
    if (file->orientation) {
        // The library derives irot and imir from the EXIF block, which is then removed.
        const uint8_t exif[] = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1, 0, 0, 0, file->orientation, 0, 0, 0, 0, 0, 0, 0};
        avifImageSetMetadataExif(image, exif, sizeof exif);
        avifImageSetMetadataExif(image, NULL, 0);
    }
    if (file->crop[2]) {
        avifCropRect rect = {file->crop[0], file->crop[1], file->crop[2], file->crop[3]};
        avifDiagnostics diagnostics;
        if (avifCleanApertureBoxConvertCropRect(&image->clap, &rect, width, height, image->yuvFormat, &diagnostics))
            image->transformFlags |= AVIF_TRANSFORM_CLAP;
    }
    avifRGBImage rgb;
    avifRGBImageSetDefaults(&rgb, image);
    rgb.format = file->has_alpha ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
    rgb.avoidLibYUV = AVIF_TRUE;
    avifRGBImageAllocatePixels(&rgb);
    int channels = file->has_alpha ? 4 : 3;
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            const uint16_t *pixel = pixels + ((row * height + y) * file->width + column * width + x) * 4;
            for (int channel = 0; channel < channels; channel++) {
                uint8_t *target = rgb.pixels + y * rgb.rowBytes;
                if (file->depth == 8) target[x * channels + channel] = (uint8_t)pixel[channel];
                else ((uint16_t *)target)[x * channels + channel] = pixel[channel];
            }
        }
    }
    avifImageRGBToYUV(image, &rgb);
    avifRGBImageFreePixels(&rgb);
    return image;
}

uint8_t *ctest_avif_encode(
    const ctest_avif *file, const uint16_t *pixels, const uint8_t *icc, size_t icc_length, size_t *length) {
    avifEncoder *encoder = avifEncoderCreate();
    encoder->codecChoice = AVIF_CODEC_CHOICE_AOM;
    // The faster mode of libaom for sequences is not lossless.
    encoder->speed = file->frames > 1 && file->quantizer == 0 ? 6 : 8;
    encoder->minQuantizer = encoder->maxQuantizer = file->quantizer;
    avifImage *images[64];
    int count = file->columns * file->rows;
    for (int i = 0; i < count; i++) {
        images[i] = create_image(file, pixels, i % file->columns, i / file->columns);
        if (icc_length) avifImageSetProfileICC(images[i], icc, icc_length);
    }
    avifResult result = AVIF_RESULT_OK;
    if (count > 1) {
        result = avifEncoderAddImageGrid(
            encoder, file->columns, file->rows, (const avifImage *const *)images, AVIF_ADD_IMAGE_FLAG_SINGLE);
    }
    if (file->timescale) encoder->timescale = file->timescale;
    encoder->keyframeInterval = file->key_interval;
    for (int frame = 0; count == 1 && frame < file->frames && result == AVIF_RESULT_OK; frame++) {
        avifAddImageFlags flags = file->frames > 1 ? AVIF_ADD_IMAGE_FLAG_NONE : AVIF_ADD_IMAGE_FLAG_SINGLE;
        if (frame > 0 && file->has_frames_pixels) {
            avifImageDestroy(images[0]);
            images[0] = create_image(file, pixels + (size_t)frame * file->width * file->height * 4, 0, 0);
            if (icc_length) avifImageSetProfileICC(images[0], icc, icc_length);
        }
        int duration = file->durations[frame % 16];
        result = avifEncoderAddImage(encoder, images[0], duration > 0 ? duration : 1, flags);
    }
    avifRWData output = AVIF_DATA_EMPTY;
    if (result == AVIF_RESULT_OK) result = avifEncoderFinish(encoder, &output);
    uint8_t *bytes = NULL;
    if (result == AVIF_RESULT_OK && (bytes = malloc(output.size))) {
        memcpy(bytes, output.data, output.size);
        *length = output.size;
    }
    avifRWDataFree(&output);
    for (int i = 0; i < count; i++) avifImageDestroy(images[i]);
    avifEncoderDestroy(encoder);
    return bytes;
}

int ctest_avif_decode(const uint8_t *bytes, size_t length, int index, uint8_t *pixels) {
    avifDecoder *decoder = avifDecoderCreate();
    // Some writers omit pixi.
    decoder->strictFlags = AVIF_STRICT_DISABLED;
    avifResult result = avifDecoderSetIOMemory(decoder, bytes, length);
    if (result == AVIF_RESULT_OK) result = avifDecoderParse(decoder);
    for (int image = 0; image <= index && result == AVIF_RESULT_OK; image++) result = avifDecoderNextImage(decoder);
    if (result == AVIF_RESULT_OK) {
        avifRGBImage rgb;
        avifRGBImageSetDefaults(&rgb, decoder->image);
        rgb.depth = 8;
        rgb.avoidLibYUV = decoder->image->depth > 8;
        rgb.pixels = pixels;
        rgb.rowBytes = decoder->image->width * 4;
        result = avifImageYUVToRGB(decoder->image, &rgb);
    }
    avifDecoderDestroy(decoder);
    return result == AVIF_RESULT_OK;
}
#endif
