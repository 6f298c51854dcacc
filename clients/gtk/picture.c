// The widget: the size of its image, placeholders, transitions and release when it is not visible.

#include "private.h"

// Milliseconds: how long a size lasts before a larger image is requested, how long a widget is invisible before its image is released,
// and the duration of a transition.
enum { SETTLE_MS = 150, RELEASE_MS = 3000, TRANSITION_MS = 250 };

struct _ImgbrokerPicture {
    GtkWidget parent;

    ImgbrokerPaintable *paintable;
    GdkPaintable *placeholder, *error_paintable;
    char *placeholder_icon, *error_icon, *thumb_hash, *alternative_text;
    // Of `thumb_hash`, or else of the image that was released.
    GdkTexture *blurred;
    gboolean is_own_blur;
    GtkContentFit content_fit;
    ImgbrokerTransition transition;
    gboolean shows_progress;

    // The icon of the placeholder or the error, and the bar.
    GtkWidget *icon, *bar;
    guint settle_timer, release_timer;
    // While it is mapped, the widgets in which it scrolls, and their adjustments.
    GPtrArray *scrollers, *adjustments;
    // Until the next check.
    GdkFrameClock *clock;
    gulong layout_handler;
    // The image or placeholder that was shown before the transition, and the time of its start in microseconds, 0 before its first frame.
    GdkPaintable *faded;
    gint64 fade_start;
    guint fade_tick;
    // The texture whose appearance was noticed, for the transition; not a reference.
    gpointer shown;
};

enum {
    PROP_CONTENT_FIT = VIEW_PROPERTIES,
    PROP_PLACEHOLDER,
    PROP_PLACEHOLDER_ICON,
    PROP_THUMB_HASH,
    PROP_ERROR_PAINTABLE,
    PROP_ERROR_ICON,
    PROP_TRANSITION,
    PROP_SHOW_PROGRESS,
    PROP_ALTERNATIVE_TEXT,
    PROP_PAINTABLE,
    PROPERTIES
};

static GParamSpec *properties[PROPERTIES];

static void view_init(ImgbrokerViewInterface *interface);

G_DEFINE_FINAL_TYPE_WITH_CODE(ImgbrokerPicture, imgbroker_picture, GTK_TYPE_WIDGET,
    G_IMPLEMENT_INTERFACE(IMGBROKER_TYPE_VIEW, view_init))

static ImgbrokerLoadFlags flags_of(ImgbrokerPicture *self) {
    ImgbrokerLoadFlags flags;
    g_object_get(self->paintable, "flags", &flags, NULL);
    return flags;
}

static gboolean has_image(ImgbrokerPicture *self) {
    return imgbroker_paintable_has_image(self->paintable);
}

// Loading

static imgbroker_fit fit_of(ImgbrokerPicture *self) {
    switch (self->content_fit) {
        case GTK_CONTENT_FIT_COVER: return IMGBROKER_COVER;
        case GTK_CONTENT_FIT_FILL: return IMGBROKER_FILL;
        case GTK_CONTENT_FIT_CONTAIN:
        case GTK_CONTENT_FIT_SCALE_DOWN: break;
    }
    return IMGBROKER_INSIDE;
}

// The box in pixels of the screen.
static void get_box(ImgbrokerPicture *self, int *width, int *height, imgbroker_fit *fit) {
    int scale = gtk_widget_get_scale_factor(GTK_WIDGET(self));
    *width = MIN(gtk_widget_get_width(GTK_WIDGET(self)) * scale, 65535);
    *height = MIN(gtk_widget_get_height(GTK_WIDGET(self)) * scale, 65535);
    // Without both sides, nothing can be filled.
    *fit = *width > 0 && *height > 0 ? fit_of(self) : IMGBROKER_INSIDE;
}

static gboolean load_in_box(gpointer data) {
    ImgbrokerPicture *self = data;
    int width, height;
    imgbroker_fit fit;
    self->settle_timer = 0;
    get_box(self, &width, &height, &fit);
    imgbroker_paintable_set_box(self->paintable, width, height, fit);
    return G_SOURCE_REMOVE;
}

static gboolean release_image(gpointer data) {
    ImgbrokerPicture *self = data;
    self->release_timer = 0;
    if (self->blurred == NULL) {
        self->is_own_blur = TRUE;
        char *hash;
        g_object_get(self->paintable, "image-thumb-hash", &hash, NULL);
        self->blurred = imgbroker_thumb_hash_texture(hash);
        g_free(hash);
    }
    imgbroker_paintable_release(self->paintable);
    return G_SOURCE_REMOVE;
}

