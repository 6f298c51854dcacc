#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>

#include "CTIFFDecoder.h"

/// The most bytes that libtiff may allocate at once.
#define MAXIMUM_ALLOCATION (256 << 20)

/// The most memory of a conversion from CIELab.
#define MEMORY_OF_LAB (1 << 20)

struct codec_tiff_reader {
    codec_base base;
    uint64_t position;
    TIFF *file;
    uint32_t width, height;
    uint16_t bits, samples, photometric, planes, compression;
    /// The number of samples of colour, and the place of alpha behind them; 0 without alpha.
    uint16_t colors, alpha;
    int is_premultiplied, is_tiled;
    /// Whether libtiff converts to RGB: kinds of colour that are rare.
    int is_converted;
    /// Whether the samples are CIELab; the conversion, and a row of its colours.
    int is_lab;
    codec_lab *lab;
    uint16_t *lab_row;
    /// The size of a tile, or of a strip.
    uint32_t tile_width, tile_height;
    uint64_t tile_bytes;
    const uint16_t *palette[3];
    /// Whether the palette's values have 8 bits.
    int is_short_palette;
    codec_order order;
    codec_space space;
    /// The samples of a tile, one plane after the other.
    uint8_t *tile;
    /// A row of tiles, as pixels, and the number of its rows.
    uint8_t *band;
    uint32_t band_rows;
    uint32_t row;
    /// Whether libjpeg has warned about damaged pixels.
    int is_damaged;
    /// Whether a strip or tile was decoded; else the status of the first one.
    int has_pixels;
    codec_status first_failure;
};

// MARK: The file

static tmsize_t read_bytes(thandle_t handle, void *target, tmsize_t count) {
    codec_tiff_reader *reader = handle;
    uint64_t left = reader->position < reader->base.length ? reader->base.length - reader->position : 0;
    if (count < 0) return -1;
    if ((uint64_t)count > left) count = (tmsize_t)left;
    memcpy(target, reader->base.bytes + (left ? reader->position : 0), (size_t)count);
    reader->position += (uint64_t)count;
    return count;
}

static tmsize_t write_nothing(thandle_t handle, void *source, tmsize_t count) {
    (void)handle, (void)source, (void)count;
    return -1;
}

static toff_t seek(thandle_t handle, toff_t offset, int whence) {
    codec_tiff_reader *reader = handle;
    uint64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? reader->position : reader->base.length;
    reader->position = base + offset;
    return reader->position;
}

static int close_nothing(thandle_t handle) {
    (void)handle;
    return 0;
}

static toff_t size(thandle_t handle) { return ((codec_base *)handle)->length; }

static int map(thandle_t handle, void **base, toff_t *length) {
    codec_tiff_reader *reader = handle;
    *base = (void *)(uintptr_t)reader->base.bytes;
    *length = reader->base.length;
    return 1;
}

static void unmap(thandle_t handle, void *base, toff_t length) { (void)handle, (void)base, (void)length; }

static int take_error(TIFF *file, void *own, const char *module, const char *format, va_list arguments) {
    (void)file, (void)module;
    codec_base *base = own;
    // The first error is the cause.
    if (!*base->message) vsnprintf(base->message, sizeof base->message, format, arguments);
    return 1;
}

static int take_warning(TIFF *file, void *own, const char *module, const char *format, va_list arguments) {
    (void)file, (void)format, (void)arguments;
    codec_tiff_reader *reader = own;
    if (module && strncmp(module, "JPEGLib", 7) == 0) reader->is_damaged = 1;
    return 1;
}

static void release(void *object) {
    codec_tiff_reader *reader = object;
    if (reader->file) TIFFClose(reader->file);
    free(reader->tile);
    free(reader->band);
    free(reader->lab_row);
    codec_lab_destroy(reader->lab);
}

codec_tiff_reader *codec_tiff_reader_create(const uint8_t *bytes, size_t length) {
    return codec_allocate(sizeof(codec_tiff_reader), release, bytes, length);
}

static codec_status open_file(codec_tiff_reader *reader) {
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    if (!options) return CODEC_NO_MEMORY;
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, MAXIMUM_ALLOCATION);
    TIFFOpenOptionsSetErrorHandlerExtR(options, take_error, reader);
    TIFFOpenOptionsSetWarningHandlerExtR(options, take_warning, reader);
    reader->file = TIFFClientOpenExt(
        "", "r", reader, read_bytes, write_nothing, seek, close_nothing, size, map, unmap, options);
    TIFFOpenOptionsFree(options);
    if (reader->file) return CODEC_OK;
    return reader->base.length < 16 || strstr(reader->base.message, "read") ? CODEC_TRUNCATED : CODEC_DAMAGED;
}

