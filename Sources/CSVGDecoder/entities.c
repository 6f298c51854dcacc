#include <stdlib.h>
#include <string.h>

#include "document.h"

/// The most entities, the most bytes of references to them and of what they expand to, and the most entities within each other.
#define MAXIMUM_ENTITIES 256
#define MAXIMUM_EXPANSION (4u << 20)
#define MAXIMUM_DEPTH 16

typedef struct {
    codec_text name;
    codec_bytes value;
    /// It is being expanded.
    int is_open;
} entity;

typedef struct {
    entity entities[MAXIMUM_ENTITIES];
    size_t count;
    codec_bytes result;
    /// The bytes that may still be expanded.
    size_t budget;
    const char *message;
} expansion;

static codec_status failed(expansion *all, codec_status status, const char *message) {
    all->message = message;
    return status;
}

static int starts(codec_text text, const char *word) {
    size_t length = strlen(word);
    return (size_t)(text.end - text.start) >= length && memcmp(text.start, word, length) == 0;
}

/// Returns the end of the first `word`; NULL without one.
static const uint8_t *after(codec_text text, const char *word) {
    const uint8_t *place = codec_text_find(text, word);
    return place ? place + strlen(word) : NULL;
}

/// Keeps the value of an entity, in which references to characters are replaced (XML 1.0, section 4.5).
static codec_status read_value(codec_text text, codec_bytes *value) {
    codec_status status = CODEC_OK;
    while (text.start < text.end && status == CODEC_OK) {
        size_t left = (size_t)(text.end - text.start);
        const uint8_t *semicolon = starts(text, "&#") ? memchr(text.start, ';', left < 13 ? left : 13) : NULL;
        if (!semicolon) {
            status = codec_bytes_append(value, text.start++, 1);
            continue;
        }
        char digits[16] = "";
        int is_hex = text.start[2] == 'x';
        memcpy(digits, text.start + 2 + is_hex, (size_t)(semicolon - text.start - 2 - is_hex));
        char *end;
        unsigned long code = strtoul(digits, &end, is_hex ? 16 : 10);
        int is_valid = !*end && code > 0 && code <= 0x10FFFF && (code < 0xD800 || code >= 0xE000);
        status = is_valid ? codec_bytes_append_character(value, (uint32_t)code) : CODEC_DAMAGED;
        text.start = semicolon + 1;
    }
    return status;
}

/// Reads the declaration of an entity, and moves to its end.
static codec_status read_entity(expansion *all, codec_text *rest) {
    if (all->count == MAXIMUM_ENTITIES) return failed(all, CODEC_TOO_LARGE, "too many entities");
    const uint8_t *next = codec_skip_spaces(*rest, rest->start + strlen("<!ENTITY"));
    codec_text name = {next, next};
    while (name.end < rest->end && !codec_is_space(*name.end) && *name.end != '>') name.end++;
    next = codec_skip_spaces(*rest, name.end);
    if (next == rest->end) return CODEC_TRUNCATED;
    if (*next != '"' && *next != '\'') return failed(all, CODEC_UNSUPPORTED, "an entity outside the document");
    const uint8_t *close = memchr(next + 1, *next, (size_t)(rest->end - next - 1));
    const uint8_t *end = close ? memchr(close, '>', (size_t)(rest->end - close)) : NULL;
    if (!end) return CODEC_TRUNCATED;
    entity *found = &all->entities[all->count++];
    found->name = name;
    rest->start = end + 1;
    return read_value((codec_text){next + 1, close}, &found->value);
}

/// Returns the entity that a reference names, and the end of the reference; NULL for any other. The first declaration counts.
static entity *find_entity(expansion *all, codec_text text, const uint8_t **end) {
    size_t most = (size_t)(text.end - text.start);
    const uint8_t *semicolon = memchr(text.start, ';', most < 256 ? most : 256);
    if (!semicolon) return NULL;
    size_t length = (size_t)(semicolon - text.start - 1);
    for (size_t i = 0; i < all->count; i++) {
        codec_text name = all->entities[i].name;
        if ((size_t)(name.end - name.start) != length || memcmp(name.start, text.start + 1, length) != 0) continue;
        *end = semicolon + 1;
        return &all->entities[i];
    }
    return NULL;
}

typedef struct {
    codec_text rest;
    entity *entity;
} frame;

typedef enum { CONTENT, TAG, VALUE, COMMENT, CDATA, INSTRUCTION } place;

