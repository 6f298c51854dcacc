#include "CJP2Decoder.h"

#include <openjpeg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// The bytes that OpenJPEG reads at once.
#define BUFFER_BYTES (64 << 10)

typedef struct {
    uint32_t component;
    int32_t offset;
    uint8_t *values;
    uint32_t count;
} channel;

struct codec_jp2_reader {
    codec_base base;
    size_t position;
    /// Where the length of a tile part is that is cut, and what it becomes; without one, the place is behind all bytes.
    size_t cut_place;
    uint8_t cut_length[4];
    opj_codec_t *codec;
    opj_stream_t *stream;
    opj_image_t *image;
    channel channels[4];
    codec_jp2_colors colors;
    codec_order order;
    uint32_t width, height;
    uint32_t row;
};

// MARK: The codestream

static OPJ_SIZE_T read_bytes(void *target, OPJ_SIZE_T count, void *own) {
    codec_jp2_reader *reader = own;
    size_t left = reader->base.length - reader->position;
    if (left == 0) return (OPJ_SIZE_T)-1;
    if (count > left) count = left;
    memcpy(target, reader->base.bytes + reader->position, count);
    for (size_t i = 0; i < sizeof reader->cut_length; i++) {
        size_t place = reader->cut_place + i;
        if (place >= reader->position && place - reader->position < count)
            ((uint8_t *)target)[place - reader->position] = reader->cut_length[i];
    }
    reader->position += count;
    return count;
}

static OPJ_OFF_T skip_bytes(OPJ_OFF_T count, void *own) {
    codec_jp2_reader *reader = own;
    size_t left = reader->base.length - reader->position;
    if (count < 0 || left == 0) return -1;
    if ((uint64_t)count > left) count = (OPJ_OFF_T)left;
    reader->position += (size_t)count;
    return count;
}

static OPJ_BOOL seek(OPJ_OFF_T position, void *own) {
    codec_jp2_reader *reader = own;
    if (position < 0 || (uint64_t)position > reader->base.length) return OPJ_FALSE;
    reader->position = (size_t)position;
    return OPJ_TRUE;
}

static void take_error(const char *text, void *own) {
    codec_base *base = own;
    // The first error is the cause.
    if (!*base->message) snprintf(base->message, sizeof base->message, "%.*s", (int)strcspn(text, "\n"), text);
}

static void release(void *object) {
    codec_jp2_reader *reader = object;
    if (reader->codec) opj_destroy_codec(reader->codec);
    if (reader->stream) opj_stream_destroy(reader->stream);
    if (reader->image) opj_image_destroy(reader->image);
    for (int i = 0; i < 4; i++) free(reader->channels[i].values);
}

codec_jp2_reader *codec_jp2_reader_create(const uint8_t *bytes, size_t length) {
    codec_jp2_reader *reader = codec_allocate(sizeof *reader, release, bytes, length);
    if (!reader) return NULL;
    reader->cut_place = length;
    return reader;
}

void codec_jp2_reader_cut_part(codec_jp2_reader *reader, size_t place) {
    // SOT: the marker, the segment's length, the tile's number, and the length of the part.
    reader->cut_place = place + 6;
    size_t length = reader->base.length - place;
    for (int i = 0; i < 4; i++) reader->cut_length[i] = (uint8_t)(length >> (24 - 8 * i));
}

codec_status codec_jp2_reader_set_channel(
    codec_jp2_reader *reader, int place, uint32_t component, int32_t offset, const uint8_t *values, uint32_t count) {
    channel *channel = &reader->channels[place];
    free(channel->values);
    channel->values = malloc(count);
    if (!channel->values) return CODEC_NO_MEMORY;
    memcpy(channel->values, values, count);
    channel->component = component;
    channel->offset = offset;
    channel->count = count;
    return CODEC_OK;
}

static codec_status failed(const codec_jp2_reader *reader) {
    return strstr(reader->base.message, "memory") ? CODEC_NO_MEMORY : CODEC_DAMAGED;
}

