// A paintable that loads its image: the source, the request, the texture and the animation.

#include "private.h"

// The bytes of an animation's part. Two parts are held at a time.
enum { PART_BYTES = 8 << 20, MAX_PART_FRAMES = 10000 };

// Milliseconds before a broker that cannot be reached is tried again, doubled each time.
enum { FIRST_DELAY = 500, MAX_DELAY = 30000 };

// Frames of an animation, side by side in one image.
typedef struct {
    imgbroker_image *image;
    GBytes *pixels;
    guint64 first;
} Part;

// The size of a request in pixels, 0 for a side without a limit.
typedef struct {
    int width, height;
    imgbroker_fit fit;
} Box;

struct _ImgbrokerPaintable {
    GObject parent;

    char *uri;
    GFile *file;
    GBytes *bytes;
    char *crop, *position, *steps, *preset;
    ImgbrokerLoadFlags flags;
    ImgbrokerLoadPriority priority;
    gboolean is_playing;
    // The properties `width` and `height` of a paintable without a widget, or the box of its widget.
    Box box;

    // A widget decides when it is loaded, and has named a box.
    gboolean is_managed, has_box, is_visible;
    // Changes of properties are followed by one request.
    guint pending_load;
    // The next request ignores a recent failure.
    gboolean is_retry;
    // `show_image` was called for this source.
    gboolean may_show;

    ImgbrokerState state;
    double progress;
    imgbroker_error error;
    guint retry_delay, retry_source;
    Request *request;
    Box asked;

    GdkTexture *texture;
    // The box of the texture, and whether it is the final image for that.
    Box shown;
    gboolean is_final;
    // The size of the original, or of the image if that shows something else; 0 while it is unknown.
    int natural_width, natural_height;
    gboolean was_loaded;
    char *thumb_hash;

    // An animation: its number of frames, 0 or 1 without one; the part in which `frame` is, and the next one.
    guint64 frame_count, frame;
    gint64 loops, loops_done;
    Part part, next;
    Request *part_request;
    guint64 part_first, part_count;
    // The timer of the next frame, the time at which that is due in microseconds, and whether the present one was drawn.
    guint timer;
    gint64 due;
    gboolean was_drawn, is_waiting_for_part, is_waiting_for_drawing, has_ended;
};

enum { PROP_WIDTH = VIEW_PROPERTIES, PROP_HEIGHT, PROPERTIES };

static void paintable_init(GdkPaintableInterface *interface);
static void view_init(ImgbrokerViewInterface *interface);

G_DEFINE_FINAL_TYPE_WITH_CODE(ImgbrokerPaintable, imgbroker_paintable, G_TYPE_OBJECT,
    G_IMPLEMENT_INTERFACE(GDK_TYPE_PAINTABLE, paintable_init) G_IMPLEMENT_INTERFACE(IMGBROKER_TYPE_VIEW, view_init))

static void load(ImgbrokerPaintable *self, gboolean is_retry);
static void schedule_frame(ImgbrokerPaintable *self);
static void start_animation(ImgbrokerPaintable *self, guint64 frame_count);

// Each function that GLib or another file calls is between these two. Handlers of notifications run at the end, when everything is
// consistent: they may set another source, or release the last reference.
static void begin(ImgbrokerPaintable *self) {
    g_object_ref(self);
    g_object_freeze_notify(G_OBJECT(self));
}

static void end(ImgbrokerPaintable *self) {
    g_object_thaw_notify(G_OBJECT(self));
    g_object_unref(self);
}

static void notify(ImgbrokerPaintable *self, guint property) {
    g_object_notify(G_OBJECT(self), imgbroker_view_property_name(property));
}

static void set_state(ImgbrokerPaintable *self, ImgbrokerState state) {
    if (self->state == state) return;
    self->state = state;
    notify(self, PROP_STATE);
}

static void set_progress(ImgbrokerPaintable *self, double progress) {
    if (self->progress == progress) return;
    self->progress = progress;
    notify(self, PROP_PROGRESS);
}

// Textures

static void release_image(gpointer image) {
    imgbroker_image_release(image);
}

// The bytes of an image, which hold a reference to it. GTK may release them in any thread.
static GBytes *bytes_of(imgbroker_image *image) {
    return g_bytes_new_with_free_func(image->pixels, image->size, release_image, imgbroker_image_retain(image));
}

// The format of GDK for an image; GDK_MEMORY_N_FORMATS if there is none. Only presets have others than the requested one.
static GdkMemoryFormat format_of(const imgbroker_image *image) {
    gboolean is_straight = image->alpha == IMGBROKER_STRAIGHT;
    switch (image->format) {
        case IMGBROKER_BGRA8: return is_straight ? GDK_MEMORY_B8G8R8A8 : GDK_MEMORY_B8G8R8A8_PREMULTIPLIED;
        case IMGBROKER_RGBA8: return is_straight ? GDK_MEMORY_R8G8B8A8 : GDK_MEMORY_R8G8B8A8_PREMULTIPLIED;
        case IMGBROKER_RGB8: return GDK_MEMORY_R8G8B8;
        case IMGBROKER_GRAY8:
        case IMGBROKER_ENCODED: break;
    }
    return GDK_MEMORY_N_FORMATS;
}

