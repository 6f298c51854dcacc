// The queue: callers take turns, and so do the handles of a caller. At most 16 images are in flight.

#include "private.h"

#include <glib-unix.h>
#include <string.h>

enum {
    MAXIMUM_JOBS = 16,
    // So that the foreground finds room.
    MAXIMUM_JOBS_BEFORE_BACKGROUND = 8,
    MAXIMUM_ATTEMPTS = 3,
    MAXIMUM_URIS = 100000,
    MAXIMUM_BYTES = 64 << 20,
    // The part of a caller, so that others find room.
    CALLER_PART = 2,
};

enum { FOREGROUND, BACKGROUND, SCHEDULERS };

typedef struct {
    char *name;
    guint watch;
    // Has left the bus: its handles come last, and give way in a full queue.
    gboolean is_lost;
    GQueue waiting[SCHEDULERS];
    guint handles, uris;
    gsize bytes;
} Caller;

typedef struct {
    guint number;
    Caller *caller;
    // NULL if there is no such flavor.
    const Flavor *flavor;
    int scheduler;
    char **uris, **mime_types;
    guint count, next, running;
    gsize bytes;
    gboolean is_started;
} Handle;

// A thumbnail that is being made, for the handles that wait for it; none if all were removed.
typedef struct {
    Thumbnail thumbnail;
    char *key;
    GPtrArray *waiters;
    int scheduler, attempts;
    // The request to the broker, while it is not answered.
    guint64 request;
    gboolean is_cancelled;
    imgbroker_image *image;
    const char *reason;
    GTask *task;
} Job;

const char *const supported_types[] = {
    "image/jpeg", "image/jpg", "image/pjpeg", "image/png", "image/apng", "image/vnd.mozilla.apng", "image/webp", "image/gif", "image/avif",
    "image/avif-sequence", "image/heif", "image/heic", "image/jxl", "image/jp2", "image/x-jp2-codestream", "image/tiff", "image/svg+xml",
    "image/svg+xml-compressed", "image/bmp", "image/x-bmp", "image/x-ms-bmp", "image/vnd.microsoft.icon", "image/x-icon",
    "image/x-portable-bitmap", "image/x-portable-graymap", "image/x-portable-pixmap", "image/x-portable-anymap", "image/qoi", "image/x-tga",
    NULL};

static imgbroker *broker;
// Callers by name, handles by number, jobs by flavor and URI.
static GHashTable *callers, *handles, *jobs;
// The callers that have waiting handles.
static GQueue rings[SCHEDULERS];
static guint last_handle, pump_source;
static guint waiting_uris;
static gsize waiting_bytes;

static gboolean pump(gpointer data);

static void wake(void) {
    if (pump_source == 0) pump_source = g_idle_add(pump, NULL);
}

// Handles

static void free_caller(gpointer data) {
    Caller *caller = data;
    g_bus_unwatch_name(caller->watch);
    g_free(caller->name);
    g_free(caller);
}

static void count_waiting(Handle *handle, int uris, gssize bytes) {
    waiting_uris += (guint)uris;
    waiting_bytes += (gsize)bytes;
    handle->caller->uris += (guint)uris;
    handle->caller->bytes += (gsize)bytes;
}

static void free_handle(gpointer data) {
    Handle *handle = data;
    Caller *caller = handle->caller;
    count_waiting(handle, -(int)handle->count, -(gssize)handle->bytes);
    if (--caller->handles == 0) g_hash_table_remove(callers, caller->name);
    g_strfreev(handle->uris);
    g_strfreev(handle->mime_types);
    g_free(handle);
}

static void finish_if_done(Handle *handle) {
    if (handle->next < handle->count || handle->running > 0) return;
    emit_finished(handle->caller->name, handle->number);
    g_hash_table_remove(handles, GUINT_TO_POINTER(handle->number));
}

static void enter_ring(Handle *handle) {
    GQueue *waiting = &handle->caller->waiting[handle->scheduler];
    if (waiting->length == 0) g_queue_push_tail(&rings[handle->scheduler], handle->caller);
    g_queue_push_tail(waiting, handle);
}

// Takes the handle whose turn it is out of its caller's; NULL if none may begin.
static Handle *take_next(void) {
    guint running = g_hash_table_size(jobs);
    for (int scheduler = 0; scheduler < SCHEDULERS; scheduler++) {
        if (running >= (scheduler == BACKGROUND ? MAXIMUM_JOBS_BEFORE_BACKGROUND : MAXIMUM_JOBS)) break;
        Caller *caller = g_queue_pop_head(&rings[scheduler]);
        if (caller == NULL) continue;
        Handle *handle = g_queue_pop_head(&caller->waiting[scheduler]);
        if (caller->waiting[scheduler].length > 0) g_queue_push_tail(&rings[scheduler], caller);
        return handle;
    }
    return NULL;
}