// How far the widget is from the visible part of its list: GTK maps up to 200 rows of one.
typedef enum { VISIBLE, NEAR, FAR } Distance;

static Distance distance_of(ImgbrokerPicture *self) {
    if (!gtk_widget_get_mapped(GTK_WIDGET(self))) return FAR;
    Distance distance = VISIBLE;
    for (guint index = 0; index < self->scrollers->len; index++) {
        GtkWidget *scroller = g_ptr_array_index(self->scrollers, index);
        graphene_rect_t bounds;
        if (!gtk_widget_compute_bounds(GTK_WIDGET(self), scroller, &bounds)) continue;
        // Also if it has no size yet.
        graphene_rect_inset(&bounds, -1, -1);
        float width = (float)gtk_widget_get_width(scroller), height = (float)gtk_widget_get_height(scroller);
        graphene_rect_t seen = GRAPHENE_RECT_INIT(0, 0, width, height);
        if (graphene_rect_intersection(&bounds, &seen, NULL)) continue;
        graphene_rect_inset(&seen, -width / 2, -height / 2);
        if (!graphene_rect_intersection(&bounds, &seen, NULL)) return FAR;
        distance = NEAR;
    }
    return distance;
}

// Loads, cancels or releases the image, as its place and size require: the first image at once, a larger one when the size has settled.
static void check(ImgbrokerPicture *self) {
    Distance distance = distance_of(self);
    g_clear_handle_id(&self->settle_timer, g_source_remove);
    if (distance == FAR && self->release_timer == 0) self->release_timer = g_timeout_add(RELEASE_MS, release_image, self);
    if (distance != FAR) g_clear_handle_id(&self->release_timer, g_source_remove);
    int width, height;
    imgbroker_fit fit;
    get_box(self, &width, &height, &fit);
    gboolean is_first = !imgbroker_paintable_is_loading(self->paintable) && !has_image(self);
    gboolean is_needed = distance != FAR && !imgbroker_paintable_is_enough(self->paintable, width, height, fit);
    if (is_needed && !is_first) self->settle_timer = g_timeout_add(SETTLE_MS, load_in_box, self);
    // The last calls, because handlers of notifications may release the widget.
    imgbroker_paintable_set_visible(self->paintable, distance == VISIBLE);
    if (distance == FAR) {
        imgbroker_paintable_pause(self->paintable);
    } else if (is_needed && is_first) {
        imgbroker_paintable_set_box(self->paintable, width, height, fit);
    }
}

static void forget_check(ImgbrokerPicture *self) {
    if (self->clock != NULL) g_signal_handler_disconnect(self->clock, self->layout_handler);
    g_clear_object(&self->clock);
}

static void after_layout(ImgbrokerPicture *self) {
    forget_check(self);
    check(self);
}

// Checks after the layout of the next frame, when the place of the widget is known, and before that is drawn.
static void queue_check(ImgbrokerPicture *self) {
    if (self->clock != NULL || !gtk_widget_get_mapped(GTK_WIDGET(self))) return;
    self->clock = g_object_ref(gtk_widget_get_frame_clock(GTK_WIDGET(self)));
    self->layout_handler = g_signal_connect_swapped(self->clock, "layout", G_CALLBACK(after_layout), self);
    gdk_frame_clock_request_phase(self->clock, GDK_FRAME_CLOCK_PHASE_LAYOUT);
}

static void follow(ImgbrokerPicture *self, GtkAdjustment *adjustment) {
    g_signal_connect_swapped(adjustment, "value-changed", G_CALLBACK(queue_check), self);
    g_signal_connect_swapped(adjustment, "changed", G_CALLBACK(queue_check), self);
    g_ptr_array_add(self->adjustments, g_object_ref(adjustment));
}

static void follow_scrollers(ImgbrokerPicture *self) {
    GtkWidget *widget = GTK_WIDGET(self);
    while ((widget = gtk_widget_get_ancestor(widget, GTK_TYPE_SCROLLED_WINDOW)) != NULL) {
        g_ptr_array_add(self->scrollers, widget);
        follow(self, gtk_scrolled_window_get_hadjustment(GTK_SCROLLED_WINDOW(widget)));
        follow(self, gtk_scrolled_window_get_vadjustment(GTK_SCROLLED_WINDOW(widget)));
        widget = gtk_widget_get_parent(widget);
        if (widget == NULL) break;
    }
}

