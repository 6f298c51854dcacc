// JPEG XL with libjxl, behind functions that follow the rules of CImageCodecs.h. Decoding takes one thread.
#ifndef CJXLDECODER_H
#define CJXLDECODER_H

#include <CImageCodecs.h>

// MARK: Reading JPEG XL: create, read_header, select, read_frame for each requested frame, destroy.

typedef struct codec_jxl_reader codec_jxl_reader;

codec_jxl_reader *codec_jxl_reader_create(const uint8_t *bytes, size_t length);
/// Reads the headers of the image and of all frames. Where damage is accepted, an incomplete file consists of its complete
/// frames, or of the decodable part of the first one. `frames` is the number of frames that an animation shows.
codec_status codec_jxl_reader_read_header(codec_jxl_reader *reader, codec_header *header);
// Call after reading the header, as all below.
int codec_jxl_reader_is_animation(const codec_jxl_reader *reader);
/// Returns the number of times that the animation is shown; 0 for endless.
uint32_t codec_jxl_reader_loops(const codec_jxl_reader *reader);
/// Returns the time in milliseconds for which the frame at `index` is shown.
uint32_t codec_jxl_reader_delay(const codec_jxl_reader *reader, uint32_t index);
/// Returns the number of pixels of all layers up to the frame at `index`, as stored; at least one canvas for each frame.
uint64_t codec_jxl_reader_pixels(const codec_jxl_reader *reader, uint32_t index);
/// Selects the first frame to read. libjxl decodes those before it only if it refers to them.
codec_status codec_jxl_reader_select(codec_jxl_reader *reader, uint32_t first);
/// Decodes the next frame, composed, into `pixels`: rows without padding, of red, green, blue and alpha. Where damage is accepted, it may
/// leave pixels as they are.
codec_status codec_jxl_reader_read_frame(codec_jxl_reader *reader, uint8_t *pixels);

const char *codec_jxl_version(void);

#endif