static gboolean is_full(const Caller *caller, guint uris, gsize bytes) {
    guint own_uris = caller == NULL ? 0 : caller->uris;
    gsize own_bytes = caller == NULL ? 0 : caller->bytes;
    return uris > MAXIMUM_URIS / CALLER_PART - MIN(own_uris, MAXIMUM_URIS / CALLER_PART) || uris > MAXIMUM_URIS - waiting_uris ||
           bytes > MAXIMUM_BYTES / CALLER_PART - MIN(own_bytes, MAXIMUM_BYTES / CALLER_PART) || bytes > MAXIMUM_BYTES - waiting_bytes;
}

static void remove_lost(void) {
    GList *list = g_hash_table_get_values(handles);
    for (GList *next = list; next != NULL; next = next->next) {
        const Handle *handle = next->data;
        if (handle->caller->is_lost) queue_remove(handle->number);
    }
    g_list_free(list);
}

guint queue_add(
    const char *caller_name, const char *const *uris, const char *const *mime_types, const char *flavor, gboolean background,
    GError **error) {
    guint count = g_strv_length((char **)uris), types = g_strv_length((char **)mime_types);
    gsize bytes = sizeof(Handle);
    for (guint index = 0; index < count; index++) bytes += strlen(uris[index]) + 2 * sizeof(char *);
    for (guint index = 0; index < types; index++) bytes += strlen(mime_types[index]) + 2 * sizeof(char *);
    if (types != count && types != 0) {
        g_set_error(error, G_DBUS_ERROR, G_DBUS_ERROR_INVALID_ARGS, "%u URIs have %u MIME types", count, types);
        return 0;
    }
    if (callers == NULL) {
        callers = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, free_caller);
        handles = g_hash_table_new_full(NULL, NULL, NULL, free_handle);
        jobs = g_hash_table_new(g_str_hash, g_str_equal);
    }
    Caller *caller = g_hash_table_lookup(callers, caller_name);
    if (is_full(caller, count, bytes)) {
        remove_lost();
        caller = g_hash_table_lookup(callers, caller_name);
    }
    if (is_full(caller, count, bytes)) {
        g_set_error(
            error, G_DBUS_ERROR, G_DBUS_ERROR_LIMITS_EXCEEDED, "the queue is full: %d URIs or %d MiB, half of that for one caller",
            MAXIMUM_URIS, MAXIMUM_BYTES >> 20);
        return 0;
    }
    if (caller == NULL) {
        caller = g_new0(Caller, 1);
        caller->name = g_strdup(caller_name);
        caller->watch = watch_caller(caller_name);
        g_hash_table_insert(callers, caller->name, caller);
    }
    do last_handle++;
    while (last_handle == 0 || g_hash_table_contains(handles, GUINT_TO_POINTER(last_handle)));
    Handle *handle = g_new0(Handle, 1);
    *handle = (Handle){
        .number = last_handle,
        .caller = caller,
        .flavor = flavor_named(flavor),
        .scheduler = background ? BACKGROUND : FOREGROUND,
        .uris = g_strdupv((char **)uris),
        .mime_types = types == 0 ? NULL : g_strdupv((char **)mime_types),
        .count = count,
        .bytes = bytes};
    caller->handles++;
    g_hash_table_insert(handles, GUINT_TO_POINTER(handle->number), handle);
    count_waiting(handle, (int)count, (gssize)bytes);
    enter_ring(handle);
    // Not at once: the reply with the handle comes before its signals.
    wake();
    return handle->number;
}

gboolean queue_is_empty(void) {
    return handles == NULL || g_hash_table_size(handles) == 0;
}

// Jobs

static void run(Job *job, GTaskThreadFunc step, GAsyncReadyCallback finished) {
    job->task = g_task_new(NULL, NULL, finished, job);
    g_task_set_task_data(job->task, job, NULL);
    g_task_run_in_thread(job->task, step);
}

// Takes the outcome of a step.
static Outcome outcome_of(Job *job) {
    Outcome outcome = (Outcome)g_task_propagate_int(job->task, NULL);
    g_clear_object(&job->task);
    g_clear_pointer(&job->image, imgbroker_image_release);
    return outcome;
}

static void prepare_in_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable) {
    (void)source;
    (void)cancellable;
    Job *job = data;
    g_task_return_int(task, thumbnail_prepare(&job->thumbnail));
}

static void write_in_thread(GTask *task, gpointer source, gpointer data, GCancellable *cancellable) {
    (void)source;
    (void)cancellable;
    Job *job = data;
    g_task_return_int(
        task, job->image != NULL ? thumbnail_write(&job->thumbnail, job->image) : thumbnail_remember(&job->thumbnail, job->reason));
}

