// Types and functions that all codecs share.
#ifndef CODECTYPES_H
#define CODECTYPES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

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

/// The first member of each reader, writer and colour conversion.
typedef struct {
    /// Frees what the object holds besides its own memory.
    void (*release)(void *object);
    /// Of a reader: the file.
    const uint8_t *bytes;
    size_t length;
    /// The text of the last error; empty without one.
    char message[256];
    /// What a reader accepts: a file whose end is missing, because it is being downloaded; any damage.
    int is_part, accepts_damage;
    /// Of a reader after its header: the value of EXIF's tag Orientation that the library reports, 0 for none; and the
    /// ICC profile of rows, the file's or one made from its colour space, NULL for sRGB.
    int orientation;
    const uint8_t *profile;
    size_t profile_length;
    /// Instead of a profile, for light that may be brighter than a document's white: primaries * 256 + transfer (ITU-T
    /// H.273); else 0.
    int light;
} codec_base;

/// Notes why a reader or writer fails, and returns `status`.
static inline codec_status codec_fail(void *object, codec_status status, const char *message) {
    codec_base *base = (codec_base *)object;
    snprintf(base->message, sizeof base->message, "%s", message);
    return status;
}

/// Allocates an object, a reader of a file if that is given, of `size` bytes that are zero but for its base; NULL
/// without memory.
static inline void *codec_allocate(size_t size, void (*release)(void *object), const uint8_t *bytes, size_t length) {
    codec_base *base = (codec_base *)calloc(1, size);
    if (base) *base = (codec_base){.release = release, .bytes = bytes, .length = length};
    return base;
}

/// Frees an object, which may be NULL.
static inline void codec_destroy(void *object) {
    if (object) ((codec_base *)object)->release(object);
    free(object);
}

/// States what a reader accepts. Call before reading the header.
static inline void codec_accept(void *reader, int is_part, int damage) {
    ((codec_base *)reader)->is_part = is_part;
    ((codec_base *)reader)->accepts_damage = damage;
}

/// Returns what a reader or writer has noted.
static inline const codec_base *codec_notes(const void *object) { return (const codec_base *)object; }

/// Returns the number of `count` bytes, 8 at most, the most significant first.
static inline uint64_t codec_big_endian(const uint8_t *bytes, int count) {
    uint64_t value = 0;
    for (int i = 0; i < count; i++) value = value << 8 | bytes[i];
    return value;
}

#endif
