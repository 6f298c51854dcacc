#define _GNU_SOURCE
#include <errno.h>
#include <libde265/de265.h>
#include <libheif/heif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "CHEIFDecoder.h"
#include "decoder.h"
#include "planes.h"

/// The most bytes of boxes other than pixels. A photo of 50 tiles with its thumbnail has 4 KiB, and profiles of printers have
/// up to 4 MiB.
#define MAXIMUM_STRUCTURE (4352u << 10)
/// The memory of one decoder of HEVC.
#define MEMORY_OF_CODEC (1u << 20)
/// The largest tile to expect: frames are decoded as a whole, and the last tiles of a grid extend beyond the image.
#define LARGEST_TILE 1024u

struct codec_heif_reader {
    codec_base base;
    struct heif_context *context;
    struct heif_image_handle *handle;
    struct heif_image *image;
    codec_heif_budget budget;
    codec_planes planes;
    codec_order order;
    uint32_t row;
    /// The file's profile, or one made from the code points of its colour space.
    uint8_t *profile;
};

static codec_status failed(codec_heif_reader *reader, struct heif_error error) {
    codec_fail(reader, CODEC_DAMAGED, error.message ? error.message : "");
    if (reader->budget.is_exceeded || error.subcode == heif_suberror_Security_limit_exceeded) return CODEC_TOO_LARGE;
    switch (error.code) {
    case heif_error_Memory_allocation_error: return CODEC_NO_MEMORY;
    case heif_error_Unsupported_filetype:
    case heif_error_Unsupported_feature: return CODEC_UNSUPPORTED;
    default: break;
    }
    if (error.subcode == heif_suberror_End_of_data) return CODEC_TRUNCATED;
    return errno == ENOMEM ? CODEC_NO_MEMORY : CODEC_DAMAGED;
}

/// Returns the size of the box at the start of `length` bytes, cut at their end; 0 without a valid one.
static uint64_t box_size(const uint8_t *bytes, uint64_t length, int *is_cut) {
    if (length < 8) return 0;
    uint64_t size = codec_big_endian(bytes, 4);
    if (size == 1 && length >= 16) size = codec_big_endian(bytes + 8, 8);
    if (size == 0) size = length;
    if (size < 8) return 0;
    *is_cut = size > length;
    return *is_cut ? length : size;
}

/// Sums up the boxes of the file without `mdat`. Returns whether the last one is complete.
static int measure_boxes(const uint8_t *bytes, uint64_t length, uint64_t *structure) {
    int is_cut = 0;
    for (uint64_t size; (size = box_size(bytes, length, &is_cut)) > 0; bytes += size, length -= size) {
        *structure += memcmp(bytes + 4, "mdat", 4) == 0 ? 16 : size;
    }
    return length == 0 && !is_cut;
}

/// Returns the most samples that two pixels have, of all images in the file: 2 of a gray image, 3 to 6 with chroma.
static uint64_t samples_of_two_pixels(const codec_heif_reader *reader) {
    static const uint8_t samples[] = {2, 3, 4, 6};
    uint64_t most = 2;
    const uint8_t *end = reader->base.bytes + reader->base.length, *place = reader->base.bytes;
    for (; (place = memmem(place, (size_t)(end - place), "hvcC", 4)) != NULL; place += 4) {
        if (end - place <= 20) break;
        uint8_t found = samples[place[4 + 16] & 3];
        if (found > most) most = found;
    }
    return most;
}

/// Returns whether a box of the file other than `mdat` contains a text.
static int structure_contains(const codec_heif_reader *reader, const char *text) {
    const uint8_t *bytes = reader->base.bytes;
    uint64_t length = reader->base.length, size;
    for (int is_cut; (size = box_size(bytes, length, &is_cut)) > 0; bytes += size, length -= size) {
        if (memcmp(bytes + 4, "mdat", 4) != 0 && memmem(bytes, size, text, strlen(text))) return 1;
    }
    return 0;
}

static uint64_t count_type(const codec_heif_reader *reader, const char *type) {
    uint64_t count = 0;
    const uint8_t *end = reader->base.bytes + reader->base.length, *place = reader->base.bytes;
    for (; (place = memmem(place, (size_t)(end - place), type, 4)) != NULL; place += 4) count++;
    return count;
}

