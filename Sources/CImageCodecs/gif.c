#include "CImageCodecs.h"

#include <gif_lib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// What the library reads from.
typedef struct {
    const uint8_t *bytes;
    size_t length;
    size_t position;
    /// More bytes were wanted than there are.
    int ran_out;
    /// The last read was of a single zero: a block without bytes, behind which no data comes.
    int met_end;
} gif_source;

static int read_bytes(GifFileType *gif, GifByteType *destination, int count) {
    gif_source *source = gif->UserData;
    size_t wanted = (size_t)count, left = source->length - source->position;
    if (wanted > left) {
        source->ran_out = 1;
        // Behind the last pixel the library looks for the end of the blocks: when only that is missing, no pixel is.
        if (wanted > 1) return 0;
        *destination = 0;
        return 1;
    }
    memcpy(destination, source->bytes + source->position, wanted);
    source->position += wanted;
    source->met_end = wanted == 1 && *destination == 0;
    return count;
}

static codec_status reading_status(int error, const gif_source *source) {
    if (error == D_GIF_ERR_NOT_ENOUGH_MEM) return CODEC_NO_MEMORY;
    if (source->ran_out || source->met_end || error == D_GIF_ERR_EOF_TOO_SOON) return CODEC_TRUNCATED;
    return CODEC_DAMAGED;
}

/// The pixels that indices stand for: what the palette does not have is transparent.
static void make_table(const ColorMapObject *palette, int transparent, codec_order order, uint8_t table[256][4]) {
    int red = order == CODEC_BGRA ? 2 : 0;
    memset(table, 0, 256 * 4);
    for (int index = 0; index < palette->ColorCount && index < 256; index++) {
        if (index == transparent) continue;
        table[index][red] = palette->Colors[index].Red;
        table[index][1] = palette->Colors[index].Green;
        table[index][2 - red] = palette->Colors[index].Blue;
        table[index][3] = 255;
    }
}

static codec_status read_rows(
    GifFileType *gif, const gif_source *source, GifPixelType *line, const codec_gif_frame *frame, codec_order order,
    uint8_t *pixels) {
    // Rows of an interlaced frame come in four passes.
    static const int starts[] = {0, 4, 2, 1}, steps[] = {8, 8, 4, 2};
    const ColorMapObject *palette = gif->Image.ColorMap ? gif->Image.ColorMap : gif->SColorMap;
    if (!palette) return CODEC_DAMAGED;
    uint8_t table[256][4];
    make_table(palette, frame->transparent, order, table);
    int interlaced = gif->Image.Interlace, height = gif->Image.Height;
    for (int pass = 0; pass < (interlaced ? 4 : 1); pass++) {
        for (int row = starts[pass]; row < height; row += interlaced ? steps[pass] : 1) {
            if (DGifGetLine(gif, line, gif->Image.Width) == GIF_ERROR) return reading_status(gif->Error, source);
            if ((uint32_t)row >= frame->height) continue;
            uint8_t *place = pixels + (size_t)row * frame->width * 4;
            for (uint32_t column = 0; column < frame->width; column++) memcpy(place + column * 4, table[line[column]], 4);
        }
    }
    return CODEC_OK;
}

codec_status codec_gif_decode(
    const uint8_t *bytes, size_t length, const codec_gif_frame *frame, codec_order order, uint8_t *pixels) {
    gif_source source = {.bytes = bytes, .length = length};
    int error = 0;
    // A handle for each frame: the library would otherwise keep a note of all that it has seen.
    GifFileType *gif = DGifOpen(&source, read_bytes, &error);
    if (!gif) return reading_status(error, &source);
    codec_status status;
    GifRecordType record;
    source.position = frame->position <= length ? frame->position : length;
    if (DGifGetRecordType(gif, &record) == GIF_ERROR || record != IMAGE_DESC_RECORD_TYPE
        || DGifGetImageDesc(gif) == GIF_ERROR) {
        status = reading_status(gif->Error, &source);
    } else if ((uint32_t)gif->Image.Width < frame->width || (uint32_t)gif->Image.Height < frame->height) {
        status = CODEC_DAMAGED;
    } else {
        GifPixelType *line = malloc((size_t)gif->Image.Width);
        status = line ? read_rows(gif, &source, line, frame, order, pixels) : CODEC_NO_MEMORY;
        free(line);
    }
    DGifCloseFile(gif, &error);
    return status;
}

const char *codec_gif_version(void) {
    // The library itself does not say.
    static char text[32];
    snprintf(text, sizeof text, "giflib %d.%d.%d", GIFLIB_MAJOR, GIFLIB_MINOR, GIFLIB_RELEASE);
    return text;
}