static GdkTexture *texture_of(const imgbroker_image *image, GBytes *pixels, gsize offset) {
    GBytes *frame = g_bytes_new_from_bytes(pixels, offset, image->stride * image->height);
    GdkTexture *texture =
        gdk_memory_texture_new((int)image->width, (int)image->height, format_of(image), frame, image->stride);
    g_bytes_unref(frame);
    return texture;
}

// Takes a reference to a texture, or none.
static void set_texture(ImgbrokerPaintable *self, GdkTexture *texture) {
    GdkTexture *old = self->texture;
    if (old == NULL && texture == NULL) return;
    gboolean is_resized = old == NULL || texture == NULL || gdk_texture_get_width(old) != gdk_texture_get_width(texture) ||
        gdk_texture_get_height(old) != gdk_texture_get_height(texture);
    self->texture = texture;
    self->was_drawn = FALSE;
    if (is_resized) gdk_paintable_invalidate_size(GDK_PAINTABLE(self));
    gdk_paintable_invalidate_contents(GDK_PAINTABLE(self));
    notify(self, PROP_TEXTURE);
    g_clear_object(&old);
}

GdkTexture *imgbroker_thumb_hash_texture(const char *hash) {
    guint8 pixels[IMGBROKER_THUMB_HASH_BYTES];
    guint32 width, height;
    if (hash == NULL || !imgbroker_decode_thumb_hash(hash, pixels, &width, &height)) return NULL;
    GBytes *bytes = g_bytes_new(pixels, (gsize)width * height * 4);
    GdkTexture *texture =
        gdk_memory_texture_new((int)width, (int)height, GDK_MEMORY_B8G8R8A8_PREMULTIPLIED, bytes, (gsize)width * 4);
    g_bytes_unref(bytes);
    return texture;
}

// A missing broker is tried again without being asked: it is being started, or upgraded.
static gboolean is_without_broker(const imgbroker_error *error) {
    return error->code == IMGBROKER_ERROR_NO_BROKER || error->code == IMGBROKER_ERROR_CONNECTION_LOST ||
        error->code == IMGBROKER_ERROR_NOT_ANSWERING;
}

// Animations

static void clear_part(Part *part) {
    g_clear_pointer(&part->pixels, g_bytes_unref);
    g_clear_pointer(&part->image, imgbroker_image_release);
    part->first = 0;
}

static void stop_animation(ImgbrokerPaintable *self) {
    g_clear_handle_id(&self->timer, g_source_remove);
    imgbroker_request_abandon(g_steal_pointer(&self->part_request), FALSE);
    clear_part(&self->part);
    clear_part(&self->next);
    self->frame_count = self->frame = 0;
    self->loops_done = 0;
    self->is_waiting_for_part = self->is_waiting_for_drawing = self->has_ended = FALSE;
}

static void fill_options(const ImgbrokerPaintable *self, const Box *box, imgbroker_options *options);
static Request *send(
    ImgbrokerPaintable *self, const imgbroker_options *options, TakeReply take, imgbroker_error *error);

static void take_part(gpointer owner, imgbroker_reply *reply);

// The frame after a part; the first one after the last.
static guint64 frame_after(const ImgbrokerPaintable *self, const Part *part) {
    guint64 end = part->first + part->image->frame_count;
    return end < self->frame_count ? end : 0;
}

// Requests the part that begins with a frame. All are of one response, and an original that may not be stored is not loaded for each.
static void request_part(ImgbrokerPaintable *self, guint64 first) {
    imgbroker_options options;
    fill_options(self, &self->shown, &options);
    guint64 bytes = (guint64)gdk_texture_get_width(self->texture) * (guint64)gdk_texture_get_height(self->texture) * 4;
    guint64 count = MIN(MAX(PART_BYTES / MAX(bytes, 1), 1), MIN(self->frame_count - first, MAX_PART_FRAMES));
    options.first_frame = (uint32_t)first;
    options.frame_count = (uint32_t)count;
    options.progressive = options.progress = options.stale_first = FALSE;
    options.cache = first == 0 ? IMGBROKER_FORCE_CACHE : IMGBROKER_ONLY_IF_CACHED;
    self->part_request = send(self, &options, take_part, NULL);
    self->part_first = first;
    self->part_count = count;
}

static gboolean frame_is_due(gpointer data);

static void show_frame(ImgbrokerPaintable *self) {
    const imgbroker_frame *frame = &self->part.image->frames[self->frame - self->part.first];
    set_texture(self, texture_of(self->part.image, self->part.pixels, frame->offset));
    schedule_frame(self);
}

// Whether the image is seen, as far as that is known.
static gboolean is_seen(const ImgbrokerPaintable *self) {
    return self->was_drawn && (self->is_visible || !self->is_managed);
}

static void set_timer(ImgbrokerPaintable *self, gint64 milliseconds) {
    g_clear_handle_id(&self->timer, g_source_remove);
    self->timer = g_timeout_add((guint)MAX(milliseconds, 0), frame_is_due, self);
}