static void forget_scrollers(ImgbrokerPicture *self) {
    for (guint index = 0; index < self->adjustments->len; index++) {
        g_signal_handlers_disconnect_by_data(g_ptr_array_index(self->adjustments, index), self);
    }
    g_ptr_array_set_size(self->adjustments, 0);
    g_ptr_array_set_size(self->scrollers, 0);
}

static void map(GtkWidget *widget) {
    ImgbrokerPicture *self = IMGBROKER_PICTURE(widget);
    GTK_WIDGET_CLASS(imgbroker_picture_parent_class)->map(widget);
    follow_scrollers(self);
    queue_check(self);
}

static void unmap(GtkWidget *widget) {
    ImgbrokerPicture *self = IMGBROKER_PICTURE(widget);
    forget_scrollers(self);
    forget_check(self);
    GTK_WIDGET_CLASS(imgbroker_picture_parent_class)->unmap(widget);
    imgbroker_paintable_set_visible(self->paintable, FALSE);
    g_clear_handle_id(&self->settle_timer, g_source_remove);
    if (self->release_timer == 0) self->release_timer = g_timeout_add(RELEASE_MS, release_image, self);
}

// Placeholders and transitions

// The paintable in place of the image; NULL for none, or for an icon.
static GdkPaintable *substitute(ImgbrokerPicture *self) {
    ImgbrokerState state = imgbroker_view_get_state(IMGBROKER_VIEW(self->paintable));
    if (state == IMGBROKER_STATE_FAILED) {
        if (self->error_paintable != NULL) return self->error_paintable;
        if ((flags_of(self) & IMGBROKER_LOAD_DELAY_PLACEHOLDER) == 0) return NULL;
    } else if ((flags_of(self) & IMGBROKER_LOAD_DELAY_PLACEHOLDER) != 0) {
        return NULL;
    }
    return self->blurred != NULL ? GDK_PAINTABLE(self->blurred) : self->placeholder;
}

static const char *substitute_icon(ImgbrokerPicture *self) {
    ImgbrokerState state = imgbroker_view_get_state(IMGBROKER_VIEW(self->paintable));
    gboolean is_delayed = (flags_of(self) & IMGBROKER_LOAD_DELAY_PLACEHOLDER) != 0;
    if (state == IMGBROKER_STATE_FAILED) return substitute(self) != NULL ? NULL : self->error_icon;
    return is_delayed || substitute(self) != NULL ? NULL : self->placeholder_icon;
}

static void set_class(ImgbrokerPicture *self, const char *class, gboolean is_set) {
    if (is_set) {
        gtk_widget_add_css_class(GTK_WIDGET(self), class);
    } else {
        gtk_widget_remove_css_class(GTK_WIDGET(self), class);
    }
}

// Shows the present state by the children and the CSS classes.
static void update(ImgbrokerPicture *self) {
    ImgbrokerState state = imgbroker_view_get_state(IMGBROKER_VIEW(self->paintable));
    const char *icon = has_image(self) ? NULL : substitute_icon(self);
    if (icon != NULL) gtk_image_set_from_icon_name(GTK_IMAGE(self->icon), icon);
    gtk_widget_set_child_visible(self->icon, icon != NULL);
    double progress;
    g_object_get(self->paintable, "progress", &progress, NULL);
    gtk_progress_bar_set_fraction(GTK_PROGRESS_BAR(self->bar), progress);
    gtk_widget_set_child_visible(self->bar, self->shows_progress && state == IMGBROKER_STATE_LOADING && progress > 0);
    set_class(self, "loading", state == IMGBROKER_STATE_LOADING);
    set_class(self, "failed", state == IMGBROKER_STATE_FAILED);
    gtk_widget_queue_draw(GTK_WIDGET(self));
}

static void end_fade(ImgbrokerPicture *self) {
    g_clear_object(&self->faded);
    if (self->fade_tick != 0) gtk_widget_remove_tick_callback(GTK_WIDGET(self), self->fade_tick);
    self->fade_tick = 0;
}

