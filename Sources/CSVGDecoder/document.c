#define _GNU_SOURCE
#include "document.h"

#include <string.h>
#include <strings.h>

/// The most bytes of a document, of which librsvg makes a tree of ten times the size.
#define MAXIMUM_LENGTH (16u << 20)
/// The most elements, of which each takes a KiB. Maps have 50,000.
#define MAXIMUM_ELEMENTS 200000u
/// The most comparisons of elements with rules of style sheets.
#define MAXIMUM_MATCHES (1u << 26)
/// The most octaves of noise, of which those after the ninth change no value of eight bits.
#define MAXIMUM_OCTAVES 32
/// The most columns and rows of a matrix. librsvg keeps 400 numbers of it, and aborts if there are more.
#define MAXIMUM_ORDER 20
/// The most entities, the most bytes of their values, which librsvg does not free, and the most that they expand to.
#define MAXIMUM_ENTITIES 256u
#define MAXIMUM_VALUES (16u << 10)
#define MAXIMUM_EXPANSION (4u << 20)

typedef struct {
    const uint8_t *start, *end;
} text;

static const uint8_t *find(text text, const char *word) {
    return memmem(text.start, (size_t)(text.end - text.start), word, strlen(word));
}

static int is_space(uint8_t byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }

static int begins_name(uint8_t byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' || byte == ':' || byte >= 0x80;
}

/// Finds the value of an attribute in a tag. Returns whether it has one.
static int find_attribute(text tag, const char *name, text *value) {
    size_t length = strlen(name);
    text rest = tag;
    for (const uint8_t *place; (place = find(rest, name)) != NULL; rest.start = place + length) {
        const uint8_t *next = place + length;
        if (place == tag.start || !is_space(place[-1])) continue;
        while (next < tag.end && is_space(*next)) next++;
        if (next == tag.end || *next != '=') continue;
        next++;
        while (next < tag.end && is_space(*next)) next++;
        if (next == tag.end || (*next != '"' && *next != '\'')) continue;
        const uint8_t *end = memchr(next + 1, *next, (size_t)(tag.end - next - 1));
        if (!end) continue;
        *value = (text){next + 1, end};
        return 1;
    }
    return 0;
}

/// Checks that the document has an encoding in which markup is ASCII. Others could hide elements from the scan.
static int has_known_encoding(text document) {
    static const char *const known[] = {"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "iso-8859-15", "latin1", "windows-1252"};
    if (memchr(document.start, 0, (size_t)(document.end - document.start))) return 0;
    size_t length = (size_t)(document.end - document.start);
    if (length >= 2 && (document.start[0] == 0xFE || document.start[0] == 0xFF)) return 0;
    const uint8_t *end = find(document, "?>");
    const uint8_t *start = find(document, "<?xml");
    if (!start || !end || end < start) return 1;
    text value;
    if (!find_attribute((text){start, end}, "encoding", &value)) return 1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t count = strlen(known[i]);
        if ((size_t)(value.end - value.start) == count && strncasecmp((const char *)value.start, known[i], count) == 0)
            return 1;
    }
    return 0;
}

/// Checks the declarations of entities. Their values may refer to no entity, and together with all references they expand to
/// a bounded number of bytes.
static codec_status check_entities(text document, const char **message) {
    text rest = document;
    uint64_t longest = 0, sum = 0, count = 0, references = 0;
    for (const uint8_t *place; (place = find(rest, "<!ENTITY")) != NULL; rest.start = place + 8) {
        if (++count > MAXIMUM_ENTITIES) {
            *message = "too many entities";
            return CODEC_TOO_LARGE;
        }
        const uint8_t *end = place;
        while (end < document.end && *end != '"' && *end != '\'' && *end != '%' && *end != '>') end++;
        if (end == document.end) return CODEC_TRUNCATED;
        text head = {place + 8, end};
        if (*end == '%' || *end == '>' || find(head, "SYSTEM") || find(head, "PUBLIC")) {
            *message = "an entity outside the document";
            return CODEC_UNSUPPORTED;
        }
        const uint8_t *close = memchr(end + 1, *end, (size_t)(document.end - end - 1));
        if (!close) return CODEC_TRUNCATED;
        text value = {end + 1, close};
        for (const uint8_t *sign = value.start; sign < value.end; sign++) {
            if (*sign == '%' || (*sign == '&' && (sign + 1 == value.end || sign[1] != '#')) || *sign == '<') {
                *message = "an entity that refers to others or has elements";
                return CODEC_UNSUPPORTED;
            }
        }
        uint64_t length = (uint64_t)(value.end - value.start);
        sum += length;
        if (length > longest) longest = length;
        if (sum > MAXIMUM_VALUES) {
            *message = "entities";
            return CODEC_TOO_LARGE;
        }
    }
    if (count == 0) return CODEC_OK;
    for (const uint8_t *sign = document.start; sign < document.end; sign++) references += *sign == '&';
    *message = "entities";
    return longest * references > MAXIMUM_EXPANSION ? CODEC_TOO_LARGE : CODEC_OK;
}

