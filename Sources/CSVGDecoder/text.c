#define _GNU_SOURCE
#include <iconv.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "CSVGDecoder.h"
#include "document.h"

codec_status codec_bytes_append(codec_bytes *target, const void *bytes, size_t length) {
    if (length > CODEC_MAXIMUM_DOCUMENT - target->length) return CODEC_TOO_LARGE;
    if (target->length + length > target->capacity) {
        size_t capacity = 2 * (target->length + length) + 1024;
        uint8_t *larger = realloc(target->bytes, capacity);
        if (!larger) return CODEC_NO_MEMORY;
        target->bytes = larger;
        target->capacity = capacity;
    }
    if (length > 0) memcpy(target->bytes + target->length, bytes, length);
    target->length += length;
    return CODEC_OK;
}

codec_status codec_bytes_append_character(codec_bytes *target, uint32_t code) {
    int count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    uint8_t bytes[4];
    for (int i = count - 1; i > 0; i--, code >>= 6) bytes[i] = (uint8_t)(0x80 | (code & 0x3F));
    bytes[0] = (uint8_t)(count == 1 ? code : (0xF00u >> count & 0xFF) | code);
    return codec_bytes_append(target, bytes, (size_t)count);
}

void codec_bytes_free(codec_bytes *bytes) {
    free(bytes->bytes);
    *bytes = (codec_bytes){0};
}

void codec_document_take(codec_document *document, codec_bytes *bytes) {
    codec_bytes_free(&document->own);
    document->own = *bytes;
    document->text = (codec_text){bytes->bytes, bytes->bytes + bytes->length};
}

const uint8_t *codec_text_find(codec_text text, const char *word) {
    return memmem(text.start, (size_t)(text.end - text.start), word, strlen(word));
}

int codec_text_value(codec_text text, const uint8_t *next, codec_text *value) {
    next = codec_skip_spaces(text, next);
    if (next == text.end || *next != '=') return 0;
    next = codec_skip_spaces(text, next + 1);
    if (next == text.end || (*next != '"' && *next != '\'')) return 0;
    *value = (codec_text){next + 1, memchr(next + 1, *next, (size_t)(text.end - next - 1))};
    return 1;
}

int codec_text_attribute(codec_text tag, const char *name, codec_text *value) {
    size_t length = strlen(name);
    codec_text rest = tag;
    for (const uint8_t *place; (place = codec_text_find(rest, name)) != NULL; rest.start = place + length) {
        if (place == tag.start || !codec_is_space(place[-1])) continue;
        if (codec_text_value(tag, place + length, value) && value->end) return 1;
    }
    return 0;
}

// MARK: Compression

codec_status codec_document_inflate(codec_document *document) {
    codec_text file = document->text;
    if (file.end - file.start < 2 || file.start[0] != 0x1F || file.start[1] != 0x8B) return CODEC_OK;
    codec_bytes result = {0};
    codec_status status = codec_inflate(
        file.start, (size_t)(file.end - file.start), 1, CODEC_MAXIMUM_DOCUMENT, &result.bytes, &result.length);
    result.capacity = result.length;
    document->message = status == CODEC_TOO_LARGE ? "the document is too long" : "its compression";
    size_t blank = 0;
    while (blank < result.length && (codec_is_space(result.bytes[blank]) || result.bytes[blank] == 0)) blank++;
    if (status == CODEC_OK && (blank == result.length || !memchr("<\xEF\xFE\xFF", result.bytes[blank], 4))) {
        document->message = "compressed data of another format";
        status = CODEC_UNSUPPORTED;
    }
    if (status == CODEC_OK) codec_document_take(document, &result);
    else codec_bytes_free(&result);
    return status;
}

// MARK: Encodings

