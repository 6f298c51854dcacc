#include "png_rows.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "png_filters.h"

/// The most compressed bytes to inflate at once, so that their CRC is computed while they are cached.
#define LONGEST_PIECE 16384
/// The most bytes to inflate into at once, or one row: zlib copies its window at the end of each call.
#define LONGEST_BATCH 36864
/// The maximum length of a chunk.
#define LONGEST_CHUNK 0x7fffffffu

struct png_rows {
    codec_base *base;
    const uint8_t *bytes;
    size_t length, position;
    /// The unread bytes of the current chunk, and the CRC of those read.
    uint32_t left;
    uint32_t checksum;
    /// A read exceeded the end of the bytes.
    int ran_out;
    z_stream stream;
    int has_stream;
    int has_ended;
    uint32_t width;
    uint32_t rows_left;
    int channels;
    codec_order order;
    /// A batch of filtered rows, the next of them and their remaining number, and the Adler-32 of all rows so far.
    uint8_t *stored;
    const uint8_t *next;
    uint32_t rows_stored;
    uint32_t adler;
    /// The last row read.
    uint8_t *above;
};

static codec_status failed(png_rows *reader, codec_status status, const char *message) {
    return codec_fail(reader->base, status, message);
}

/// Returns the length of a stored row: the filter type and the pixels.
static size_t row_bytes(const png_rows *reader) { return 1 + (size_t)reader->width * (size_t)reader->channels; }

png_rows *png_rows_create(
    codec_base *base, const uint8_t *bytes, size_t length, size_t position, uint32_t width, uint32_t height,
    int channels, codec_order order) {
    png_rows *reader = calloc(1, sizeof *reader);
    if (!reader) return NULL;
    *reader = (png_rows){
        .base = base, .bytes = bytes, .length = length, .position = position, .width = width, .rows_left = height,
        .channels = channels, .order = order, .adler = 1};
    // png_undo_filter reads one byte beyond the pixels.
    size_t row = row_bytes(reader);
    reader->stored = malloc((row < LONGEST_BATCH ? LONGEST_BATCH : row) + 1);
    reader->above = calloc(width, 4);
    if (reader->stored && reader->above) return reader;
    png_rows_destroy(reader);
    return NULL;
}

/// Returns the next `count` bytes of the file; NULL if there are fewer.
static const uint8_t *take(png_rows *reader, size_t count) {
    if (count > reader->length - reader->position) {
        reader->ran_out = 1;
        failed(reader, CODEC_TRUNCATED, "the file ends early");
        return NULL;
    }
    const uint8_t *bytes = reader->bytes + reader->position;
    reader->position += count;
    return bytes;
}

/// Begins the next chunk, which must be IDAT.
static codec_status begin_chunk(png_rows *reader) {
    const uint8_t *start = take(reader, 8);
    if (!start) return CODEC_TRUNCATED;
    if (memcmp(start + 4, "IDAT", 4) != 0) return failed(reader, CODEC_TRUNCATED, "not enough pixels");
    reader->left = (uint32_t)codec_big_endian(start, 4);
    if (reader->left > LONGEST_CHUNK) return failed(reader, CODEC_DAMAGED, "length of a chunk");
    reader->checksum = (uint32_t)crc32(0, start + 4, 4);
    return CODEC_OK;
}

/// Returns up to `most` bytes of the current chunk's content.
static const uint8_t *take_content(png_rows *reader, uint32_t most, uint32_t *count) {
    size_t there = reader->length - reader->position;
    *count = reader->left < most ? reader->left : most;
    if (*count > there && there > 0) *count = (uint32_t)there;
    const uint8_t *bytes = take(reader, *count);
    if (!bytes) return NULL;
    reader->checksum = (uint32_t)crc32_z(reader->checksum, bytes, *count);
    reader->left -= *count;
    return bytes;
}

/// Verifies the CRC of the current chunk, which is read completely.
static codec_status end_chunk(png_rows *reader) {
    const uint8_t *checksum = take(reader, 4);
    if (!checksum) return CODEC_TRUNCATED;
    return codec_big_endian(checksum, 4) == reader->checksum ? CODEC_OK : failed(reader, CODEC_DAMAGED, "checksum");
}

/// Provides input to inflate, from the current chunk or the next.
static codec_status need_input(png_rows *reader) {
    while (reader->stream.avail_in == 0) {
        codec_status status = CODEC_OK;
        if (reader->left == 0) {
            // There is no chunk before the first one.
            if (reader->stream.next_in) status = end_chunk(reader);
            if (status == CODEC_OK) status = begin_chunk(reader);
            if (status != CODEC_OK) return status;
        }
        uint32_t length;
        const uint8_t *piece = take_content(reader, LONGEST_PIECE, &length);
        if (!piece) return CODEC_TRUNCATED;
        reader->stream.next_in = (uint8_t *)piece;
        reader->stream.avail_in = length;
    }
    return CODEC_OK;
}

