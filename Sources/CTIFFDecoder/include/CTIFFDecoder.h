// The first image of a TIFF with libtiff, behind functions that follow the rules of CImageCodecs.h.
#ifndef CTIFFDECODER_H
#define CTIFFDECODER_H

#include <CImageCodecs.h>

// MARK: Reading TIFF: create, read_header, start, read_rows until all rows are read, destroy.

typedef struct codec_tiff_reader codec_tiff_reader;

codec_tiff_reader *codec_tiff_reader_create(const uint8_t *bytes, size_t length);
/// Reads the first directory. `held_bytes` are those of a row of strips or tiles. Where damage is accepted, strips and tiles
/// that cannot be decoded become transparent, unless that are all.
codec_status codec_tiff_reader_read_header(codec_tiff_reader *reader, codec_header *header);
/// Prepares for reading rows; allocates a row of strips or tiles.
codec_status codec_tiff_reader_start(codec_tiff_reader *reader, codec_order order);
codec_status codec_tiff_reader_read_rows(codec_tiff_reader *reader, uint8_t *rows, size_t stride, uint32_t count);

const char *codec_tiff_version(void);

#endif