static void end(Job *job, Outcome outcome) {
    const Thumbnail *thumbnail = &job->thumbnail;
    g_hash_table_remove(jobs, job->key);
    for (guint index = 0; index < job->waiters->len; index++) {
        Handle *handle = job->waiters->pdata[index];
        if (outcome == OUTCOME_READY) {
            emit_ready(handle->caller->name, handle->number, thumbnail->uri);
        } else {
            emit_error(handle->caller->name, handle->number, thumbnail->uri, thumbnail->code, thumbnail->message);
        }
        handle->running--;
        finish_if_done(handle);
    }
    thumbnail_clear(&job->thumbnail);
    g_ptr_array_unref(job->waiters);
    g_free(job->thumbnail.uri);
    g_free(job->thumbnail.mime_type);
    g_free(job->key);
    g_free(job);
    wake();
}

static void finish_preparing(GObject *source, GAsyncResult *result, gpointer data);

static void prepare_again(Job *job) {
    if (++job->attempts == MAXIMUM_ATTEMPTS) {
        end(job, thumbnail_fail(&job->thumbnail, ERROR_IMAGE, "the file changes while it is read"));
    } else {
        run(job, prepare_in_thread, finish_preparing);
    }
}

static void finish_writing(GObject *source, GAsyncResult *result, gpointer data) {
    (void)source;
    (void)result;
    Job *job = data;
    Outcome outcome = outcome_of(job);
    if (outcome == OUTCOME_CHANGED) {
        prepare_again(job);
    } else {
        end(job, outcome);
    }
}

// Returns whether the failure is one of the image, so that it lasts until the file changes.
static gboolean is_of_image(imgbroker_code code) {
    return code == IMGBROKER_ERROR_UNSUPPORTED_FORMAT || code == IMGBROKER_ERROR_TRUNCATED || code == IMGBROKER_ERROR_DECODE_FAILED ||
           code == IMGBROKER_ERROR_TOO_MANY_PIXELS || code == IMGBROKER_ERROR_EMPTY_IMAGE || code == IMGBROKER_ERROR_DECODER_CRASHED ||
           code == IMGBROKER_ERROR_TOO_LARGE;
}

static void take_error(Job *job, const imgbroker_error *error) {
    imgbroker_code code = error->code == IMGBROKER_ERROR_RECENTLY_FAILED ? error->cause : error->code;
    const char *name = imgbroker_code_name(code);
    thumbnail_fail(&job->thumbnail, is_of_image(code) ? ERROR_IMAGE : ERROR_CONNECTION, "%s: %s", name, error->message);
    if (job->waiters->len == 0) {
        end(job, OUTCOME_FAILED);
    } else if (is_of_image(code)) {
        job->reason = name;
        run(job, write_in_thread, finish_writing);
    } else if (job->is_cancelled) {
        // Another handle joined after the last one was removed.
        run(job, prepare_in_thread, finish_preparing);
    } else if (code == IMGBROKER_ERROR_TRANSFER_FAILED) {
        // The file changed while the broker read it.
        prepare_again(job);
    } else {
        end(job, OUTCOME_FAILED);
    }
}

static gboolean take_replies(gint descriptor, GIOCondition condition, gpointer data) {
    (void)descriptor;
    (void)condition;
    (void)data;
    imgbroker_reply reply;
    imgbroker_process(broker);
    while (imgbroker_next(broker, &reply)) {
        Job *job = reply.user;
        if (reply.final) job->request = 0;
        if (reply.final && reply.type == IMGBROKER_REPLY_IMAGE) {
            job->image = g_steal_pointer(&reply.image);
            run(job, write_in_thread, finish_writing);
        } else if (reply.final) {
            take_error(job, &reply.error);
        }
        imgbroker_reply_clear(&reply);
    }
    return G_SOURCE_CONTINUE;
}

// Opens the connection, which lasts as long as the process.
static gboolean is_open(imgbroker_error *error) {
    if (broker != NULL) return TRUE;
    imgbroker_settings settings = {.client = "imgbroker-thumbnailer/" IMGBROKER_VERSION, .keep_images = -1};
    broker = imgbroker_open(&settings, error);
    if (broker != NULL) g_unix_fd_add(imgbroker_fd(broker), G_IO_IN, take_replies, NULL);
    return broker != NULL;
}

