// What the codecs' functions speak of.
#ifndef CODECTYPES_H
#define CODECTYPES_H

/// How a call ended.
typedef enum {
    CODEC_OK = 0,
    /// The encoded bytes end before all pixels came.
    CODEC_TRUNCATED,
    /// The encoded bytes break the rules of their format.
    CODEC_DAMAGED,
    /// A valid picture of a kind that the library does not decode.
    CODEC_UNSUPPORTED,
    /// The picture has no pixels.
    CODEC_EMPTY,
    /// A side is longer than the library or this program takes, or there are too many frames or scans.
    CODEC_TOO_LARGE,
    /// Memory could not be had, or would exceed its bound.
    CODEC_NO_MEMORY,
} codec_status;

/// The order of a pixel's four bytes.
typedef enum { CODEC_RGBA = 0, CODEC_BGRA } codec_order;

/// What the channels of a stored picture are.
typedef enum {
    CODEC_SPACE_RGB = 0,
    /// Rows have it as red, green and blue alike.
    CODEC_SPACE_GRAY,
    CODEC_SPACE_CMYK,
} codec_space;

#endif