static void release(void *object) {
    codec_heif_reader *reader = object;
    if (reader->image) heif_image_release(reader->image);
    if (reader->handle) heif_image_handle_release(reader->handle);
    if (reader->context) heif_context_free(reader->context);
    free(reader->planes.chroma);
    free(reader->profile);
}

codec_heif_reader *codec_heif_reader_create(const uint8_t *bytes, size_t length) {
    codec_heif_register();
    codec_heif_reader *reader = codec_allocate(sizeof *reader, release, bytes, length);
    if (!reader) return NULL;
    reader->context = heif_context_alloc();
    if (!reader->context) {
        codec_destroy(reader);
        return NULL;
    }
    heif_context_set_maximum_image_size_limit(reader->context, CODEC_MAXIMUM_SIDE);
    // The sandbox allows no second thread.
    heif_context_set_max_decoding_threads(reader->context, 0);
    return reader;
}

/// Takes the ICC profile, or makes one from the code points. libheif returns both if the file has both.
static codec_status read_profile(codec_heif_reader *reader) {
    size_t length = heif_image_handle_get_raw_color_profile_size(reader->handle);
    if (length > 0) {
        reader->profile = malloc(length);
        if (!reader->profile) return CODEC_NO_MEMORY;
        struct heif_error error = heif_image_handle_get_raw_color_profile(reader->handle, reader->profile);
        if (error.code != heif_error_Ok) return failed(reader, error);
        reader->base.profile_length = length;
        return CODEC_OK;
    }
    struct heif_color_profile_nclx *colors = NULL;
    struct heif_error error = heif_image_handle_get_nclx_color_profile(reader->handle, &colors);
    codec_status status = CODEC_OK;
    if (error.code == heif_error_Ok && colors) {
        status = codec_profile_for_cicp(
            (int)colors->color_primaries, (int)colors->transfer_characteristics, &reader->profile,
            &reader->base.profile_length, &reader->base.light);
    }
    // Also of numbers that libheif does not know, which it reports as an error.
    if (colors) heif_nclx_color_profile_free(colors);
    return status;
}

static codec_status describe(codec_heif_reader *reader, codec_header *header) {
    int width = heif_image_handle_get_width(reader->handle), height = heif_image_handle_get_height(reader->handle);
    int stored_width = heif_image_handle_get_ispe_width(reader->handle);
    int stored_height = heif_image_handle_get_ispe_height(reader->handle);
    if (width <= 0 || height <= 0 || stored_width <= 0 || stored_height <= 0) return CODEC_EMPTY;
    if (stored_width > CODEC_MAXIMUM_SIDE || stored_height > CODEC_MAXIMUM_SIDE) return CODEC_TOO_LARGE;
    // The shape of a grid or overlay is only known while decoding. Tiles and whole blocks may be larger than the image.
    int side = stored_width > stored_height ? stored_width : stored_height;
    heif_context_set_maximum_image_size_limit(reader->context, side + (int)LARGEST_TILE);
    int depth = heif_image_handle_get_luma_bits_per_pixel(reader->handle);
    codec_status status = read_profile(reader);
    reader->base.profile = reader->profile;
    if (status != CODEC_OK) return status;

    header->width = (uint32_t)width;
    header->height = (uint32_t)height;
    header->has_alpha = heif_image_handle_has_alpha_channel(reader->handle) != 0;
    // libheif composes alpha of a grid's cells, but finds out only of the whole grid whether colour is multiplied by it.
    if (header->has_alpha && !heif_image_handle_is_premultiplied_alpha(reader->handle) &&
        structure_contains(reader, "grid") && structure_contains(reader, "prem"))
        return codec_fail(reader, CODEC_UNSUPPORTED, "the cells of the grid are multiplied by alpha");
    uint64_t pair = samples_of_two_pixels(reader);
    if (pair == 2 && codec_profile_is_gray(reader->profile, reader->base.profile_length)) header->space = CODEC_SPACE_GRAY;
    // Frames are whole blocks, and the last tiles extend beyond the image.
    uint64_t pixels = ((uint64_t)stored_width + LARGEST_TILE) * ((uint64_t)stored_height + LARGEST_TILE);
    uint64_t shown = (uint64_t)stored_width * (uint64_t)stored_height, layers = header->has_alpha ? 2 : 1;
    reader->budget.pixels = pixels * layers;
    // The frame before and after its last filter with data per block, libheif's copy, and a transformed copy; alpha likewise.
    uint64_t bytes = shown * pair / 2 * (depth > 8 || depth < 0 ? 2 : 1);
    header->held_bytes = layers * (4 * bytes + shown / 2) + reader->base.profile_length + count_type(reader, "hvc1") * 256 +
        MEMORY_OF_CODEC + 8 * (uint64_t)width;
    return CODEC_OK;
}

