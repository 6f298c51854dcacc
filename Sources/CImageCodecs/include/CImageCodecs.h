// The system's image codecs (libpng, libjpeg-turbo, libwebp, giflib) behind functions that return a status
// instead of jumping.
//
// setjmp and longjmp stay inside each function: no caller's frame is ever jumped over. There are no callbacks: encoded
// bytes are read from one span of memory, which must outlive its reader, and rows are written to the caller's memory.
// Pixels have four channels of 8 bits and straight alpha. After any status other than CODEC_OK, a reader or writer
// accepts only the call that destroys it, and has a message (codec_notes).
//
// Where readers and writers have these functions, they do the same: `create` makes one, a reader of the `length` bytes;
// it returns NULL without memory. `read_header` describes the image, and allocates nothing proportional to its area.
// `read_rows` writes the next `count` rows to `rows`, `stride` bytes apart. `position` returns the number of bytes that
// were read and are not read again. `version` returns the library's name and version, as loaded where the library
// reports it. codec_destroy frees one of any kind.
#ifndef CIMAGECODECS_H
#define CIMAGECODECS_H

#include <stddef.h>
#include <stdint.h>

#include "CodecTypes.h"
#include "ColorConversion.h"
#include "ImageSteps.h"
#include "PixelPacking.h"
#include "RowFilter.h"

/// The header of a stored image. Readers leave fields that are zero, so it is all zeros before.
typedef struct {
    uint32_t width, height;
    /// The number of images in the file if the library counts them, else 0.
    uint32_t frames;
    /// Whether any pixel may be transparent.
    int32_t has_alpha;
    /// The number of times that all rows must be read, each time into the same memory, until they are complete; 0
    /// stands for 1.
    int32_t passes;
    /// The bytes proportional to the image's area that the library holds while decoding: coefficients of a JPEG with
    /// several scans, the canvas of a WebP. Excludes single rows and windows of a few rows.
    uint64_t held_bytes;
    /// The colour space of rows. CMYK is returned as CMYK, 255 for no ink, for codec_color_convert.
    codec_space space;
    /// PNG only: the size of the decompressed data that the header implies.
    uint64_t inflated_bytes;
    /// WebP only: whether the library can scale the image down without mixing in the colour of transparent pixels.
    int32_t can_scale;
} codec_header;

/// The maximum width and height, in pixels.
#define CODEC_MAXIMUM_SIDE 65535
/// The maximum number of frames that a file may declare.
#define CODEC_MAXIMUM_FRAMES 65535
/// The maximum number of scans of a JPEG. Typical files have about ten.
#define CODEC_MAXIMUM_SCANS 500
/// The maximum number of 8 × 8 blocks that all scans of a JPEG visit together. A scan of a few bytes visits each of its
/// blocks, which takes 70 ns per block. Typical files of 50 million pixels visit 15 million.
#define CODEC_MAXIMUM_SCANNED_BLOCKS (1u << 26)

/// Triggers the libraries' one-time queries of the system that decoding the samples does not trigger. Must run before
/// the sandbox is entered, where these queries fail.
void codec_warm_up(void);
/// Discards all later output of C code to `stderr`, because dav1d, libjxl and others write a line for each irregularity of a file
/// and a file can contain any number of them. The descriptor itself stays open.
void codec_silence(void);

// MARK: Reading PNG and JPEG: create, read_header, start, read_rows until all passes are read, destroy.

typedef struct codec_png_reader codec_png_reader;

codec_png_reader *codec_png_reader_create(const uint8_t *bytes, size_t length);
/// Reads up to the first IDAT chunk. The last bytes of a part may belong to an incomplete chunk. Where damage is accepted,
/// so they may, and reading continues after wrong checksums of pixels; after the first row, rows that cannot be read are
/// no error: they become transparent, or, of an interlaced image, are not written.
codec_status codec_png_reader_read_header(codec_png_reader *reader, codec_header *header);
/// Prepares for reading rows; allocates a few rows.
codec_status codec_png_reader_start(codec_png_reader *reader, codec_order order);
/// Reads rows of the current pass, into the memory of the passes before. If it `spreads`, each pixel of a later pass is
/// filled with the nearest pixel to its left and above.
codec_status codec_png_reader_read_rows(
    codec_png_reader *reader, uint8_t *rows, size_t stride, uint32_t count, int spreads);
size_t codec_png_reader_position(const codec_png_reader *reader);
/// Returns the CRC-32 that PNG chunks end with.
uint32_t codec_png_checksum(const uint8_t *bytes, size_t length);

typedef struct codec_jpeg_reader codec_jpeg_reader;

codec_jpeg_reader *codec_jpeg_reader_create(const uint8_t *bytes, size_t length);
/// Reads up to the first scan. Where damage is accepted, libjpeg's gray takes the place of damaged and missing data, and
/// what follows a segment that cannot be read is left out. CODEC_TRUNCATED is returned all the same if the data end
/// within the first rows.
codec_status codec_jpeg_reader_read_header(codec_jpeg_reader *reader, codec_header *header);
/// Limits a part of a file to its complete scans, and counts them. Call after reading the header. CODEC_UNSUPPORTED if
/// the file has one scan; CODEC_TRUNCATED if no scan is complete.
codec_status codec_jpeg_reader_keep_complete_scans(codec_jpeg_reader *reader, uint32_t *scans);
/// Prepares for reading rows of an image whose sides are `eighths`/8 of the stored ones, rounded up (1 … 8). Reads a file
/// with several scans to its end and holds it as coefficients, without the scans that do not affect this size.
codec_status codec_jpeg_reader_start(codec_jpeg_reader *reader, codec_order order, int eighths);
codec_status codec_jpeg_reader_read_rows(codec_jpeg_reader *reader, uint8_t *rows, size_t stride, uint32_t count);
codec_status codec_jpeg_reader_skip_rows(codec_jpeg_reader *reader, uint32_t count);
size_t codec_jpeg_reader_position(const codec_jpeg_reader *reader);

