// For memrchr.
#define _GNU_SOURCE
#include "CImageCodecs.h"
#include "jpeg_errors.h"
#include "jpeg_scans.h"

struct codec_jpeg_reader {
    codec_base base;
    struct jpeg_decompress_struct jpeg;
    error_manager errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    /// The data ended before the end marker, and an end marker was supplied.
    int ran_out;
    /// There were more scans than CODEC_MAXIMUM_SCANS.
    int has_endless_scans;
    /// The components, by index, for which a scan was read.
    int scanned[MAX_COMPONENTS];
    /// Scans that do not affect the rows are skipped.
    int skips_scans;
};

static void source_nothing(j_decompress_ptr jpeg) { (void)jpeg; }

/// Provides the next span of bytes. At the end of the data it supplies an end marker, because libjpeg can only suspend
/// or continue there.
static boolean fill(j_decompress_ptr jpeg) {
    static const JOCTET end[2] = {0xFF, JPEG_EOI};
    codec_jpeg_reader *reader = jpeg->client_data;
    const uint8_t *place = jpeg->src->next_input_byte, *end_of_file = reader->base.bytes + reader->base.length;
    if (reader->skips_scans && !reader->ran_out && place < end_of_file) {
        jpeg->src->next_input_byte = jpeg_skip_scans(jpeg, place, end_of_file);
        jpeg->src->bytes_in_buffer = jpeg_count_until_skipped(jpeg, jpeg->src->next_input_byte, end_of_file);
        if (jpeg->src->bytes_in_buffer > 0) return TRUE;
    }
    reader->ran_out = 1;
    jpeg->src->next_input_byte = end;
    jpeg->src->bytes_in_buffer = sizeof end;
    return TRUE;
}

static void skip(j_decompress_ptr jpeg, long count) {
    if (count <= 0) return;
    if ((size_t)count > jpeg->src->bytes_in_buffer) {
        // A complete segment never extends beyond its span.
        const codec_jpeg_reader *reader = jpeg->client_data;
        jpeg->src->next_input_byte = reader->base.bytes + reader->base.length;
        fill(jpeg);
    } else {
        jpeg->src->next_input_byte += count;
        jpeg->src->bytes_in_buffer -= (size_t)count;
    }
}

/// Called by libjpeg between the steps of reading a file with several scans.
static void note_scan(j_common_ptr common) {
    j_decompress_ptr jpeg = (j_decompress_ptr)common;
    codec_jpeg_reader *reader = jpeg->client_data;
    // In damaged data between restart markers, libjpeg finds scans that jpeg_has_too_many_scans does not.
    if (jpeg->input_scan_number > CODEC_MAXIMUM_SCANS) {
        reader->has_endless_scans = 1;
        codec_fail(reader, CODEC_TOO_LARGE, "too many scans");
        longjmp(reader->errors.jump, 1);
    }
    for (int i = 0; i < jpeg->comps_in_scan && i < MAX_COMPS_IN_SCAN; i++) {
        int component = jpeg->cur_comp_info[i]->component_index;
        if (component >= 0 && component < MAX_COMPONENTS) reader->scanned[component] = 1;
    }
}

/// Returns the status for the libjpeg error that has just jumped.
static codec_status reading_status(const codec_jpeg_reader *reader) {
    if (reader->has_endless_scans) return CODEC_TOO_LARGE;
    if (reader->ran_out) return CODEC_TRUNCATED;
    switch (reader->errors.base.msg_code) {
    case JERR_EMPTY_IMAGE: return CODEC_EMPTY;
    case JERR_IMAGE_TOO_BIG: return CODEC_TOO_LARGE;
    case JERR_OUT_OF_MEMORY:
    case JERR_NO_BACKING_STORE: return CODEC_NO_MEMORY;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED: return CODEC_UNSUPPORTED;
    default: return CODEC_DAMAGED;
    }
}

static int needs_all(const codec_jpeg_reader *reader) { return !reader->base.is_part && !reader->base.accepts_damage; }

/// Returns the status for the warnings about the rows read so far.
static codec_status warnings_status(const codec_jpeg_reader *reader) {
    // Arithmetic coding continues with zeros where data are missing, without a warning.
    if (reader->jpeg.arith_code && reader->ran_out && needs_all(reader)) return CODEC_TRUNCATED;
    if (!reader->errors.damaged) return CODEC_OK;
    if (reader->base.accepts_damage && !reader->errors.is_empty) return CODEC_OK;
    return reader->ran_out && !reader->base.is_part ? CODEC_TRUNCATED : CODEC_DAMAGED;
}