static double fade_share(ImgbrokerPicture *self, GdkFrameClock *clock) {
    if (self->fade_start == 0) return 0;
    return (double)(gdk_frame_clock_get_frame_time(clock) - self->fade_start) / (TRANSITION_MS * 1000.0);
}

static gboolean advance_fade(GtkWidget *widget, GdkFrameClock *clock, gpointer data) {
    (void)data;
    ImgbrokerPicture *self = IMGBROKER_PICTURE(widget);
    if (self->fade_start == 0) self->fade_start = gdk_frame_clock_get_frame_time(clock);
    gtk_widget_queue_draw(widget);
    if (fade_share(self, clock) < 1) return G_SOURCE_CONTINUE;
    self->fade_tick = 0;
    g_clear_object(&self->faded);
    return G_SOURCE_REMOVE;
}

// Notices the first texture of a source, and begins its transition.
static void texture_changed(ImgbrokerPicture *self) {
    GdkTexture *texture;
    g_object_get(self->paintable, "texture", &texture, NULL);
    gboolean appears = self->shown == NULL && texture != NULL;
    self->shown = texture;
    g_clear_object(&texture);
    if (self->shown == NULL) end_fade(self);
    if (!appears || self->transition == IMGBROKER_TRANSITION_NONE || !gtk_widget_get_mapped(GTK_WIDGET(self))) return;
    gboolean is_forced = (flags_of(self) & IMGBROKER_LOAD_FORCE_TRANSITION) != 0, is_animated;
    g_object_get(gtk_widget_get_settings(GTK_WIDGET(self)), "gtk-enable-animations", &is_animated, NULL);
    if (!is_animated || (!is_forced && !imgbroker_paintable_was_loaded(self->paintable))) return;
    end_fade(self);
    GdkPaintable *before = substitute(self);
    self->faded = before != NULL ? g_object_ref(before) : gdk_paintable_new_empty(1, 1);
    self->fade_start = 0;
    self->fade_tick = gtk_widget_add_tick_callback(GTK_WIDGET(self), advance_fade, NULL, NULL);
}

static void paintable_notified(GObject *paintable, GParamSpec *specification, gpointer data) {
    (void)paintable;
    ImgbrokerPicture *self = data;
    for (guint property = 1; property < VIEW_PROPERTIES; property++) {
        if (!g_str_equal(specification->name, imgbroker_view_property_name(property))) continue;
        if (property == PROP_TEXTURE) texture_changed(self);
        if (property == PROP_IMAGE_THUMB_HASH && self->is_own_blur) {
            g_clear_object(&self->blurred);
            self->is_own_blur = FALSE;
        }
        if (property <= PROP_BYTES) queue_check(self);
        // Placeholders and errors have sizes of their own.
        int width, height;
        if (property == PROP_STATE && !imgbroker_paintable_get_natural_size(self->paintable, &width, &height)) {
            gtk_widget_queue_resize(GTK_WIDGET(self));
        }
        update(self);
        // The last call, because handlers may release the widget.
        g_object_notify(G_OBJECT(self), specification->name);
        return;
    }
}

// Drawing

// Draws a paintable in a box, as the fit says; a small one in its size if that is allowed.
static void draw(GtkSnapshot *snapshot, GdkPaintable *paintable, int width, int height, GtkContentFit fit, int scale) {
    double across = gdk_paintable_get_intrinsic_width(paintable), down = gdk_paintable_get_intrinsic_height(paintable);
    double x_scale = width / across, y_scale = height / down;
    if (across <= 0 || down <= 0) x_scale = y_scale = across = down = 0;
    if (fit == GTK_CONTENT_FIT_COVER) x_scale = y_scale = MAX(x_scale, y_scale);
    if (fit == GTK_CONTENT_FIT_CONTAIN) x_scale = y_scale = MIN(x_scale, y_scale);
    if (fit == GTK_CONTENT_FIT_SCALE_DOWN) x_scale = y_scale = MIN(MIN(x_scale, y_scale), 1.0 / scale);
    double drawn_width = across == 0 ? width : across * x_scale, drawn_height = down == 0 ? height : down * y_scale;
    gtk_snapshot_push_clip(snapshot, &GRAPHENE_RECT_INIT(0, 0, (float)width, (float)height));
    gtk_snapshot_save(snapshot);
    // Whole pixels of the screen, so that an image in its size is not blurred.
    double x = (double)((int)((width - drawn_width) / 2 * scale)) / scale;
    double y = (double)((int)((height - drawn_height) / 2 * scale)) / scale;
    gtk_snapshot_translate(snapshot, &GRAPHENE_POINT_INIT((float)x, (float)y));
    gdk_paintable_snapshot(paintable, GDK_SNAPSHOT(snapshot), drawn_width, drawn_height);
    gtk_snapshot_restore(snapshot);
    gtk_snapshot_pop(snapshot);
}