// MARK: The header

/// Reads the palette. Returns whether there is one for all values.
static int read_palette(codec_tiff_reader *reader) {
    uint16_t *red = NULL, *green = NULL, *blue = NULL;
    if (reader->bits > 16 || !TIFFGetField(reader->file, TIFFTAG_COLORMAP, &red, &green, &blue)) return 0;
    reader->palette[0] = red;
    reader->palette[1] = green;
    reader->palette[2] = blue;
    reader->is_short_palette = 1;
    for (uint32_t i = 0; i < 1u << reader->bits; i++) {
        if (red[i] > 255 || green[i] > 255 || blue[i] > 255) reader->is_short_palette = 0;
    }
    return 1;
}

/// Returns whether the samples are unsigned integers. libtiff takes others for these if they have up to 16 bits, except for logarithms.
static int has_unsigned_samples(const codec_tiff_reader *reader) {
    uint16_t format = SAMPLEFORMAT_UINT;
    TIFFGetFieldDefaulted(reader->file, TIFFTAG_SAMPLEFORMAT, &format);
    int is_logarithm = reader->photometric == PHOTOMETRIC_LOGL || reader->photometric == PHOTOMETRIC_LOGLUV;
    return is_logarithm || format == SAMPLEFORMAT_UINT || format == SAMPLEFORMAT_VOID;
}

/// Returns whether the tag Decode, which libtiff does not know, gives the values of ITU-T T.42 other ranges than usual.
static int has_other_ranges(const codec_tiff_reader *reader) {
    uint32_t count = 0;
    void *ranges = NULL;
    return reader->photometric == PHOTOMETRIC_ITULAB && TIFFGetField(reader->file, 433, &count, &ranges);
}

/// Finds the samples that count. Returns whether rows can be made of them; libtiff may be able to where this returns 0.
static int find_samples(codec_tiff_reader *reader) {
    static const uint16_t counts[] = {
        [PHOTOMETRIC_MINISWHITE] = 1, [PHOTOMETRIC_MINISBLACK] = 1, [PHOTOMETRIC_RGB] = 3,    [PHOTOMETRIC_PALETTE] = 1,
        [PHOTOMETRIC_SEPARATED] = 4,  [PHOTOMETRIC_CIELAB] = 3,     [PHOTOMETRIC_ICCLAB] = 3, [PHOTOMETRIC_ITULAB] = 3,
    };
    uint16_t extra_count = 0, *extra = NULL, ink = INKSET_CMYK;
    TIFFGetFieldDefaulted(reader->file, TIFFTAG_EXTRASAMPLES, &extra_count, &extra);
    uint16_t photometric = reader->photometric;
    // libjpeg converts these itself.
    if (photometric == PHOTOMETRIC_YCBCR && reader->compression == COMPRESSION_JPEG &&
        reader->planes == PLANARCONFIG_CONTIG)
        photometric = PHOTOMETRIC_RGB;
    if (photometric >= sizeof counts / sizeof *counts || counts[photometric] == 0) return 0;
    if (reader->bits == 0 || reader->bits > 16) return 0;
    if (photometric == PHOTOMETRIC_SEPARATED) {
        TIFFGetFieldDefaulted(reader->file, TIFFTAG_INKSET, &ink);
        if (ink != INKSET_CMYK) return 0;
    }
    if (photometric == PHOTOMETRIC_PALETTE && !read_palette(reader)) return 0;
    reader->colors = counts[photometric];
    if (reader->is_lab && (reader->bits % 8 != 0 || has_other_ranges(reader))) return 0;
    // Lightness alone.
    if (reader->is_lab && extra_count + 1 == reader->samples) reader->colors = 1;
    if (extra_count > reader->samples || reader->samples - extra_count < reader->colors) return 0;
    for (uint16_t i = 0; i < extra_count && photometric != PHOTOMETRIC_SEPARATED; i++) {
        if (extra[i] != EXTRASAMPLE_ASSOCALPHA && extra[i] != EXTRASAMPLE_UNASSALPHA) continue;
        reader->alpha = reader->samples - extra_count + i;
        reader->is_premultiplied = extra[i] == EXTRASAMPLE_ASSOCALPHA;
        break;
    }
    reader->photometric = photometric;
    return 1;
}