// MARK: Reading WebP, which libwebp decodes as a whole.

/// What a WebP may lack.
typedef enum {
    CODEC_WEBP_WHOLE = 0,
    /// The end of a file that is being downloaded.
    CODEC_WEBP_PART,
    /// Any rows after the first one.
    CODEC_WEBP_DAMAGED,
} codec_webp_state;

/// Reads the header of a WebP file, or of the bitstream of an animation's frame. CODEC_UNSUPPORTED for a part of an
/// animation, and of a file with EXIF data, which follows the pixels and may rotate them.
codec_status codec_webp_read_header(
    const uint8_t *bytes, size_t length, codec_webp_state state, codec_header *header);
/// Returns an upper estimate of `held_bytes` for a frame of `pixels` pixels, of any kind.
uint64_t codec_webp_most_held_bytes(uint64_t pixels);
/// Decodes a still image, or the bitstream of an animation's frame, into `pixels`: `height` rows of `width` pixels
/// without padding. The size is the header's, or a smaller one if the header's `can_scale` is set. Rows that may be
/// missing become transparent; an error if no row is available.
codec_status codec_webp_decode(
    const uint8_t *bytes, size_t length, codec_webp_state state, codec_order order, uint32_t width, uint32_t height,
    uint8_t *pixels);

// MARK: Reading GIF, one frame at a time: create, start, read_rows until all rows are read, destroy.

typedef struct {
    /// The offset of its image descriptor.
    size_t position;
    /// The size of the part to decode, from the frame's upper left corner.
    uint32_t width, height;
    /// The transparent index; -1 for none.
    int transparent;
} codec_gif_frame;

typedef struct codec_gif_reader codec_gif_reader;

/// Returns a reader of `frame` in the GIF file; NULL without memory.
codec_gif_reader *codec_gif_reader_create(const uint8_t *bytes, size_t length, const codec_gif_frame *frame);
/// Reads the frame's image descriptor. Where damage is accepted, it may follow the first visible row, and the file may end
/// within the frame's data: rows that are not complete become transparent, or, of an interlaced frame, are not written.
codec_status codec_gif_reader_start(codec_gif_reader *reader, codec_order order);
/// Returns whether the frame is interlaced, so that all rows must be read at once. Call after the start.
int codec_gif_reader_is_interlaced(const codec_gif_reader *reader);
/// Decodes the next `count` rows into `rows`, without padding.
codec_status codec_gif_reader_read_rows(codec_gif_reader *reader, uint8_t *rows, uint32_t count);

// MARK: Versions of the libraries

const char *codec_png_version(void);
const char *codec_jpeg_version(void);
const char *codec_webp_version(void);
const char *codec_gif_version(void);

// MARK: Writing PNG and JPEG: create, write_rows until all rows are written, finish, which writes the end of the file,
// destroy. The writer collects the encoded bytes; take_output returns those since its last call, valid until the
// next call with the writer.

typedef struct codec_png_writer codec_png_writer;

/// Returns a writer of an image with or without alpha; NULL without memory.
codec_png_writer *codec_png_writer_create(uint32_t width, uint32_t height, codec_order order, int has_alpha);
codec_status codec_png_writer_write_rows(codec_png_writer *writer, const uint8_t *rows, size_t stride, uint32_t count);
codec_status codec_png_writer_finish(codec_png_writer *writer);
const uint8_t *codec_png_writer_take_output(codec_png_writer *writer, size_t *length);

typedef struct codec_jpeg_writer codec_jpeg_writer;

/// Returns a writer of a baseline JPEG with `quality` 1 … 100, which ignores alpha; NULL without memory.
codec_jpeg_writer *codec_jpeg_writer_create(uint32_t width, uint32_t height, codec_order order, int quality);
codec_status codec_jpeg_writer_write_rows(
    codec_jpeg_writer *writer, const uint8_t *rows, size_t stride, uint32_t count);
codec_status codec_jpeg_writer_finish(codec_jpeg_writer *writer);
const uint8_t *codec_jpeg_writer_take_output(codec_jpeg_writer *writer, size_t *length);

// MARK: Writing WebP, which libwebp encodes as a whole.

/// Encodes `pixels`, rows without padding, as lossy WebP with `quality` 1 … 100. `*output` must be freed with
/// codec_webp_free.
codec_status codec_webp_encode(
    const uint8_t *pixels, uint32_t width, uint32_t height, codec_order order, int quality, uint8_t **output,
    size_t *length);
void codec_webp_free(uint8_t *output);

/// An animated WebP that is being written, with libwebpmux: frames that equal the one before prolong it, and of the others the area
/// that differs is stored.
typedef struct codec_webp_writer codec_webp_writer;
/// Begins an animation that is shown `loops` times, 0 for endless; NULL without memory, or for sides above 16,383.
codec_webp_writer *codec_webp_writer_create(
    uint32_t width, uint32_t height, codec_order order, int quality, uint16_t loops);
/// Encodes the next frame: rows without padding, shown for `milliseconds`. The sum of these must be an int.
codec_status codec_webp_writer_add(codec_webp_writer *writer, const uint8_t *pixels, int milliseconds);
/// Encodes the end of the file, and returns all of it, valid until the writer is freed.
codec_status codec_webp_writer_finish(codec_webp_writer *writer, const uint8_t **output, size_t *length);

#endif
