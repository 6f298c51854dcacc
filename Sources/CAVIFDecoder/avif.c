#define _GNU_SOURCE
#include "CAVIFDecoder.h"

#include <avif/avif.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// The most bytes of boxes other than pixels and colour profiles. Typical files have a few hundred, large grids a few
/// thousand. libavif keeps ten times as much for a property, and searches all items for each item.
#define MAXIMUM_STRUCTURE (128u << 10)
/// The depth of nested boxes to inspect: moov, trak, mdia, minf, stbl.
#define MAXIMUM_DEPTH 6

/// The memory of one dav1d instance: 400 KiB, rounded up.
#define MEMORY_OF_CODEC (512u << 10)

struct codec_avif_reader {
    codec_base base;
    avifDecoder *decoder;
    /// The decoder of alpha that the file describes as an image of its own; NULL without.
    avifDecoder *alpha;
    /// The box that describes it while that is read, and the place of the other one.
    const uint8_t *meta;
    uint64_t meta_start;
    size_t meta_length;
    /// The size of all images, as the container declares.
    uint32_t width, height;
    /// The image to decode from, and the next one to return.
    uint32_t first, next;
    /// A view of a part of the image; owns no pixels.
    avifImage *band;
    /// The clean aperture within the stored image.
    avifCropRect crop;
    codec_order order;
    uint32_t row;
    /// The last band, including the rows around it.
    uint8_t *scratch;
    size_t scratch_size;
    /// The profile made from the colour space's code points; NULL if the file has a profile or is sRGB.
    uint8_t *described;
};

// MARK: Boxes (ISO/IEC 14496-12, section 4.2)

typedef struct {
    const uint8_t *content;
    uint64_t size;
    char type[4];
    /// Whether it extends beyond the available bytes.
    int is_cut;
} box;