static void show_next_frame(ImgbrokerPaintable *self) {
    // The next frame waits until the present one is seen.
    self->is_waiting_for_drawing = !is_seen(self);
    if (self->is_waiting_for_drawing || self->part.image == NULL || !self->is_playing) return;
    guint64 next = self->frame + 1;
    if (next == self->part.first + self->part.image->frame_count) {
        next = frame_after(self, &self->part);
        self->has_ended = next == 0 && self->loops > 0 && self->loops_done + 1 >= self->loops;
        if (self->has_ended) return;
        if (next != self->part.first) {
            self->is_waiting_for_part = self->next.image == NULL;
            if (self->is_waiting_for_part) {
                if (self->part_request == NULL) request_part(self, next);
                return;
            }
            clear_part(&self->part);
            self->part = self->next;
            self->next = (Part){0};
            guint64 following = frame_after(self, &self->part);
            if (following != self->part.first) request_part(self, following);
        }
        if (next == 0) self->loops_done++;
    }
    self->frame = next;
    show_frame(self);
}

static gboolean frame_is_due(gpointer data) {
    ImgbrokerPaintable *self = data;
    begin(self);
    self->timer = 0;
    if (self->part.image == NULL) {
        // The first part could not be requested before.
        start_animation(self, self->frame_count);
    } else {
        show_next_frame(self);
    }
    end(self);
    return G_SOURCE_REMOVE;
}

// Continues an animation that stood still.
static void resume(ImgbrokerPaintable *self) {
    self->is_waiting_for_drawing = FALSE;
    self->due = 0;
    schedule_frame(self);
}

// Sets the timer of the next frame, in the rhythm of the last ones unless that was lost.
static void schedule_frame(ImgbrokerPaintable *self) {
    if (!self->is_playing || self->part.image == NULL || self->has_ended) return;
    gint64 delay = (gint64)MIN(self->part.image->frames[self->frame - self->part.first].delay_ms, G_MAXINT) * 1000;
    gint64 now = g_get_monotonic_time();
    self->due += delay;
    if (self->due < now - delay) self->due = now + delay;
    set_timer(self, (self->due - now) / 1000);
}

static void take_frames(ImgbrokerPaintable *self, imgbroker_reply *reply) {
    imgbroker_image *image = g_steal_pointer(&reply->image);
    gboolean is_waiting = self->is_waiting_for_part;
    self->is_waiting_for_part = FALSE;
    if (image == NULL || image->frame_count == 0 || image->pixels == NULL || format_of(image) == GDK_MEMORY_N_FORMATS) {
        // A damaged animation stays at the frame before.
        if (image != NULL) imgbroker_image_release(image);
        if ((is_waiting || self->part.image == NULL) && is_without_broker(&reply->error)) set_timer(self, FIRST_DELAY);
        return;
    }
    // The header may state more frames than there are.
    if (image->frame_count < self->part_count) self->frame_count = self->part_first + image->frame_count;
    Part part = {.image = image, .pixels = bytes_of(image), .first = self->part_first};
    if (self->part.image == NULL) {
        self->part = part;
        guint64 following = frame_after(self, &part);
        self->loops = image->loops;
        self->frame = part.first;
        self->due = 0;
        if (following != part.first) request_part(self, following);
        show_frame(self);
        return;
    }
    clear_part(&self->next);
    self->next = part;
    if (!is_waiting) return;
    self->was_drawn = TRUE;
    self->due = 0;
    show_next_frame(self);
}

static void take_part(gpointer owner, imgbroker_reply *reply) {
    ImgbrokerPaintable *self = owner;
    if (!reply->final) return;
    begin(self);
    self->part_request = NULL;
    take_frames(self, reply);
    end(self);
}

static void start_animation(ImgbrokerPaintable *self, guint64 frame_count) {
    self->frame_count = frame_count;
    // A preset has its own choice of frames, and a searched position has none.
    gboolean is_still = self->preset != NULL || g_strcmp0(self->position, "entropy") == 0 || g_strcmp0(self->position, "attention") == 0;
    if (frame_count > 1 && self->is_playing && !is_still && self->part_request == NULL) request_part(self, 0);
}

// Loading

static void report(ImgbrokerPaintable *self, const imgbroker_error *error) {
    self->error = *error;
    notify(self, PROP_ERROR);
    notify(self, PROP_ERROR_CODE);
    notify(self, PROP_ERROR_MESSAGE);
}

static void clear_error(ImgbrokerPaintable *self) {
    if (self->error.code == IMGBROKER_OK) return;
    report(self, &(imgbroker_error){0});
}

static void set_thumb_hash(ImgbrokerPaintable *self, const char *hash) {
    if (g_strcmp0(self->thumb_hash, hash) == 0) return;
    g_free(self->thumb_hash);
    self->thumb_hash = g_strdup(hash);
    notify(self, PROP_IMAGE_THUMB_HASH);
}

static void forget_request(ImgbrokerPaintable *self) {
    g_clear_handle_id(&self->pending_load, g_source_remove);
    g_clear_handle_id(&self->retry_source, g_source_remove);
    gboolean continues = (self->flags & IMGBROKER_LOAD_CONTINUE) != 0;
    imgbroker_request_abandon(g_steal_pointer(&self->request), continues);
}

