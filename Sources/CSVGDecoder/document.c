#include "document.h"

#include <stdlib.h>
#include <string.h>

/// The most elements, of which each takes a KiB. Maps have 50,000.
#define MAXIMUM_ELEMENTS 200000u
/// The most comparisons of elements with rules of style sheets.
#define MAXIMUM_MATCHES (1u << 26)
/// The most octaves of noise, of which those after the ninth change no value of eight bits.
#define MAXIMUM_OCTAVES 32
/// The most columns and rows of a matrix. librsvg keeps 400 numbers of it, and aborts if there are more.
#define MAXIMUM_ORDER 20

static int begins_name(uint8_t byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' || byte == ':' || byte >= 0x80;
}

/// Returns whether no number in the value of an attribute is larger than `most`. Values that are no numbers have no effect; of
/// references and comments in them, the numbers are not known.
static int has_limited_numbers(codec_text value, int most) {
    for (const uint8_t *next = value.start; next < value.end;) {
        if (*next == '&' || *next == '/' || *next == '\\') return 0;
        char number[32] = "", *end;
        size_t left = (size_t)(value.end - next);
        memcpy(number, next, left < sizeof number - 1 ? left : sizeof number - 1);
        if (strtod(number, &end) > most || end == number + sizeof number - 1) return 0;
        next += end > number ? end - number : 1;
    }
    return 1;
}

/// Returns whether all values of an attribute have limited numbers. The type of the document could declare others.
static int is_limited(codec_text document, const char *name, int most) {
    size_t length = strlen(name);
    codec_text rest = document, value;
    int is_declared = codec_text_find(document, "<!ATTLIST") != NULL;
    for (const uint8_t *place; (place = codec_text_find(rest, name)) != NULL; rest.start = place + length) {
        if (is_declared) return 0;
        if (place == document.start || !codec_is_space(place[-1])) continue;
        if (!codec_text_value(document, place + length, &value)) continue;
        if (!value.end || !has_limited_numbers(value, most)) return 0;
    }
    return 1;
}

/// Returns whether the root element has `preserveAspectRatio="none"`.
static int is_stretched(codec_text document) {
    const uint8_t *place = codec_text_find(document, "<svg");
    if (!place) place = codec_text_find(document, ":svg");
    const uint8_t *end = place ? memchr(place, '>', (size_t)(document.end - place)) : NULL;
    codec_text value;
    return end && codec_text_attribute((codec_text){place, end}, "preserveAspectRatio", &value) &&
        value.end - value.start >= 4 && memcmp(value.start, "none", 4) == 0;
}

static codec_status too_large(codec_document *document, const char *message) {
    document->message = message;
    return CODEC_TOO_LARGE;
}

/// Checks the limits of elements, rules and filters.
static codec_status scan(codec_document *document) {
    codec_text text = document->text;
    if (text.end - text.start > CODEC_MAXIMUM_DOCUMENT) return too_large(document, "the document is too long");
    uint64_t rules = 0;
    for (const uint8_t *place = text.start; place + 1 < text.end; place++) {
        if (*place == '<' && begins_name(place[1])) document->elements++;
        if (*place == '{') rules++;
    }
    if (document->elements > MAXIMUM_ELEMENTS) return too_large(document, "too many elements");
    if (document->elements * rules > MAXIMUM_MATCHES) return too_large(document, "too many rules");
    // The parameters on which the time of filters depends besides their area.
    if ((codec_text_find(text, "feTurbulence") && !is_limited(text, "numOctaves", MAXIMUM_OCTAVES)) ||
        (codec_text_find(text, "feConvolveMatrix") && !is_limited(text, "order", MAXIMUM_ORDER)))
        return too_large(document, "a filter");
    document->is_stretched = is_stretched(text);
    document->message = "";
    return CODEC_OK;
}

codec_status codec_document_read(const uint8_t *bytes, size_t length, codec_document *document) {
    *document = (codec_document){.text = {bytes, bytes + length}, .message = ""};
    if (length > CODEC_MAXIMUM_DOCUMENT) return too_large(document, "the document is too long");
    codec_status status = codec_document_inflate(document);
    if (status == CODEC_OK) status = codec_document_decode(document);
    if (status == CODEC_OK) status = codec_document_expand(document);
    return status == CODEC_OK ? scan(document) : status;
}
