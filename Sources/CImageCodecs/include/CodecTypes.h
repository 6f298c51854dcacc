// Types that all codec functions share.
#ifndef CODECTYPES_H
#define CODECTYPES_H

/// The result of a call.
typedef enum {
    CODEC_OK = 0,
    /// The encoded bytes end before all pixels are decoded.
    CODEC_TRUNCATED,
    /// The encoded bytes violate their format.
    CODEC_DAMAGED,
    /// A valid image of a kind that is not decoded.
    CODEC_UNSUPPORTED,
    /// The image has no pixels.
    CODEC_EMPTY,
    /// A side exceeds the limit of the library or of this program, or there are too many frames or scans.
    CODEC_TOO_LARGE,
    /// An allocation failed, or would exceed its limit.
    CODEC_NO_MEMORY,
} codec_status;

/// The byte order of a pixel.
typedef enum { CODEC_RGBA = 0, CODEC_BGRA } codec_order;

/// The colour space of a stored image.
typedef enum {
    CODEC_SPACE_RGB = 0,
    /// Rows carry the value three times, as red, green and blue.
    CODEC_SPACE_GRAY,
    CODEC_SPACE_CMYK,
} codec_space;

#endif