static gboolean load_again(gpointer data) {
    ImgbrokerPaintable *self = data;
    begin(self);
    self->retry_source = 0;
    load(self, TRUE);
    end(self);
    return G_SOURCE_REMOVE;
}

// An image in another size, or one that could not be confirmed, stays.
static void fail(ImgbrokerPaintable *self, const imgbroker_error *error) {
    report(self, error);
    set_state(self, self->texture != NULL && self->is_final ? IMGBROKER_STATE_READY : IMGBROKER_STATE_FAILED);
    if (!is_without_broker(error)) return;
    self->retry_delay = self->retry_delay == 0 ? FIRST_DELAY : MIN(self->retry_delay * 2, MAX_DELAY);
    g_clear_handle_id(&self->retry_source, g_source_remove);
    self->retry_source = g_timeout_add(self->retry_delay, load_again, self);
}

// Shows an image, and takes its reference.
static void take_image(ImgbrokerPaintable *self, imgbroker_image *image, gboolean is_final, gboolean is_kept) {
    if (image->width == 0 || image->height == 0 || image->pixels == NULL || format_of(image) == GDK_MEMORY_N_FORMATS) {
        fail(self, &(imgbroker_error){.code = IMGBROKER_ERROR_UNSUPPORTED_FORMAT,
                       .message = "the image has no pixels, or in a format that GTK does not show"});
        imgbroker_image_release(image);
        return;
    }
    gboolean is_whole = self->crop == NULL && self->steps == NULL && self->preset == NULL && image->original_width > 0;
    self->natural_width = (int)(is_whole ? image->original_width : image->width);
    self->natural_height = (int)(is_whole ? image->original_height : image->height);
    self->was_loaded = !is_kept && image->source != IMGBROKER_FROM_MEMORY;
    self->shown = self->asked;
    self->is_final = is_final;
    stop_animation(self);
    GBytes *pixels = bytes_of(image);
    set_texture(self, texture_of(image, pixels, 0));
    g_bytes_unref(pixels);
    if (is_final) {
        set_thumb_hash(self, image->thumb_hash);
        set_progress(self, 1);
        clear_error(self);
        self->retry_delay = 0;
        set_state(self, IMGBROKER_STATE_READY);
        start_animation(self, image->original_frames);
    }
    imgbroker_image_release(image);
}

static void take_reply(gpointer owner, imgbroker_reply *reply) {
    ImgbrokerPaintable *self = owner;
    begin(self);
    if (reply->final) self->request = NULL;
    if (reply->image != NULL) {
        take_image(self, g_steal_pointer(&reply->image), reply->final, FALSE);
    } else if (reply->type == IMGBROKER_REPLY_PROGRESS) {
        if (reply->expected != UINT64_MAX && reply->expected > 0) {
            set_progress(self, MIN((double)reply->received / (double)reply->expected, 1));
        }
    } else if (reply->final) {
        fail(self, &reply->error);
    }
    end(self);
}

static imgbroker_priority priority_of(const ImgbrokerPaintable *self) {
    switch (self->priority) {
        case IMGBROKER_LOAD_PRIORITY_LOW: return IMGBROKER_PRIORITY_LOW;
        case IMGBROKER_LOAD_PRIORITY_NORMAL: return IMGBROKER_PRIORITY_NORMAL;
        case IMGBROKER_LOAD_PRIORITY_HIGH: return IMGBROKER_PRIORITY_HIGH;
        case IMGBROKER_LOAD_PRIORITY_AUTO: break;
    }
    if (!self->is_managed) return IMGBROKER_PRIORITY_NORMAL;
    return self->is_visible ? IMGBROKER_PRIORITY_HIGH : IMGBROKER_PRIORITY_LOW;
}

static gboolean parse_crop(const char *text, imgbroker_rectangle *crop) {
    int length = 0;
    sscanf(text, "%5u,%5u,%5u,%5u%n", &crop->x, &crop->y, &crop->width, &crop->height, &length);
    return length > 0 && text[length] == 0;
}