static void draw_substitute(ImgbrokerPicture *self, GtkSnapshot *snapshot, GdkPaintable *paintable, int width, int height) {
    GtkContentFit fit = GTK_CONTENT_FIT_SCALE_DOWN;
    if (paintable == GDK_PAINTABLE(self->blurred)) fit = self->content_fit == fit ? GTK_CONTENT_FIT_CONTAIN : self->content_fit;
    draw(snapshot, paintable, width, height, fit, 1);
}

static void snapshot(GtkWidget *widget, GtkSnapshot *snapshot) {
    ImgbrokerPicture *self = IMGBROKER_PICTURE(widget);
    int width = gtk_widget_get_width(widget), height = gtk_widget_get_height(widget);
    int scale = gtk_widget_get_scale_factor(widget);
    if (width > 0 && height > 0) {
        if (self->faded != NULL) {
            double share = fade_share(self, gtk_widget_get_frame_clock(widget));
            gtk_snapshot_push_cross_fade(snapshot, CLAMP(share, 0, 1));
            draw_substitute(self, snapshot, self->faded, width, height);
            gtk_snapshot_pop(snapshot);
            draw(snapshot, GDK_PAINTABLE(self->paintable), width, height, self->content_fit, scale);
            gtk_snapshot_pop(snapshot);
        } else if (has_image(self)) {
            draw(snapshot, GDK_PAINTABLE(self->paintable), width, height, self->content_fit, scale);
        } else if (substitute(self) != NULL) {
            draw_substitute(self, snapshot, substitute(self), width, height);
        }
    }
    gtk_widget_snapshot_child(widget, self->icon, snapshot);
    gtk_widget_snapshot_child(widget, self->bar, snapshot);
}

// Sizes

static GtkSizeRequestMode get_request_mode(GtkWidget *widget) {
    (void)widget;
    return GTK_SIZE_REQUEST_HEIGHT_FOR_WIDTH;
}

// The natural size is a requested one, otherwise that of the original, or of the placeholder before; it shrinks to nothing.
static void measure(GtkWidget *widget, GtkOrientation orientation, int for_size, int *minimum, int *natural,
    int *minimum_baseline, int *natural_baseline) {
    (void)minimum_baseline;
    (void)natural_baseline;
    ImgbrokerPicture *self = IMGBROKER_PICTURE(widget);
    int width = 0, height = 0;
    *minimum = *natural = 0;
    GdkPaintable *other = substitute(self);
    if (imgbroker_paintable_get_natural_size(self->paintable, &width, &height) || self->blurred != NULL) {
        // A blurred image has no size of its own.
    } else if (other != NULL) {
        width = gdk_paintable_get_intrinsic_width(other);
        height = gdk_paintable_get_intrinsic_height(other);
    } else if (substitute_icon(self) != NULL) {
        gtk_widget_measure(self->icon, GTK_ORIENTATION_HORIZONTAL, -1, NULL, &width, NULL, NULL);
        height = width;
    }
    int requested_width, requested_height;
    gtk_widget_get_size_request(widget, &requested_width, &requested_height);
    // The other side follows, but the requested one does not grow with the image: else a thumbnail would widen its column.
    if ((orientation == GTK_ORIENTATION_HORIZONTAL ? requested_width : requested_height) > 0) return;
    if (width <= 0 || height <= 0) return;
    double ratio = (double)width / height;
    if (for_size <= 0) for_size = orientation == GTK_ORIENTATION_HORIZONTAL ? requested_height : requested_width;
    *natural = orientation == GTK_ORIENTATION_HORIZONTAL ? width : height;
    if (for_size <= 0 || self->content_fit == GTK_CONTENT_FIT_FILL) return;
    *natural = (int)(orientation == GTK_ORIENTATION_HORIZONTAL ? for_size * ratio + 0.5 : for_size / ratio + 0.5);
}

