// The image codecs of the system (libpng, libjpeg-turbo, libwebp, giflib, libavif) behind calls that return instead of
// jumping.
//
// setjmp and longjmp stay inside each function here: no frame of a caller is ever jumped over. Nothing calls back:
// encoded bytes come from a span of memory, which must outlive its reader, and rows go into memory of the caller.
// Pixels have 8 bits a channel, four channels and straight alpha. A reader or writer that returned anything but
// CODEC_OK can only be asked for its message and be destroyed.
#ifndef CIMAGECODECS_H
#define CIMAGECODECS_H

#include <stddef.h>
#include <stdint.h>

#include "CodecTypes.h"
#include "ColorConversion.h"
#include "RowFilter.h"

/// What a header says of the picture as it is stored.
typedef struct {
    uint32_t width;
    uint32_t height;
    /// Pictures in the file, where the library counts them, else 0.
    uint32_t frames;
    /// Whether any pixel may be transparent.
    int32_t has_alpha;
    /// How many times all rows must be read, each time into the same memory, until they are complete.
    int32_t passes;
    /// The bytes that grow with the picture's area and that the library itself holds while it decodes: coefficients of a
    /// JPEG with several scans, the canvas of a WebP. Rows and windows of a few rows are not in it.
    uint64_t held_bytes;
    /// What rows are of; ink is handed out as ink, 255 for none, for codec_color_convert.
    codec_space space;
    /// PNG only: the bytes that the compressed data must become, however few it has itself.
    uint64_t inflated_bytes;
    /// WebP only: whether the library can make the picture smaller without mixing in colour of transparent pixels.
    int32_t can_scale;
} codec_header;

/// The longest side that is decoded.
#define CODEC_MAXIMUM_SIDE 65535
/// The most frames that a file may claim.
#define CODEC_MAXIMUM_FRAMES 65535
/// The most scans that a JPEG may have. Real ones have about ten.
#define CODEC_MAXIMUM_SCANS 500
/// The most blocks of 8 by 8 samples that all scans of a JPEG may go through: a scan can be a few bytes and takes a look
/// at each of its blocks, which is 70 ns. Real files of 50 million pixels have 15 million.
#define CODEC_MAXIMUM_SCANNED_BLOCKS (1u << 26)

/// Has the libraries look at the system where they do so once and decoding a picture does not make them: before the
/// sandbox closes, in which that fails.
void codec_warm_up(void);

// MARK: Reading PNG and JPEG: create, read_header, start, read_rows until all passes are through, destroy.

typedef struct codec_png_reader codec_png_reader;

/// A reader of the `length` bytes; NULL without memory.
codec_png_reader *codec_png_reader_create(const uint8_t *bytes, size_t length);
/// Reads up to the first IDAT chunk. Allocates nothing that grows with the picture.
codec_status codec_png_reader_read_header(codec_png_reader *reader, codec_header *header);
/// Before the header is read, for a file that is still on its way: the last bytes count, too, though the chunk that they
/// are of is not complete.
void codec_png_reader_take_part(codec_png_reader *reader);
/// Prepares for pixels; allocates a few rows.
codec_status codec_png_reader_start(codec_png_reader *reader, codec_order order);
/// Reads the next `count` rows of the present pass into `rows`, `stride` bytes apart.
codec_status codec_png_reader_read_rows(codec_png_reader *reader, uint8_t *rows, size_t stride, uint32_t count);
/// Instead of reading rows: how many passes are there as a whole.
codec_status codec_png_reader_count_passes(codec_png_reader *reader, uint32_t *complete);
/// Instead of reading rows: reads one pass, all rows of it into the same memory as those before. Each pixel that only
/// later passes have is as the nearest one of these to its left and above.
codec_status codec_png_reader_spread_pass(codec_png_reader *reader, uint8_t *rows, size_t stride);
/// How many of the bytes have been read; none before that is looked at again.
size_t codec_png_reader_position(const codec_png_reader *reader);
/// The checksum of PNG's chunks.
uint32_t codec_png_checksum(const uint8_t *bytes, size_t length);
/// What went wrong.
const char *codec_png_reader_message(const codec_png_reader *reader);
/// Frees the reader, which may be NULL.
void codec_png_reader_destroy(codec_png_reader *reader);

typedef struct codec_jpeg_reader codec_jpeg_reader;

