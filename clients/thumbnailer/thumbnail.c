// Thumbnail files of the freedesktop thumbnail specification: names, validity, and the folder that all programs of a user share.

#define _GNU_SOURCE 1

#include "private.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define TEMPORARY ".imgbroker-"
#define FAILURES "fail/imgbroker-" IMGBROKER_VERSION

// The texts of other programs stand in the first kilobytes; those of this one follow the header.
enum { RECORD_BYTES = 16 << 10, END_BYTES = 12, MAXIMUM_THUMBNAIL = 16 << 20, MAXIMUM_URI = 12 << 10, NAME_ATTEMPTS = 8 };

// Of one second, because Thumb::MTime has only seconds.
#define NANOSECONDS "imgbroker::Nanoseconds"
#define REASON "imgbroker::Reason"

const Flavor flavors[] = {{"normal", 128}, {"large", 256}, {"x-large", 512}, {"xx-large", 1024}};

const Flavor *flavor_named(const char *name) {
    for (int index = 0; index < FLAVOR_COUNT; index++) {
        if (strcmp(flavors[index].name, name) == 0) return &flavors[index];
    }
    return NULL;
}

void thumbnail_clear(Thumbnail *thumbnail) {
    if (thumbnail->descriptor >= 0) close(thumbnail->descriptor);
    thumbnail->descriptor = -1;
    g_clear_pointer(&thumbnail->path, g_free);
    g_clear_pointer(&thumbnail->message, g_free);
}

Outcome thumbnail_fail(Thumbnail *thumbnail, ErrorCode code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    g_free(thumbnail->message);
    thumbnail->message = g_strdup_vprintf(format, arguments);
    thumbnail->code = code;
    va_end(arguments);
    return OUTCOME_FAILED;
}

// Folders

static char *path_of_folder(const char *name) {
    return g_build_filename(g_get_user_cache_dir(), "thumbnails", name, NULL);
}

// Opens a folder for thumbnails; -1 and errno. A user may link it to another disk, but nobody else may own it or write to it.
static int open_folder(const char *name, gboolean creates) {
    struct stat info;
    char *path = path_of_folder(name);
    int folder = creates && g_mkdir_with_parents(path, 0700) != 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    g_free(path);
    if (folder >= 0 && (fstat(folder, &info) != 0 || info.st_uid != geteuid() || (info.st_mode & S_IWOTH) != 0)) {
        close(folder);
        errno = EPERM;
        return -1;
    }
    return folder;
}

static char *name_of(const char *uri) {
    char *digest = g_compute_checksum_for_string(G_CHECKSUM_MD5, uri, -1);
    char *name = g_strconcat(digest, ".png", NULL);
    g_free(digest);
    return name;
}

static gboolean write_all(int descriptor, const guint8 *bytes, gsize size) {
    while (size > 0) {
        gssize written = write(descriptor, bytes, size);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return FALSE;
        bytes += written;
        size -= (gsize)written;
    }
    return TRUE;
}

