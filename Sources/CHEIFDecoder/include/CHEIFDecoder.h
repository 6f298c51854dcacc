// HEIC: libheif reads the container and libde265 decodes HEVC, behind functions that follow the rules of CImageCodecs.h.
//
// libheif is given a decoder of this target for HEVC, which starts no thread and decodes no more pixels than the container
// declares. All other codecs of libheif are refused.
#ifndef CHEIFDECODER_H
#define CHEIFDECODER_H

#include <CImageCodecs.h>

// MARK: Reading HEIC: create, read_header, start, read_rows until all rows are read, destroy.

typedef struct codec_heif_reader codec_heif_reader;

codec_heif_reader *codec_heif_reader_create(const uint8_t *bytes, size_t length);
/// Reads the boxes. The size is the shown one: libheif applies `clap`, `irot` and `imir`.
codec_status codec_heif_reader_read_header(codec_heif_reader *reader, codec_header *header);
/// The most thumbnails of an image that are found.
#define CODEC_HEIF_MAXIMUM_THUMBNAILS 8
/// Lets the reader, whose header is read, decode the image's thumbnail with an index below CODEC_HEIF_MAXIMUM_THUMBNAILS instead,
/// and describes that. CODEC_EMPTY if the image has no such thumbnail.
codec_status codec_heif_reader_show_thumbnail(codec_heif_reader *reader, uint32_t index, codec_header *header);
/// Decodes the image, which is then held as luma and chroma.
codec_status codec_heif_reader_start(codec_heif_reader *reader, codec_order order);
codec_status codec_heif_reader_read_rows(codec_heif_reader *reader, uint8_t *rows, size_t stride, uint32_t count);

const char *codec_heif_version(void);

#endif