static void release(void *reader) { jpeg_destroy_decompress(&((codec_jpeg_reader *)reader)->jpeg); }

codec_jpeg_reader *codec_jpeg_reader_create(const uint8_t *bytes, size_t length) {
    codec_jpeg_reader *reader = codec_allocate(sizeof *reader, release, bytes, length);
    if (!reader) return NULL;
    reader->jpeg.err = prepare_errors(&reader->errors, &reader->base);
    if (setjmp(reader->errors.jump)) {
        codec_destroy(reader);
        return NULL;
    }
    jpeg_create_decompress(&reader->jpeg);
    reader->jpeg.client_data = reader;
    reader->source = (struct jpeg_source_mgr){
        .init_source = source_nothing, .fill_input_buffer = fill, .skip_input_data = skip,
        .resync_to_restart = jpeg_resync_to_restart, .term_source = source_nothing,
        .next_input_byte = bytes, .bytes_in_buffer = length};
    reader->jpeg.src = &reader->source;
    reader->progress.progress_monitor = note_scan;
    reader->jpeg.progress = &reader->progress;
    return reader;
}

/// Returns the size of all coefficients of a file with several scans, 2 bytes each; 0 for a file with one scan.
static uint64_t coefficient_bytes(j_decompress_ptr jpeg) {
    if (!jpeg_has_multiple_scans(jpeg)) return 0;
    uint64_t blocks = 0;
    for (int i = 0; i < jpeg->num_components; i++) blocks += jpeg_component_blocks(&jpeg->comp_info[i]);
    return blocks * DCTSIZE2 * sizeof(JCOEF);
}

codec_status codec_jpeg_reader_read_header(codec_jpeg_reader *reader, codec_header *header) {
    if (setjmp(reader->errors.jump)) return reading_status(reader);
    jpeg_read_header(&reader->jpeg, TRUE);
    if (jpeg_has_too_many_scans(&reader->jpeg)) return codec_fail(reader, CODEC_TOO_LARGE, "too many scans");
    header->width = reader->jpeg.image_width;
    header->height = reader->jpeg.image_height;
    header->held_bytes = coefficient_bytes(&reader->jpeg);
    header->can_scale = 1;
    switch (reader->jpeg.jpeg_color_space) {
    case JCS_GRAYSCALE: header->space = CODEC_SPACE_GRAY; break;
    case JCS_CMYK:
    case JCS_YCCK: header->space = CODEC_SPACE_CMYK; break;
    default: break;
    }
    return CODEC_OK;
}

codec_status codec_jpeg_reader_keep_complete_scans(codec_jpeg_reader *reader, uint32_t *scans) {
    *scans = 0;
    if (!jpeg_has_multiple_scans(&reader->jpeg)) return codec_fail(reader, CODEC_UNSUPPORTED, "it has one scan only");
    reader->source.bytes_in_buffer = jpeg_complete_scans(&reader->jpeg, scans);
    return *scans == 0 ? CODEC_TRUNCATED : CODEC_OK;
}

/// Returns whether a file with several scans lacks coefficients. Coefficients that only lack precision count if the
/// file is truncated; in a file with an end marker, its writer chose the precision.
static int coefficients_missing(const codec_jpeg_reader *reader) {
    const struct jpeg_decompress_struct *jpeg = &reader->jpeg;
    for (int component = 0; component < jpeg->num_components; component++) {
        if (!reader->scanned[component]) return 1;
        if (!jpeg->progressive_mode || !jpeg->coef_bits) continue;
        const int *bits = jpeg->coef_bits[component];
        if (bits[0] < 0) return 1;
        for (int i = 0; reader->ran_out && i < DCTSIZE2; i++) {
            if (bits[i] != 0) return 1;
        }
    }
    return 0;
}

