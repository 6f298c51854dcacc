#include "TestEncoders.h"

#include <stdlib.h>
#include <string.h>
#include <webp/encode.h>

uint8_t *ctest_webp_encode(
    const uint8_t *pixels, uint32_t width, uint32_t height, int lossless, int quality, size_t *length) {
    WebPConfig config;
    WebPPicture picture;
    if (!WebPConfigInit(&config) || !WebPPictureInit(&picture)) return NULL;
    config.quality = (float)quality;
    config.lossless = lossless;
    config.exact = lossless;
    picture.use_argb = lossless;
    picture.width = (int)width;
    picture.height = (int)height;
    WebPMemoryWriter writer;
    WebPMemoryWriterInit(&writer);
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &writer;
    uint8_t *bytes = NULL;
    if (WebPPictureImportRGBA(&picture, pixels, (int)width * 4) && WebPEncode(&config, &picture)
        && (bytes = malloc(writer.size))) {
        memcpy(bytes, writer.mem, writer.size);
        *length = writer.size;
    }
    WebPPictureFree(&picture);
    WebPMemoryWriterClear(&writer);
    return bytes;
}
