// The text of an SVG document, as librsvg gets it.
#ifndef CODEC_DOCUMENT_H
#define CODEC_DOCUMENT_H

#include <CodecTypes.h>
#include <stddef.h>
#include <stdint.h>

/// The most bytes of a document, of which librsvg makes a tree of ten times the size.
#define CODEC_MAXIMUM_DOCUMENT (16u << 20)

typedef struct {
    const uint8_t *start, *end;
} codec_text;

/// A growing array of bytes.
typedef struct {
    uint8_t *bytes;
    size_t length, capacity;
} codec_bytes;

/// A document in UTF-8, without XML declaration and entities.
typedef struct {
    codec_text text;
    /// The text, unless it is a part of the file.
    codec_bytes own;
    /// An upper bound of the number of elements.
    uint64_t elements;
    /// Whether the root element has no ratio, although it has a `viewBox`.
    int is_stretched;
    const char *message;
} codec_document;

/// Appends bytes, up to `CODEC_MAXIMUM_DOCUMENT` in all.
codec_status codec_bytes_append(codec_bytes *target, const void *bytes, size_t length);
/// Appends a character as UTF-8.
codec_status codec_bytes_append_character(codec_bytes *target, uint32_t code);
/// Frees the array, which is empty afterwards.
void codec_bytes_free(codec_bytes *bytes);

/// Returns the first `word` in a text; NULL without one.
const uint8_t *codec_text_find(codec_text text, const char *word);
/// Finds the value of an attribute in a tag. Returns whether it has one.
int codec_text_attribute(codec_text tag, const char *name, codec_text *value);
/// Reads the value that follows an attribute's name, which ends at `next`. Returns whether there is one; its end is NULL if nothing
/// closes it.
int codec_text_value(codec_text text, const uint8_t *next, codec_text *value);
static inline int codec_is_space(uint8_t byte) { return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r'; }
/// Returns the first byte from `next` on that is no space, or the end of the text.
static inline const uint8_t *codec_skip_spaces(codec_text text, const uint8_t *next) {
    while (next < text.end && codec_is_space(*next)) next++;
    return next;
}

/// Inflates a file that gzip has compressed. The text of any other is the file itself.
codec_status codec_document_inflate(codec_document *document);
/// Converts the document to UTF-8 from the encoding that its first bytes or its declaration state, and removes the declaration.
codec_status codec_document_decode(codec_document *document);
/// Replaces references to internal entities by their values.
codec_status codec_document_expand(codec_document *document);
/// Makes `bytes` the text of a document.
void codec_document_take(codec_document *document, codec_bytes *bytes);

/// Does all of this with a file of `length` bytes, and checks the limits of elements, rules and filters. `own` is to be freed also
/// after a failure.
codec_status codec_document_read(const uint8_t *bytes, size_t length, codec_document *document);

#endif