/// Reads the zlib header or trailer (RFC 1950), which may span several chunks.
static codec_status read_frame(png_rows *reader, uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        codec_status status = need_input(reader);
        if (status != CODEC_OK) return status;
        bytes[i] = *reader->stream.next_in++;
        reader->stream.avail_in--;
    }
    return CODEC_OK;
}

/// Reads the zlib header and starts inflating.
static codec_status start(png_rows *reader) {
    uint8_t head[2];
    codec_status status = read_frame(reader, head, sizeof head);
    if (status != CODEC_OK) return status;
    int bits = 8 + (head[0] >> 4), is_deflate = (head[0] & 15) == 8, has_dictionary = head[1] & 32;
    if (!is_deflate || bits > 15 || has_dictionary || (head[0] << 8 | head[1]) % 31 != 0) {
        return failed(reader, CODEC_DAMAGED, "header of the compressed data");
    }
    // Raw inflate, because zlib's own Adler-32 takes a sixth of its time; png_adler32 replaces it.
    reader->has_stream = inflateInit2(&reader->stream, -bits) == Z_OK;
    return reader->has_stream ? CODEC_OK : CODEC_NO_MEMORY;
}

/// Inflates up to `count` bytes, reading the file as needed, or until the data end. Sets `made` to the number of bytes.
static codec_status inflate_into(png_rows *reader, uint8_t *bytes, size_t count, size_t *made) {
    z_stream *stream = &reader->stream;
    *made = 0;
    stream->next_out = bytes;
    stream->avail_out = (uInt)count;
    while (!reader->has_ended && stream->avail_out > 0) {
        codec_status status = need_input(reader);
        if (status != CODEC_OK) return status;
        int result = inflate(stream, Z_NO_FLUSH);
        if (result == Z_STREAM_END) reader->has_ended = 1;
        else if (result == Z_MEM_ERROR) return CODEC_NO_MEMORY;
        else if (result != Z_OK) return failed(reader, CODEC_DAMAGED, stream->msg ? stream->msg : "compression");
    }
    *made = count - stream->avail_out;
    return CODEC_OK;
}

static codec_status inflate_rows(png_rows *reader) {
    if (!reader->has_stream) {
        codec_status status = start(reader);
        if (status != CODEC_OK) return status;
    }
    size_t most = LONGEST_BATCH / row_bytes(reader), made;
    uint32_t count = most > reader->rows_left ? reader->rows_left : most > 0 ? (uint32_t)most : 1;
    size_t length = count * row_bytes(reader);
    codec_status status = inflate_into(reader, reader->stored, length, &made);
    if (status != CODEC_OK) return status;
    if (made < length) return failed(reader, CODEC_TRUNCATED, "not enough pixels");
    reader->adler = png_adler32(reader->adler, reader->stored, length);
    reader->next = reader->stored;
    reader->rows_stored = count;
    return CODEC_OK;
}

/// Verifies the Adler-32 of the decompressed data and the CRC of the chunk in which they end.
static codec_status check_end(png_rows *reader) {
    uint8_t surplus, adler[4];
    size_t made;
    codec_status status = inflate_into(reader, &surplus, 1, &made);
    // Data beyond the last row are ignored.
    if (status == CODEC_OK && made == 0) {
        status = read_frame(reader, adler, sizeof adler);
        if (status == CODEC_OK && codec_big_endian(adler, 4) != reader->adler) {
            return failed(reader, CODEC_DAMAGED, "checksum of the compressed data");
        }
    }
    while (status == CODEC_OK && reader->left > 0) {
        uint32_t count;
        if (!take_content(reader, reader->left, &count)) status = CODEC_TRUNCATED;
    }
    return status == CODEC_OK ? end_chunk(reader) : status;
}

codec_status png_rows_read(png_rows *reader, uint8_t *rows, size_t stride, uint32_t count) {
    const uint8_t *above = reader->above;
    for (; count > 0 && reader->rows_left > 0; count--, rows += stride) {
        if (reader->rows_stored == 0) {
            codec_status status = inflate_rows(reader);
            if (status != CODEC_OK) return status;
        }
        if (!png_undo_filter(reader->next, above, rows, reader->width, reader->channels, reader->order)) {
            return failed(reader, CODEC_DAMAGED, "filter");
        }
        above = rows;
        reader->next += row_bytes(reader);
        reader->rows_stored--;
        if (--reader->rows_left == 0) {
            codec_status status = check_end(reader);
            // If the file ends after the last row, all pixels are present.
            return reader->ran_out ? CODEC_OK : status;
        }
    }
    // Copies the last row, because the caller may change it.
    if (above != reader->above) memcpy(reader->above, above, (size_t)reader->width * 4);
    return CODEC_OK;
}

size_t png_rows_position(const png_rows *reader) { return reader->position - reader->stream.avail_in; }

void png_rows_destroy(png_rows *reader) {
    if (!reader) return;
    if (reader->has_stream) inflateEnd(&reader->stream);
    free(reader->stored);
    free(reader->above);
    free(reader);
}