static codec_status start(codec_jpeg_reader *reader, codec_order order, int eighths) {
    struct jpeg_decompress_struct *jpeg = &reader->jpeg;
    if (setjmp(reader->errors.jump)) return reading_status(reader);
    if (jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK) {
        jpeg->out_color_space = JCS_CMYK;
    } else {
        jpeg->out_color_space = order == CODEC_BGRA ? JCS_EXT_BGRA : JCS_EXT_RGBA;
    }
    jpeg->scale_num = (unsigned)eighths;
    jpeg->scale_denom = 8;
    // Besides the coefficients, libjpeg holds a few rows.
    jpeg->mem->max_memory_to_use = (long)(coefficient_bytes(jpeg) + (64u << 20));
    jpeg_calc_output_dimensions(jpeg);
    if (needs_all(reader) && jpeg_can_skip_scans(jpeg)) {
        reader->skips_scans = 1;
        // Block smoothing would estimate the skipped coefficients and change others.
        jpeg->do_block_smoothing = FALSE;
        reader->source.bytes_in_buffer = jpeg_count_until_skipped(
            jpeg, reader->source.next_input_byte, reader->base.bytes + reader->base.length);
    }
    jpeg_start_decompress(jpeg);
    if (jpeg_has_multiple_scans(jpeg) && needs_all(reader) && coefficients_missing(reader))
        return codec_fail(reader, CODEC_TRUNCATED, "scans are missing");
    return warnings_status(reader);
}

/// Begins the file again, and ends it before the segment that libjpeg could not read. Returns 0 if nothing remains.
static int cut_off(codec_jpeg_reader *reader) {
    size_t position = codec_jpeg_reader_position(reader);
    const uint8_t *marker = position > 2 ? memrchr(reader->base.bytes, 0xFF, position - 1) : NULL;
    // Always less than before, so that this ends.
    if (!marker || (size_t)(marker - reader->base.bytes) >= reader->base.length) return 0;
    reader->base.length = (size_t)(marker - reader->base.bytes);
    jpeg_abort_decompress(&reader->jpeg);
    reader->ran_out = reader->errors.damaged = reader->errors.is_empty = 0;
    memset(reader->scanned, 0, sizeof reader->scanned);
    reader->source.next_input_byte = reader->base.bytes;
    reader->source.bytes_in_buffer = reader->base.length;
    codec_header header = {0};
    return codec_jpeg_reader_read_header(reader, &header) == CODEC_OK;
}

/// The most segments of one file to leave out.
#define MOST_CUTS 4

codec_status codec_jpeg_reader_start(codec_jpeg_reader *reader, codec_order order, int eighths) {
    codec_status status = start(reader, order, eighths);
    for (int cuts = 0; cuts < MOST_CUTS && reader->base.accepts_damage && status == CODEC_DAMAGED; cuts++) {
        if (!cut_off(reader)) return status;
        status = start(reader, order, eighths);
    }
    return status;
}

/// Converts CMYK to 255 for no ink. Adobe's programs, which mark their files, store 255 already; standard CMYK stores
/// 0.
static void turn_ink(const codec_jpeg_reader *reader, uint8_t *row, uint32_t width) {
    if (reader->jpeg.saw_Adobe_marker) return;
    for (size_t i = 0; i < (size_t)width * 4; i++) row[i] ^= 0xff;
}

codec_status codec_jpeg_reader_read_rows(codec_jpeg_reader *reader, uint8_t *rows, size_t stride, uint32_t count) {
    struct jpeg_decompress_struct *jpeg = &reader->jpeg;
    if (setjmp(reader->errors.jump)) return reading_status(reader);
    uint32_t done = 0;
    while (done < count) {
        // The most rows that libjpeg returns in one step.
        JSAMPROW pointers[16];
        uint32_t step = count - done < 16 ? count - done : 16;
        for (uint32_t i = 0; i < step; i++) pointers[i] = rows + (done + i) * stride;
        uint32_t read = jpeg_read_scanlines(jpeg, pointers, step);
        if (read == 0) return CODEC_TRUNCATED;
        if (jpeg->out_color_space == JCS_CMYK) {
            for (uint32_t i = 0; i < read; i++) turn_ink(reader, pointers[i], jpeg->output_width);
        }
        done += read;
    }
    return warnings_status(reader);
}

codec_status codec_jpeg_reader_skip_rows(codec_jpeg_reader *reader, uint32_t count) {
    struct jpeg_decompress_struct *jpeg = &reader->jpeg;
    if (setjmp(reader->errors.jump)) return reading_status(reader);
    if (count > 0 && jpeg_skip_scanlines(jpeg, count) != count) return CODEC_TRUNCATED;
    return warnings_status(reader);
}

size_t codec_jpeg_reader_position(const codec_jpeg_reader *reader) {
    return reader->ran_out ? reader->base.length : (size_t)(reader->source.next_input_byte - reader->base.bytes);
}

#define TEXT(name) TEXT_OF(name)
#define TEXT_OF(text) #text

// The version at compile time, because the library reports only its interface number, which has not changed for
// decades.
const char *codec_jpeg_version(void) { return "libjpeg-turbo " TEXT(LIBJPEG_TURBO_VERSION); }
