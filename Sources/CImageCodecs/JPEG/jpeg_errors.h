// The error manager of the JPEG reader and writer. libjpeg's error functions must not return, so they jump.
#ifndef CODEC_JPEG_ERRORS_H
#define CODEC_JPEG_ERRORS_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jpeglib.h>
#include <jerror.h>

#include "CodecTypes.h"

/// libjpeg's error manager with the jump target.
typedef struct {
    struct jpeg_error_mgr base;
    jmp_buf jump;
    /// A warning was raised that means wrong pixels.
    int damaged;
    /// The first of these warnings says that nothing follows the first rows of the first scan.
    int is_empty;
    /// Has room for JMSG_LENGTH_MAX characters.
    char *message;
} error_manager;

static inline void failed(j_common_ptr common) {
    error_manager *errors = (error_manager *)common->err;
    errors->base.format_message(common, errors->message);
    longjmp(errors->jump, 1);
}

/// Records warnings about damaged or missing entropy-coded data, for which libjpeg substitutes gray. Other warnings
/// (surplus bytes, unexpected markers, an unknown Adobe transform) do not affect pixels.
static inline void note_warning(j_common_ptr common, int level) {
    error_manager *errors = (error_manager *)common->err;
    if (level >= 0) return;
    switch (errors->base.msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
        if (!errors->damaged) {
            errors->base.format_message(common, errors->message);
            j_decompress_ptr jpeg = common->is_decompressor ? (j_decompress_ptr)common : NULL;
            errors->is_empty = jpeg && errors->base.msg_code == JWRN_HIT_MARKER && jpeg->unread_marker == JPEG_EOI
                && jpeg->input_scan_number <= 1 && jpeg->input_iMCU_row == 0;
        }
        errors->damaged = 1;
        break;
    default: break;
    }
}

static inline void print_nothing(j_common_ptr common) { (void)common; }

/// Prepares the error manager of a reader or writer.
static inline struct jpeg_error_mgr *prepare_errors(error_manager *errors, codec_base *base) {
    _Static_assert(sizeof base->message >= JMSG_LENGTH_MAX, "room for a message of libjpeg");
    errors->message = base->message;
    jpeg_std_error(&errors->base);
    errors->base.error_exit = failed;
    errors->base.emit_message = note_warning;
    errors->base.output_message = print_nothing;
    return &errors->base;
}

#endif