static void fill_options(const ImgbrokerPaintable *self, const Box *box, imgbroker_options *options) {
    const ImgbrokerLoadFlags flags = self->flags;
    *options = (imgbroker_options){
        .width = (uint32_t)box->width,
        .height = (uint32_t)box->height,
        .fit = box->fit,
        .format = IMGBROKER_BGRA8,
        .steps = self->steps,
        .preset = self->preset,
        .position = self->position,
        .priority = priority_of(self),
        .progress = TRUE,
        .progressive = (flags & IMGBROKER_LOAD_PROGRESSIVE) != 0,
        .retry_failed = (flags & IMGBROKER_LOAD_RETRY_FAILED) != 0 || self->is_retry,
        .cookies = (flags & IMGBROKER_LOAD_COOKIES) != 0,
        .allow_invalid_certificates = (flags & IMGBROKER_LOAD_INVALID_CERTIFICATES) != 0,
        // Without a box, the original may be of any size.
        .scale_down = (flags & IMGBROKER_LOAD_SCALE_DOWN) != 0 || (self->is_managed && box->width == 0 && box->height == 0),
        .accept_damage = (flags & IMGBROKER_LOAD_ACCEPT_DAMAGE) != 0,
        .storage = (flags & IMGBROKER_LOAD_MEMORY_ONLY) != 0 ? IMGBROKER_STORAGE_MEMORY : IMGBROKER_STORAGE_DEFAULT,
    };
    if ((flags & IMGBROKER_LOAD_REFRESH_CACHED) != 0) {
        options->cache = IMGBROKER_NO_CACHE;
        options->stale_first = TRUE;
    } else if ((flags & IMGBROKER_LOAD_FROM_CACHE_ONLY) != 0) {
        options->cache = IMGBROKER_ONLY_IF_CACHED;
    } else if ((flags & IMGBROKER_LOAD_FROM_ORIGIN_ONLY) != 0) {
        options->cache = IMGBROKER_RELOAD;
    }
    if (self->preset != NULL) {
        options->width = options->height = 0;
        options->fit = IMGBROKER_INSIDE;
        options->format = IMGBROKER_RGBA8;
        options->steps = options->position = NULL;
    } else if (self->crop != NULL) {
        parse_crop(self->crop, &options->crop);
    }
    if (options->fit != IMGBROKER_COVER) options->position = NULL;
}

// Names the source in a request; `*path` is to be freed. False if there is none.
static gboolean fill_source(const ImgbrokerPaintable *self, imgbroker_request *request, char **path) {
    *path = NULL;
    request->descriptor = -1;
    if (self->bytes != NULL) {
        request->data = g_bytes_get_data(self->bytes, &request->size);
        if (request->data == NULL) request->data = "";
    } else if (self->file != NULL) {
        *path = g_file_get_path(self->file);
        request->path = *path;
        if (*path == NULL) request->url = *path = g_file_get_uri(self->file);
    } else if (self->uri != NULL) {
        const char *scheme = g_uri_peek_scheme(self->uri);
        if (g_strcmp0(scheme, "file") == 0) *path = g_filename_from_uri(self->uri, NULL, NULL);
        if (*path != NULL || scheme == NULL) {
            request->path = *path != NULL ? *path : self->uri;
        } else {
            request->url = self->uri;
        }
    }
    return request->url != NULL || request->path != NULL || request->data != NULL;
}

static Request *send(
    ImgbrokerPaintable *self, const imgbroker_options *options, TakeReply take, imgbroker_error *error) {
    char *path;
    imgbroker_request request = {0};
    Request *sent = NULL;
    if (fill_source(self, &request, &path)) {
        imgbroker_options chosen = *options;
        // A local file is always read as it is.
        if (request.url == NULL || g_ascii_strncasecmp(request.url, "http", 4) != 0) {
            chosen.cache = IMGBROKER_CACHE_DEFAULT;
            chosen.stale_first = FALSE;
        }
        request.options = &chosen;
        sent = imgbroker_request_send(&request, take, self, error);
    }
    g_free(path);
    return sent;
}

// Requests the image. A retry that nobody asked for keeps the error until it has succeeded.
static void load(ImgbrokerPaintable *self, gboolean is_retry) {
    forget_request(self);
    char *path;
    imgbroker_request source = {0};
    gboolean has_source = fill_source(self, &source, &path);
    gboolean is_url = source.url != NULL && source.url == self->uri;
    g_free(path);
    if (!has_source || (self->is_managed && !self->has_box)) {
        clear_error(self);
        set_state(self, IMGBROKER_STATE_EMPTY);
        return;
    }
    self->asked = self->box;
    imgbroker_rectangle crop;
    if (self->crop != NULL && self->preset == NULL && !parse_crop(self->crop, &crop)) {
        fail(self, &(imgbroker_error){.code = IMGBROKER_ERROR_INVALID_ARGUMENT, .message = "crop is not X,Y,WIDTH,HEIGHT"});
        return;
    }
    imgbroker_options options;
    fill_options(self, &self->box, &options);
    self->is_retry = FALSE;
    imgbroker_image *kept = is_url ? imgbroker_request_kept(self->uri, &options) : NULL;
    if (kept != NULL) {
        take_image(self, kept, TRUE, TRUE);
        return;
    }
    if (!is_retry) {
        clear_error(self);
        set_progress(self, 0);
    }
    imgbroker_error error;
    self->request = send(self, &options, take_reply, &error);
    if (self->request == NULL) {
        fail(self, &error);
    } else if (!is_retry) {
        set_state(self, IMGBROKER_STATE_LOADING);
    }
}

static gboolean load_pending(gpointer data) {
    ImgbrokerPaintable *self = data;
    begin(self);
    self->pending_load = 0;
    load(self, FALSE);
    end(self);
    return G_SOURCE_REMOVE;
}

// Loads after the caller has set all properties, and before the next frame is drawn.
static void queue_load(ImgbrokerPaintable *self) {
    if (self->pending_load != 0 || (self->is_managed && !self->has_box)) return;
    self->pending_load = g_idle_add_full(G_PRIORITY_DEFAULT, load_pending, self, NULL);
}

