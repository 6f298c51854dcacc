#ifndef WITHOUT_TIFF
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>

#include "MemoryFile.h"
#include "TestFamilies.h"

uint8_t *ctest_tiff_write(const ctest_tiff *file, const uint8_t *pixels, uint32_t width, uint32_t height, size_t *length) {
    if (!TIFFIsCODECConfigured((uint16_t)file->compression)) return NULL;
    memory_file output = ctest_memory_file();
    TIFF *tiff = TIFFOpen(output.path, "w");
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, width);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, height);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, file->bits);
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, file->samples);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, file->photometric);
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, file->compression);
    TIFFSetField(tiff, TIFFTAG_ORIENTATION, file->orientation);
    TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, file->is_separate ? PLANARCONFIG_SEPARATE : PLANARCONFIG_CONTIG);
    if (file->samples == 4 && file->photometric == PHOTOMETRIC_RGB) {
        uint16_t kind = EXTRASAMPLE_UNASSALPHA;
        TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, &kind);
    }
    if (file->compression == COMPRESSION_WEBP) TIFFSetField(tiff, TIFFTAG_WEBP_LOSSLESS, 1);
    if (file->compression == COMPRESSION_JPEG) TIFFSetField(tiff, TIFFTAG_JPEGQUALITY, 100);
    // libtiff writes JBIG in one strip only, and JPEG in strips of sixteen rows.
    int is_whole = file->compression == COMPRESSION_JBIG || file->compression == COMPRESSION_JPEG;
    uint32_t strip = is_whole ? height : 5;
    if (file->tile > 0) {
        TIFFSetField(tiff, TIFFTAG_TILEWIDTH, file->tile);
        TIFFSetField(tiff, TIFFTAG_TILELENGTH, file->tile);
    } else {
        TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, strip);
    }
    uint32_t side_x = file->tile ? file->tile : width, side_y = file->tile ? file->tile : strip;
    int planes = file->is_separate ? file->samples : 1, together = file->is_separate ? 1 : file->samples;
    size_t bytes = file->bits == 16 ? 2 : 1;
    uint8_t *part = calloc((size_t)side_x * side_y, bytes * (size_t)together);
    for (int plane = 0; plane < planes; plane++) {
        for (uint32_t top = 0; top < height; top += side_y) {
            uint32_t rows = height - top < side_y ? height - top : side_y;
            for (uint32_t left = 0; left < width; left += side_x) {
                for (uint32_t y = 0; y < rows; y++) {
                    for (uint32_t x = 0; x < side_x && left + x < width; x++) {
                        if (file->bits == 1) {
                            // One sample, without padding but at the end of a row.
                            uint8_t *place = part + (size_t)y * ((side_x + 7) / 8) + x / 8, bit = 128 >> (x % 8);
                            uint8_t value = pixels[((size_t)(top + y) * width + left + x) * 4];
                            *place = (uint8_t)(value >= 128 ? *place | bit : *place & ~bit);
                            continue;
                        }
                        for (int sample = 0; sample < together; sample++) {
                            uint8_t value = pixels[((size_t)(top + y) * width + left + x) * 4 + (size_t)(plane + sample)];
                            size_t place = ((size_t)y * side_x + x) * (size_t)together + (size_t)sample;
                            uint16_t wide = (uint16_t)(value * 257);
                            memcpy(part + place * bytes, bytes == 1 ? (void *)&value : (void *)&wide, bytes);
                        }
                    }
                }
                if (file->tile) {
                    uint32_t number = TIFFComputeTile(tiff, left, top, 0, (uint16_t)plane);
                    TIFFWriteEncodedTile(tiff, number, part, TIFFTileSize(tiff));
                } else {
                    uint32_t number = TIFFComputeStrip(tiff, top, (uint16_t)plane);
                    TIFFWriteEncodedStrip(tiff, number, part, TIFFVStripSize(tiff, rows));
                }
            }
        }
    }
    free(part);
    TIFFClose(tiff);
    return ctest_take_bytes(&output, length);
}
#endif