/// The encodings besides UTF-8 and UTF-16 that the Encoding Standard of WHATWG has, as glibc names them, and their labels.
static const struct {
    const char *name, *labels;
} encodings[] = {
    {"CP1252", " iso-8859-1 iso8859-1 iso_8859-1 latin1 l1 us-ascii ascii windows-1252 cp1252 x-cp1252 "},
    {"ISO-8859-2", " iso-8859-2 iso8859-2 latin2 l2 "},
    {"ISO-8859-3", " iso-8859-3 iso8859-3 latin3 "},
    {"ISO-8859-4", " iso-8859-4 iso8859-4 latin4 "},
    {"ISO-8859-5", " iso-8859-5 iso8859-5 cyrillic "},
    {"ISO-8859-6", " iso-8859-6 iso8859-6 arabic "},
    {"ISO-8859-7", " iso-8859-7 iso8859-7 greek "},
    {"ISO-8859-8", " iso-8859-8 iso8859-8 hebrew "},
    {"CP1254", " iso-8859-9 iso8859-9 latin5 l5 windows-1254 cp1254 "},
    {"ISO-8859-10", " iso-8859-10 iso8859-10 latin6 "},
    {"ISO-8859-13", " iso-8859-13 iso8859-13 "},
    {"ISO-8859-14", " iso-8859-14 iso8859-14 "},
    {"ISO-8859-15", " iso-8859-15 iso8859-15 latin9 l9 "},
    {"ISO-8859-16", " iso-8859-16 iso8859-16 "},
    {"CP1250", " windows-1250 cp1250 "},
    {"CP1251", " windows-1251 cp1251 "},
    {"CP1253", " windows-1253 cp1253 "},
    {"CP1255", " windows-1255 cp1255 "},
    {"CP1256", " windows-1256 cp1256 "},
    {"CP1257", " windows-1257 cp1257 "},
    {"CP1258", " windows-1258 cp1258 "},
    {"CP874", " windows-874 tis-620 iso-8859-11 "},
    {"IBM866", " ibm866 cp866 866 "},
    {"KOI8-R", " koi8-r koi8 "},
    {"KOI8-U", " koi8-u koi8-ru "},
    {"MACINTOSH", " macintosh x-mac-roman "},
    {"GB18030", " gb18030 gbk gb2312 x-gbk "},
    {"BIG5-HKSCS", " big5 big5-hkscs "},
    {"EUC-JP", " euc-jp x-euc-jp "},
    {"CP932", " shift_jis shift-jis sjis windows-31j ms932 x-sjis "},
    {"CP949", " euc-kr ks_c_5601-1987 windows-949 "},
};
#define ENCODINGS (sizeof encodings / sizeof *encodings)

void codec_svg_load_encodings(void) {
    // The descriptors stay open, and so do the tables.
    for (size_t i = 0; i < ENCODINGS; i++) (void)iconv_open("UTF-8", encodings[i].name);
}

/// Returns the name of the encoding with a label; NULL if it is unknown.
static const char *encoding_name(codec_text label) {
    char text[40];
    size_t length = (size_t)(label.end - label.start);
    if (length == 0 || length > sizeof text - 3) return NULL;
    text[0] = ' ';
    for (size_t i = 0; i < length; i++) {
        if (codec_is_space(label.start[i])) return NULL;
        text[1 + i] = (char)label.start[i];
    }
    memcpy(text + 1 + length, " ", 2);
    for (size_t i = 0; i < ENCODINGS; i++) {
        if (strcasestr(encodings[i].labels, text)) return encodings[i].name;
    }
    return NULL;
}

static const char replacement[] = "\xEF\xBF\xBD";

/// Converts from an encoding of iconv. Bytes that are invalid become U+FFFD, as in browsers.
static codec_status convert(codec_text text, const char *encoding, codec_bytes *result) {
    iconv_t converter = iconv_open("UTF-8", encoding);
    if (converter == (iconv_t)-1) return CODEC_UNSUPPORTED;
    char *next = (char *)text.start;
    size_t left = (size_t)(text.end - text.start);
    codec_status status = CODEC_OK;
    while (left > 0 && status == CODEC_OK) {
        char block[4096], *out = block;
        size_t room = sizeof block, before = left;
        size_t count = iconv(converter, &next, &left, &out, &room);
        status = codec_bytes_append(result, block, sizeof block - room);
        if (status != CODEC_OK || count != (size_t)-1 || (left < before && room < 16)) continue;
        status = codec_bytes_append(result, replacement, 3);
        next++;
        left--;
    }
    iconv_close(converter);
    return status;
}