/// A reader of the `length` bytes; NULL without memory.
codec_jpeg_reader *codec_jpeg_reader_create(const uint8_t *bytes, size_t length);
/// Reads up to the first scan. Allocates nothing that grows with the picture.
codec_status codec_jpeg_reader_read_header(codec_jpeg_reader *reader, codec_header *header);
/// Behind the header, for a file that is still on its way: makes the picture one of the scans that are there as a whole,
/// and counts them. CODEC_UNSUPPORTED where a file has one scan only; CODEC_TRUNCATED when none is complete.
codec_status codec_jpeg_reader_keep_complete_scans(codec_jpeg_reader *reader, uint32_t *scans);
/// Prepares for pixels of a picture whose sides are `eighths`/8 of the stored ones, rounded up (1 … 8). A file of
/// several scans is read to its end here and held as coefficients, without those scans that add nothing at this size.
codec_status codec_jpeg_reader_start(codec_jpeg_reader *reader, codec_order order, int eighths);
/// Reads the next `count` rows into `rows`, `stride` bytes apart.
codec_status codec_jpeg_reader_read_rows(codec_jpeg_reader *reader, uint8_t *rows, size_t stride, uint32_t count);
/// How many of the bytes have been read; none before that is looked at again.
size_t codec_jpeg_reader_position(const codec_jpeg_reader *reader);
/// What went wrong.
const char *codec_jpeg_reader_message(const codec_jpeg_reader *reader);
/// Frees the reader, which may be NULL.
void codec_jpeg_reader_destroy(codec_jpeg_reader *reader);

// MARK: Reading WebP, whose library decodes a picture as a whole.

/// Reads the header of a WebP file, or of the bitstream in one frame of an animation.
codec_status codec_webp_read_header(const uint8_t *bytes, size_t length, codec_header *header);
/// An upper estimate of `held_bytes` for a frame of so many pixels, whatever its kind.
uint64_t codec_webp_most_held_bytes(uint64_t pixels);
/// The same for the beginning of a file that is still on its way. CODEC_UNSUPPORTED for an animation, and for what has EXIF
/// data: they stand behind the pixels and may turn them.
codec_status codec_webp_read_part_header(const uint8_t *bytes, size_t length, codec_header *header);
/// Decodes a still picture, or the bitstream in one frame of an animation, into `pixels`: `height` rows of `width`
/// pixels without padding, as many as the header says, or fewer if the header says that it can be scaled.
codec_status codec_webp_decode(
    const uint8_t *bytes, size_t length, codec_order order, uint32_t width, uint32_t height, uint8_t *pixels);
/// Decodes the beginning of a file that is no animation: as many rows of `pixels` as are there; the others become
/// transparent. CODEC_TRUNCATED when there is none.
codec_status codec_webp_decode_part(
    const uint8_t *bytes, size_t length, codec_order order, uint32_t width, uint32_t height, uint8_t *pixels);

// MARK: Reading GIF, one frame at a time: create, start, read_rows until all rows are through, destroy.

/// A frame of a GIF.
typedef struct {
    /// Where its descriptor begins.
    size_t position;
    /// The part of it that is wanted, from its upper left corner.
    uint32_t width;
    uint32_t height;
    /// The index of what is transparent; -1 for none.
    int transparent;
} codec_gif_frame;

typedef struct codec_gif_reader codec_gif_reader;

/// A reader of `frame` in the GIF file; NULL without memory.
codec_gif_reader *codec_gif_reader_create(const uint8_t *bytes, size_t length, const codec_gif_frame *frame);
/// Reads the frame's descriptor.
codec_status codec_gif_reader_start(codec_gif_reader *reader, codec_order order);
/// Whether its rows come in another order, so that all of them have to be read at once; behind the start.
int codec_gif_reader_is_interlaced(const codec_gif_reader *reader);
/// Decodes the next `count` rows into `rows`, without padding.
codec_status codec_gif_reader_read_rows(codec_gif_reader *reader, uint8_t *rows, uint32_t count);
/// Frees the reader, which may be NULL.
void codec_gif_reader_destroy(codec_gif_reader *reader);

#ifndef WITHOUT_AVIF
// MARK: Reading AVIF: create, read_header, start, read_rows until all rows are through, destroy.

typedef struct codec_avif_reader codec_avif_reader;