static void finish_preparing(GObject *source, GAsyncResult *result, gpointer data) {
    (void)source;
    (void)result;
    Job *job = data;
    Outcome outcome = outcome_of(job);
    imgbroker_error error = {.code = IMGBROKER_OK};
    if (outcome != OUTCOME_NEEDS_IMAGE || job->waiters->len == 0) {
        end(job, outcome);
        return;
    }
    // The result is in the folder of thumbnails afterwards, and need not stay in the broker, too.
    imgbroker_options options = {
        .width = job->thumbnail.flavor->side,
        .height = job->thumbnail.flavor->side,
        .as = IMGBROKER_AS_PNG,
        .storage = IMGBROKER_STORAGE_NONE,
        .priority = job->scheduler == BACKGROUND ? IMGBROKER_PRIORITY_LOW : IMGBROKER_PRIORITY_NORMAL,
        .prefer_embedded = true};
    imgbroker_request request = {
        .kind = IMGBROKER_GET, .descriptor = job->thumbnail.descriptor, .options = &options, .user = job};
    job->is_cancelled = FALSE;
    if (is_open(&error)) job->request = imgbroker_send(broker, &request, &error);
    if (job->request == 0) take_error(job, &error);
}

static gboolean is_supported(const char *mime_type) {
    return *mime_type == '\0' || g_strv_contains(supported_types, mime_type);
}

// Begins the next thumbnail of a handle, or joins one that is being made.
static void begin_next(Handle *handle) {
    const char *uri = handle->uris[handle->next];
    const char *mime_type = handle->mime_types == NULL ? "" : handle->mime_types[handle->next];
    const char *caller = handle->caller->name;
    handle->next++;
    if (handle->flavor == NULL) {
        emit_error(caller, handle->number, uri, ERROR_FLAVOR, "the flavor is not supported");
    } else if (!is_supported(mime_type)) {
        emit_error(caller, handle->number, uri, ERROR_UNSUPPORTED, "the MIME type is not supported");
    } else {
        char *key = g_strconcat(handle->flavor->name, " ", uri, NULL);
        Job *job = g_hash_table_lookup(jobs, key);
        handle->running++;
        if (job != NULL) {
            g_free(key);
            if (job->request != 0 && handle->scheduler < job->scheduler) {
                imgbroker_update(broker, job->request, IMGBROKER_PRIORITY_NORMAL, false);
            }
            job->scheduler = MIN(job->scheduler, handle->scheduler);
            g_ptr_array_add(job->waiters, handle);
            return;
        }
        job = g_new0(Job, 1);
        job->thumbnail = (Thumbnail){
            .uri = g_strdup(uri), .mime_type = g_strdup(mime_type), .flavor = handle->flavor, .descriptor = -1};
        job->key = key;
        job->scheduler = handle->scheduler;
        job->waiters = g_ptr_array_new();
        g_ptr_array_add(job->waiters, handle);
        g_hash_table_insert(jobs, job->key, job);
        run(job, prepare_in_thread, finish_preparing);
    }
}

// Begins one thumbnail, so that calls are answered between them.
static gboolean pump(gpointer data) {
    (void)data;
    Handle *handle = take_next();
    if (handle == NULL) {
        pump_source = 0;
        return G_SOURCE_REMOVE;
    }
    if (!handle->is_started) emit_started(handle->caller->name, handle->number);
    handle->is_started = TRUE;
    if (handle->next < handle->count) begin_next(handle);
    if (handle->next < handle->count) enter_ring(handle);
    finish_if_done(handle);
    return G_SOURCE_CONTINUE;
}

void queue_remove(guint number) {
    Handle *handle = handles == NULL ? NULL : g_hash_table_lookup(handles, GUINT_TO_POINTER(number));
    GHashTableIter iterator;
    gpointer value;
    if (handle == NULL) return;
    GQueue *waiting = &handle->caller->waiting[handle->scheduler];
    if (g_queue_remove(waiting, handle) && waiting->length == 0) g_queue_remove(&rings[handle->scheduler], handle->caller);
    handle->next = handle->count;
    g_hash_table_iter_init(&iterator, jobs);
    while (g_hash_table_iter_next(&iterator, NULL, &value)) {
        Job *job = value;
        for (guint index = job->waiters->len; index > 0; index--) {
            if (job->waiters->pdata[index - 1] == handle) g_ptr_array_remove_index_fast(job->waiters, index - 1);
        }
        if (job->request == 0 || job->waiters->len > 0 || job->is_cancelled) continue;
        imgbroker_cancel(broker, job->request);
        job->is_cancelled = TRUE;
    }
    handle->running = 0;
    finish_if_done(handle);
}

void queue_lose(const char *caller_name) {
    Caller *caller = callers == NULL ? NULL : g_hash_table_lookup(callers, caller_name);
    Handle *handle;
    if (caller == NULL) return;
    caller->is_lost = TRUE;
    g_queue_remove(&rings[FOREGROUND], caller);
    while ((handle = g_queue_pop_head(&caller->waiting[FOREGROUND])) != NULL) {
        handle->scheduler = BACKGROUND;
        enter_ring(handle);
    }
}
