#include "CImageCodecs.h"
#include "jpeg_errors.h"
#include "../output.h"

/// The bytes of buffer that the compressor gets at a time.
#define OUTPUT_STEP 65536

struct codec_jpeg_writer {
    codec_base base;
    struct jpeg_compress_struct jpeg;
    error_manager errors;
    struct jpeg_destination_mgr destination;
    /// `length` excludes the buffer that the compressor currently fills.
    codec_output output;
    int started;
};

static void provide_space(codec_jpeg_writer *writer) {
    uint8_t *space = codec_output_reserve(&writer->output, OUTPUT_STEP);
    if (!space) ERREXIT1(&writer->jpeg, JERR_OUT_OF_MEMORY, 0);
    writer->destination.next_output_byte = space;
    writer->destination.free_in_buffer = OUTPUT_STEP;
}

static void begin_output(j_compress_ptr jpeg) { provide_space(jpeg->client_data); }

static boolean continue_output(j_compress_ptr jpeg) {
    codec_jpeg_writer *writer = jpeg->client_data;
    writer->output.length += OUTPUT_STEP;
    provide_space(writer);
    return TRUE;
}

static void end_output(j_compress_ptr jpeg) { (void)jpeg; }

static codec_status writing_status(const codec_jpeg_writer *writer) {
    switch (writer->errors.base.msg_code) {
    case JERR_IMAGE_TOO_BIG: return CODEC_TOO_LARGE;
    case JERR_OUT_OF_MEMORY:
    case JERR_NO_BACKING_STORE: return CODEC_NO_MEMORY;
    default: return CODEC_UNSUPPORTED;
    }
}

static void release(void *object) {
    codec_jpeg_writer *writer = object;
    jpeg_destroy_compress(&writer->jpeg);
    free(writer->output.bytes);
}

codec_jpeg_writer *codec_jpeg_writer_create(uint32_t width, uint32_t height, codec_order order, int quality) {
    codec_jpeg_writer *writer = codec_allocate(sizeof *writer, release, NULL, 0);
    if (!writer) return NULL;
    struct jpeg_compress_struct *jpeg = &writer->jpeg;
    jpeg->err = prepare_errors(&writer->errors, &writer->base);
    if (setjmp(writer->errors.jump)) {
        codec_destroy(writer);
        return NULL;
    }
    jpeg_create_compress(jpeg);
    jpeg->client_data = writer;
    writer->destination.init_destination = begin_output;
    writer->destination.empty_output_buffer = continue_output;
    writer->destination.term_destination = end_output;
    jpeg->dest = &writer->destination;
    jpeg->image_width = width;
    jpeg->image_height = height;
    jpeg->input_components = 4;
    jpeg->in_color_space = order == CODEC_BGRA ? JCS_EXT_BGRX : JCS_EXT_RGBX;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, quality, TRUE);
    return writer;
}

codec_status codec_jpeg_writer_write_rows(
    codec_jpeg_writer *writer, const uint8_t *rows, size_t stride, uint32_t count) {
    if (setjmp(writer->errors.jump)) return writing_status(writer);
    if (!writer->started) {
        writer->started = 1;
        jpeg_start_compress(&writer->jpeg, TRUE);
    }
    for (uint32_t row = 0; row < count; row++) {
        JSAMPROW pointer = (JSAMPROW)(uintptr_t)(rows + row * stride);
        jpeg_write_scanlines(&writer->jpeg, &pointer, 1);
    }
    return CODEC_OK;
}

codec_status codec_jpeg_writer_finish(codec_jpeg_writer *writer) {
    if (setjmp(writer->errors.jump)) return writing_status(writer);
    jpeg_finish_compress(&writer->jpeg);
    return CODEC_OK;
}

const uint8_t *codec_jpeg_writer_take_output(codec_jpeg_writer *writer, size_t *length) {
    *length = 0;
    if (!writer->destination.next_output_byte) return NULL;
    *length = (size_t)(writer->destination.next_output_byte - writer->output.bytes);
    // The compressor continues at the start of the buffer.
    writer->output.length = 0;
    writer->destination.next_output_byte = writer->output.bytes;
    writer->destination.free_in_buffer = OUTPUT_STEP;
    return writer->output.bytes;
}