/// Reads the box at the start of `length` bytes, cut at their end. Returns its size, at least 8; 0 without a valid box.
static uint64_t read_box(const uint8_t *bytes, uint64_t length, box *box) {
    if (length < 8) return 0;
    uint64_t size = codec_big_endian(bytes, 4), header = 8;
    memcpy(box->type, bytes + 4, 4);
    if (size == 1) {
        if (length < 16) return 0;
        size = codec_big_endian(bytes + 8, 8);
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

/// Returns the bytes of an `iloc` box, counting at least sixteen for each extent of an item (ISO/IEC 14496-12, 8.11.3): an
/// extent may have no bytes of its own, and libavif allocates as many for it.
static uint64_t place_bytes(const box *box) {
    uint64_t sum = box->size;
    if (box->size < 10) return sum;
    const uint8_t *next = box->content, *end = box->content + box->size;
    uint64_t version = next[0], extent = (next[4] >> 4) + (next[4] & 15u) + (version ? next[5] & 15u : 0);
    uint64_t base = next[5] >> 4, identifier = version < 2 ? 2 : 4, fixed = identifier + (version ? 2 : 0) + 2 + base;
    next += 6 + identifier;
    while (next < end && (uint64_t)(end - next) >= fixed + 2) {
        uint64_t count = codec_big_endian(next + fixed, 2);
        next += fixed + 2;
        sum += 16 * count;
        if (count * extent > (uint64_t)(end - next)) break;
        next += count * extent;
    }
    return sum;
}

/// Returns the bytes of all boxes, counting only the headers of pixels and profiles.
static uint64_t structure_bytes(const uint8_t *bytes, uint64_t length, int depth) {
    uint64_t sum = 0, size;
    box box;
    for (; (size = read_box(bytes, length, &box)) > 0; bytes += size, length -= size) {
        uint64_t version = has_type(&box, "meta") ? 4 : 0;
        if (has_type(&box, "metamoovtrakmdiaminfstbliprpipco") && depth > 0 && box.size >= version) {
            sum += 8 + structure_bytes(box.content + version, box.size - version, depth - 1);
        } else if (has_type(&box, "mdatidatcolr")) {
            sum += 16;
        } else if (has_type(&box, "iloc")) {
            sum += 8 + place_bytes(&box);
        } else if (depth < MAXIMUM_DEPTH) {
            sum += size;
        }
    }
    return sum;
}

static int is_cut_off(const uint8_t *bytes, uint64_t length) {
    uint64_t size;
    box box = {0};
    for (; (size = read_box(bytes, length, &box)) > 0; bytes += size, length -= size) {
        if (box.is_cut) return 1;
    }
    return length > 0;
}

/// Returns how often a type's four letters occur in the file, an upper bound of the number of items of this type. A
/// `grid` combines several `av01` items.
static uint64_t count_type(const codec_avif_reader *reader, const char *type) {
    uint64_t count = 0;
    const uint8_t *end = reader->base.bytes + reader->base.length, *place = reader->base.bytes;
    for (; (place = memmem(place, (size_t)(end - place), type, 4)) != NULL; place += 4) count++;
    return count;
}

// MARK: Reading

static codec_status failed_to_decode(codec_avif_reader *reader, const avifDecoder *decoder, avifResult result) {
    const char *detail = decoder->diag.error;
    codec_fail(reader, CODEC_DAMAGED, *detail ? detail : avifResultToString(result));
    // libavif reports its size limits only by message.
    if (!strstr(detail, "runcated") && (strstr(detail, "too large") || strstr(detail, "excessive")))
        return CODEC_TOO_LARGE;
    switch (result) {
    case AVIF_RESULT_OUT_OF_MEMORY: return CODEC_NO_MEMORY;
    case AVIF_RESULT_TRUNCATED_DATA:
    case AVIF_RESULT_IO_ERROR: return CODEC_TRUNCATED;
    case AVIF_RESULT_NO_CODEC_AVAILABLE:
    case AVIF_RESULT_NOT_IMPLEMENTED:
    case AVIF_RESULT_UNSUPPORTED_DEPTH: return CODEC_UNSUPPORTED;
    default: break;
    }
    if (strstr(detail, "runcated") || is_cut_off(reader->base.bytes, reader->base.length)) return CODEC_TRUNCATED;
    // libavif does not pass on the codec's error, but a failed allocation leaves errno.
    return errno == ENOMEM ? CODEC_NO_MEMORY : CODEC_DAMAGED;
}

static codec_status failed(codec_avif_reader *reader, avifResult result) {
    return failed_to_decode(reader, reader->decoder, result);
}

/// Sets what the decoders of colour and alpha have in common.
static void configure(avifDecoder *decoder) {
    // The sandbox allows no second thread.
    decoder->maxThreads = 1;
    // The orientation is in irot and imir; the standard excludes that of EXIF.
    decoder->ignoreExif = AVIF_TRUE;
    decoder->ignoreXMP = AVIF_TRUE;
    decoder->imageSizeLimit = AVIF_DEFAULT_IMAGE_SIZE_LIMIT;
    decoder->imageDimensionLimit = CODEC_MAXIMUM_SIDE;
    decoder->imageCountLimit = CODEC_MAXIMUM_FRAMES;
    // Requires a valid clap. Does not require properties that some writers omit and other readers accept: pixi, which
    // repeats av1C, and the size of alpha.
    decoder->strictFlags = AVIF_STRICT_CLAP_VALID;
}

static void release(void *object) {
    codec_avif_reader *reader = object;
    if (reader->band) avifImageDestroy(reader->band);
    if (reader->decoder) avifDecoderDestroy(reader->decoder);
    if (reader->alpha) avifDecoderDestroy(reader->alpha);
    free(reader->described);
    free(reader->scratch);
}

codec_avif_reader *codec_avif_reader_create(const uint8_t *bytes, size_t length) {
    codec_avif_reader *reader = codec_allocate(sizeof *reader, release, bytes, length);
    if (!reader) return NULL;
    reader->decoder = avifDecoderCreate();
    reader->band = avifImageCreateEmpty();
    if (!reader->decoder || !reader->band || avifDecoderSetIOMemory(reader->decoder, bytes, length) != AVIF_RESULT_OK) {
        codec_destroy(reader);
        return NULL;
    }
    configure(reader->decoder);
    // Of an incomplete sequence, libavif refuses all images if it knows where the file ends. It reads no further anyway.
    if (length >= 12 && memcmp(bytes + 8, "avis", 4) == 0) reader->decoder->io->sizeHint = 0;
    return reader;
}

/// The most decoded images that the codec holds: eight to refer to, the next one, and the one that libavif shows.
#define MAXIMUM_HELD_IMAGES 10

static uint64_t held_bytes(
    const codec_avif_reader *reader, const avifDecoder *decoder, uint32_t frames, uint32_t sample_bytes,
    uint32_t chroma_of_four) {
    const avifImage *image = decoder->image;
    avifPixelFormatInfo info;
    avifGetPixelFormatInfo(image->yuvFormat, &info);
    // The codec rounds frames up to multiples of 128 columns and rows.
    uint64_t width = ((uint64_t)image->width + 127) & ~127ull, height = ((uint64_t)image->height + 127) & ~127ull;
    uint64_t pixels = width * height, sample = image->depth > 8 || sample_bytes > 1 ? 2 : 1;
    uint64_t declared = info.monochrome ? 0 : 2 * (pixels >> info.chromaShiftX >> info.chromaShiftY);
    uint64_t stated = pixels / 4 * chroma_of_four, chroma = declared > stated ? declared : stated;
    uint64_t color = (pixels + chroma) * sample, alpha = decoder->alphaPresent ? pixels * sample : 0;
    uint64_t blocks = pixels / 8 * (alpha ? 10 : 5);
    uint64_t others = (frames < MAXIMUM_HELD_IMAGES ? frames : MAXIMUM_HELD_IMAGES) - 1;
    // An image that others refer to is held with its motion vectors and segments.
    uint64_t references = others * (color + alpha + pixels / 4 * (alpha ? 2 : 1)) + (others > 0 ? alpha : 0);
    return 2 * color + alpha + references + (count_type(reader, "grid") ? color + alpha : 0) + blocks + 600 * width +
        count_type(reader, "av01") * MEMORY_OF_CODEC + image->icc.size;
}

uint64_t codec_avif_reader_held_bytes(
    const codec_avif_reader *reader, uint32_t frames, uint32_t sample_bytes, uint32_t chroma_of_four) {
    uint64_t color = held_bytes(reader, reader->decoder, frames, sample_bytes, chroma_of_four);
    if (!reader->alpha) return color;
    // The box is held as changed, and libavif copies the pixels in it.
    return color + held_bytes(reader, reader->alpha, frames, sample_bytes, chroma_of_four) + 2 * reader->meta_length;
}

static int orientation(const avifImage *image) {
    // By anticlockwise rotation in steps of 90°; then not mirrored, mirrored vertically, mirrored horizontally.
    static const int orientations[4][3] = {{1, 4, 2}, {8, 5, 7}, {3, 2, 4}, {6, 7, 5}};
    int angle = image->transformFlags & AVIF_TRANSFORM_IROT ? image->irot.angle & 3 : 0;
    int mirror = image->transformFlags & AVIF_TRANSFORM_IMIR ? 1 + (image->imir.mode & 1) : 0;
    return orientations[angle][mirror];
}

codec_status codec_avif_reader_read_header(codec_avif_reader *reader, codec_header *header) {
    if (structure_bytes(reader->base.bytes, reader->base.length, MAXIMUM_DEPTH) > MAXIMUM_STRUCTURE)
        return CODEC_TOO_LARGE;
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
    header->held_bytes = codec_avif_reader_held_bytes(reader, 1, 1, 0);
    // A monochrome image with a gray profile has gray rows.
    if (image->yuvFormat == AVIF_PIXEL_FORMAT_YUV400 && codec_profile_is_gray(image->icc.data, image->icc.size))
        header->space = CODEC_SPACE_GRAY;
    reader->width = image->width;
    reader->height = image->height;
    // Makes the codec refuse frames larger than the container declares.
    decoder->imageSizeLimit = image->width * image->height;
    codec_base *base = &reader->base;
    base->orientation = orientation(image);
    base->profile = image->icc.data;
    base->profile_length = image->icc.size;
    if (image->icc.size > 0) return CODEC_OK;
    codec_status status = codec_profile_for_cicp(
        image->colorPrimaries, image->transferCharacteristics, &reader->described, &base->profile_length, &base->light);
    base->profile = reader->described;
    return status;
}

/// Reads the file with the changed box, which libavif reads at once.
static avifResult read_changed(struct avifIO *io, uint32_t flags, uint64_t offset, size_t size, avifROData *data) {
    (void)flags;
    const codec_avif_reader *reader = io->data;
    if (offset > reader->base.length) return AVIF_RESULT_IO_ERROR;
    size_t rest = reader->base.length - (size_t)offset;
    data->size = size < rest ? size : rest;
    int is_changed = reader->meta && offset == reader->meta_start && size == reader->meta_length;
    data->data = is_changed ? reader->meta : reader->base.bytes + offset;
    return AVIF_RESULT_OK;
}

static void destroy_io(struct avifIO *io) { free(io); }

codec_status codec_avif_reader_add_alpha(
    codec_avif_reader *reader, uint64_t start, const uint8_t *meta, size_t length, int is_premultiplied) {
    // Newer versions of libavif find it.
    if (reader->decoder->alphaPresent) return CODEC_OK;
    avifIO *io = calloc(1, sizeof *io);
    reader->alpha = avifDecoderCreate();
    if (!io || !reader->alpha) {
        free(io);
        return CODEC_NO_MEMORY;
    }
    *io = (avifIO){destroy_io, read_changed, NULL, reader->base.length, AVIF_TRUE, reader};
    avifDecoder *alpha = reader->alpha;
    avifDecoderSetIO(alpha, io);
    configure(alpha);
    alpha->requestedSource = AVIF_DECODER_SOURCE_PRIMARY_ITEM;
    alpha->imageSizeLimit = reader->width * reader->height;
    reader->meta = meta;
    reader->meta_start = start;
    reader->meta_length = length;
    errno = 0;
    avifResult result = avifDecoderParse(alpha);
    reader->meta = NULL;
    if (result != AVIF_RESULT_OK) return failed_to_decode(reader, alpha, result);
    reader->decoder->image->alphaPremultiplied = is_premultiplied;
    return CODEC_OK;
}

/// Decodes alpha, and makes its luma the image's alpha.
static codec_status decode_alpha(codec_avif_reader *reader) {
    avifResult result = avifDecoderNextImage(reader->alpha);
    if (result != AVIF_RESULT_OK) return failed_to_decode(reader, reader->alpha, result);
    avifImage *image = reader->decoder->image, *alpha = reader->alpha->image;
    if (alpha->width != image->width || alpha->height != image->height) return CODEC_DAMAGED;
    if (alpha->depth != image->depth) {
        snprintf(reader->base.message, sizeof reader->base.message, "alpha has %u bits, colour %u", alpha->depth, image->depth);
        return CODEC_UNSUPPORTED;
    }
    // Early versions of the standard allowed a limited range.
    for (uint32_t y = 0; y < alpha->height && alpha->yuvRange == AVIF_RANGE_LIMITED; y++) {
        uint8_t *row = alpha->yuvPlanes[AVIF_CHAN_Y] + (size_t)y * alpha->yuvRowBytes[AVIF_CHAN_Y];
        for (uint32_t x = 0; x < alpha->width; x++) {
            if (alpha->depth == 8) row[x] = (uint8_t)avifLimitedToFullY(8, row[x]);
            else ((uint16_t *)(void *)row)[x] = (uint16_t)avifLimitedToFullY((int)alpha->depth, ((uint16_t *)(void *)row)[x]);
        }
    }
    image->alphaPlane = alpha->yuvPlanes[AVIF_CHAN_Y];
    image->alphaRowBytes = alpha->yuvRowBytes[AVIF_CHAN_Y];
    image->imageOwnsAlphaPlane = AVIF_FALSE;
    return CODEC_OK;
}

int codec_avif_reader_is_sequence(const codec_avif_reader *reader) {
    // libavif does not say what it has chosen, but it knows an item's size in advance.
    return reader->decoder->ioStats.colorOBUSize == 0;
}

int codec_avif_reader_is_key(const codec_avif_reader *reader, uint32_t index) {
    return avifDecoderIsKeyframe(reader->decoder, index);
}

uint64_t codec_avif_reader_pixels(const codec_avif_reader *reader) {
    return (uint64_t)reader->decoder->image->width * reader->decoder->image->height;
}

void codec_avif_reader_select(codec_avif_reader *reader, uint32_t first, uint32_t wanted) {
    reader->first = first;
    reader->next = wanted;
}

codec_status codec_avif_reader_start(codec_avif_reader *reader, codec_order order) {
    avifDecoder *decoder = reader->decoder;
    errno = 0;
    avifResult result = AVIF_RESULT_OK;
    if (decoder->imageIndex < (int)reader->first) result = avifDecoderNthImage(decoder, reader->first);
    while (result == AVIF_RESULT_OK && decoder->imageIndex < (int)reader->next) result = avifDecoderNextImage(decoder);
    if (result != AVIF_RESULT_OK) return failed(reader, result);
    const avifImage *image = decoder->image;
    // Depth and subsampling are those of the data, not those that the container declares.
    if (image->width != reader->width || image->height != reader->height) return CODEC_DAMAGED;
    reader->next++;
    reader->order = order;
    reader->row = 0;
    return reader->alpha ? decode_alpha(reader) : CODEC_OK;
}

codec_status codec_avif_reader_read_rows(codec_avif_reader *reader, uint8_t *rows, size_t stride, uint32_t count) {
    const avifImage *image = reader->decoder->image;
    if (count == 0 || count > reader->crop.height - reader->row) return CODEC_DAMAGED;
    // Chroma is subsampled, and rows interpolate that of their neighbours: two more rows on each side, starting at an
    // even one, give the same result as converting the whole image.
    uint32_t first = reader->crop.y + reader->row, last = first + count;
    uint32_t start = first < 2 ? 0 : (first - 2) & ~1u, end = image->height - last < 2 ? image->height : last + 2;
    avifCropRect part = {0, start, image->width, end - start};
    avifResult result = avifImageSetViewRect(reader->band, image, &part);
    if (result != AVIF_RESULT_OK) return failed(reader, result);

    avifRGBImage band;
    avifRGBImageSetDefaults(&band, reader->band);
    band.format = reader->order == CODEC_BGRA ? AVIF_RGB_FORMAT_BGRA : AVIF_RGB_FORMAT_RGBA;
    band.depth = 8;
    // libyuv is fast, but truncates deeper samples; and for limited range it is up to 15 values off with matrices other
    // than BT.601's (Debian 12). libavif's own arithmetic is exact.
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

const char *codec_avif_version(void) {
    static char text[32 + 256];
    char codecs[256];
    avifCodecVersions(codecs);
    snprintf(text, sizeof text, "libavif %s (%s)", avifVersion(), codecs);
    // The first codec in the list is the one that decodes.
    char *comma = strchr(text, ',');
    if (comma) memcpy(comma, ")", 2);
    return text;
}
