#define _GNU_SOURCE
#include "CImageCodecs.h"

#ifndef WITHOUT_AVIF
#include <avif/avif.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// The most bytes of boxes that describe a picture, colour profiles aside. Files have some hundred, a large grid some
/// thousand. The library keeps ten times as much for a property, and looks for each item among all of them.
#define MAXIMUM_STRUCTURE (128u << 10)
/// How deep boxes are looked into: moov, trak, mdia, minf, stbl.
#define MAXIMUM_DEPTH 6

/// What dav1d takes for itself: 400 KiB.
#define MEMORY_OF_CODEC (512u << 10)

struct codec_avif_reader {
    const uint8_t *bytes;
    size_t length;
    avifDecoder *decoder;
    /// A part of the picture, which owns nothing.
    avifImage *band;
    /// The part of the stored picture that is to be seen.
    avifCropRect crop;
    codec_order order;
    uint32_t row;
    /// The last band with the rows around it.
    uint8_t *scratch;
    size_t scratch_size;
    /// Made from the numbers that name the colours; NULL where the file has a profile, or is sRGB.
    uint8_t *described;
    size_t described_length;
    char message[AVIF_DIAGNOSTICS_ERROR_BUFFER_SIZE];
};

// MARK: Boxes (ISO/IEC 14496-12, section 4.2)

typedef struct {
    const uint8_t *content;
    uint64_t size;
    char type[4];
    /// Whether it ends behind the bytes that are there.
    int is_cut;
} box;

static uint64_t big_endian(const uint8_t *bytes, int count) {
    uint64_t value = 0;
    for (int i = 0; i < count; i++) value = value << 8 | bytes[i];
    return value;
}

/// The box at the start of `length` bytes, as far as it is there. How many bytes it takes, at least 8; 0 for none.
static uint64_t read_box(const uint8_t *bytes, uint64_t length, box *box) {
    if (length < 8) return 0;
    uint64_t size = big_endian(bytes, 4), header = 8;
    memcpy(box->type, bytes + 4, 4);
    if (size == 1) {
        if (length < 16) return 0;
        size = big_endian(bytes + 8, 8);
        header = 16;
    } else if (size == 0) {
        size = length;
    }
    if (size < header) return 0;
    box->is_cut = size > length;
    if (box->is_cut) size = length;
    box->content = bytes + header;
    box->size = size - header;
    return size;
}

static int has_type(const box *box, const char *types) {
    for (; *types; types += 4) {
        if (memcmp(box->type, types, 4) == 0) return 1;
    }
    return 0;
}

/// The bytes of all boxes that are neither pixels nor, beyond their beginning, profiles.
static uint64_t structure_bytes(const uint8_t *bytes, uint64_t length, int depth) {
    uint64_t sum = 0, size;
    box box;
    for (; (size = read_box(bytes, length, &box)) > 0; bytes += size, length -= size) {
        uint64_t version = has_type(&box, "meta") ? 4 : 0;
        if (has_type(&box, "metamoovtrakmdiaminfstbliprpipco") && depth > 0 && box.size >= version) {
            sum += 8 + structure_bytes(box.content + version, box.size - version, depth - 1);
        } else if (has_type(&box, "mdatidatcolr")) {
            sum += 16;
        } else if (depth < MAXIMUM_DEPTH) {
            sum += size;
        }
    }
    return sum;
}

/// Whether the last box of the file is not there in full.
static int is_cut_off(const uint8_t *bytes, uint64_t length) {
    uint64_t size;
    box box = {0};
    for (; (size = read_box(bytes, length, &box)) > 0; bytes += size, length -= size) {
        if (box.is_cut) return 1;
    }
    return length > 0;
}

/// How often four letters stand in the file, and so at least how many items have this type: a picture that is put
/// together from others is a `grid`, and each of those is `av01`.
static uint64_t count_type(const codec_avif_reader *reader, const char *type) {
    uint64_t count = 0;
    const uint8_t *end = reader->bytes + reader->length, *place = reader->bytes;
    for (; (place = memmem(place, (size_t)(end - place), type, 4)) != NULL; place += 4) count++;
    return count;
}

// MARK: Reading

static codec_status failed(codec_avif_reader *reader, avifResult result) {
    const char *detail = reader->decoder->diag.error;
    snprintf(reader->message, sizeof reader->message, "%s", *detail ? detail : avifResultToString(result));
    // Of a limit on sizes the library only says so in words.
    if (strstr(detail, "too large") || strstr(detail, "excessive")) return CODEC_TOO_LARGE;
    switch (result) {
    case AVIF_RESULT_OUT_OF_MEMORY: return CODEC_NO_MEMORY;
    case AVIF_RESULT_TRUNCATED_DATA:
    case AVIF_RESULT_IO_ERROR: return CODEC_TRUNCATED;
    case AVIF_RESULT_NO_CODEC_AVAILABLE:
    case AVIF_RESULT_NOT_IMPLEMENTED:
    case AVIF_RESULT_UNSUPPORTED_DEPTH: return CODEC_UNSUPPORTED;
    default: break;
    }
    if (strstr(detail, "runcated") || is_cut_off(reader->bytes, reader->length)) return CODEC_TRUNCATED;
    // The library does not hand on why the codec behind it failed; malloc left its word.
    return errno == ENOMEM ? CODEC_NO_MEMORY : CODEC_DAMAGED;
}

