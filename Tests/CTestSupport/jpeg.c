#include "TestEncoders.h"

#include <stdio.h>
#include <jpeglib.h>

uint8_t *ctest_jpeg_encode(
    const uint8_t *pixels, uint32_t width, uint32_t height, ctest_jpeg_kind kind, int quality, size_t *length) {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    unsigned char *output = NULL;
    unsigned long size = 0;
    // Its error handler ends the process.
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &output, &size);
    jpeg.image_width = width;
    jpeg.image_height = height;
    jpeg.input_components = 4;
    jpeg.in_color_space = JCS_EXT_RGBX;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    if (kind == CTEST_JPEG_CMYK || kind == CTEST_JPEG_YCCK) {
        jpeg.in_color_space = JCS_CMYK;
        jpeg_set_colorspace(&jpeg, kind == CTEST_JPEG_YCCK ? JCS_YCCK : JCS_CMYK);
    }
    if (kind == CTEST_JPEG_PROGRESSIVE || kind == CTEST_JPEG_ARITHMETIC_PROGRESSIVE) jpeg_simple_progression(&jpeg);
    jpeg.arith_code = kind == CTEST_JPEG_ARITHMETIC || kind == CTEST_JPEG_ARITHMETIC_PROGRESSIVE;
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(pixels + (size_t)jpeg.next_scanline * width * 4);
        jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    *length = size;
    return output;
}
