#ifndef WITHOUT_JP2
#include <openjpeg.h>
#include <stdlib.h>

#include "MemoryFile.h"
#include "TestFamilies.h"

uint8_t *ctest_jp2_encode(const ctest_jp2 *file, const uint8_t *pixels, uint32_t width, uint32_t height, size_t *length) {
    opj_image_cmptparm_t sizes[4] = {0};
    uint32_t left = (uint32_t)file->left, top = (uint32_t)file->top;
    for (int i = 0; i < file->components; i++) {
        uint32_t step = i == 1 || i == 2 ? (uint32_t)file->step : 1;
        sizes[i] = (opj_image_cmptparm_t){
            .dx = step, .dy = step, .w = (left + width + step - 1) / step - (left + step - 1) / step,
            .h = (top + height + step - 1) / step - (top + step - 1) / step, .x0 = left, .y0 = top,
            .prec = (uint32_t)file->bits, .bpp = (uint32_t)file->bits, .sgnd = (uint32_t)file->is_signed};
    }
    opj_image_t *image = opj_image_create((uint32_t)file->components, sizes, OPJ_CLRSPC_UNSPECIFIED);
    image->x0 = left;
    image->y0 = top;
    image->x1 = left + width;
    image->y1 = top + height;
    int most = (1 << file->bits) - 1;
    for (int i = 0; i < file->components; i++) {
        opj_image_comp_t *component = &image->comps[i];
        for (uint32_t y = 0; y < component->h; y++) {
            for (uint32_t x = 0; x < component->w; x++) {
                uint32_t column = ((left + component->dx - 1) / component->dx + x) * component->dx - left;
                uint32_t row = ((top + component->dy - 1) / component->dy + y) * component->dy - top;
                int value = (pixels[((size_t)row * width + column) * 4 + (size_t)i] * most + 127) / 255;
                component->data[(size_t)y * component->w + x] = value - (file->is_signed ? 1 << (file->bits - 1) : 0);
            }
        }
    }
    opj_cparameters_t parameters;
    opj_set_default_encoder_parameters(&parameters);
    parameters.numresolution = file->resolutions;
    parameters.tcp_numlayers = file->layers;
    parameters.cp_disto_alloc = 1;
    for (int layer = 0; layer < file->layers; layer++)
        parameters.tcp_rates[layer] = (float)(1 << (file->layers - 1 - layer)) * (file->is_lossy ? 3 : 1);
    if (!file->is_lossy) parameters.tcp_rates[file->layers - 1] = 0;
    parameters.irreversible = file->is_lossy;
    parameters.tcp_mct = file->components >= 3 && file->step == 1;
    parameters.image_offset_x0 = file->left;
    parameters.image_offset_y0 = file->top;
    if (file->tile) {
        parameters.tile_size_on = OPJ_TRUE;
        parameters.cp_tdx = parameters.cp_tdy = file->tile;
    }
    memory_file output = ctest_memory_file();
    opj_codec_t *codec = opj_create_compress(OPJ_CODEC_J2K);
    opj_stream_t *stream = opj_stream_create_default_file_stream(output.path, OPJ_FALSE);
    int is_written = opj_setup_encoder(codec, &parameters, image) && opj_start_compress(codec, image, stream) &&
        opj_encode(codec, stream) && opj_end_compress(codec, stream);
    opj_stream_destroy(stream);
    opj_destroy_codec(codec);
    opj_image_destroy(image);
    uint8_t *bytes = ctest_take_bytes(&output, length);
    if (is_written) return bytes;
    free(bytes);
    return NULL;
}
#endif
