// The decoder of HEVC that libheif is given.
#ifndef CODEC_HEIF_DECODER_H
#define CODEC_HEIF_DECODER_H

#include <stdint.h>

/// The work that a file may demand.
typedef struct {
    /// The number of pixels that may still be decoded.
    uint64_t pixels;
    int is_exceeded;
} codec_heif_budget;

/// Gives libheif this decoder for HEVC, and none for other codecs. Call before decoding; later calls do nothing.
void codec_heif_register(void);
/// Sets the budget of this thread; NULL for none, with which nothing is decoded.
void codec_heif_set_budget(codec_heif_budget *budget);

#endif
