// The parts of the thumbnailer: thumbnail files (thumbnail.c, png.c), the queue (queue.c) and the D-Bus service (main.c).

#ifndef IMGBROKER_THUMBNAILER_PRIVATE_H
#define IMGBROKER_THUMBNAILER_PRIVATE_H

#include <gio/gio.h>
#include <imgbroker.h>
#include <sys/stat.h>

// The codes of the signal Error, as the specification numbers them.
typedef enum {
    ERROR_UNSUPPORTED = 0,
    // The broker cannot answer at present.
    ERROR_CONNECTION = 1,
    ERROR_IMAGE = 2,
    ERROR_IS_THUMBNAIL = 3,
    ERROR_SAVE = 4,
    ERROR_FLAVOR = 5
} ErrorCode;

typedef struct {
    const char *name;
    // The side of the box in pixels.
    guint32 side;
} Flavor;

extern const Flavor flavors[];
enum { FLAVOR_COUNT = 4 };

const Flavor *flavor_named(const char *name);

// PNG files

// A text chunk, without a keyword at the end of a list.
typedef struct {
    const char *keyword;
    const char *text;
} Text;

typedef void (*TakeText)(const char *keyword, const char *text, gpointer data);

// Reports the text chunks before the pixels, as far as the bytes go. Returns false if they do not begin a PNG file.
gboolean png_read_texts(const guint8 *bytes, gsize size, TakeText take, gpointer data);

// Returns whether the bytes are the chunks of a PNG file, up to its end.
gboolean png_is_complete(const guint8 *bytes, gsize size, guint32 *width, guint32 *height);

// Returns a complete file with texts after its header. Texts with the same keywords are left out. Free it with g_byte_array_unref.
GByteArray *png_with_texts(const guint8 *bytes, gsize size, const Text *texts);

// A file of one transparent pixel.
extern const guint8 png_of_a_pixel[];
extern const gsize png_of_a_pixel_size;

// Thumbnail files. These functions block, and run in any thread.

// A thumbnail of a local file.
typedef struct {
    char *uri;
    // "" if unknown.
    char *mime_type;
    const Flavor *flavor;
    // The file as it was opened; -1 if it is not open.
    int descriptor;
    char *path;
    struct stat source;
    // The reason of OUTCOME_FAILED.
    ErrorCode code;
    char *message;
} Thumbnail;

typedef enum {
    // The thumbnail exists and is valid.
    OUTCOME_READY,
    // The image is needed: the file is open.
    OUTCOME_NEEDS_IMAGE,
    // The file has changed since it was opened.
    OUTCOME_CHANGED,
    OUTCOME_FAILED
} Outcome;

void thumbnail_clear(Thumbnail *thumbnail);
Outcome thumbnail_fail(Thumbnail *thumbnail, ErrorCode code, const char *format, ...) G_GNUC_PRINTF(3, 4);

// Opens the file, and looks for a valid thumbnail or a remembered failure of it.
Outcome thumbnail_prepare(Thumbnail *thumbnail);
// Writes the thumbnail.
Outcome thumbnail_write(Thumbnail *thumbnail, const imgbroker_image *image);
// Remembers the failure of an image until the file changes.
Outcome thumbnail_remember(Thumbnail *thumbnail, const char *reason);

// Deletes the thumbnails of a URI, also its failure.
void cache_delete(const char *uri);
// Deletes the unfinished files of services that were killed.
void cache_sweep(void);
// Copies the thumbnails of a file to those of another that has the same size and modification time.
void cache_copy(const char *from, const char *to);
// Deletes thumbnails of URIs below a prefix, of files not modified after a time.
void cache_clean(const char *const *prefixes, gint64 since);

// The queue

// Returns a handle, or 0 and an error.
guint queue_add(
    const char *caller, const char *const *uris, const char *const *mime_types, const char *flavor, gboolean background,
    GError **error);
void queue_remove(guint handle);
// Notes that a caller has left the bus.
void queue_lose(const char *caller);
gboolean queue_is_empty(void);

extern const char *const supported_types[];

// Reports the caller to queue_lose when it leaves the bus. Returns a number for g_bus_unwatch_name.
guint watch_caller(const char *caller);

// The signals, which go to the caller alone.
void emit_started(const char *caller, guint handle);
void emit_ready(const char *caller, guint handle, const char *uri);
void emit_error(const char *caller, guint handle, const char *uri, ErrorCode code, const char *message);
void emit_finished(const char *caller, guint handle);

#endif