codec_status codec_heif_reader_read_header(codec_heif_reader *reader, codec_header *header) {
    uint64_t structure = 0;
    int is_complete = measure_boxes(reader->base.bytes, reader->base.length, &structure);
    if (structure > MAXIMUM_STRUCTURE) return CODEC_TOO_LARGE;
    errno = 0;
    struct heif_error error =
        heif_context_read_from_memory_without_copy(reader->context, reader->base.bytes, reader->base.length, NULL);
    if (error.code == heif_error_Ok) error = heif_context_get_primary_image_handle(reader->context, &reader->handle);
    if (error.code != heif_error_Ok) {
        codec_status status = failed(reader, error);
        return status == CODEC_DAMAGED && !is_complete ? CODEC_TRUNCATED : status;
    }
    if (!is_complete) return CODEC_TRUNCATED;
    return describe(reader, header);
}

codec_status codec_heif_reader_show_thumbnail(codec_heif_reader *reader, uint32_t index, codec_header *header) {
    heif_item_id items[CODEC_HEIF_MAXIMUM_THUMBNAILS];
    int count = heif_image_handle_get_list_of_thumbnail_IDs(reader->handle, items, CODEC_HEIF_MAXIMUM_THUMBNAILS);
    if (count < 0 || index >= (uint32_t)count) return CODEC_EMPTY;
    struct heif_image_handle *thumbnail = NULL;
    errno = 0;
    struct heif_error error = heif_image_handle_get_thumbnail(reader->handle, items[index], &thumbnail);
    if (error.code != heif_error_Ok) return failed(reader, error);
    heif_image_handle_release(reader->handle);
    reader->handle = thumbnail;
    free(reader->profile);
    reader->base.profile = reader->profile = NULL;
    reader->base.profile_length = 0;
    reader->base.light = 0;
    return describe(reader, header);
}

/// Finds a plane of the decoded image, which has at least `least` columns and rows. Returns whether it is valid.
static int find_plane(
    const struct heif_image *image, enum heif_channel channel, uint32_t columns, uint32_t rows, codec_plane *plane) {
    int stride = 0;
    plane->samples = heif_image_get_plane_readonly(image, channel, &stride);
    plane->stride = (size_t)stride;
    int width = heif_image_get_width(image, channel), height = heif_image_get_height(image, channel);
    plane->width = width > 0 ? (uint32_t)width : 0;
    plane->height = height > 0 ? (uint32_t)height : 0;
    plane->depth = heif_image_get_bits_per_pixel_range(image, channel);
    return plane->samples && plane->width >= columns && plane->height >= rows && plane->depth >= 8 && plane->depth <= 16;
}

