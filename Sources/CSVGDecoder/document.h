// A scan of an SVG document before it is parsed.
#ifndef CODEC_DOCUMENT_H
#define CODEC_DOCUMENT_H

#include <CodecTypes.h>
#include <stddef.h>
#include <stdint.h>

/// The findings of a scan.
typedef struct {
    /// An upper bound of the number of elements.
    uint64_t elements;
    /// Whether the root element has no ratio, although it has a `viewBox`.
    int is_stretched;
    const char *message;
} codec_document;

/// Scans a document and checks its limits: elements, rules, entities and their expansion, and that its encoding hides nothing
/// from the scan.
codec_status codec_document_scan(const uint8_t *bytes, size_t length, codec_document *document);

#endif