/// Copies a text whose beginning is at `where`, with entities expanded.
static codec_status expand(expansion *all, codec_text text, place where) {
    static const struct {
        place where;
        const char *start, *end;
    } verbatim[] = {{COMMENT, "<!--", "-->"}, {CDATA, "<![CDATA[", "]]>"}, {INSTRUCTION, "<?", "?>"}};
    frame frames[MAXIMUM_DEPTH] = {{text, NULL}};
    int depth = 0, value_depth = 0;
    uint8_t quote = 0;
    codec_status status = CODEC_OK;
    for (;;) {
        codec_text *rest = &frames[depth].rest;
        if (status != CODEC_OK) return status;
        if (rest->start == rest->end) {
            if (depth == 0) return CODEC_OK;
            frames[depth--].entity->is_open = 0;
            continue;
        }
        const uint8_t *next = rest->start;
        size_t length = 1;
        if (where == CONTENT && *next == '<') {
            where = TAG;
            for (int i = 0; i < 3; i++) {
                if (!starts(*rest, verbatim[i].start)) continue;
                where = verbatim[i].where;
                length = strlen(verbatim[i].start);
                break;
            }
        } else if ((where == CONTENT || where == VALUE) && *next == '&') {
            const uint8_t *end;
            entity *found = find_entity(all, *rest, &end);
            if (found) {
                if (found->is_open) return failed(all, CODEC_DAMAGED, "an entity contains itself");
                size_t cost = (size_t)(end - next);
                if (depth + 1 == MAXIMUM_DEPTH || cost > all->budget) return failed(all, CODEC_TOO_LARGE, "entities");
                all->budget -= cost;
                found->is_open = 1;
                rest->start = end;
                frames[++depth] = (frame){{found->value.bytes, found->value.bytes + found->value.length}, found};
                continue;
            }
        } else if (where == TAG) {
            if (*next == '>') where = CONTENT;
            if (*next == '"' || *next == '\'') {
                where = VALUE;
                quote = *next;
                value_depth = depth;
            }
        } else if (where == VALUE && *next == quote) {
            if (depth == value_depth) {
                where = TAG;
            } else {
                // A quotation mark of an entity does not end the value.
                status = codec_bytes_append(&all->result, quote == '"' ? "&#34;" : "&#39;", 5);
                rest->start++;
                continue;
            }
        } else {
            for (int i = 0; i < 3; i++) {
                if (where != verbatim[i].where || !starts(*rest, verbatim[i].end)) continue;
                where = CONTENT;
                length = strlen(verbatim[i].end);
            }
        }
        if (depth > 0) {
            if (length > all->budget) return failed(all, CODEC_TOO_LARGE, "entities");
            all->budget -= length;
        }
        status = codec_bytes_append(&all->result, next, length);
        rest->start += length;
    }
}

/// Copies the declarations in brackets without those of entities, which it reads, and moves behind the bracket.
static codec_status read_subset(expansion *all, codec_text *rest) {
    codec_status status = CODEC_OK;
    while (status == CODEC_OK) {
        if (rest->start >= rest->end) return CODEC_TRUNCATED;
        const uint8_t *start = rest->start, *end = start + 1;
        if (starts(*rest, "<!ENTITY")) {
            status = read_entity(all, rest);
            continue;
        }
        if (starts(*rest, "<!--")) {
            end = after((codec_text){start + 4, rest->end}, "-->");
        } else if (starts(*rest, "<?")) {
            end = after(*rest, "?>");
        } else if (*start == '<') {
            uint8_t quote = 0;
            for (; end < rest->end && (quote || *end != '>'); end++) {
                if (quote ? *end == quote : *end == '"' || *end == '\'') quote = quote ? 0 : *end;
            }
            end = end < rest->end ? end + 1 : NULL;
        }
        if (!end) return CODEC_TRUNCATED;
        rest->start = end;
        status = *start == '<' ? expand(all, (codec_text){start, end}, end[-1] == '>' && start[1] == '!' && start[2] != '-' ? TAG : CONTENT)
                               : codec_bytes_append(&all->result, start, 1);
        if (*start == ']') break;
    }
    return status;
}

/// Copies the text up to the end of the document type, and reads the entities in it.
static codec_status read_prologue(expansion *all, codec_text *rest) {
    for (;;) {
        const uint8_t *start = rest->start, *end = start + 1;
        if (start == rest->end) return CODEC_OK;
        if (starts(*rest, "<!--")) end = after((codec_text){start + 4, rest->end}, "-->");
        else if (starts(*rest, "<?")) end = after(*rest, "?>");
        else if (starts(*rest, "<!DOCTYPE")) break;
        else if (!codec_is_space(*start)) return CODEC_OK;
        if (!end) return CODEC_TRUNCATED;
        codec_status status = codec_bytes_append(&all->result, start, (size_t)(end - start));
        if (status != CODEC_OK) return status;
        rest->start = end;
    }
    uint8_t quote = 0;
    for (codec_status status = CODEC_OK; rest->start < rest->end;) {
        uint8_t byte = *rest->start++;
        status = codec_bytes_append(&all->result, &byte, 1);
        if (status != CODEC_OK) return status;
        if (quote ? byte == quote : byte == '"' || byte == '\'') quote = quote ? 0 : byte;
        if (!quote && byte == '>') return CODEC_OK;
        if (!quote && byte == '[') status = read_subset(all, rest);
        if (status != CODEC_OK) return status;
    }
    return CODEC_TRUNCATED;
}

codec_status codec_document_expand(codec_document *document) {
    if (!codec_text_find(document->text, "<!ENTITY")) return CODEC_OK;
    expansion *all = calloc(1, sizeof *all);
    if (!all) return CODEC_NO_MEMORY;
    all->budget = MAXIMUM_EXPANSION;
    all->message = "";
    codec_text rest = document->text;
    codec_status status = read_prologue(all, &rest);
    if (status == CODEC_OK && all->count > 0) status = expand(all, rest, CONTENT);
    document->message = all->message;
    for (size_t i = 0; i < all->count; i++) codec_bytes_free(&all->entities[i].value);
    if (status == CODEC_OK && all->count > 0) codec_document_take(document, &all->result);
    else codec_bytes_free(&all->result);
    free(all);
    return status;
}