static void size_allocate(GtkWidget *widget, int width, int height, int baseline) {
    ImgbrokerPicture *self = IMGBROKER_PICTURE(widget);
    int side, least;
    gtk_widget_measure(self->icon, GTK_ORIENTATION_HORIZONTAL, -1, &least, &side, NULL, NULL);
    GtkAllocation middle = {(width - side) / 2, (height - side) / 2, side, side};
    gtk_widget_size_allocate(self->icon, &middle, baseline);
    gtk_widget_measure(self->bar, GTK_ORIENTATION_VERTICAL, -1, &least, &side, NULL, NULL);
    int bar_width;
    gtk_widget_measure(self->bar, GTK_ORIENTATION_HORIZONTAL, -1, &bar_width, NULL, NULL, NULL);
    GtkAllocation bottom = {0, height - side, MAX(width, bar_width), side};
    gtk_widget_size_allocate(self->bar, &bottom, baseline);
    queue_check(self);
}

// ImgbrokerView

static void view_retry(ImgbrokerView *view) {
    imgbroker_view_retry(IMGBROKER_VIEW(IMGBROKER_PICTURE(view)->paintable));
}

static void view_show_image(ImgbrokerView *view) {
    ImgbrokerPicture *self = IMGBROKER_PICTURE(view);
    imgbroker_view_show_image(IMGBROKER_VIEW(self->paintable));
    update(self);
}

static void view_init(ImgbrokerViewInterface *interface) {
    interface->retry = view_retry;
    interface->show_image = view_show_image;
}

// Properties

static char **text_of(ImgbrokerPicture *self, guint property) {
    switch (property) {
        case PROP_PLACEHOLDER_ICON: return &self->placeholder_icon;
        case PROP_ERROR_ICON: return &self->error_icon;
        case PROP_THUMB_HASH: return &self->thumb_hash;
        default: return &self->alternative_text;
    }
}

static void set_property(GObject *object, guint property, const GValue *value, GParamSpec *specification) {
    ImgbrokerPicture *self = IMGBROKER_PICTURE(object);
    if (property < VIEW_PROPERTIES) {
        g_object_set_property(G_OBJECT(self->paintable), imgbroker_view_property_name(property), value);
        queue_check(self);
        return;
    }
    switch (property) {
        case PROP_CONTENT_FIT:
            self->content_fit = (GtkContentFit)g_value_get_enum(value);
            queue_check(self);
            break;
        case PROP_PLACEHOLDER: g_set_object(&self->placeholder, g_value_get_object(value)); break;
        case PROP_ERROR_PAINTABLE: g_set_object(&self->error_paintable, g_value_get_object(value)); break;
        case PROP_PLACEHOLDER_ICON:
        case PROP_ERROR_ICON:
        case PROP_THUMB_HASH:
        case PROP_ALTERNATIVE_TEXT: {
            char **text = text_of(self, property);
            g_free(*text);
            *text = g_value_dup_string(value);
            if (property == PROP_THUMB_HASH) {
                g_clear_object(&self->blurred);
                self->is_own_blur = FALSE;
                self->blurred = imgbroker_thumb_hash_texture(*text);
            } else if (property == PROP_ALTERNATIVE_TEXT) {
                gtk_accessible_update_property(
                    GTK_ACCESSIBLE(self), GTK_ACCESSIBLE_PROPERTY_LABEL, *text != NULL ? *text : "", -1);
            }
            break;
        }
        case PROP_TRANSITION: self->transition = (ImgbrokerTransition)g_value_get_enum(value); break;
        case PROP_SHOW_PROGRESS: self->shows_progress = g_value_get_boolean(value); break;
        default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, property, specification); return;
    }
    update(self);
    gtk_widget_queue_resize(GTK_WIDGET(self));
}

static void get_property(GObject *object, guint property, GValue *value, GParamSpec *specification) {
    ImgbrokerPicture *self = IMGBROKER_PICTURE(object);
    if (property < VIEW_PROPERTIES) {
        g_object_get_property(G_OBJECT(self->paintable), imgbroker_view_property_name(property), value);
        return;
    }
    switch (property) {
        case PROP_CONTENT_FIT: g_value_set_enum(value, (gint)self->content_fit); break;
        case PROP_PLACEHOLDER: g_value_set_object(value, self->placeholder); break;
        case PROP_ERROR_PAINTABLE: g_value_set_object(value, self->error_paintable); break;
        case PROP_PLACEHOLDER_ICON:
        case PROP_ERROR_ICON:
        case PROP_THUMB_HASH:
        case PROP_ALTERNATIVE_TEXT: g_value_set_string(value, *text_of(self, property)); break;
        case PROP_TRANSITION: g_value_set_enum(value, (gint)self->transition); break;
        case PROP_SHOW_PROGRESS: g_value_set_boolean(value, self->shows_progress); break;
        case PROP_PAINTABLE: g_value_set_object(value, self->paintable); break;
        default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, property, specification);
    }
}

