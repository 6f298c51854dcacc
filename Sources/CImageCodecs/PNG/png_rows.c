#include "png_rows.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "png_filters.h"

/// As many bytes are inflated at once: their checksum is made while they are near.
#define LONGEST_PIECE 16384
/// And become as many, or a row: zlib copies what each call ends with.
#define LONGEST_BATCH 36864
/// The longest chunk.
#define LONGEST_CHUNK 0x7fffffffu

struct png_rows {
    const uint8_t *bytes;
    size_t length;
    size_t position;
    /// Of the present chunk, what is still to be read, and the checksum of what has been.
    uint32_t left;
    uint32_t checksum;
    /// More bytes were wanted than there are.
    int ran_out;
    z_stream stream;
    int has_stream;
    /// The compressed data are complete.
    int has_ended;
    uint32_t width;
    uint32_t rows_left;
    int channels;
    codec_order order;
    /// Some rows as they are stored, the first and the number of those to come, and the checksum of all so far.
    uint8_t *stored;
    const uint8_t *next;
    uint32_t rows_stored;
    uint32_t adler;
    /// The last row that was made.
    uint8_t *above;
    const char *message;
};

static uint32_t big_endian(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static codec_status failed(png_rows *reader, codec_status status, const char *message) {
    reader->message = message;
    return status;
}

/// The bytes of a stored row: the kind of filter, and the pixels.
static size_t row_bytes(const png_rows *reader) { return 1 + (size_t)reader->width * (size_t)reader->channels; }

png_rows *png_rows_create(
    const uint8_t *bytes, size_t length, size_t position, uint32_t width, uint32_t height, int channels,
    codec_order order) {
    png_rows *reader = calloc(1, sizeof *reader);
    if (!reader) return NULL;
    reader->bytes = bytes;
    reader->length = length;
    reader->position = position;
    reader->width = width;
    reader->rows_left = height;
    reader->channels = channels;
    reader->order = order;
    reader->message = "";
    // The byte behind the pixels is looked at.
    size_t row = row_bytes(reader);
    reader->stored = malloc((row < LONGEST_BATCH ? LONGEST_BATCH : row) + 1);
    reader->above = calloc(width, 4);
    reader->adler = 1;
    if (reader->stored && reader->above) return reader;
    png_rows_destroy(reader);
    return NULL;
}

/// `count` more bytes of the file; NULL when there are fewer.
static const uint8_t *take(png_rows *reader, size_t count) {
    if (count > reader->length - reader->position) {
        reader->ran_out = 1;
        reader->message = "the file ends early";
        return NULL;
    }
    const uint8_t *bytes = reader->bytes + reader->position;
    reader->position += count;
    return bytes;
}

/// Goes on to the next chunk, which must be of pixels, too.
static codec_status begin_chunk(png_rows *reader) {
    const uint8_t *start = take(reader, 8);
    if (!start) return CODEC_TRUNCATED;
    if (memcmp(start + 4, "IDAT", 4) != 0) return failed(reader, CODEC_TRUNCATED, "not enough pixels");
    reader->left = big_endian(start);
    if (reader->left > LONGEST_CHUNK) return failed(reader, CODEC_DAMAGED, "length of a chunk");
    reader->checksum = (uint32_t)crc32(0, start + 4, 4);
    return CODEC_OK;
}

/// Reads what the present chunk has, as far as `most` goes.
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

/// Looks at the checksum of the present chunk, all of which has been read.
static codec_status end_chunk(png_rows *reader) {
    const uint8_t *checksum = take(reader, 4);
    if (!checksum) return CODEC_TRUNCATED;
    return big_endian(checksum) == reader->checksum ? CODEC_OK : failed(reader, CODEC_DAMAGED, "checksum");
}

/// Sees to it that there is something to inflate.
static codec_status need_input(png_rows *reader) {
    while (reader->stream.avail_in == 0) {
        codec_status status = CODEC_OK;
        if (reader->left == 0) {
            // The first chunk has none before it.
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

/// Reads what is around the compressed data (RFC 1950), in whatever chunks it is.
static codec_status read_frame(png_rows *reader, uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        codec_status status = need_input(reader);
        if (status != CODEC_OK) return status;
        bytes[i] = *reader->stream.next_in++;
        reader->stream.avail_in--;
    }
    return CODEC_OK;
}

/// Begins to inflate.
static codec_status start(png_rows *reader) {
    uint8_t head[2];
    codec_status status = read_frame(reader, head, sizeof head);
    if (status != CODEC_OK) return status;
    int bits = 8 + (head[0] >> 4), is_deflate = (head[0] & 15) == 8, has_dictionary = head[1] & 32;
    if (!is_deflate || bits > 15 || has_dictionary || (head[0] << 8 | head[1]) % 31 != 0) {
        return failed(reader, CODEC_DAMAGED, "header of the compressed data");
    }
    // Without zlib's look at the checksum, which takes a sixth of the time of all that it does.
    reader->has_stream = inflateInit2(&reader->stream, -bits) == Z_OK;
    return reader->has_stream ? CODEC_OK : CODEC_NO_MEMORY;
}

/// Inflates, reading more of the file when it takes that, until there is room for nothing or the data end. Returns in
/// `made` how much came.
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

/// Inflates as many of the next rows as there is room for.
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

/// Looks at what is behind the pixels: the checksum of the compressed data, and that of the chunk in which they end.
static codec_status check_end(png_rows *reader) {
    uint8_t surplus, adler[4];
    size_t made;
    codec_status status = inflate_into(reader, &surplus, 1, &made);
    // More data than the rows need are passed over.
    if (status == CODEC_OK && made == 0) {
        status = read_frame(reader, adler, sizeof adler);
        if (status == CODEC_OK && big_endian(adler) != reader->adler) {
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
            // Where only what is behind the pixels is missing, no pixel is.
            return reader->ran_out ? CODEC_OK : status;
        }
    }
    // The rows are the caller's afterwards.
    if (above != reader->above) memcpy(reader->above, above, (size_t)reader->width * 4);
    return CODEC_OK;
}

size_t png_rows_position(const png_rows *reader) { return reader->position - reader->stream.avail_in; }

const char *png_rows_message(const png_rows *reader) { return reader->message; }

void png_rows_destroy(png_rows *reader) {
    if (!reader) return;
    if (reader->has_stream) inflateEnd(&reader->stream);
    free(reader->stored);
    free(reader->above);
    free(reader);
}