codec_avif_reader *codec_avif_reader_create(const uint8_t *bytes, size_t length) {
    codec_avif_reader *reader = calloc(1, sizeof *reader);
    if (!reader) return NULL;
    reader->bytes = bytes;
    reader->length = length;
    reader->decoder = avifDecoderCreate();
    reader->band = avifImageCreateEmpty();
    if (!reader->decoder || !reader->band || avifDecoderSetIOMemory(reader->decoder, bytes, length) != AVIF_RESULT_OK) {
        codec_avif_reader_destroy(reader);
        return NULL;
    }
    avifDecoder *decoder = reader->decoder;
    // A confined process has no second thread.
    decoder->maxThreads = 1;
    // How a picture is turned is in irot and imir; the standard says that EXIF's word does not count.
    decoder->ignoreExif = AVIF_TRUE;
    decoder->ignoreXMP = AVIF_TRUE;
    decoder->imageSizeLimit = AVIF_DEFAULT_IMAGE_SIZE_LIMIT;
    decoder->imageDimensionLimit = CODEC_MAXIMUM_SIDE;
    decoder->imageCountLimit = CODEC_MAXIMUM_FRAMES;
    // A part of the picture to be shown must be one. What writers are known to leave out, and other readers do without,
    // is not asked for: pixi, which repeats what av1C says, and the size of alpha.
    decoder->strictFlags = AVIF_STRICT_CLAP_VALID;
    return reader;
}

/// An upper estimate of what decoding holds, measured. A picture is held in full, in its own depth and sampling, beside
/// what the codec notes of each block; so is alpha, which is a picture of its own. Whether grain is laid over a copy of
/// the colour shows only in decoding. A grid's cells are held beside the whole, each with a codec of its own.
static uint64_t held_bytes(const codec_avif_reader *reader) {
    const avifImage *image = reader->decoder->image;
    avifPixelFormatInfo info;
    avifGetPixelFormatInfo(image->yuvFormat, &info);
    // Frames of the codec go up to the next 128 columns and rows.
    uint64_t width = ((uint64_t)image->width + 127) & ~127ull, height = ((uint64_t)image->height + 127) & ~127ull;
    uint64_t pixels = width * height, sample = image->depth > 8 ? 2 : 1;
    uint64_t chroma = info.monochrome ? 0 : 2 * (pixels >> info.chromaShiftX >> info.chromaShiftY);
    uint64_t color = (pixels + chroma) * sample, alpha = reader->decoder->alphaPresent ? pixels * sample : 0;
    uint64_t blocks = pixels / 8 * (alpha ? 10 : 5);
    return 2 * color + alpha + (count_type(reader, "grid") ? color + alpha : 0) + blocks + 600 * width +
        count_type(reader, "av01") * MEMORY_OF_CODEC + image->icc.size;
}

codec_status codec_avif_reader_read_header(codec_avif_reader *reader, codec_header *header) {
    if (structure_bytes(reader->bytes, reader->length, MAXIMUM_DEPTH) > MAXIMUM_STRUCTURE) return CODEC_TOO_LARGE;
    errno = 0;
    avifDecoder *decoder = reader->decoder;
    avifResult result = avifDecoderParse(decoder);
    if (result != AVIF_RESULT_OK) return failed(reader, result);
    const avifImage *image = decoder->image;
    if (image->width == 0 || image->height == 0) return CODEC_EMPTY;
    reader->crop = (avifCropRect){0, 0, image->width, image->height};
    if (image->transformFlags & AVIF_TRANSFORM_CLAP &&
        !avifCropRectConvertCleanApertureBox(
            &reader->crop, &image->clap, image->width, image->height, image->yuvFormat, &decoder->diag)) {
        return failed(reader, AVIF_RESULT_BMFF_PARSE_FAILED);
    }
    header->width = reader->crop.width;
    header->height = reader->crop.height;
    header->frames = decoder->imageCount > 0 ? (uint32_t)decoder->imageCount : 1;
    header->has_alpha = decoder->alphaPresent;
    header->passes = 1;
    header->held_bytes = held_bytes(reader);
    header->space = CODEC_SPACE_RGB;
    // Where the profile says gray, rows of a picture without colour are.
    if (image->yuvFormat == AVIF_PIXEL_FORMAT_YUV400 && image->icc.size >= 20 &&
        memcmp(image->icc.data + 16, "GRAY", 4) == 0) {
        header->space = CODEC_SPACE_GRAY;
    }
    header->inflated_bytes = 0;
    header->can_scale = 0;
    // From now on the codec refuses frames that are larger than the container says.
    decoder->imageSizeLimit = image->width * image->height;
    if (image->icc.size > 0) return CODEC_OK;
    return codec_profile_for_cicp(
        image->colorPrimaries, image->transferCharacteristics, &reader->described, &reader->described_length);
}

