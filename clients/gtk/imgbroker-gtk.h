// Images of imgbroker, a shared image cache for all processes of a Linux machine, in GTK 4.
//
// `ImgbrokerPicture` is a widget that loads and shows an image; `ImgbrokerPaintable` does so for any widget that shows paintables. Both
// have the properties and methods of `ImgbrokerView`. Everything is used by the thread of GTK alone, and never blocks it.

#ifndef IMGBROKER_GTK_H
#define IMGBROKER_GTK_H

#include <gtk/gtk.h>

G_BEGIN_DECLS

#if defined(__GNUC__)
#define IMGBROKER_GTK_API __attribute__((visibility("default")))
#else
#define IMGBROKER_GTK_API
#endif

/**
 * ImgbrokerState:
 * @IMGBROKER_STATE_EMPTY: There is no source, or its image was released because it is not visible.
 * @IMGBROKER_STATE_LOADING: The image is requested; a placeholder, a partial image or the image of another size is shown.
 * @IMGBROKER_STATE_READY: The image is shown.
 * @IMGBROKER_STATE_FAILED: The image could not be loaded: [property@View:error].
 *
 * The state of a view.
 */
typedef enum {
    IMGBROKER_STATE_EMPTY,
    IMGBROKER_STATE_LOADING,
    IMGBROKER_STATE_READY,
    IMGBROKER_STATE_FAILED
} ImgbrokerState;

IMGBROKER_GTK_API GType imgbroker_state_get_type(void);
#define IMGBROKER_TYPE_STATE (imgbroker_state_get_type())

/**
 * ImgbrokerLoadPriority:
 * @IMGBROKER_LOAD_PRIORITY_AUTO: High while the widget is mapped, otherwise low; of a paintable, normal.
 * @IMGBROKER_LOAD_PRIORITY_LOW: After all others.
 * @IMGBROKER_LOAD_PRIORITY_NORMAL: That of other programs.
 * @IMGBROKER_LOAD_PRIORITY_HIGH: Before all others of this user.
 *
 * The order in which the broker loads images.
 */
typedef enum {
    IMGBROKER_LOAD_PRIORITY_AUTO,
    IMGBROKER_LOAD_PRIORITY_LOW,
    IMGBROKER_LOAD_PRIORITY_NORMAL,
    IMGBROKER_LOAD_PRIORITY_HIGH
} ImgbrokerLoadPriority;

IMGBROKER_GTK_API GType imgbroker_load_priority_get_type(void);
#define IMGBROKER_TYPE_LOAD_PRIORITY (imgbroker_load_priority_get_type())

/**
 * ImgbrokerLoadFlags:
 * @IMGBROKER_LOAD_REFRESH_CACHED: Show the cached image, ask the origin for a newer one, and show that.
 * @IMGBROKER_LOAD_RETRY_FAILED: Load a URL that failed a moment ago, which is an error otherwise.
 * @IMGBROKER_LOAD_PROGRESSIVE: Show partial images while a large one is downloaded.
 * @IMGBROKER_LOAD_FROM_CACHE_ONLY: Never contact the origin; an image that is not cached is an error.
 * @IMGBROKER_LOAD_FROM_ORIGIN_ONLY: Ignore the cached image, and replace it.
 * @IMGBROKER_LOAD_MEMORY_ONLY: Do not store the image on disk.
 * @IMGBROKER_LOAD_COOKIES: Use the user's cookies.
 * @IMGBROKER_LOAD_INVALID_CERTIFICATES: Accept origins whose certificate is not valid.
 * @IMGBROKER_LOAD_SCALE_DOWN: Reduce an image over the broker's limit to that limit.
 * @IMGBROKER_LOAD_CONTINUE: A download whose view has another source now goes on for the cache.
 * @IMGBROKER_LOAD_ACCEPT_DAMAGE: Show as much of a damaged image as possible.
 * @IMGBROKER_LOAD_DELAY_PLACEHOLDER: Show the placeholder only after a failure.
 * @IMGBROKER_LOAD_AVOID_AUTO_SHOW: Show a loaded image at [method@View.show_image], not before.
 * @IMGBROKER_LOAD_FORCE_TRANSITION: Also use the transition for images that were in memory.
 *
 * How an image is loaded.
 */
typedef enum {
    IMGBROKER_LOAD_REFRESH_CACHED = 1 << 0,
    IMGBROKER_LOAD_RETRY_FAILED = 1 << 1,
    IMGBROKER_LOAD_PROGRESSIVE = 1 << 2,
    IMGBROKER_LOAD_FROM_CACHE_ONLY = 1 << 3,
    IMGBROKER_LOAD_FROM_ORIGIN_ONLY = 1 << 4,
    IMGBROKER_LOAD_MEMORY_ONLY = 1 << 5,
    IMGBROKER_LOAD_COOKIES = 1 << 6,
    IMGBROKER_LOAD_INVALID_CERTIFICATES = 1 << 7,
    IMGBROKER_LOAD_SCALE_DOWN = 1 << 8,
    IMGBROKER_LOAD_CONTINUE = 1 << 9,
    IMGBROKER_LOAD_ACCEPT_DAMAGE = 1 << 10,
    IMGBROKER_LOAD_DELAY_PLACEHOLDER = 1 << 11,
    IMGBROKER_LOAD_AVOID_AUTO_SHOW = 1 << 12,
    IMGBROKER_LOAD_FORCE_TRANSITION = 1 << 13
} ImgbrokerLoadFlags;