codec_status codec_jp2_reader_start(
    codec_jp2_reader *reader, codec_order order, codec_jp2_colors colors, uint32_t reduction, uint32_t width,
    uint32_t height) {
    reader->order = order;
    reader->colors = colors;
    reader->width = width;
    reader->height = height;
    opj_dparameters_t parameters;
    opj_set_default_decoder_parameters(&parameters);
    parameters.cp_reduce = reduction;
    reader->codec = opj_create_decompress(OPJ_CODEC_J2K);
    reader->stream = opj_stream_create(BUFFER_BYTES, OPJ_TRUE);
    if (!reader->codec || !reader->stream) return CODEC_NO_MEMORY;
    opj_set_error_handler(reader->codec, take_error, reader);
    opj_stream_set_user_data(reader->stream, reader, NULL);
    opj_stream_set_user_data_length(reader->stream, reader->base.length);
    opj_stream_set_read_function(reader->stream, read_bytes);
    opj_stream_set_skip_function(reader->stream, skip_bytes);
    opj_stream_set_seek_function(reader->stream, seek);
    if (!opj_setup_decoder(reader->codec, &parameters) ||
        !opj_decoder_set_strict_mode(reader->codec, !reader->base.accepts_damage) ||
        !opj_read_header(reader->stream, reader->codec, &reader->image) ||
        !opj_decode(reader->codec, reader->stream, reader->image))
        return failed(reader);
    // The rest is of no use and may take much memory.
    opj_destroy_codec(reader->codec);
    reader->codec = NULL;
    for (int i = 0; i < 4; i++) {
        const channel *channel = &reader->channels[i];
        if (!channel->values) continue;
        if (channel->component >= reader->image->numcomps) return CODEC_DAMAGED;
        const opj_image_comp_t *component = &reader->image->comps[channel->component];
        if (!component->data || component->w == 0 || component->h == 0) return CODEC_DAMAGED;
    }
    return CODEC_OK;
}

// MARK: Pixels

/// Returns the place among `count` samples, every `step` pixels apart from `first` on, that covers a pixel.
static inline uint32_t covering(uint32_t pixel, uint32_t start, uint32_t step, uint32_t first, uint32_t count) {
    uint32_t place = (start + pixel) / step;
    place = place > first ? place - first : 0;
    return place < count ? place : count - 1;
}

static inline uint8_t value(const channel *channel, int32_t sample) {
    int64_t index = (int64_t)sample + channel->offset;
    return channel->values[index < 0 ? 0 : index < channel->count ? index : channel->count - 1];
}

/// Writes a channel of a row to every fourth byte.
static void write_channel(const codec_jp2_reader *reader, const channel *channel, uint8_t *bytes) {
    const opj_image_t *image = reader->image;
    if (!channel->values) {
        for (uint32_t x = 0; x < reader->width; x++) bytes[(size_t)x * 4] = 255;
        return;
    }
    const opj_image_comp_t *component = &image->comps[channel->component];
    uint32_t row = covering(reader->row, image->y0, component->dy, component->y0, component->h);
    const OPJ_INT32 *samples = component->data + (size_t)row * component->w;
    if (component->dx == 1 && component->w >= reader->width) {
        for (uint32_t x = 0; x < reader->width; x++) bytes[(size_t)x * 4] = value(channel, samples[x]);
        return;
    }
    for (uint32_t x = 0; x < reader->width; x++) {
        uint32_t place = covering(x, image->x0, component->dx, component->x0, component->w);
        bytes[(size_t)x * 4] = value(channel, samples[place]);
    }
}

static inline uint8_t rounded(float number) {
    return number <= 0 ? 0 : number >= 255 ? 255 : (uint8_t)(number + 0.5f);
}

/// Converts a row of Y, Cb and Cr (IEC 61966-2-1, annex G) to red, green and blue.
static void convert_ycc(uint8_t *pixels, uint32_t count, int red) {
    for (uint8_t *pixel = pixels; pixel < pixels + (size_t)count * 4; pixel += 4) {
        float y = pixel[red], cb = (float)pixel[1] - 128, cr = (float)pixel[2 - red] - 128;
        pixel[red] = rounded(y + 1.402f * cr);
        pixel[1] = rounded(y - 0.344136f * cb - 0.714136f * cr);
        pixel[2 - red] = rounded(y + 1.772f * cb);
    }
}

codec_status codec_jp2_reader_read_rows(codec_jp2_reader *reader, uint8_t *rows, size_t stride, uint32_t count) {
    if (!reader->image || count == 0 || count > reader->height - reader->row) return CODEC_DAMAGED;
    int red = reader->order == CODEC_BGRA && reader->colors != CODEC_JP2_INKS ? 2 : 0;
    const int places[4] = {red, 1, 2 - red, 3};
    for (uint32_t row = 0; row < count; row++, reader->row++) {
        uint8_t *pixels = rows + row * stride;
        for (int i = 0; i < 4; i++) write_channel(reader, &reader->channels[i], pixels + places[i]);
        if (reader->colors == CODEC_JP2_YCC) convert_ycc(pixels, reader->width, red);
    }
    return CODEC_OK;
}

const char *codec_jp2_version(void) {
    static char text[32];
    snprintf(text, sizeof text, "OpenJPEG %s", opj_version());
    return text;
}