int codec_avif_reader_orientation(const codec_avif_reader *reader) {
    const avifImage *image = reader->decoder->image;
    // By quarters anticlockwise; then nothing, top and bottom exchanged, left and right exchanged.
    static const int orientations[4][3] = {{1, 4, 2}, {8, 5, 7}, {3, 2, 4}, {6, 7, 5}};
    int angle = image->transformFlags & AVIF_TRANSFORM_IROT ? image->irot.angle & 3 : 0;
    int mirror = image->transformFlags & AVIF_TRANSFORM_IMIR ? 1 + (image->imir.mode & 1) : 0;
    return orientations[angle][mirror];
}

const uint8_t *codec_avif_reader_profile(const codec_avif_reader *reader, size_t *length) {
    const avifRWData *icc = &reader->decoder->image->icc;
    *length = icc->size > 0 ? icc->size : reader->described_length;
    return icc->size > 0 ? icc->data : reader->described;
}

codec_status codec_avif_reader_start(codec_avif_reader *reader, codec_order order) {
    avifDecoder *decoder = reader->decoder;
    avifImage announced = *decoder->image;
    errno = 0;
    avifResult result = avifDecoderNextImage(decoder);
    if (result != AVIF_RESULT_OK) return failed(reader, result);
    const avifImage *image = decoder->image;
    if (image->width != announced.width || image->height != announced.height || image->depth != announced.depth ||
        image->yuvFormat != announced.yuvFormat) {
        return CODEC_DAMAGED;
    }
    reader->order = order;
    reader->row = 0;
    return CODEC_OK;
}

codec_status codec_avif_reader_read_rows(codec_avif_reader *reader, uint8_t *rows, size_t stride, uint32_t count) {
    const avifImage *image = reader->decoder->image;
    if (count == 0 || count > reader->crop.height - reader->row) return CODEC_DAMAGED;
    // Colour is sampled more coarsely than light, and rows mix that of the rows around them: two more on each side, from
    // an even one on, give the same rows as converting the picture as a whole.
    uint32_t first = reader->crop.y + reader->row, last = first + count;
    uint32_t start = first < 2 ? 0 : (first - 2) & ~1u, end = image->height - last < 2 ? image->height : last + 2;
    avifCropRect part = {0, start, image->width, end - start};
    avifResult result = avifImageSetViewRect(reader->band, image, &part);
    if (result != AVIF_RESULT_OK) return failed(reader, result);

    avifRGBImage band;
    avifRGBImageSetDefaults(&band, reader->band);
    band.format = reader->order == CODEC_BGRA ? AVIF_RGB_FORMAT_BGRA : AVIF_RGB_FORMAT_RGBA;
    band.depth = 8;
    // libyuv is fast, but cuts off lower bits of deeper samples; and where black is 16, it is up to 15 values off with
    // other matrices than BT.601's (Debian 12). The library's own arithmetic is exact.
    int is_plain = image->yuvRange == AVIF_RANGE_FULL || image->matrixCoefficients == AVIF_MATRIX_COEFFICIENTS_BT601 ||
        image->matrixCoefficients == AVIF_MATRIX_COEFFICIENTS_BT470BG;
    band.avoidLibYUV = image->depth > 8 || !is_plain;
    band.rowBytes = image->width * 4;
    size_t size = (size_t)band.rowBytes * band.height;
    if (size > reader->scratch_size) {
        free(reader->scratch);
        reader->scratch = malloc(size);
        reader->scratch_size = reader->scratch ? size : 0;
        if (!reader->scratch) return CODEC_NO_MEMORY;
    }
    band.pixels = reader->scratch;
    result = avifImageYUVToRGB(reader->band, &band);
    if (result != AVIF_RESULT_OK) return failed(reader, result);
    const uint8_t *from = reader->scratch + (size_t)(first - start) * band.rowBytes + reader->crop.x * 4;
    for (uint32_t row = 0; row < count; row++) {
        memcpy(rows + row * stride, from + (size_t)row * band.rowBytes, (size_t)reader->crop.width * 4);
    }
    reader->row += count;
    return CODEC_OK;
}

const char *codec_avif_reader_message(const codec_avif_reader *reader) { return reader->message; }

void codec_avif_reader_destroy(codec_avif_reader *reader) {
    if (!reader) return;
    if (reader->band) avifImageDestroy(reader->band);
    if (reader->decoder) avifDecoderDestroy(reader->decoder);
    free(reader->described);
    free(reader->scratch);
    free(reader);
}

void codec_avif_silence(void) {
    static const cookie_io_functions_t nothing = {0};
    FILE *silence = fopencookie(NULL, "w", nothing);
    if (silence) stderr = silence;
}

const char *codec_avif_version(void) {
    static char text[32 + 256];
    char codecs[256];
    avifCodecVersions(codecs);
    snprintf(text, sizeof text, "libavif %s (%s)", avifVersion(), codecs);
    // Of all codecs that it knows, the first is the one that decodes.
    char *comma = strchr(text, ',');
    if (comma) memcpy(comma, ")", 2);
    return text;
}
#endif