// Forgets the image of another source.
static void clear_image(ImgbrokerPaintable *self) {
    forget_request(self);
    stop_animation(self);
    self->retry_delay = 0;
    set_texture(self, NULL);
    set_progress(self, 0);
    clear_error(self);
    set_state(self, IMGBROKER_STATE_EMPTY);
}

static void source_changed(ImgbrokerPaintable *self) {
    clear_image(self);
    set_thumb_hash(self, NULL);
    self->natural_width = self->natural_height = 0;
    self->may_show = self->has_box = FALSE;
    queue_load(self);
}

// The functions for the widget

void imgbroker_paintable_set_managed(ImgbrokerPaintable *self) {
    self->is_managed = TRUE;
}

// Whether the image for one box is good enough for another.
static gboolean covers(const Box *has, const Box *needs) {
    if (has->fit != needs->fit) return FALSE;
    gboolean is_wide = has->width == 0 || (needs->width != 0 && needs->width <= has->width);
    gboolean is_high = has->height == 0 || (needs->height != 0 && needs->height <= has->height);
    if (!is_wide || !is_high || has->fit != IMGBROKER_COVER) return is_wide && is_high;
    // Within a percent, the same part of the image is visible.
    double error = (double)needs->width * has->height - (double)needs->height * has->width;
    return ABS(error) <= 0.01 * needs->width * has->height;
}

// Whether the shown image has enough pixels for a box that is larger than its own.
static gboolean has_pixels(const ImgbrokerPaintable *self, const Box *needs) {
    if (self->shown.fit != IMGBROKER_INSIDE || needs->fit != IMGBROKER_INSIDE) return FALSE;
    int width = gdk_texture_get_width(self->texture), height = gdk_texture_get_height(self->texture);
    // Smaller than its box: the original has no more.
    gboolean is_narrow = self->shown.width == 0 || width < self->shown.width;
    gboolean is_low = self->shown.height == 0 || height < self->shown.height;
    return (is_narrow && is_low) || (needs->width != 0 && needs->width <= width) || (needs->height != 0 && needs->height <= height);
}

gboolean imgbroker_paintable_is_enough(ImgbrokerPaintable *self, int width, int height, imgbroker_fit fit) {
    const Box needs = {width, height, fit};
    if (!self->has_box || self->pending_load != 0) return FALSE;
    // A failed request is not repeated.
    if ((self->request != NULL || self->error.code != IMGBROKER_OK) && (self->preset != NULL || covers(&self->asked, &needs))) return TRUE;
    if (self->texture == NULL || !self->is_final) return FALSE;
    return self->preset != NULL || covers(&self->shown, &needs) || has_pixels(self, &needs);
}

void imgbroker_paintable_set_box(ImgbrokerPaintable *self, int width, int height, imgbroker_fit fit) {
    if (imgbroker_paintable_is_enough(self, width, height, fit)) return;
    begin(self);
    self->has_box = TRUE;
    self->box = (Box){width, height, fit};
    load(self, FALSE);
    end(self);
}

void imgbroker_paintable_set_visible(ImgbrokerPaintable *self, gboolean is_visible) {
    if (self->is_visible == is_visible) return;
    self->is_visible = is_visible;
    if (self->request != NULL) imgbroker_request_set_priority(self->request, priority_of(self));
    if (is_visible && self->is_waiting_for_drawing) resume(self);
}

void imgbroker_paintable_pause(ImgbrokerPaintable *self) {
    if (self->request == NULL && self->retry_source == 0 && self->pending_load == 0) return;
    begin(self);
    forget_request(self);
    self->has_box = FALSE;
    clear_error(self);
    set_state(self, self->texture != NULL && self->is_final ? IMGBROKER_STATE_READY : IMGBROKER_STATE_EMPTY);
    end(self);
}

void imgbroker_paintable_release(ImgbrokerPaintable *self) {
    begin(self);
    clear_image(self);
    self->has_box = FALSE;
    end(self);
}

// Whether an image is loaded that is not to be shown yet.
static gboolean is_withheld(const ImgbrokerPaintable *self) {
    return (self->flags & IMGBROKER_LOAD_AVOID_AUTO_SHOW) != 0 && !self->may_show;
}

gboolean imgbroker_paintable_has_image(ImgbrokerPaintable *self) {
    return self->texture != NULL && !is_withheld(self);
}

gboolean imgbroker_paintable_is_loading(ImgbrokerPaintable *self) {
    return self->request != NULL;
}

gboolean imgbroker_paintable_get_natural_size(ImgbrokerPaintable *self, int *width, int *height) {
    *width = self->natural_width;
    *height = self->natural_height;
    return self->natural_width > 0;
}

gboolean imgbroker_paintable_was_loaded(ImgbrokerPaintable *self) {
    return self->was_loaded;
}

// GdkPaintable

static void paintable_snapshot(GdkPaintable *paintable, GdkSnapshot *snapshot, double width, double height) {
    ImgbrokerPaintable *self = IMGBROKER_PAINTABLE(paintable);
    if (!imgbroker_paintable_has_image(self)) return;
    gdk_paintable_snapshot(GDK_PAINTABLE(self->texture), snapshot, width, height);
    self->was_drawn = TRUE;
    if (self->is_waiting_for_drawing && is_seen(self)) resume(self);
}

