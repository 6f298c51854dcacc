#include "CImageCodecs.h"

#include <gif_lib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct codec_gif_reader {
    codec_base base;
    codec_gif_frame frame;
    GifFileType *gif;
    /// Where giflib reads next.
    size_t position;
    /// A read exceeded the end of the bytes.
    int ran_out;
    /// The last read returned a single zero: an empty block, which ends the data.
    int met_end;
    /// The reads are those of sub-blocks, of which the last may be incomplete, and the bytes of the current one that are left.
    int reads_blocks;
    size_t block_left;
    /// A row of indices.
    GifPixelType *line;
    uint8_t table[256][4];
    /// The number of rows read, including invisible ones.
    int row;
    /// The number of visible rows that are complete, and whether no more of them can be read.
    uint32_t rows_read;
    int has_ended;
};

/// Returns the length of the next sub-block, or its bytes. giflib reads each as a whole, so an incomplete one is stated to be as
/// long as the bytes that there are.
static int read_block(codec_gif_reader *reader, GifByteType *destination, size_t wanted) {
    size_t left = reader->base.length - reader->position;
    if (reader->block_left == 0) {
        size_t length = left > 0 ? reader->base.bytes[reader->position++] : 0;
        if (left == 0 || length > left - 1) reader->ran_out = 1;
        if (left > 0 && length > left - 1) length = left - 1;
        reader->block_left = length;
        reader->met_end = length == 0;
        *destination = (GifByteType)length;
        return 1;
    }
    size_t count = wanted < reader->block_left ? wanted : reader->block_left;
    memcpy(destination, reader->base.bytes + reader->position, count);
    reader->position += count;
    reader->block_left -= count;
    return (int)count;
}

static int read_bytes(GifFileType *gif, GifByteType *destination, int count) {
    codec_gif_reader *reader = gif->UserData;
    if (reader->reads_blocks) return read_block(reader, destination, (size_t)count);
    size_t wanted = (size_t)count, left = reader->base.length - reader->position;
    if (wanted > left) {
        reader->ran_out = 1;
        // After the last pixel giflib reads the end of the blocks. If only that is missing, all pixels are present.
        if (wanted > 1) return 0;
        *destination = 0;
        return 1;
    }
    memcpy(destination, reader->base.bytes + reader->position, wanted);
    reader->position += wanted;
    reader->met_end = wanted == 1 && *destination == 0;
    return count;
}

static codec_status reading_status(int error, const codec_gif_reader *reader) {
    if (error == D_GIF_ERR_NOT_ENOUGH_MEM) return CODEC_NO_MEMORY;
    if (reader->ran_out || reader->met_end || error == D_GIF_ERR_EOF_TOO_SOON) return CODEC_TRUNCATED;
    return CODEC_DAMAGED;
}

