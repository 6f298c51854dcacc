// The chunks of PNG files: the broker encodes the pixels, so that texts are all that is added here.

#include "private.h"

#include <string.h>

enum { SIGNATURE_BYTES = 8, CHUNK_BYTES = 12, HEADER_BYTES = 13, MAXIMUM_CHUNK = 0x7fffffff };

static const guint8 signature[SIGNATURE_BYTES] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

const guint8 png_of_a_pixel[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00,
    0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00, 0x00, 0x1f, 0x15, 0xc4, 0x89, 0x00, 0x00, 0x00,
    0x0b, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0x60, 0x00, 0x02, 0x00, 0x00, 0x05, 0x00, 0x01, 0xe9, 0xfa,
    0xdc, 0xd8, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};
const gsize png_of_a_pixel_size = sizeof(png_of_a_pixel);

typedef struct {
    const guint8 *start, *type, *data;
    guint32 length;
} Chunk;

static guint32 read_number(const guint8 *bytes) {
    return (guint32)bytes[0] << 24 | (guint32)bytes[1] << 16 | (guint32)bytes[2] << 8 | bytes[3];
}

// Reads the chunk at the offset, and moves the offset behind it. Returns false if it is not there as a whole.
static gboolean next_chunk(const guint8 *bytes, gsize size, gsize *offset, Chunk *chunk) {
    if (*offset > size || size - *offset < CHUNK_BYTES) return FALSE;
    chunk->start = bytes + *offset;
    chunk->length = read_number(chunk->start);
    chunk->type = chunk->start + 4;
    chunk->data = chunk->start + 8;
    if (chunk->length > MAXIMUM_CHUNK || chunk->length > size - *offset - CHUNK_BYTES) return FALSE;
    *offset += CHUNK_BYTES + (gsize)chunk->length;
    return TRUE;
}

static gboolean is_type(const Chunk *chunk, const char *type) {
    return memcmp(chunk->type, type, 4) == 0;
}

static gboolean read_header(const guint8 *bytes, gsize size, gsize *offset, Chunk *header) {
    if (size < SIGNATURE_BYTES || memcmp(bytes, signature, SIGNATURE_BYTES) != 0) return FALSE;
    *offset = SIGNATURE_BYTES;
    return next_chunk(bytes, size, offset, header) && is_type(header, "IHDR") && header->length == HEADER_BYTES;
}

// Returns the keyword of a text chunk, which ends with a zero byte; otherwise NULL.
static const char *keyword_of(const Chunk *chunk) {
    if (!is_type(chunk, "tEXt") || memchr(chunk->data, 0, chunk->length) == NULL) return NULL;
    return (const char *)chunk->data;
}

gboolean png_read_texts(const guint8 *bytes, gsize size, TakeText take, gpointer data) {
    gsize offset;
    Chunk chunk;
    if (!read_header(bytes, size, &offset, &chunk)) return FALSE;
    while (next_chunk(bytes, size, &offset, &chunk) && !is_type(&chunk, "IDAT")) {
        const char *keyword = keyword_of(&chunk);
        if (keyword == NULL) continue;
        gsize before = strlen(keyword) + 1;
        char *text = g_strndup(keyword + before, chunk.length - before);
        take(keyword, text, data);
        g_free(text);
    }
    return TRUE;
}

gboolean png_is_complete(const guint8 *bytes, gsize size, guint32 *width, guint32 *height) {
    gsize offset;
    Chunk chunk;
    if (!read_header(bytes, size, &offset, &chunk)) return FALSE;
    *width = read_number(chunk.data);
    *height = read_number(chunk.data + 4);
    while (next_chunk(bytes, size, &offset, &chunk)) {
        if (is_type(&chunk, "IEND")) return offset == size;
    }
    return FALSE;
}

static guint32 checksum(guint32 sum, const guint8 *bytes, gsize size) {
    for (gsize index = 0; index < size; index++) {
        sum ^= bytes[index];
        for (int bit = 0; bit < 8; bit++) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
    }
    return sum;
}

static void append_number(GByteArray *file, guint32 number) {
    guint8 bytes[] = {(guint8)(number >> 24), (guint8)(number >> 16), (guint8)(number >> 8), (guint8)number};
    g_byte_array_append(file, bytes, sizeof(bytes));
}

static void append_text(GByteArray *file, const Text *text) {
    gsize before = strlen(text->keyword) + 1, length = strlen(text->text);
    append_number(file, (guint32)(before + length));
    guint start = file->len;
    g_byte_array_append(file, (const guint8 *)"tEXt", 4);
    g_byte_array_append(file, (const guint8 *)text->keyword, (guint)before);
    g_byte_array_append(file, (const guint8 *)text->text, (guint)length);
    append_number(file, ~checksum(~0u, file->data + start, file->len - start));
}

static gboolean is_replaced(const Chunk *chunk, const Text *texts) {
    const char *keyword = keyword_of(chunk);
    for (const Text *text = texts; keyword != NULL && text->keyword != NULL; text++) {
        if (strcmp(keyword, text->keyword) == 0) return TRUE;
    }
    return FALSE;
}

GByteArray *png_with_texts(const guint8 *bytes, gsize size, const Text *texts) {
    gsize offset;
    Chunk chunk;
    GByteArray *file = g_byte_array_sized_new((guint)size + 1024);
    if (!read_header(bytes, size, &offset, &chunk)) return file;
    g_byte_array_append(file, bytes, (guint)offset);
    for (const Text *text = texts; text->keyword != NULL; text++) append_text(file, text);
    while (next_chunk(bytes, size, &offset, &chunk)) {
        if (!is_replaced(&chunk, texts)) g_byte_array_append(file, chunk.start, chunk.length + CHUNK_BYTES);
    }
    return file;
}