static int paintable_get_intrinsic_width(GdkPaintable *paintable) {
    ImgbrokerPaintable *self = IMGBROKER_PAINTABLE(paintable);
    return self->texture != NULL ? gdk_texture_get_width(self->texture) : 0;
}

static int paintable_get_intrinsic_height(GdkPaintable *paintable) {
    ImgbrokerPaintable *self = IMGBROKER_PAINTABLE(paintable);
    return self->texture != NULL ? gdk_texture_get_height(self->texture) : 0;
}

static GdkPaintable *paintable_get_current_image(GdkPaintable *paintable) {
    ImgbrokerPaintable *self = IMGBROKER_PAINTABLE(paintable);
    if (self->texture != NULL) return GDK_PAINTABLE(g_object_ref(self->texture));
    return gdk_paintable_new_empty(0, 0);
}

static void paintable_init(GdkPaintableInterface *interface) {
    interface->snapshot = paintable_snapshot;
    interface->get_intrinsic_width = paintable_get_intrinsic_width;
    interface->get_intrinsic_height = paintable_get_intrinsic_height;
    interface->get_current_image = paintable_get_current_image;
}

// ImgbrokerView

static void view_retry(ImgbrokerView *view) {
    ImgbrokerPaintable *self = IMGBROKER_PAINTABLE(view);
    if (self->error.code == IMGBROKER_OK) return;
    begin(self);
    self->is_retry = TRUE;
    load(self, FALSE);
    end(self);
}

static void view_show_image(ImgbrokerView *view) {
    ImgbrokerPaintable *self = IMGBROKER_PAINTABLE(view);
    self->may_show = TRUE;
    gdk_paintable_invalidate_contents(GDK_PAINTABLE(self));
}

static void view_init(ImgbrokerViewInterface *interface) {
    interface->retry = view_retry;
    interface->show_image = view_show_image;
}

// Properties

// The text of a value; NULL if it is empty.
static const char *text_in(const GValue *value) {
    const char *text = g_value_get_string(value);
    return text == NULL || text[0] == 0 ? NULL : text;
}

// Sets a source, and removes the two others.
static void set_source(ImgbrokerPaintable *self, guint property, const GValue *value) {
    gboolean is_same = property == PROP_URI ? g_strcmp0(self->uri, text_in(value)) == 0
        : property == PROP_FILE             ? self->file == g_value_get_object(value)
                                            : self->bytes == g_value_get_boxed(value);
    if (is_same) return;
    guint changed = 1u << property | (self->uri != NULL ? 1u << PROP_URI : 0) | (self->file != NULL ? 1u << PROP_FILE : 0) |
        (self->bytes != NULL ? 1u << PROP_BYTES : 0);
    g_clear_pointer(&self->uri, g_free);
    g_clear_object(&self->file);
    g_clear_pointer(&self->bytes, g_bytes_unref);
    if (property == PROP_URI) self->uri = g_strdup(text_in(value));
    if (property == PROP_FILE) self->file = g_value_dup_object(value);
    if (property == PROP_BYTES) self->bytes = g_value_dup_boxed(value);
    for (guint other = PROP_URI; other <= PROP_BYTES; other++) {
        if ((changed & 1u << other) != 0) notify(self, other);
    }
    source_changed(self);
}

static char **text_of(ImgbrokerPaintable *self, guint property) {
    switch (property) {
        case PROP_URI: return &self->uri;
        case PROP_CROP: return &self->crop;
        case PROP_POSITION: return &self->position;
        case PROP_STEPS: return &self->steps;
        case PROP_PRESET: return &self->preset;
        default: return &self->thumb_hash;
    }
}

static void set_property(GObject *object, guint property, const GValue *value, GParamSpec *specification) {
    ImgbrokerPaintable *self = IMGBROKER_PAINTABLE(object);
    switch (property) {
        case PROP_URI:
        case PROP_FILE:
        case PROP_BYTES: set_source(self, property, value); return;
        case PROP_CROP:
        case PROP_POSITION:
        case PROP_STEPS:
        case PROP_PRESET: {
            char **text = text_of(self, property);
            if (g_strcmp0(*text, text_in(value)) == 0) return;
            g_free(*text);
            *text = g_strdup(text_in(value));
            break;
        }
        case PROP_FLAGS:
            if (self->flags == g_value_get_flags(value)) return;
            self->flags = g_value_get_flags(value);
            break;
        case PROP_PRIORITY:
            if (self->priority == (ImgbrokerLoadPriority)g_value_get_enum(value)) return;
            self->priority = (ImgbrokerLoadPriority)g_value_get_enum(value);
            if (self->request != NULL) imgbroker_request_set_priority(self->request, priority_of(self));
            notify(self, property);
            return;
        case PROP_PLAYING:
            if (self->is_playing == g_value_get_boolean(value)) return;
            self->is_playing = g_value_get_boolean(value);
            notify(self, property);
            if (!self->is_playing) {
                g_clear_handle_id(&self->timer, g_source_remove);
                return;
            }
            // An animation that has ended plays again, from the frame after its last one.
            if (self->has_ended) self->loops_done = -1;
            self->has_ended = FALSE;
            if (self->part.image != NULL) {
                resume(self);
            } else if (self->state == IMGBROKER_STATE_READY) {
                start_animation(self, self->frame_count);
            }
            return;
        case PROP_WIDTH:
        case PROP_HEIGHT: {
            int *side = property == PROP_WIDTH ? &self->box.width : &self->box.height;
            if (*side == (int)g_value_get_uint(value)) return;
            *side = (int)g_value_get_uint(value);
            g_object_notify_by_pspec(object, specification);
            queue_load(self);
            return;
        }
        default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, property, specification); return;
    }
    notify(self, property);
    // The image of these is another one.
    if (self->texture != NULL || self->request != NULL || self->error.code != IMGBROKER_OK) queue_load(self);
}