static void dispose(GObject *object) {
    ImgbrokerPicture *self = IMGBROKER_PICTURE(object);
    g_clear_handle_id(&self->settle_timer, g_source_remove);
    g_clear_handle_id(&self->release_timer, g_source_remove);
    if (self->icon != NULL) {
        end_fade(self);
        g_signal_handlers_disconnect_by_data(self->paintable, self);
        imgbroker_paintable_release(self->paintable);
    }
    g_clear_pointer(&self->icon, gtk_widget_unparent);
    g_clear_pointer(&self->bar, gtk_widget_unparent);
    G_OBJECT_CLASS(imgbroker_picture_parent_class)->dispose(object);
}

static void finalize(GObject *object) {
    ImgbrokerPicture *self = IMGBROKER_PICTURE(object);
    g_clear_object(&self->paintable);
    g_ptr_array_unref(self->scrollers);
    g_ptr_array_unref(self->adjustments);
    g_clear_object(&self->placeholder);
    g_clear_object(&self->error_paintable);
    g_clear_object(&self->blurred);
    for (guint property = PROP_CONTENT_FIT; property < PROP_PAINTABLE; property++) {
        if (G_IS_PARAM_SPEC_STRING(properties[property])) g_free(*text_of(self, property));
    }
    G_OBJECT_CLASS(imgbroker_picture_parent_class)->finalize(object);
}

static void imgbroker_picture_class_init(ImgbrokerPictureClass *class) {
    GObjectClass *object = G_OBJECT_CLASS(class);
    GtkWidgetClass *widget = GTK_WIDGET_CLASS(class);
    object->set_property = set_property;
    object->get_property = get_property;
    object->dispose = dispose;
    object->finalize = finalize;
    widget->map = map;
    widget->unmap = unmap;
    widget->snapshot = snapshot;
    widget->measure = measure;
    widget->size_allocate = size_allocate;
    widget->get_request_mode = get_request_mode;
    gtk_widget_class_set_css_name(widget, "imgbroker-picture");
    gtk_widget_class_set_accessible_role(widget, GTK_ACCESSIBLE_ROLE_IMG);

    imgbroker_view_override_properties(object);
    const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS;

    /**
     * ImgbrokerPicture:content-fit:
     *
     * How the image is fitted into the widget. %GTK_CONTENT_FIT_COVER is cropped by the broker, around the `position`. Default:
     * %GTK_CONTENT_FIT_CONTAIN.
     */
    properties[PROP_CONTENT_FIT] =
        g_param_spec_enum("content-fit", NULL, NULL, GTK_TYPE_CONTENT_FIT, GTK_CONTENT_FIT_CONTAIN, flags);

    /**
     * ImgbrokerPicture:placeholder:
     *
     * A paintable that is shown while the image is loaded, at most in its own size. Default: `NULL`.
     */
    properties[PROP_PLACEHOLDER] = g_param_spec_object("placeholder", NULL, NULL, GDK_TYPE_PAINTABLE, flags);

    /**
     * ImgbrokerPicture:placeholder-icon-name:
     *
     * The name of an icon that is shown while the image is loaded, if there is no other placeholder. Default: `NULL`.
     */
    properties[PROP_PLACEHOLDER_ICON] = g_param_spec_string("placeholder-icon-name", NULL, NULL, NULL, flags);

    /**
     * ImgbrokerPicture:thumb-hash:
     *
     * A ThumbHash in Base64, of which a blurred image is shown while the image is loaded, as large as that. Default: `NULL`; then an image
     * that was released because it was not visible leaves its own.
     */
    properties[PROP_THUMB_HASH] = g_param_spec_string("thumb-hash", NULL, NULL, NULL, flags);

    /**
     * ImgbrokerPicture:error-paintable:
     *
     * A paintable that is shown if the image cannot be loaded, at most in its own size. Default: `NULL`.
     */
    properties[PROP_ERROR_PAINTABLE] = g_param_spec_object("error-paintable", NULL, NULL, GDK_TYPE_PAINTABLE, flags);

    /**
     * ImgbrokerPicture:error-icon-name:
     *
     * The name of an icon that is shown if the image cannot be loaded and `error-paintable` is `NULL`. Default: `image-missing`.
     */
    properties[PROP_ERROR_ICON] = g_param_spec_string("error-icon-name", NULL, NULL, "image-missing", flags);

    /**
     * ImgbrokerPicture:transition:
     *
     * How the image replaces its placeholder. Default: %IMGBROKER_TRANSITION_NONE.
     */
    properties[PROP_TRANSITION] = g_param_spec_enum(
        "transition", NULL, NULL, IMGBROKER_TYPE_TRANSITION, IMGBROKER_TRANSITION_NONE, flags);

    /**
     * ImgbrokerPicture:show-progress:
     *
     * Whether a bar at the bottom shows the progress of the download. Default: `FALSE`.
     */
    properties[PROP_SHOW_PROGRESS] = g_param_spec_boolean("show-progress", NULL, NULL, FALSE, flags);

    /**
     * ImgbrokerPicture:alternative-text:
     *
     * A description of the image for assistive technology. Default: `NULL`.
     */
    properties[PROP_ALTERNATIVE_TEXT] = g_param_spec_string("alternative-text", NULL, NULL, NULL, flags);

    /**
     * ImgbrokerPicture:paintable:
     *
     * The image as a paintable, for example to drag it.
     */
    properties[PROP_PAINTABLE] = g_param_spec_object(
        "paintable", NULL, NULL, IMGBROKER_TYPE_PAINTABLE, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);

    for (guint property = PROP_CONTENT_FIT; property < PROPERTIES; property++) {
        g_object_class_install_property(object, property, properties[property]);
    }
}

