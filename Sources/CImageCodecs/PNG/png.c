#include "CImageCodecs.h"
#include "../output.h"
#include "png_rows.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <zlib.h>

/// The most bytes that libpng may allocate for one ancillary chunk.
#define MAXIMUM_CHUNK_MEMORY (8 * 1024 * 1024)
/// The maximum number of ancillary chunks that libpng stores.
#define MAXIMUM_CHUNKS 128

struct codec_png_reader {
    codec_base base;
    png_structp png;
    png_infop info;
    size_t position;
    /// The offset of an incomplete IDAT chunk at the end of an incomplete file, else 0, and the available length of its
    /// content.
    size_t cut_chunk;
    uint32_t cut_length;
    /// A read exceeded the end of the bytes.
    int ran_out;
    int no_memory;
    uint32_t width, height;
    int passes;
    /// The number of rows read, of all passes together, and whether no more of them can be read.
    uint64_t rows_read;
    int has_ended;
    /// The bytes per pixel of a plain image, whose rows png_rows reads instead of libpng; else 0.
    int plain_channels;
    png_rows *rows;
};

static void *allocate(png_structp png, png_alloc_size_t size) {
    codec_png_reader *reader = png_get_mem_ptr(png);
    void *memory = malloc(size);
    if (!memory && reader) reader->no_memory = 1;
    return memory;
}

static void release(png_structp png, void *memory) {
    (void)png;
    free(memory);
}

/// Jumps to the setjmp of the current entry point, because libpng's error function must not return.
static void failed(png_structp png, const char *message) {
    codec_fail(png_get_error_ptr(png), CODEC_DAMAGED, message);
    png_longjmp(png, 1);
}

/// Ignores warnings, which do not concern pixels: damaged ancillary chunks, surplus data.
static void ignore_warning(png_structp png, const char *message) {
    (void)png;
    (void)message;
}

static void read_bytes(png_structp png, uint8_t *destination, size_t count) {
    codec_png_reader *reader = png_get_io_ptr(png);
    if (count > reader->base.length - reader->position) {
        reader->ran_out = 1;
        png_error(png, "the file ends early");
    }
    memcpy(destination, reader->base.bytes + reader->position, count);
    if (reader->cut_chunk && reader->position == reader->cut_chunk && count >= 4) {
        for (int i = 0; i < 4; i++) destination[i] = (uint8_t)(reader->cut_length >> (24 - 8 * i));
    }
    reader->position += count;
}

static codec_status reading_status(const codec_png_reader *reader) {
    if (reader->no_memory) return CODEC_NO_MEMORY;
    if (reader->ran_out) return CODEC_TRUNCATED;
    // The compressed data or the IDAT chunks end properly, but too early.
    if (strstr(reader->base.message, "Not enough")) return CODEC_TRUNCATED;
    return CODEC_DAMAGED;
}

static void release_reader(void *object) {
    codec_png_reader *reader = object;
    png_rows_destroy(reader->rows);
    if (reader->png) png_destroy_read_struct(&reader->png, &reader->info, NULL);
}

codec_png_reader *codec_png_reader_create(const uint8_t *bytes, size_t length) {
    codec_png_reader *reader = codec_allocate(sizeof *reader, release_reader, bytes, length);
    if (!reader) return NULL;
    reader->png = png_create_read_struct_2(
        PNG_LIBPNG_VER_STRING, reader, failed, ignore_warning, reader, allocate, release);
    reader->info = reader->png ? png_create_info_struct(reader->png) : NULL;
    if (!reader->info) {
        codec_destroy(reader);
        return NULL;
    }
    png_set_read_fn(reader->png, reader, read_bytes);
    return reader;
}

/// Finds an IDAT chunk that is incomplete.
static void find_cut_chunk(codec_png_reader *reader) {
    for (uint64_t position = 8; position + 8 < reader->base.length;) {
        const uint8_t *chunk = reader->base.bytes + position;
        uint64_t left = reader->base.length - position - 8, size = codec_big_endian(chunk, 4);
        // libpng reads a chunk completely or not at all, so its length is changed to the available one.
        if (size > left && memcmp(chunk + 4, "IDAT", 4) == 0) {
            reader->cut_chunk = (size_t)position;
            reader->cut_length = (uint32_t)left;
        }
        position += 12 + size;
    }
}