// Replaces the thumbnail of a URI in one step, also if it is a link. Returns false and errno. Not synchronised with the disk: a crash of
// the machine may leave a file without an end, which is not valid.
static gboolean save(const char *folder_name, const char *uri, const GByteArray *file) {
    int folder = open_folder(folder_name, TRUE), descriptor = -1;
    char temporary[40];
    if (folder < 0) return FALSE;
    for (int attempt = 0; attempt < NAME_ATTEMPTS && descriptor < 0 && (attempt == 0 || errno == EEXIST); attempt++) {
        g_snprintf(temporary, sizeof(temporary), TEMPORARY "%08x%08x", g_random_int(), g_random_int());
        descriptor = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    gboolean saved = FALSE;
    int reason = errno;
    if (descriptor >= 0) {
        char *name = name_of(uri);
        // So that cache_sweep of another service leaves it.
        flock(descriptor, LOCK_EX | LOCK_NB);
        saved = write_all(descriptor, file->data, file->len) && renameat(folder, temporary, folder, name) == 0;
        reason = errno;
        if (!saved) unlinkat(folder, temporary, 0);
        close(descriptor);
        g_free(name);
    }
    close(folder);
    errno = reason;
    return saved;
}

// Records

// What the texts of a thumbnail say.
typedef struct {
    char *uri, *reason;
    // -1 if they are not stated.
    gint64 size, nanoseconds;
    gint64 seconds;
    gboolean has_seconds;
} Record;

static void clear_record(Record *record) {
    g_free(record->uri);
    g_free(record->reason);
}

static void take_text(const char *keyword, const char *text, gpointer data) {
    Record *record = data;
    if (strcmp(keyword, "Thumb::URI") == 0) {
        g_free(record->uri);
        record->uri = g_strdup(text);
    } else if (strcmp(keyword, "Thumb::MTime") == 0) {
        char *end;
        record->seconds = g_ascii_strtoll(text, &end, 10);
        // Some programs write fractions.
        record->has_seconds = end != text && (*end == '\0' || *end == '.');
    } else if (strcmp(keyword, "Thumb::Size") == 0) {
        record->size = g_ascii_strtoll(text, NULL, 10);
    } else if (strcmp(keyword, NANOSECONDS) == 0) {
        record->nanoseconds = g_ascii_strtoll(text, NULL, 10);
    } else if (strcmp(keyword, REASON) == 0) {
        g_free(record->reason);
        record->reason = g_strdup(text);
    }
}

// Opens a regular file in a folder, not a link; -1 otherwise.
static int open_regular(int folder, const char *name, struct stat *info) {
    int descriptor = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor >= 0 && (fstat(descriptor, info) != 0 || !S_ISREG(info->st_mode))) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

// Reads the texts of a thumbnail. Returns false if it does not exist or is no whole PNG file.
static gboolean read_record(int folder, const char *name, Record *record) {
    struct stat info;
    static const guint8 end[END_BYTES] = {0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82};
    guint8 found[END_BYTES];
    *record = (Record){.size = -1, .nanoseconds = -1};
    int descriptor = open_regular(folder, name, &info);
    if (descriptor < 0) return FALSE;
    guint8 *bytes = g_malloc(RECORD_BYTES);
    gssize length = pread(descriptor, bytes, RECORD_BYTES, 0);
    gboolean is_whole = info.st_size > END_BYTES && pread(descriptor, found, END_BYTES, info.st_size - END_BYTES) == END_BYTES &&
                        memcmp(found, end, END_BYTES) == 0;
    gboolean is_read = is_whole && length > 0 && png_read_texts(bytes, (gsize)length, take_text, record);
    g_free(bytes);
    close(descriptor);
    return is_read;
}

static gboolean is_current(const Record *record, const char *uri, const struct stat *source) {
    return record->uri != NULL && strcmp(record->uri, uri) == 0 && record->has_seconds && record->seconds == source->st_mtim.tv_sec &&
           (record->size < 0 || record->size == source->st_size) &&
           (record->nanoseconds < 0 || record->nanoseconds == source->st_mtim.tv_nsec);
}

// Returns whether a folder has a valid file for the thumbnail, and the reason of a failure.
static gboolean has_current(const Thumbnail *thumbnail, const char *folder_name, char **reason) {
    Record record;
    int folder = open_folder(folder_name, FALSE);
    if (folder < 0) return FALSE;
    char *name = name_of(thumbnail->uri);
    gboolean is_valid = read_record(folder, name, &record) && is_current(&record, thumbnail->uri, &thumbnail->source);
    if (is_valid && reason != NULL) *reason = g_steal_pointer(&record.reason);
    clear_record(&record);
    g_free(name);
    close(folder);
    return is_valid;
}

// Sources

// Returns the path of a local file; NULL and the failure.
static char *path_of(Thumbnail *thumbnail) {
    const char *uri = thumbnail->uri;
    char *host = NULL;
    GError *error = NULL;
    if (g_ascii_strncasecmp(uri, "file:", 5) != 0) {
        thumbnail_fail(thumbnail, ERROR_UNSUPPORTED, "only file: URIs are supported");
        return NULL;
    }
    // Texts of PNG files are Latin-1, and a URI is ASCII.
    for (const char *byte = uri; *byte != '\0'; byte++) {
        if (*byte > ' ' && *byte < 0x7f && byte - uri < MAXIMUM_URI) continue;
        thumbnail_fail(thumbnail, ERROR_UNSUPPORTED, "the URI is too long or has characters that are not encoded");
        return NULL;
    }
    char *path = g_filename_from_uri(uri, &host, &error);
    if (path == NULL) {
        thumbnail_fail(thumbnail, ERROR_UNSUPPORTED, "%s", error->message);
        g_error_free(error);
    } else if (host != NULL && g_ascii_strcasecmp(host, "localhost") != 0) {
        thumbnail_fail(thumbnail, ERROR_UNSUPPORTED, "the file is on another host");
        g_clear_pointer(&path, g_free);
    }
    g_free(host);
    return path;
}

// Returns whether the open file is below the folder of thumbnails, by any path.
static gboolean is_thumbnail(int descriptor) {
    char *link = g_strdup_printf("/proc/self/fd/%d", descriptor), *folder = path_of_folder(NULL);
    char *root = realpath(folder, NULL), *path = g_file_read_link(link, NULL);
    gsize length = root == NULL ? 0 : strlen(root);
    gboolean is_below = root != NULL && path != NULL && strncmp(path, root, length) == 0 && path[length] == '/';
    g_free(link);
    g_free(folder);
    g_free(path);
    free(root);
    return is_below;
}

Outcome thumbnail_prepare(Thumbnail *thumbnail) {
    char *reason = NULL;
    thumbnail_clear(thumbnail);
    thumbnail->path = path_of(thumbnail);
    if (thumbnail->path == NULL) return OUTCOME_FAILED;
    // Devices and pipes are not opened, because that may have effects.
    if (stat(thumbnail->path, &thumbnail->source) != 0) return thumbnail_fail(thumbnail, ERROR_IMAGE, "%s", g_strerror(errno));
    if (!S_ISREG(thumbnail->source.st_mode)) return thumbnail_fail(thumbnail, ERROR_IMAGE, "not a regular file");
    thumbnail->descriptor = open(thumbnail->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (thumbnail->descriptor < 0 || fstat(thumbnail->descriptor, &thumbnail->source) != 0) {
        return thumbnail_fail(thumbnail, ERROR_IMAGE, "%s", g_strerror(errno));
    }
    if (!S_ISREG(thumbnail->source.st_mode)) return thumbnail_fail(thumbnail, ERROR_IMAGE, "not a regular file");
    if (is_thumbnail(thumbnail->descriptor)) return thumbnail_fail(thumbnail, ERROR_IS_THUMBNAIL, "the file is a thumbnail");
    if (has_current(thumbnail, thumbnail->flavor->name, NULL)) return OUTCOME_READY;
    if (has_current(thumbnail, FAILURES, &reason)) {
        thumbnail_fail(thumbnail, ERROR_IMAGE, "%s, and the file has not changed since", reason == NULL ? "failed" : reason);
        g_free(reason);
        return OUTCOME_FAILED;
    }
    return OUTCOME_NEEDS_IMAGE;
}

static gboolean has_changed(const Thumbnail *thumbnail) {
    struct stat now;
    const struct stat *then = &thumbnail->source;
    return stat(thumbnail->path, &now) != 0 || now.st_dev != then->st_dev || now.st_ino != then->st_ino || now.st_size != then->st_size ||
           now.st_mtim.tv_sec != then->st_mtim.tv_sec || now.st_mtim.tv_nsec != then->st_mtim.tv_nsec ||
           now.st_ctim.tv_sec != then->st_ctim.tv_sec || now.st_ctim.tv_nsec != then->st_ctim.tv_nsec;
}

// The texts about a source, with room for further ones.
enum { NUMBER_BYTES = 24, SOURCE_TEXTS = 5, ALL_TEXTS = 9 };
typedef struct {
    char seconds[NUMBER_BYTES], nanoseconds[NUMBER_BYTES], size[NUMBER_BYTES], width[NUMBER_BYTES], height[NUMBER_BYTES];
    Text all[ALL_TEXTS];
} Texts;

static void describe(Texts *texts, const char *uri, const struct stat *source) {
    *texts = (Texts){.all = {
                         {"Software", "imgbroker " IMGBROKER_VERSION},
                         {"Thumb::URI", uri},
                         {"Thumb::MTime", texts->seconds},
                         {NANOSECONDS, texts->nanoseconds},
                         {"Thumb::Size", texts->size}}};
    g_snprintf(texts->seconds, NUMBER_BYTES, "%" G_GINT64_FORMAT, (gint64)source->st_mtim.tv_sec);
    g_snprintf(texts->nanoseconds, NUMBER_BYTES, "%" G_GINT64_FORMAT, (gint64)source->st_mtim.tv_nsec);
    g_snprintf(texts->size, NUMBER_BYTES, "%" G_GINT64_FORMAT, (gint64)source->st_size);
}

Outcome thumbnail_write(Thumbnail *thumbnail, const imgbroker_image *image) {
    Texts texts;
    guint32 width, height;
    Text *next = texts.all + SOURCE_TEXTS;
    if (image->format != IMGBROKER_ENCODED || image->size > MAXIMUM_THUMBNAIL ||
        !png_is_complete(image->pixels, image->size, &width, &height) || width == 0 || width > thumbnail->flavor->side || height == 0 ||
        height > thumbnail->flavor->side) {
        return thumbnail_fail(thumbnail, ERROR_CONNECTION, "the broker sent no PNG file of the size");
    }
    describe(&texts, thumbnail->uri, &thumbnail->source);
    if (*thumbnail->mime_type != '\0') *next++ = (Text){"Thumb::Mimetype", thumbnail->mime_type};
    g_snprintf(texts.width, NUMBER_BYTES, "%u", image->original_width);
    g_snprintf(texts.height, NUMBER_BYTES, "%u", image->original_height);
    *next++ = (Text){"Thumb::Image::Width", texts.width};
    *next++ = (Text){"Thumb::Image::Height", texts.height};
    if (has_changed(thumbnail)) return OUTCOME_CHANGED;
    GByteArray *file = png_with_texts(image->pixels, image->size, texts.all);
    gboolean saved = save(thumbnail->flavor->name, thumbnail->uri, file);
    int reason = errno;
    g_byte_array_unref(file);
    return saved ? OUTCOME_READY : thumbnail_fail(thumbnail, ERROR_SAVE, "the thumbnail cannot be written: %s", g_strerror(reason));
}

Outcome thumbnail_remember(Thumbnail *thumbnail, const char *reason) {
    Texts texts;
    if (has_changed(thumbnail)) return OUTCOME_CHANGED;
    describe(&texts, thumbnail->uri, &thumbnail->source);
    texts.all[SOURCE_TEXTS] = (Text){REASON, reason};
    GByteArray *file = png_with_texts(png_of_a_pixel, png_of_a_pixel_size, texts.all);
    // Without the file, the next request fails again.
    save(FAILURES, thumbnail->uri, file);
    g_byte_array_unref(file);
    return OUTCOME_FAILED;
}

// The cache

static const char *folder_at(int index) {
    return index < FLAVOR_COUNT ? flavors[index].name : FAILURES;
}

void cache_delete(const char *uri) {
    char *name = name_of(uri);
    for (int index = 0; index <= FLAVOR_COUNT; index++) {
        int folder = open_folder(folder_at(index), FALSE);
        if (folder < 0) continue;
        unlinkat(folder, name, 0);
        close(folder);
    }
    g_free(name);
}

static void copy_thumbnail(const Flavor *flavor, const char *from, const Thumbnail *to) {
    struct stat info;
    Record record = {0};
    guint32 width, height;
    int folder = open_folder(flavor->name, FALSE);
    if (folder < 0) return;
    char *name = name_of(from);
    int descriptor = open_regular(folder, name, &info);
    if (descriptor >= 0 && info.st_size <= MAXIMUM_THUMBNAIL && read_record(folder, name, &record) && is_current(&record, from, &to->source)) {
        guint8 *bytes = g_malloc((gsize)info.st_size);
        if (pread(descriptor, bytes, (gsize)info.st_size, 0) == info.st_size &&
            png_is_complete(bytes, (gsize)info.st_size, &width, &height)) {
            Texts texts;
            describe(&texts, to->uri, &to->source);
            GByteArray *file = png_with_texts(bytes, (gsize)info.st_size, texts.all);
            save(flavor->name, to->uri, file);
            g_byte_array_unref(file);
        }
        g_free(bytes);
    }
    clear_record(&record);
    if (descriptor >= 0) close(descriptor);
    close(folder);
    g_free(name);
}

void cache_copy(const char *from, const char *to) {
    Thumbnail source = {.uri = (char *)to, .descriptor = -1};
    source.path = path_of(&source);
    if (source.path != NULL && stat(source.path, &source.source) == 0 && S_ISREG(source.source.st_mode)) {
        for (int index = 0; index < FLAVOR_COUNT; index++) copy_thumbnail(&flavors[index], from, &source);
    }
    thumbnail_clear(&source);
}

static gboolean is_below(const char *uri, const char *const *prefixes) {
    for (; *prefixes != NULL; prefixes++) {
        gsize length = strlen(*prefixes);
        if (strncmp(uri, *prefixes, length) != 0) continue;
        if (uri[length] == '\0' || uri[length] == '/' || (length > 0 && uri[length - 1] == '/')) return TRUE;
    }
    return FALSE;
}

typedef void (*VisitFile)(int folder, const char *name, gpointer data);

static void visit_files(VisitFile visit, gpointer data) {
    for (int index = 0; index <= FLAVOR_COUNT; index++) {
        char *path = path_of_folder(folder_at(index));
        GDir *listing = g_dir_open(path, 0, NULL);
        int folder = open_folder(folder_at(index), FALSE);
        const char *name;
        while (listing != NULL && folder >= 0 && (name = g_dir_read_name(listing)) != NULL) visit(folder, name, data);
        if (folder >= 0) close(folder);
        if (listing != NULL) g_dir_close(listing);
        g_free(path);
    }
}

typedef struct {
    const char *const *prefixes;
    gint64 since;
} Cleanup;

static void clean_file(int folder, const char *name, gpointer data) {
    const Cleanup *cleanup = data;
    Record record;
    if (!g_str_has_suffix(name, ".png") || !read_record(folder, name, &record)) return;
    gboolean is_old = cleanup->since <= 0 || (record.has_seconds && record.seconds <= cleanup->since);
    if (is_old && record.uri != NULL && is_below(record.uri, cleanup->prefixes)) unlinkat(folder, name, 0);
    clear_record(&record);
}

void cache_clean(const char *const *prefixes, gint64 since) {
    Cleanup cleanup = {prefixes, since};
    visit_files(clean_file, &cleanup);
}

static void sweep_file(int folder, const char *name, gpointer data) {
    (void)data;
    struct stat info;
    int descriptor = g_str_has_prefix(name, TEMPORARY) ? open_regular(folder, name, &info) : -1;
    if (descriptor < 0) return;
    // Another service of the user may be writing.
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) unlinkat(folder, name, 0);
    close(descriptor);
}

void cache_sweep(void) {
    visit_files(sweep_file, NULL);
}