/// Fills the table of pixels by index. Indices beyond the palette are transparent; without a palette, they are gray levels.
static void make_table(const ColorMapObject *palette, int transparent, codec_order order, uint8_t table[256][4]) {
    if (!palette) {
        for (int index = 0; index < 256; index++) {
            memset(table[index], index == transparent ? 0 : index, 3);
            table[index][3] = index == transparent ? 0 : 255;
        }
        return;
    }
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

static void release(void *object) {
    codec_gif_reader *reader = object;
    int error = 0;
    if (reader->gif) DGifCloseFile(reader->gif, &error);
    free(reader->line);
}

codec_gif_reader *codec_gif_reader_create(const uint8_t *bytes, size_t length, const codec_gif_frame *frame) {
    codec_gif_reader *reader = codec_allocate(sizeof *reader, release, bytes, length);
    if (!reader) return NULL;
    reader->frame = *frame;
    return reader;
}

codec_status codec_gif_reader_start(codec_gif_reader *reader, codec_order order) {
    int error = 0;
    // Opens a handle for each frame, because giflib records every frame that it reads.
    GifFileType *gif = reader->gif = DGifOpen(reader, read_bytes, &error);
    if (!gif) return reading_status(error, reader);
    GifRecordType record;
    reader->position = reader->frame.position <= reader->base.length ? reader->frame.position : reader->base.length;
    if (DGifGetRecordType(gif, &record) == GIF_ERROR || record != IMAGE_DESC_RECORD_TYPE
        || DGifGetImageDesc(gif) == GIF_ERROR) {
        return reading_status(gif->Error, reader);
    }
    if ((uint32_t)gif->Image.Width < reader->frame.width || (uint32_t)gif->Image.Height < reader->frame.height) {
        return CODEC_DAMAGED;
    }
    const ColorMapObject *palette = gif->Image.ColorMap ? gif->Image.ColorMap : gif->SColorMap;
    make_table(palette, reader->frame.transparent, order, reader->table);
    reader->reads_blocks = reader->base.accepts_damage;
    reader->line = malloc((size_t)gif->Image.Width);
    return reader->line ? CODEC_OK : CODEC_NO_MEMORY;
}

int codec_gif_reader_is_interlaced(const codec_gif_reader *reader) { return reader->gif && reader->gif->Image.Interlace; }

/// Reads the next row of the file and stores its visible part in `pixels`, unless NULL.
static codec_status read_row(codec_gif_reader *reader, uint8_t *pixels) {
    if (DGifGetLine(reader->gif, reader->line, reader->gif->Image.Width) == GIF_ERROR) {
        return reading_status(reader->gif->Error, reader);
    }
    for (uint32_t column = 0; pixels && column < reader->frame.width; column++) {
        memcpy(pixels + column * 4, reader->table[reader->line[column]], 4);
    }
    if (pixels) reader->rows_read++;
    return CODEC_OK;
}

/// Reads the four passes of an interlaced frame.
static codec_status read_passes(codec_gif_reader *reader, uint8_t *rows) {
    static const int starts[] = {0, 4, 2, 1}, steps[] = {8, 8, 4, 2};
    for (int pass = 0; pass < 4; pass++) {
        for (int row = starts[pass]; row < reader->gif->Image.Height; row += steps[pass]) {
            int wanted = (uint32_t)row < reader->frame.height;
            codec_status status = read_row(reader, wanted ? rows + (size_t)row * reader->frame.width * 4 : NULL);
            if (status != CODEC_OK) return status;
        }
    }
    return CODEC_OK;
}

/// Reads the next rows of a frame that is not interlaced.
static codec_status read_next(codec_gif_reader *reader, uint8_t *rows, uint32_t count) {
    codec_status status = CODEC_OK;
    for (uint32_t i = 0; i < count && status == CODEC_OK; i++, reader->row++) {
        status = read_row(reader, rows + (size_t)i * reader->frame.width * 4);
    }
    // Invisible rows must be present, too.
    while (status == CODEC_OK && (uint32_t)reader->row >= reader->frame.height
           && reader->row < reader->gif->Image.Height) {
        status = read_row(reader, NULL);
        reader->row++;
    }
    return status;
}

codec_status codec_gif_reader_read_rows(codec_gif_reader *reader, uint8_t *rows, uint32_t count) {
    uint32_t before = reader->rows_read;
    int is_interlaced = codec_gif_reader_is_interlaced(reader);
    codec_status status = CODEC_OK;
    if (!reader->has_ended) status = is_interlaced ? read_passes(reader, rows) : read_next(reader, rows, count);
    if (status != CODEC_OK && (!reader->base.accepts_damage || reader->rows_read == 0)) return status;
    if (status != CODEC_OK) reader->has_ended = 1;
    size_t read = reader->rows_read - before, stride = (size_t)reader->frame.width * 4;
    if (reader->has_ended && !is_interlaced) memset(rows + read * stride, 0, (count - read) * stride);
    return CODEC_OK;
}

const char *codec_gif_version(void) {
    // The version at compile time, because the library does not report one.
    static char text[32];
    snprintf(text, sizeof text, "giflib %d.%d.%d", GIFLIB_MAJOR, GIFLIB_MINOR, GIFLIB_RELEASE);
    return text;
}