/// Returns the status for a size of zero or beyond the limits, which libpng reports as one generic error. IHDR is
/// always the first chunk.
static codec_status check_size(const codec_png_reader *reader) {
    const uint8_t *bytes = reader->base.bytes;
    if (reader->base.length < 24 || memcmp(bytes + 12, "IHDR", 4) != 0) return CODEC_OK;
    uint64_t width = codec_big_endian(bytes + 16, 4), height = codec_big_endian(bytes + 20, 4);
    if (width == 0 || height == 0) return CODEC_EMPTY;
    if (width > CODEC_MAXIMUM_SIDE || height > CODEC_MAXIMUM_SIDE) return CODEC_TOO_LARGE;
    return CODEC_OK;
}

codec_status codec_png_reader_read_header(codec_png_reader *reader, codec_header *header) {
    codec_status size = check_size(reader);
    if (size != CODEC_OK) return size;
    if (reader->base.is_part || reader->base.accepts_damage) find_cut_chunk(reader);
    if (setjmp(png_jmpbuf(reader->png))) return reading_status(reader);
    png_set_user_limits(reader->png, CODEC_MAXIMUM_SIDE, CODEC_MAXIMUM_SIDE);
    png_set_chunk_malloc_max(reader->png, MAXIMUM_CHUNK_MEMORY);
    png_set_chunk_cache_max(reader->png, MAXIMUM_CHUNKS);
    // Skips every ancillary chunk except tRNS unread, so that less code processes untrusted bytes.
    png_set_keep_unknown_chunks(reader->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(reader->png, reader->info);
    int type = png_get_color_type(reader->png, reader->info);
    header->width = png_get_image_width(reader->png, reader->info);
    header->height = png_get_image_height(reader->png, reader->info);
    int has_key = png_get_valid(reader->png, reader->info, PNG_INFO_tRNS) != 0;
    // Missing rows are transparent.
    header->has_alpha = (type & PNG_COLOR_MASK_ALPHA) || has_key || reader->base.accepts_damage;
    header->passes = png_get_interlace_type(reader->png, reader->info) == PNG_INTERLACE_NONE ? 1 : 7;
    header->space = type & PNG_COLOR_MASK_COLOR ? CODEC_SPACE_RGB : CODEC_SPACE_GRAY;
    header->inflated_bytes = (uint64_t)png_get_rowbytes(reader->png, reader->info) * header->height;
    reader->width = header->width;
    reader->height = header->height;
    int is_plain = png_get_bit_depth(reader->png, reader->info) == 8 && header->passes == 1 && !has_key
        && !reader->base.accepts_damage;
    if (is_plain && type == PNG_COLOR_TYPE_RGB) reader->plain_channels = 3;
    if (is_plain && type == PNG_COLOR_TYPE_RGB_ALPHA) reader->plain_channels = 4;
    return CODEC_OK;
}

codec_status codec_png_reader_start(codec_png_reader *reader, codec_order order) {
    if (reader->plain_channels > 0) {
        // libpng has read the header of the first IDAT chunk.
        reader->rows = png_rows_create(
            &reader->base, reader->base.bytes, reader->base.length, reader->position - 8, reader->width, reader->height,
            reader->plain_channels, order);
        return reader->rows ? CODEC_OK : CODEC_NO_MEMORY;
    }
    if (setjmp(png_jmpbuf(reader->png))) return reading_status(reader);
    // Only from here on: an image with a damaged header has no rows.
    if (reader->base.accepts_damage) png_set_crc_action(reader->png, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
    // Expands palettes, low depths and tRNS to full channels, rounds 16 bits to 8, and expands gray to RGB.
    png_set_expand(reader->png);
    png_set_scale_16(reader->png);
    png_set_gray_to_rgb(reader->png);
    png_set_add_alpha(reader->png, 0xff, PNG_FILLER_AFTER);
    if (order == CODEC_BGRA) png_set_bgr(reader->png);
    reader->passes = png_set_interlace_handling(reader->png);
    png_read_update_info(reader->png, reader->info);
    return CODEC_OK;
}

static int all_rows_read(const codec_png_reader *reader) {
    return reader->passes > 1 ? png_get_current_pass_number(reader->png) >= 7
                              : png_get_current_row_number(reader->png) >= reader->height;
}

static codec_status read_with_libpng(
    codec_png_reader *reader, uint8_t *rows, size_t stride, uint32_t count, int spreads) {
    if (setjmp(png_jmpbuf(reader->png))) {
        // After the last row, libpng reads the end of the compressed data. If only that is missing, all pixels are
        // present.
        return reader->ran_out && all_rows_read(reader) ? CODEC_OK : reading_status(reader);
    }
    for (uint32_t row = 0; row < count; row++) {
        uint8_t *place = rows + row * stride;
        png_read_row(reader->png, spreads ? NULL : place, spreads ? place : NULL);
        reader->rows_read++;
    }
    return CODEC_OK;
}

codec_status codec_png_reader_read_rows(
    codec_png_reader *reader, uint8_t *rows, size_t stride, uint32_t count, int spreads) {
    if (reader->rows) return png_rows_read(reader->rows, rows, stride, count);
    uint64_t before = reader->rows_read;
    codec_status status = reader->has_ended ? CODEC_OK : read_with_libpng(reader, rows, stride, count, spreads);
    if (status != CODEC_OK && (!reader->base.accepts_damage || reader->rows_read == 0)) return status;
    if (status != CODEC_OK) reader->has_ended = 1;
    // Those of an interlaced image have the pixels of earlier passes.
    size_t read = (size_t)(reader->rows_read - before);
    if (reader->has_ended && reader->passes == 1) memset(rows + read * stride, 0, (count - read) * stride);
    return CODEC_OK;
}

size_t codec_png_reader_position(const codec_png_reader *reader) {
    return reader->rows ? png_rows_position(reader->rows) : reader->position;
}

uint32_t codec_png_checksum(const uint8_t *bytes, size_t length) { return (uint32_t)crc32_z(0, bytes, length); }

struct codec_png_writer {
    codec_base base;
    png_structp png;
    png_infop info;
    uint32_t width, height;
    codec_order order;
    int has_alpha, started, no_memory;
    codec_output output;
};

static void write_bytes(png_structp png, uint8_t *bytes, size_t count) {
    codec_png_writer *writer = png_get_io_ptr(png);
    uint8_t *destination = codec_output_reserve(&writer->output, count);
    if (!destination) {
        writer->no_memory = 1;
        png_error(png, "out of memory");
    }
    memcpy(destination, bytes, count);
    writer->output.length += count;
}

static void flush_nothing(png_structp png) { (void)png; }

static codec_status writing_status(const codec_png_writer *writer) {
    return writer->no_memory ? CODEC_NO_MEMORY : CODEC_UNSUPPORTED;
}

static void release_writer(void *object) {
    codec_png_writer *writer = object;
    if (writer->png) png_destroy_write_struct(&writer->png, &writer->info);
    free(writer->output.bytes);
}

codec_png_writer *codec_png_writer_create(uint32_t width, uint32_t height, codec_order order, int has_alpha) {
    codec_png_writer *writer = codec_allocate(sizeof *writer, release_writer, NULL, 0);
    if (!writer) return NULL;
    writer->width = width;
    writer->height = height;
    writer->order = order;
    writer->has_alpha = has_alpha;
    writer->png = png_create_write_struct(PNG_LIBPNG_VER_STRING, writer, failed, ignore_warning);
    writer->info = writer->png ? png_create_info_struct(writer->png) : NULL;
    if (!writer->info) {
        codec_destroy(writer);
        return NULL;
    }
    png_set_write_fn(writer->png, writer, write_bytes, flush_nothing);
    return writer;
}

codec_status codec_png_writer_write_rows(codec_png_writer *writer, const uint8_t *rows, size_t stride, uint32_t count) {
    if (setjmp(png_jmpbuf(writer->png))) return writing_status(writer);
    if (!writer->started) {
        writer->started = 1;
        png_set_user_limits(writer->png, CODEC_MAXIMUM_SIDE, CODEC_MAXIMUM_SIDE);
        png_set_IHDR(
            writer->png, writer->info, writer->width, writer->height, 8,
            writer->has_alpha ? PNG_COLOR_TYPE_RGB_ALPHA : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
        png_write_info(writer->png, writer->info);
        if (writer->order == CODEC_BGRA) png_set_bgr(writer->png);
        if (!writer->has_alpha) png_set_filler(writer->png, 0, PNG_FILLER_AFTER);
    }
    for (uint32_t row = 0; row < count; row++) png_write_row(writer->png, rows + row * stride);
    return CODEC_OK;
}

codec_status codec_png_writer_finish(codec_png_writer *writer) {
    if (setjmp(png_jmpbuf(writer->png))) return writing_status(writer);
    png_write_end(writer->png, writer->info);
    return CODEC_OK;
}

const uint8_t *codec_png_writer_take_output(codec_png_writer *writer, size_t *length) {
    *length = writer->output.length;
    // The next rows overwrite them.
    writer->output.length = 0;
    return writer->output.bytes;
}

const char *codec_png_version(void) {
    static char text[32];
    snprintf(text, sizeof text, "libpng %s", png_get_libpng_ver(NULL));
    return text;
}