/// Finds the planes of the decoded image. Returns whether they are those of the declared image.
static int find_planes(codec_heif_reader *reader) {
    const struct heif_image *image = reader->image;
    codec_planes *planes = &reader->planes;
    enum heif_chroma chroma = heif_image_get_chroma_format(image);
    uint32_t width = planes->width, height = planes->height;
    int is_narrow = chroma == heif_chroma_420 || chroma == heif_chroma_422, is_low = chroma == heif_chroma_420;
    uint32_t columns = is_narrow ? (width + 1) / 2 : width, rows = is_low ? (height + 1) / 2 : height;
    codec_plane *colors = planes->colors;
    static const enum heif_channel yuv[] = {heif_channel_Y, heif_channel_Cb, heif_channel_Cr};
    static const enum heif_channel gbr[] = {heif_channel_G, heif_channel_B, heif_channel_R};
    enum heif_colorspace space = heif_image_get_colorspace(image);
    // Of an overlay, libheif makes red, green and blue.
    int is_rgb = space == heif_colorspace_RGB && chroma == heif_chroma_444;
    if (!is_rgb && space != heif_colorspace_YCbCr && space != heif_colorspace_monochrome) return 0;
    if (is_rgb) planes->matrix = 0;
    if (is_rgb) planes->is_full_range = 1;
    planes->count = space == heif_colorspace_monochrome ? 1 : 3;
    for (int i = 0; i < planes->count; i++) {
        enum heif_channel channel = is_rgb ? gbr[i] : yuv[i];
        if (!find_plane(image, channel, i > 0 ? columns : width, i > 0 ? rows : height, &colors[i])) return 0;
        if (!is_rgb && colors[i].depth != colors[0].depth) return 0;
    }
    // Chroma of subsampled images is interpolated; that of others has the same size as luma.
    if (planes->count == 3 && !is_narrow) colors[1].width = colors[2].width = width;
    if (planes->count == 3 && !is_low) colors[1].height = colors[2].height = height;
    if (!heif_image_has_channel(image, heif_channel_Alpha)) {
        planes->alpha.samples = NULL;
        return 1;
    }
    return find_plane(image, heif_channel_Alpha, width, height, &planes->alpha);
}

codec_status codec_heif_reader_start(codec_heif_reader *reader, codec_order order) {
    reader->order = order;
    reader->row = 0;
    struct heif_decoding_options *options = heif_decoding_options_alloc();
    if (!options) return CODEC_NO_MEMORY;
    options->strict_decoding = 1;
    errno = 0;
    uint64_t allowed = reader->budget.pixels;
    codec_heif_set_budget(&reader->budget);
    struct heif_error error = heif_decode_image(
        reader->handle, &reader->image, heif_colorspace_undefined, heif_chroma_undefined, options);
    codec_heif_set_budget(NULL);
    heif_decoding_options_free(options);
    if (error.code != heif_error_Ok) return failed(reader, error);
    // A grid that its cells do not cover. Only an overlay has pixels besides those of its parts.
    uint64_t stored = (uint64_t)heif_image_handle_get_ispe_width(reader->handle) *
        (uint64_t)heif_image_handle_get_ispe_height(reader->handle);
    if (allowed - reader->budget.pixels < stored && !structure_contains(reader, "iovl"))
        return codec_fail(reader, CODEC_DAMAGED, "fewer pixels than the file declares");

    codec_planes *planes = &reader->planes;
    planes->width = (uint32_t)heif_image_handle_get_width(reader->handle);
    planes->height = (uint32_t)heif_image_handle_get_height(reader->handle);
    planes->matrix = 2;
    planes->is_premultiplied = heif_image_handle_is_premultiplied_alpha(reader->handle) != 0;
    struct heif_color_profile_nclx *colors = NULL;
    error = heif_image_get_nclx_color_profile(reader->image, &colors);
    if (error.code == heif_error_Ok && colors) {
        planes->is_full_range = colors->full_range_flag != 0;
        planes->matrix = (int)colors->matrix_coefficients;
    }
    if (colors) heif_nclx_color_profile_free(colors);
    if (!find_planes(reader)) return CODEC_DAMAGED;
    if (!codec_planes_knows(planes->matrix)) return CODEC_UNSUPPORTED;
    if (planes->count == 3) {
        planes->chroma = malloc((size_t)planes->width * 2 * sizeof *planes->chroma);
        if (!planes->chroma) return CODEC_NO_MEMORY;
    }
    return CODEC_OK;
}

codec_status codec_heif_reader_read_rows(codec_heif_reader *reader, uint8_t *rows, size_t stride, uint32_t count) {
    if (count == 0 || count > reader->planes.height - reader->row) return CODEC_DAMAGED;
    for (uint32_t row = 0; row < count; row++) {
        codec_planes_convert(
            &reader->planes, reader->row + row, rows + row * stride, reader->order == CODEC_BGRA ? 2 : 0);
    }
    reader->row += count;
    return CODEC_OK;
}

const char *codec_heif_version(void) {
    static char text[80];
    snprintf(text, sizeof text, "libheif %s (libde265 %s)", heif_get_version(), de265_get_version());
    return text;
}