IMGBROKER_GTK_API GType imgbroker_load_flags_get_type(void);
#define IMGBROKER_TYPE_LOAD_FLAGS (imgbroker_load_flags_get_type())

/**
 * ImgbrokerTransition:
 * @IMGBROKER_TRANSITION_NONE: The image replaces the placeholder at once.
 * @IMGBROKER_TRANSITION_CROSSFADE: The placeholder fades into the image within 250 ms, unless the image was in memory.
 *
 * How an image replaces its placeholder.
 */
typedef enum {
    IMGBROKER_TRANSITION_NONE,
    IMGBROKER_TRANSITION_CROSSFADE
} ImgbrokerTransition;

IMGBROKER_GTK_API GType imgbroker_transition_get_type(void);
#define IMGBROKER_TYPE_TRANSITION (imgbroker_transition_get_type())

/**
 * imgbroker_gtk_error_domain:
 *
 * Gets the domain of [property@View:error]. Its codes are the numbers of `imgbroker_code` in the C client; their names are the
 * protocol's ([property@View:error-code]).
 *
 * Returns: the domain
 */
IMGBROKER_GTK_API GQuark imgbroker_gtk_error_domain(void);
#define IMGBROKER_GTK_ERROR (imgbroker_gtk_error_domain())

/**
 * ImgbrokerView:
 *
 * The source of an image, the way it is loaded, and its state: the common part of [class@Picture] and [class@Paintable].
 */
#define IMGBROKER_TYPE_VIEW (imgbroker_view_get_type())
IMGBROKER_GTK_API G_DECLARE_INTERFACE(ImgbrokerView, imgbroker_view, IMGBROKER, VIEW, GObject)

/**
 * ImgbrokerViewInterface:
 * @retry: Implements [method@View.retry].
 * @show_image: Implements [method@View.show_image].
 *
 * The virtual functions of [iface@View].
 */
struct _ImgbrokerViewInterface {
    GTypeInterface parent;

    void (*retry)(ImgbrokerView *view);
    void (*show_image)(ImgbrokerView *view);
};

IMGBROKER_GTK_API void imgbroker_view_set_uri(ImgbrokerView *view, const char *uri);
IMGBROKER_GTK_API void imgbroker_view_set_file(ImgbrokerView *view, GFile *file);
IMGBROKER_GTK_API void imgbroker_view_set_bytes(ImgbrokerView *view, GBytes *bytes);
IMGBROKER_GTK_API ImgbrokerState imgbroker_view_get_state(ImgbrokerView *view);
IMGBROKER_GTK_API GError *imgbroker_view_dup_error(ImgbrokerView *view);
IMGBROKER_GTK_API void imgbroker_view_retry(ImgbrokerView *view);
IMGBROKER_GTK_API void imgbroker_view_show_image(ImgbrokerView *view);

/**
 * ImgbrokerPaintable:
 *
 * A paintable that loads its image in the size of [property@Paintable:width] and [property@Paintable:height]. An animation plays while
 * the paintable is drawn.
 */
#define IMGBROKER_TYPE_PAINTABLE (imgbroker_paintable_get_type())
IMGBROKER_GTK_API G_DECLARE_FINAL_TYPE(ImgbrokerPaintable, imgbroker_paintable, IMGBROKER, PAINTABLE, GObject)

IMGBROKER_GTK_API ImgbrokerPaintable *imgbroker_paintable_new(const char *uri, guint width, guint height);

/**
 * ImgbrokerPicture:
 *
 * A widget that loads its image in the size that it is allocated, times the scale factor.
 *
 * A new source cancels the running request and removes the image of the last one. When the widget grows beyond its image and keeps its
 * new size for 150 ms, the image is requested again, and the present one is shown meanwhile. A widget that is not mapped for 3 seconds
 * releases its image, and loads it again when it is mapped.
 *
 * The widget has the CSS name `imgbroker-picture`, and the classes `loading` and `failed` in these states.
 */
#define IMGBROKER_TYPE_PICTURE (imgbroker_picture_get_type())
IMGBROKER_GTK_API G_DECLARE_FINAL_TYPE(ImgbrokerPicture, imgbroker_picture, IMGBROKER, PICTURE, GtkWidget)

IMGBROKER_GTK_API GtkWidget *imgbroker_picture_new(void);
IMGBROKER_GTK_API GtkWidget *imgbroker_picture_new_for_uri(const char *uri);
IMGBROKER_GTK_API GtkWidget *imgbroker_picture_new_for_file(GFile *file);

G_END_DECLS

#endif