static void get_property(GObject *object, guint property, GValue *value, GParamSpec *specification) {
    ImgbrokerPaintable *self = IMGBROKER_PAINTABLE(object);
    gboolean has_error = self->error.code != IMGBROKER_OK;
    // A path in it need not be UTF-8.
    char *message = has_error ? g_utf8_make_valid(self->error.message, -1) : NULL;
    switch (property) {
        case PROP_URI:
        case PROP_CROP:
        case PROP_POSITION:
        case PROP_STEPS:
        case PROP_PRESET:
        case PROP_IMAGE_THUMB_HASH: g_value_set_string(value, *text_of(self, property)); break;
        case PROP_FILE: g_value_set_object(value, self->file); break;
        case PROP_BYTES: g_value_set_boxed(value, self->bytes); break;
        case PROP_FLAGS: g_value_set_flags(value, self->flags); break;
        case PROP_PRIORITY: g_value_set_enum(value, (gint)self->priority); break;
        case PROP_PLAYING: g_value_set_boolean(value, self->is_playing); break;
        case PROP_STATE: g_value_set_enum(value, (gint)self->state); break;
        case PROP_PROGRESS: g_value_set_double(value, self->progress); break;
        case PROP_ERROR:
            if (has_error) {
                g_value_take_boxed(value, g_error_new_literal(IMGBROKER_GTK_ERROR, (gint)self->error.code, message));
            }
            break;
        case PROP_ERROR_CODE: g_value_set_string(value, has_error ? imgbroker_code_name(self->error.code) : NULL); break;
        case PROP_ERROR_MESSAGE: g_value_set_string(value, message); break;
        case PROP_TEXTURE: g_value_set_object(value, self->texture); break;
        case PROP_WIDTH: g_value_set_uint(value, (guint)self->box.width); break;
        case PROP_HEIGHT: g_value_set_uint(value, (guint)self->box.height); break;
        default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, property, specification);
    }
    g_free(message);
}

static void dispose(GObject *object) {
    ImgbrokerPaintable *self = IMGBROKER_PAINTABLE(object);
    forget_request(self);
    stop_animation(self);
    g_clear_object(&self->texture);
    G_OBJECT_CLASS(imgbroker_paintable_parent_class)->dispose(object);
}

static void finalize(GObject *object) {
    ImgbrokerPaintable *self = IMGBROKER_PAINTABLE(object);
    g_free(self->uri);
    g_clear_object(&self->file);
    g_clear_pointer(&self->bytes, g_bytes_unref);
    g_free(self->crop);
    g_free(self->position);
    g_free(self->steps);
    g_free(self->preset);
    g_free(self->thumb_hash);
    G_OBJECT_CLASS(imgbroker_paintable_parent_class)->finalize(object);
}

static void imgbroker_paintable_class_init(ImgbrokerPaintableClass *class) {
    GObjectClass *object = G_OBJECT_CLASS(class);
    object->set_property = set_property;
    object->get_property = get_property;
    object->dispose = dispose;
    object->finalize = finalize;
    imgbroker_view_override_properties(object);
    const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS;

    /**
     * ImgbrokerPaintable:width:
     *
     * The largest width of the image in pixels, 0 … 65,535; an image is never enlarged. 0, the default: any.
     */
    g_object_class_install_property(object, PROP_WIDTH, g_param_spec_uint("width", NULL, NULL, 0, 65535, 0, flags));

    /**
     * ImgbrokerPaintable:height:
     *
     * The largest height of the image in pixels, 0 … 65,535; an image is never enlarged. 0, the default: any.
     */
    g_object_class_install_property(object, PROP_HEIGHT, g_param_spec_uint("height", NULL, NULL, 0, 65535, 0, flags));
}

static void imgbroker_paintable_init(ImgbrokerPaintable *self) {
    self->is_playing = TRUE;
}

/**
 * imgbroker_paintable_new:
 * @uri: (nullable): a URL, or the path of a file
 * @width: the largest width in pixels, or 0
 * @height: the largest height in pixels, or 0
 *
 * Creates a paintable, which begins to load its image.
 *
 * Returns: (transfer full): the paintable
 */
ImgbrokerPaintable *imgbroker_paintable_new(const char *uri, guint width, guint height) {
    return g_object_new(IMGBROKER_TYPE_PAINTABLE, "uri", uri, "width", width, "height", height, NULL);
}