static void imgbroker_picture_init(ImgbrokerPicture *self) {
    self->paintable = g_object_new(IMGBROKER_TYPE_PAINTABLE, NULL);
    imgbroker_paintable_set_managed(self->paintable);
    self->scrollers = g_ptr_array_new();
    self->adjustments = g_ptr_array_new_with_free_func(g_object_unref);
    self->content_fit = GTK_CONTENT_FIT_CONTAIN;
    self->error_icon = g_strdup("image-missing");
    self->icon = gtk_image_new();
    self->bar = gtk_progress_bar_new();
    gtk_image_set_icon_size(GTK_IMAGE(self->icon), GTK_ICON_SIZE_LARGE);
    gtk_widget_set_parent(self->icon, GTK_WIDGET(self));
    gtk_widget_set_parent(self->bar, GTK_WIDGET(self));
    gtk_widget_set_child_visible(self->icon, FALSE);
    gtk_widget_set_child_visible(self->bar, FALSE);
    gtk_widget_set_overflow(GTK_WIDGET(self), GTK_OVERFLOW_HIDDEN);
    g_signal_connect(self->paintable, "notify", G_CALLBACK(paintable_notified), self);
    g_signal_connect_swapped(
        self->paintable, "invalidate-contents", G_CALLBACK(gtk_widget_queue_draw), self);
    g_signal_connect_swapped(self->paintable, "invalidate-size", G_CALLBACK(gtk_widget_queue_resize), self);
    g_signal_connect(self, "notify::scale-factor", G_CALLBACK(queue_check), NULL);
}

/**
 * imgbroker_picture_new:
 *
 * Creates a widget without an image.
 *
 * Returns: the widget
 */
GtkWidget *imgbroker_picture_new(void) {
    return g_object_new(IMGBROKER_TYPE_PICTURE, NULL);
}

/**
 * imgbroker_picture_new_for_uri:
 * @uri: (nullable): a URL, or the path of a file
 *
 * Creates a widget that shows an image.
 *
 * Returns: the widget
 */
GtkWidget *imgbroker_picture_new_for_uri(const char *uri) {
    return g_object_new(IMGBROKER_TYPE_PICTURE, "uri", uri, NULL);
}

/**
 * imgbroker_picture_new_for_file:
 * @file: (nullable): a file
 *
 * Creates a widget that shows an image.
 *
 * Returns: the widget
 */
GtkWidget *imgbroker_picture_new_for_file(GFile *file) {
    return g_object_new(IMGBROKER_TYPE_PICTURE, "file", file, NULL);
}
