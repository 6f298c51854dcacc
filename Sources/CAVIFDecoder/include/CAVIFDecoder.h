// libavif behind functions that return a status, by the rules of CImageCodecs.h.
#ifndef CAVIFDECODER_H
#define CAVIFDECODER_H

#include "CImageCodecs.h"

// MARK: Reading AVIF: create, read_header, start, read_rows until all rows are read, destroy. A sequence is started again
// for each image.

typedef struct codec_avif_reader codec_avif_reader;

codec_avif_reader *codec_avif_reader_create(const uint8_t *bytes, size_t length);
/// Reads the boxes. The size is that of the clean aperture (clap).
codec_status codec_avif_reader_read_header(codec_avif_reader *reader, codec_header *header);
/// Adds alpha, which is the image that the file describes with the `length` bytes of `meta` in place of the content of its box of this
/// name at `start`. Call after reading the header. Does nothing if libavif has found alpha.
codec_status codec_avif_reader_add_alpha(
    codec_avif_reader *reader, uint64_t start, const uint8_t *meta, size_t length, int is_premultiplied);
/// Returns whether the images are those of a sequence. Call after reading the header.
int codec_avif_reader_is_sequence(const codec_avif_reader *reader);
/// Returns whether the container declares that the image of a sequence at `index` is decoded without those before it.
int codec_avif_reader_is_key(const codec_avif_reader *reader, uint32_t index);
/// Returns the number of pixels of a stored image, before it is cropped.
uint64_t codec_avif_reader_pixels(const codec_avif_reader *reader);
/// Returns an upper estimate of the bytes that decoding `frames` frames, at least 1, holds, measured: the whole image in
/// its own depth and sampling, with the codec's data per block, and the frames that others refer to; alpha likewise, as an
/// image of its own; a copy of the colour for film grain, which is only known while decoding; the cells of a grid besides
/// the whole image, each with a codec of its own. The data states samples of `sample_bytes` bytes and as many in both chroma
/// planes as `chroma_of_four` for four pixels; where the container declares more, that counts.
uint64_t codec_avif_reader_held_bytes(
    const codec_avif_reader *reader, uint32_t frames, uint32_t sample_bytes, uint32_t chroma_of_four);
/// Selects the images of a sequence to be returned: from `wanted` on, decoded from `first` on. Call before the start.
void codec_avif_reader_select(codec_avif_reader *reader, uint32_t first, uint32_t wanted);
/// Decodes the image; of a sequence, the next selected one.
codec_status codec_avif_reader_start(codec_avif_reader *reader, codec_order order);
codec_status codec_avif_reader_read_rows(codec_avif_reader *reader, uint8_t *rows, size_t stride, uint32_t count);

const char *codec_avif_version(void);

#endif