/// Finds the profile, unless rows are sRGB already.
static void find_profile(codec_tiff_reader *reader) {
    uint32_t length = 0;
    void *profile = NULL;
    if (reader->is_converted || reader->is_lab) return;
    if (!TIFFGetField(reader->file, TIFFTAG_ICCPROFILE, &length, &profile) || length == 0) return;
    reader->base.profile = profile;
    reader->base.profile_length = length;
}

codec_status codec_tiff_reader_read_header(codec_tiff_reader *reader, codec_header *header) {
    codec_status status = open_file(reader);
    if (status != CODEC_OK) return status;
    TIFF *file = reader->file;
    if (!TIFFGetField(file, TIFFTAG_IMAGEWIDTH, &reader->width) ||
        !TIFFGetField(file, TIFFTAG_IMAGELENGTH, &reader->height) || reader->width == 0 || reader->height == 0)
        return CODEC_EMPTY;
    if (reader->width > CODEC_MAXIMUM_SIDE || reader->height > CODEC_MAXIMUM_SIDE) return CODEC_TOO_LARGE;
    TIFFGetFieldDefaulted(file, TIFFTAG_BITSPERSAMPLE, &reader->bits);
    TIFFGetFieldDefaulted(file, TIFFTAG_SAMPLESPERPIXEL, &reader->samples);
    TIFFGetFieldDefaulted(file, TIFFTAG_PLANARCONFIG, &reader->planes);
    TIFFGetFieldDefaulted(file, TIFFTAG_COMPRESSION, &reader->compression);
    uint16_t orientation = 0;
    TIFFGetFieldDefaulted(file, TIFFTAG_ORIENTATION, &orientation);
    reader->base.orientation = orientation;
    // libtiff's conversion would apply it.
    TIFFSetField(file, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
    if (!TIFFIsCODECConfigured(reader->compression)) {
        snprintf(reader->base.message, sizeof reader->base.message, "compression %u", reader->compression);
        return CODEC_UNSUPPORTED;
    }
    if (!TIFFGetField(file, TIFFTAG_PHOTOMETRIC, &reader->photometric)) reader->photometric = PHOTOMETRIC_MINISBLACK;
    if (reader->bits <= 16 && !has_unsigned_samples(reader))
        return codec_fail(reader, CODEC_UNSUPPORTED, "the samples are no unsigned integers, and no tag states their black and white");
    reader->is_lab = reader->photometric >= PHOTOMETRIC_CIELAB && reader->photometric <= PHOTOMETRIC_ITULAB;
    reader->is_converted = !find_samples(reader);
    if (reader->is_converted && reader->is_lab)
        return codec_fail(reader, CODEC_UNSUPPORTED, "CIELab other than of 8 or 16 bits, or with ranges of its own");
    if (reader->is_lab && reader->is_premultiplied) return codec_fail(reader, CODEC_UNSUPPORTED, "CIELab that is multiplied by alpha");
    if (reader->is_converted) {
        char reason[1024] = "";
        if (!TIFFRGBAImageOK(file, reason)) return codec_fail(reader, CODEC_UNSUPPORTED, reason);
        uint16_t count = 0, *extra = NULL;
        TIFFGetFieldDefaulted(file, TIFFTAG_EXTRASAMPLES, &count, &extra);
        reader->alpha = count > 0 && extra[0] != EXTRASAMPLE_UNSPECIFIED;
    } else if (reader->compression == COMPRESSION_JPEG && reader->photometric == PHOTOMETRIC_RGB) {
        TIFFSetField(file, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    }

    reader->is_tiled = TIFFIsTiled(file);
    if (reader->is_tiled) {
        TIFFGetField(file, TIFFTAG_TILEWIDTH, &reader->tile_width);
        TIFFGetField(file, TIFFTAG_TILELENGTH, &reader->tile_height);
        reader->tile_bytes = TIFFTileSize64(file);
    } else {
        reader->tile_width = reader->width;
        TIFFGetFieldDefaulted(file, TIFFTAG_ROWSPERSTRIP, &reader->tile_height);
        if (reader->tile_height > reader->height) reader->tile_height = reader->height;
        reader->tile_bytes = TIFFStripSize64(file);
    }
    if (reader->tile_width == 0 || reader->tile_height == 0 || reader->tile_bytes == 0) return CODEC_DAMAGED;
    if (reader->tile_width > 2 * CODEC_MAXIMUM_SIDE || reader->tile_height > 2 * CODEC_MAXIMUM_SIDE)
        return CODEC_TOO_LARGE;
    uint64_t planes = reader->planes == PLANARCONFIG_SEPARATE ? reader->samples : 1;
    uint64_t pixels = (uint64_t)reader->tile_width * reader->tile_height;
    if (reader->is_converted) {
        reader->tile_bytes = pixels * 4;
    } else if (reader->tile_bytes < (pixels / reader->tile_width) * (((uint64_t)reader->tile_width * reader->bits *
                   (planes == 1 ? reader->samples : 1) + 7) / 8)) {
        return CODEC_DAMAGED;
    }
    find_profile(reader);
    int has_gray_profile = codec_profile_is_gray(reader->base.profile, reader->base.profile_length);
    if (!reader->is_converted && reader->photometric == PHOTOMETRIC_SEPARATED) reader->space = CODEC_SPACE_CMYK;
    if (!reader->is_converted && reader->photometric <= PHOTOMETRIC_MINISBLACK && has_gray_profile)
        reader->space = CODEC_SPACE_GRAY;
    header->width = reader->width;
    header->height = reader->height;
    // Missing strips and tiles are transparent.
    header->has_alpha = reader->alpha > 0 || reader->base.accepts_damage;
    header->space = reader->space;
    // A tile of samples, which libtiff and its codec may hold as well, and a row of tiles as pixels.
    header->held_bytes = (planes + 3) * reader->tile_bytes + 4 * (uint64_t)reader->width * reader->tile_height +
        reader->base.profile_length;
    if (reader->is_lab) header->held_bytes += MEMORY_OF_LAB + 6 * (uint64_t)reader->width;
    return CODEC_OK;
}

// MARK: Pixels

codec_status codec_tiff_reader_start(codec_tiff_reader *reader, codec_order order) {
    reader->order = order;
    reader->row = reader->band_rows = 0;
    uint64_t planes = reader->planes == PLANARCONFIG_SEPARATE && !reader->is_converted ? reader->samples : 1;
    uint64_t bytes = planes * reader->tile_bytes, pixels = 4 * (uint64_t)reader->width * reader->tile_height;
    if (bytes > SIZE_MAX / 2 || pixels > SIZE_MAX / 2) return CODEC_TOO_LARGE;
    // libtiff may leave the end of a tile unwritten.
    reader->tile = calloc(1, (size_t)bytes);
    reader->band = malloc((size_t)pixels);
    if (reader->is_lab) {
        reader->lab = codec_lab_create(order);
        reader->lab_row = malloc(3 * sizeof(uint16_t) * (size_t)reader->width);
        if (!reader->lab || !reader->lab_row) return CODEC_NO_MEMORY;
    }
    return reader->tile && reader->band ? CODEC_OK : CODEC_NO_MEMORY;
}

static inline uint32_t sample(const uint8_t *row, size_t index, unsigned bits) {
    if (bits == 8) return row[index];
    if (bits == 16) {
        uint16_t value;
        memcpy(&value, row + index * 2, sizeof value);
        return value;
    }
    uint32_t value = 0;
    for (size_t bit = index * bits, end = bit + bits; bit < end; bit++) value = value << 1 | (row[bit / 8] >> (7 - bit % 8) & 1);
    return value;
}

/// Returns a sample as eight bits, rounded.
static inline uint8_t eight(uint32_t value, uint32_t most) {
    return most == 255 ? (uint8_t)value : (uint8_t)((value * 255 + most / 2) / most);
}

/// Returns a colour as codec_lab_convert takes it, of samples as the kind of CIELab encodes them.
static void convert_lab(const codec_tiff_reader *reader, const uint32_t *values, uint16_t *color) {
    // ITU-T T.42: lightness, a from -85 to 85, b from -75 to 125; zero is at 128/255 and 96/255 of the range.
    static const double lowest[3] = {0, -128.0 * 170 / 255, -96.0 * 200 / 255}, ranges[3] = {100, 170, 200};
    int is_wide = reader->bits == 16;
    for (int i = 0; i < 3; i++) {
        uint32_t value = is_wide ? values[i] : values[i] << 8;
        if (i >= reader->colors) {
            value = 128 << 8;
        } else if (reader->photometric == PHOTOMETRIC_ITULAB) {
            double number = lowest[i] + ranges[i] * values[i] / (is_wide ? 65535 : 255);
            value = (uint32_t)(i == 0 ? number * 652.8 + 0.5 : (number + 128) * 256 + 0.5);
        } else if (reader->photometric == PHOTOMETRIC_CIELAB && i > 0) {
            // From signed numbers.
            value ^= 0x8000;
        } else if (reader->photometric == PHOTOMETRIC_CIELAB && is_wide) {
            value = (value * 65280u + 32767) / 65535;
        }
        color[i] = (uint16_t)value;
    }
}

static void convert_row(const codec_tiff_reader *reader, const uint8_t *samples, size_t plane, uint32_t count, uint8_t *pixels) {
    unsigned bits = reader->bits;
    uint32_t most = (1u << bits) - 1;
    int is_separate = reader->planes == PLANARCONFIG_SEPARATE, red = reader->order == CODEC_BGRA ? 2 : 0;
    uint8_t *first = pixels;
    for (uint32_t x = 0; x < count; x++, pixels += 4) {
        uint32_t values[4] = {0}, alpha = most;
        for (uint16_t color = 0; color < reader->colors; color++) {
            values[color] = is_separate ? sample(samples + plane * color, x, bits)
                                        : sample(samples, (size_t)x * reader->samples + color, bits);
        }
        if (reader->alpha > 0) {
            alpha = is_separate ? sample(samples + plane * reader->alpha, x, bits)
                                : sample(samples, (size_t)x * reader->samples + reader->alpha, bits);
        }
        if (reader->photometric == PHOTOMETRIC_SEPARATED) {
            for (int color = 0; color < 4; color++) pixels[color] = 255 - eight(values[color], most);
            continue;
        }
        if (reader->is_lab) {
            convert_lab(reader, values, reader->lab_row + 3 * (size_t)x);
            pixels[3] = eight(alpha, most);
            continue;
        }
        uint32_t range = most;
        if (reader->photometric == PHOTOMETRIC_PALETTE) {
            uint32_t index = values[0];
            range = 255;
            // The upper byte, because writers multiply by 256 or by 257.
            for (int color = 0; color < 3; color++)
                values[color] = reader->palette[color][index] >> (reader->is_short_palette ? 0 : 8);
        } else if (reader->colors == 1) {
            if (reader->photometric == PHOTOMETRIC_MINISWHITE) values[0] = most - values[0];
            values[1] = values[2] = values[0];
        }
        if (reader->is_premultiplied && alpha < most) {
            for (int color = 0; color < 3; color++) {
                uint64_t straight = alpha ? ((uint64_t)values[color] * most + alpha / 2) / alpha : 0;
                values[color] = straight > range ? range : (uint32_t)straight;
            }
        }
        pixels[red] = eight(values[0], range);
        pixels[1] = eight(values[1], range);
        pixels[2 - red] = eight(values[2], range);
        pixels[3] = eight(alpha, most);
    }
    if (reader->is_lab) codec_lab_convert(reader->lab, reader->lab_row, first, count);
}

/// Converts a row of libtiff's pixels, whose colour is multiplied by alpha.
static void convert_pixels(const codec_tiff_reader *reader, const uint32_t *row, uint32_t count, uint8_t *pixels) {
    int red = reader->order == CODEC_BGRA ? 2 : 0;
    for (uint32_t x = 0; x < count; x++, pixels += 4) {
        uint32_t alpha = reader->alpha > 0 ? TIFFGetA(row[x]) : 255;
        uint32_t values[3] = {TIFFGetR(row[x]), TIFFGetG(row[x]), TIFFGetB(row[x])};
        for (int color = 0; color < 3 && alpha < 255; color++) {
            uint32_t straight = alpha ? (values[color] * 255 + alpha / 2) / alpha : 0;
            values[color] = straight > 255 ? 255 : straight;
        }
        pixels[red] = (uint8_t)values[0];
        pixels[1] = (uint8_t)values[1];
        pixels[2 - red] = (uint8_t)values[2];
        pixels[3] = (uint8_t)alpha;
    }
}

/// Returns the reason for which a strip or tile could not be decoded.
static codec_status failed(codec_tiff_reader *reader, uint32_t number) {
    uint64_t start = TIFFGetStrileOffset(reader->file, number), count = TIFFGetStrileByteCount(reader->file, number);
    if (start > reader->base.length || count > reader->base.length - start) return CODEC_TRUNCATED;
    return CODEC_DAMAGED;
}

/// Decodes the tile at a place, or the strip, to `reader->tile`.
static codec_status read_tile(codec_tiff_reader *reader, uint32_t column, uint32_t row) {
    TIFF *file = reader->file;
    if (reader->is_converted) {
        uint32_t *raster = (uint32_t *)(void *)reader->tile;
        uint32_t number = reader->is_tiled ? TIFFComputeTile(file, column, row, 0, 0) : TIFFComputeStrip(file, row, 0);
        int is_read = reader->is_tiled ? TIFFReadRGBATileExt(file, column, row, raster, 1)
                                       : TIFFReadRGBAStripExt(file, row, raster, 1);
        return is_read ? CODEC_OK : failed(reader, number);
    }
    uint16_t planes = reader->planes == PLANARCONFIG_SEPARATE ? reader->samples : 1;
    for (uint16_t plane = 0; plane < planes; plane++) {
        uint8_t *target = reader->tile + plane * reader->tile_bytes;
        uint32_t number =
            reader->is_tiled ? TIFFComputeTile(file, column, row, 0, plane) : TIFFComputeStrip(file, row, plane);
        tmsize_t length = (tmsize_t)reader->tile_bytes;
        tmsize_t read = reader->is_tiled ? TIFFReadEncodedTile(file, number, target, length)
                                         : TIFFReadEncodedStrip(file, number, target, length);
        if (read < 0) return failed(reader, number);
    }
    return CODEC_OK;
}

/// Decodes the row of tiles, or the strip, that begins at the next row.
static codec_status read_band(codec_tiff_reader *reader) {
    uint32_t left = reader->height - reader->row;
    reader->band_rows = left < reader->tile_height ? left : reader->tile_height;
    uint64_t planes = reader->planes == PLANARCONFIG_SEPARATE ? 1 : reader->samples;
    size_t row_bytes = (size_t)(((uint64_t)reader->tile_width * reader->bits * planes + 7) / 8);
    for (uint32_t column = 0; column < reader->width; column += reader->tile_width) {
        codec_status status = read_tile(reader, column, reader->row);
        if (status == CODEC_OK && reader->is_damaged && !reader->base.accepts_damage) status = CODEC_DAMAGED;
        if (status != CODEC_OK && !reader->base.accepts_damage) return status;
        uint32_t count = reader->width - column < reader->tile_width ? reader->width - column : reader->tile_width;
        if (status != CODEC_OK) {
            if (reader->first_failure == CODEC_OK) reader->first_failure = status;
            // Transparent; without ink in CMYK, where 0 is full ink and nothing is transparent.
            int blank = reader->space == CODEC_SPACE_CMYK ? 255 : 0;
            for (uint32_t row = 0; row < reader->band_rows; row++)
                memset(reader->band + ((size_t)row * reader->width + column) * 4, blank, (size_t)count * 4);
            continue;
        }
        reader->has_pixels = 1;
        for (uint32_t row = 0; row < reader->band_rows; row++) {
            uint8_t *pixels = reader->band + ((size_t)row * reader->width + column) * 4;
            if (reader->is_converted) {
                // From the bottom.
                uint32_t last = (reader->is_tiled ? reader->tile_height : reader->band_rows) - 1;
                const uint32_t *raster = (const uint32_t *)(const void *)reader->tile;
                convert_pixels(reader, raster + (size_t)(last - row) * reader->tile_width, count, pixels);
            } else {
                convert_row(reader, reader->tile + row * row_bytes, reader->tile_bytes, count, pixels);
            }
        }
    }
    return CODEC_OK;
}

codec_status codec_tiff_reader_read_rows(codec_tiff_reader *reader, uint8_t *rows, size_t stride, uint32_t count) {
    if (count == 0 || count > reader->height - reader->row) return CODEC_DAMAGED;
    for (uint32_t row = 0; row < count; row++) {
        uint32_t place = reader->row % reader->tile_height;
        if (place == 0) {
            codec_status status = read_band(reader);
            if (status != CODEC_OK) return status;
        }
        memcpy(rows + row * stride, reader->band + (size_t)place * reader->width * 4, (size_t)reader->width * 4);
        reader->row++;
    }
    return reader->row == reader->height && !reader->has_pixels ? reader->first_failure : CODEC_OK;
}

const char *codec_tiff_version(void) {
    static char text[64];
    // "LIBTIFF, Version 4.5.0", and a second line.
    const char *version = strstr(TIFFGetVersion(), "Version ");
    snprintf(text, sizeof text, "libtiff %.*s", version ? (int)strcspn(version + 8, "\n") : 0, version ? version + 8 : "");
    return text;
}