/// A reader of the `length` bytes; NULL without memory.
codec_avif_reader *codec_avif_reader_create(const uint8_t *bytes, size_t length);
/// Reads the boxes. The size is that of the part to be shown (clap). Allocates nothing that grows with the picture.
codec_status codec_avif_reader_read_header(codec_avif_reader *reader, codec_header *header);
/// How the picture is to be turned, as a value of EXIF's tag Orientation; after the header.
int codec_avif_reader_orientation(const codec_avif_reader *reader);
/// The ICC profile, that of the file or one made of the numbers that name its colours; NULL for sRGB. After the header,
/// and as long as the reader.
const uint8_t *codec_avif_reader_profile(const codec_avif_reader *reader, size_t *length);
/// Decodes the picture, of a sequence its first one.
codec_status codec_avif_reader_start(codec_avif_reader *reader, codec_order order);
/// Converts the next `count` rows into `rows`, `stride` bytes apart.
codec_status codec_avif_reader_read_rows(codec_avif_reader *reader, uint8_t *rows, size_t stride, uint32_t count);
/// What went wrong.
const char *codec_avif_reader_message(const codec_avif_reader *reader);
/// Frees the reader, which may be NULL.
void codec_avif_reader_destroy(codec_avif_reader *reader);
/// Makes nothing of what C code writes to `stderr` from now on: dav1d has a line there for each oddity of a file, as many
/// as the file wants. The descriptor stays as it is.
void codec_avif_silence(void);
#endif

// MARK: The libraries as they run

/// Their names and versions.
const char *codec_png_version(void);
const char *codec_jpeg_version(void);
const char *codec_webp_version(void);
const char *codec_gif_version(void);
#ifndef WITHOUT_AVIF
const char *codec_avif_version(void);
#endif

// MARK: Writing PNG and JPEG: create, write_rows until all rows are through, finish, destroy. Encoded bytes gather in
// the writer; take_output hands them out after each call.

typedef struct codec_png_writer codec_png_writer;

/// A writer of a picture, with its alpha or without; NULL without memory.
codec_png_writer *codec_png_writer_create(uint32_t width, uint32_t height, codec_order order, int has_alpha);
/// Encodes the next `count` rows.
codec_status codec_png_writer_write_rows(
    codec_png_writer *writer, const uint8_t *rows, size_t stride, uint32_t count);
/// Writes the end of the file.
codec_status codec_png_writer_finish(codec_png_writer *writer);
/// The bytes encoded since the last call, valid until the next one.
const uint8_t *codec_png_writer_take_output(codec_png_writer *writer, size_t *length);
/// What went wrong.
const char *codec_png_writer_message(const codec_png_writer *writer);
/// Frees the writer, which may be NULL.
void codec_png_writer_destroy(codec_png_writer *writer);

typedef struct codec_jpeg_writer codec_jpeg_writer;

/// A writer of a picture whose alpha is ignored, with `quality` 1 … 100; NULL without memory.
codec_jpeg_writer *codec_jpeg_writer_create(uint32_t width, uint32_t height, codec_order order, int quality);
/// Before the first row: several scans of increasing precision instead of one.
void codec_jpeg_writer_set_progressive(codec_jpeg_writer *writer);
/// Before the first row: the four bytes of a pixel are cyan, magenta, yellow and black, 255 for no ink (as Adobe's
/// programs write them).
void codec_jpeg_writer_set_cmyk(codec_jpeg_writer *writer, int as_ycck);
/// Encodes the next `count` rows.
codec_status codec_jpeg_writer_write_rows(
    codec_jpeg_writer *writer, const uint8_t *rows, size_t stride, uint32_t count);
/// Writes the end of the file.
codec_status codec_jpeg_writer_finish(codec_jpeg_writer *writer);
/// The bytes encoded since the last call, valid until the next one.
const uint8_t *codec_jpeg_writer_take_output(codec_jpeg_writer *writer, size_t *length);
/// What went wrong.
const char *codec_jpeg_writer_message(const codec_jpeg_writer *writer);
/// Frees the writer, which may be NULL.
void codec_jpeg_writer_destroy(codec_jpeg_writer *writer);

// MARK: Writing WebP, whose library takes a picture as a whole.

/// Encodes `pixels`, rows without padding, with `quality` 1 … 100 (which for `lossless` is effort). `*output` must be
/// freed with codec_webp_free.
codec_status codec_webp_encode(
    const uint8_t *pixels, uint32_t width, uint32_t height, codec_order order, int quality, int lossless,
    uint8_t **output, size_t *length);
/// Frees what codec_webp_encode made.
void codec_webp_free(uint8_t *output);

#endif