/// Converts from UTF-16. Surrogates without the other half become U+FFFD.
static codec_status convert_words(codec_text text, int is_big, codec_bytes *result) {
    codec_status status = CODEC_OK;
    uint32_t high = 0;
    for (const uint8_t *place = text.start; place + 1 < text.end && status == CODEC_OK; place += 2) {
        uint32_t word = is_big ? (uint32_t)place[0] << 8 | place[1] : (uint32_t)place[1] << 8 | place[0];
        int is_low = word >= 0xDC00 && word < 0xE000;
        if (high && !is_low) status = codec_bytes_append(result, replacement, 3);
        if (status != CODEC_OK) break;
        uint32_t code = high && is_low ? 0x10000 + ((high - 0xD800) << 10) + (word - 0xDC00) : is_low ? 0xFFFD : word;
        high = word >= 0xD800 && word < 0xDC00 ? word : 0;
        if (high) continue;
        status = codec_bytes_append_character(result, code);
    }
    return status;
}

/// Returns the end of the XML declaration; the start of the text if it has none.
static const uint8_t *declaration_end(codec_text text) {
    if (text.end - text.start < 6 || memcmp(text.start, "<?xml", 5) != 0 || !codec_is_space(text.start[5])) return text.start;
    const uint8_t *end = codec_text_find(text, "?>");
    return end ? end + 2 : text.start;
}

/// Whether the text begins with these four bytes, of which 0xFF stands for any but zero.
static int begins(codec_text text, const uint8_t pattern[4]) {
    if (text.end - text.start < 4) return 0;
    for (int i = 0; i < 4; i++) {
        if (pattern[i] == 0xFF ? text.start[i] == 0 : text.start[i] != pattern[i]) return 0;
    }
    return 1;
}

codec_status codec_document_decode(codec_document *document) {
    codec_text text = document->text;
    size_t length = (size_t)(text.end - text.start);
    int has_mark = length >= 3 && memcmp(text.start, "\xEF\xBB\xBF", 3) == 0;
    int big_mark = length >= 2 && text.start[0] == 0xFE && text.start[1] == 0xFF;
    int little_mark = length >= 2 && text.start[0] == 0xFF && text.start[1] == 0xFE;
    if (has_mark) text.start += 3;
    int is_big = big_mark || begins(text, (const uint8_t[]){0, '<', 0, 0xFF});
    int is_little = little_mark || begins(text, (const uint8_t[]){'<', 0, 0xFF, 0});
    codec_status status = CODEC_OK;
    codec_bytes result = {0};
    codec_text label;
    const uint8_t *end = declaration_end(text);
    const char *name = NULL;
    if (is_big || is_little) {
        if (big_mark || little_mark) text.start += 2;
        status = convert_words(text, is_big, &result);
    } else if (!has_mark && codec_text_attribute((codec_text){text.start, end}, "encoding", &label)) {
        static const char *const unicode[] = {"utf-8", "utf8", "utf-16", "utf-16le", "utf-16be"};
        int is_unicode = 0;
        for (size_t i = 0; i < sizeof unicode / sizeof *unicode; i++) {
            size_t count = strlen(unicode[i]);
            is_unicode |= (size_t)(label.end - label.start) == count && strncasecmp((const char *)label.start, unicode[i], count) == 0;
        }
        name = encoding_name(label);
        if (name) status = convert(text, name, &result);
        else if (!is_unicode) status = CODEC_UNSUPPORTED;
    }
    if (status == CODEC_OK && (is_big || is_little || name)) {
        codec_document_take(document, &result);
        text = document->text;
        end = declaration_end(text);
    } else {
        codec_bytes_free(&result);
    }
    document->text.start = end;
    if (status == CODEC_OK && end == text.end) return CODEC_TRUNCATED;
    if (status == CODEC_OK && memchr(end, 0, (size_t)(text.end - end))) status = CODEC_UNSUPPORTED;
    if (status != CODEC_OK) document->message = status == CODEC_TOO_LARGE ? "the document is too long" : "its encoding";
    return status;
}