/// Returns whether all values of an attribute are numbers up to `most`. `needs_value` demands that the name occurs only as that
/// of an attribute with a value.
static int is_limited(text document, const char *name, int most, int needs_value) {
    size_t length = strlen(name);
    text rest = document;
    for (const uint8_t *place; (place = find(rest, name)) != NULL; rest.start = place + length) {
        const uint8_t *next = place + length;
        while (next < document.end && is_space(*next)) next++;
        int has_value = place > document.start && is_space(place[-1]) && next < document.end && *next == '=';
        if (!has_value && needs_value) return 0;
        if (!has_value) continue;
        next++;
        while (next < document.end && is_space(*next)) next++;
        if (next == document.end) return 0;
        uint8_t quote = *next++;
        long number = 0;
        for (; next < document.end && *next != quote; next++) {
            if (is_space(*next) || *next == ',') {
                number = 0;
            } else if (*next == '.') {
                // A fraction follows.
                while (next + 1 < document.end && next[1] >= '0' && next[1] <= '9') next++;
            } else if (*next < '0' || *next > '9') {
                return 0;
            } else {
                number = number * 10 + (*next - '0');
                if (number > most) return 0;
            }
        }
    }
    return 1;
}

/// Checks the parameters on which the time of filters depends besides their area.
static int has_limited_filters(text document) {
    if (!is_limited(document, "numOctaves", MAXIMUM_OCTAVES, 1)) return 0;
    if (!find(document, "feConvolveMatrix")) return 1;
    return !find(document, "<!ATTLIST") && is_limited(document, "order", MAXIMUM_ORDER, 0);
}

/// Returns whether the root element has `preserveAspectRatio="none"`.
static int is_stretched(text document) {
    text rest = document, value;
    for (const uint8_t *place; (place = find(rest, "<svg")) != NULL || (place = find(rest, ":svg")) != NULL;) {
        const uint8_t *end = memchr(place, '>', (size_t)(document.end - place));
        if (!end) return 0;
        if (!find_attribute((text){place, end}, "preserveAspectRatio", &value)) return 0;
        return value.end - value.start >= 4 && memcmp(value.start, "none", 4) == 0;
    }
    return 0;
}

codec_status codec_document_scan(const uint8_t *bytes, size_t length, codec_document *found) {
    text document = {bytes, bytes + length};
    *found = (codec_document){.message = ""};
    if (length > MAXIMUM_LENGTH) {
        found->message = "the document is too long";
        return CODEC_TOO_LARGE;
    }
    if (!has_known_encoding(document)) {
        found->message = "its encoding";
        return CODEC_UNSUPPORTED;
    }
    uint64_t rules = 0;
    for (const uint8_t *place = bytes; place + 1 < document.end; place++) {
        if (*place == '<' && begins_name(place[1])) found->elements++;
        if (*place == '{') rules++;
    }
    if (found->elements > MAXIMUM_ELEMENTS || found->elements * rules > MAXIMUM_MATCHES) {
        found->message = found->elements > MAXIMUM_ELEMENTS ? "too many elements" : "too many rules";
        return CODEC_TOO_LARGE;
    }
    codec_status status = check_entities(document, &found->message);
    if (status != CODEC_OK) return status;
    if (!has_limited_filters(document)) {
        found->message = "a filter";
        return CODEC_TOO_LARGE;
    }
    found->is_stretched = is_stretched(document);
    found->message = "";
    return CODEC_OK;
}
