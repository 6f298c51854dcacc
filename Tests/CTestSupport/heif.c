#ifndef WITHOUT_HEIF
#include <libheif/heif.h>
#include <string.h>

#include "MemoryFile.h"
#include "TestFamilies.h"

uint8_t *ctest_heif_encode(
    const uint8_t *pixels, uint32_t width, uint32_t height, int has_alpha, int quality, int turns, int slices, size_t *length) {
    memory_file output = ctest_memory_file();
    struct heif_context *context = heif_context_alloc();
    struct heif_encoder *encoder = NULL;
    struct heif_image *image = NULL;
    struct heif_encoding_options *options = heif_encoding_options_alloc();
    struct heif_color_profile_nclx *colors = heif_nclx_color_profile_alloc();
    if (heif_context_get_encoder_for_format(context, heif_compression_HEVC, &encoder).code != heif_error_Ok) goto done;
    if (quality == 100) {
        heif_encoder_set_lossless(encoder, 1);
        colors->matrix_coefficients = heif_matrix_coefficients_RGB_GBR;
        colors->full_range_flag = 1;
        options->output_nclx_profile = colors;
    } else {
        heif_encoder_set_lossy_quality(encoder, quality);
    }
    heif_encoder_set_parameter_string(encoder, "chroma", "444");
    const char number[] = {(char)('0' + slices), 0};
    if (slices > 1) heif_encoder_set_parameter_string(encoder, "x265:slices", number);
    options->image_orientation = (enum heif_orientation)turns;
    options->save_alpha_channel = has_alpha != 0;
    enum heif_chroma chroma = has_alpha ? heif_chroma_interleaved_RGBA : heif_chroma_interleaved_RGB;
    size_t bytes = has_alpha ? 4 : 3;
    int stride = 0;
    heif_image_create((int)width, (int)height, heif_colorspace_RGB, chroma, &image);
    heif_image_add_plane(image, heif_channel_interleaved, (int)width, (int)height, 8);
    uint8_t *plane = heif_image_get_plane(image, heif_channel_interleaved, &stride);
    if (quality == 100) heif_image_set_nclx_color_profile(image, colors);
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++)
            memcpy(plane + (size_t)y * (size_t)stride + x * bytes, pixels + ((size_t)y * width + x) * 4, bytes);
    }
    if (heif_context_encode_image(context, image, encoder, options, NULL).code == heif_error_Ok)
        heif_context_write_to_file(context, output.path);
done:
    if (image) heif_image_release(image);
    if (encoder) heif_encoder_release(encoder);
    heif_nclx_color_profile_free(colors);
    heif_encoding_options_free(options);
    heif_context_free(context);
    return ctest_take_bytes(&output, length);
}
#endif
