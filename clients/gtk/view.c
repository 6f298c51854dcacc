// The interface of pictures and paintables, and the enumerations.

#include "private.h"

G_DEFINE_ENUM_TYPE(ImgbrokerState, imgbroker_state, G_DEFINE_ENUM_VALUE(IMGBROKER_STATE_EMPTY, "empty"),
    G_DEFINE_ENUM_VALUE(IMGBROKER_STATE_LOADING, "loading"), G_DEFINE_ENUM_VALUE(IMGBROKER_STATE_READY, "ready"),
    G_DEFINE_ENUM_VALUE(IMGBROKER_STATE_FAILED, "failed"))

G_DEFINE_ENUM_TYPE(ImgbrokerLoadPriority, imgbroker_load_priority, G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_PRIORITY_AUTO, "auto"),
    G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_PRIORITY_LOW, "low"), G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_PRIORITY_NORMAL, "normal"),
    G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_PRIORITY_HIGH, "high"))

G_DEFINE_FLAGS_TYPE(ImgbrokerLoadFlags, imgbroker_load_flags,
    G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_REFRESH_CACHED, "refresh-cached"),
    G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_RETRY_FAILED, "retry-failed"),
    G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_PROGRESSIVE, "progressive"),
    G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_FROM_CACHE_ONLY, "from-cache-only"),
    G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_FROM_ORIGIN_ONLY, "from-origin-only"),
    G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_MEMORY_ONLY, "memory-only"), G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_COOKIES, "cookies"),
    G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_INVALID_CERTIFICATES, "invalid-certificates"),
    G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_SCALE_DOWN, "scale-down"), G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_CONTINUE, "continue"),
    G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_ACCEPT_DAMAGE, "accept-damage"),
    G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_DELAY_PLACEHOLDER, "delay-placeholder"),
    G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_AVOID_AUTO_SHOW, "avoid-auto-show"),
    G_DEFINE_ENUM_VALUE(IMGBROKER_LOAD_FORCE_TRANSITION, "force-transition"))

G_DEFINE_ENUM_TYPE(ImgbrokerTransition, imgbroker_transition, G_DEFINE_ENUM_VALUE(IMGBROKER_TRANSITION_NONE, "none"),
    G_DEFINE_ENUM_VALUE(IMGBROKER_TRANSITION_CROSSFADE, "crossfade"))

GQuark imgbroker_gtk_error_domain(void) {
    return g_quark_from_static_string("imgbroker-gtk-error");
}

G_DEFINE_INTERFACE(ImgbrokerView, imgbroker_view, G_TYPE_OBJECT)

static const char *const property_names[VIEW_PROPERTIES] = {
    [PROP_URI] = "uri",
    [PROP_FILE] = "file",
    [PROP_BYTES] = "bytes",
    [PROP_CROP] = "crop",
    [PROP_POSITION] = "position",
    [PROP_STEPS] = "steps",
    [PROP_PRESET] = "preset",
    [PROP_FLAGS] = "flags",
    [PROP_PRIORITY] = "priority",
    [PROP_PLAYING] = "playing",
    [PROP_STATE] = "state",
    [PROP_PROGRESS] = "progress",
    [PROP_ERROR] = "error",
    [PROP_ERROR_CODE] = "error-code",
    [PROP_ERROR_MESSAGE] = "error-message",
    [PROP_TEXTURE] = "texture",
    [PROP_IMAGE_THUMB_HASH] = "image-thumb-hash",
};

const char *imgbroker_view_property_name(guint property) {
    return property_names[property];
}

void imgbroker_view_override_properties(GObjectClass *class) {
    for (guint property = 1; property < VIEW_PROPERTIES; property++) {
        g_object_class_override_property(class, property, property_names[property]);
    }
}

static void imgbroker_view_default_init(ImgbrokerViewInterface *interface) {
    const GParamFlags writable = G_PARAM_READWRITE | G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS;
    const GParamFlags readable = G_PARAM_READABLE | G_PARAM_EXPLICIT_NOTIFY | G_PARAM_STATIC_STRINGS;

    /**
     * ImgbrokerView:uri:
     *
     * The URL of the image (`https:`, `http:`, `data:`, `file:`), or, without a scheme, the path of a file. Replaces `file` and `bytes`.
     * Default: `NULL`.
     */
    g_object_interface_install_property(interface, g_param_spec_string("uri", NULL, NULL, NULL, writable));

    /**
     * ImgbrokerView:file:
     *
     * A local file, which this process opens; another one is loaded by its URI. Replaces `uri` and `bytes`. Default: `NULL`.
     */
    g_object_interface_install_property(interface, g_param_spec_object("file", NULL, NULL, G_TYPE_FILE, writable));

    /**
     * ImgbrokerView:bytes:
     *
     * The bytes of an encoded image. Replaces `uri` and `file`. Default: `NULL`.
     */
    g_object_interface_install_property(interface, g_param_spec_boxed("bytes", NULL, NULL, G_TYPE_BYTES, writable));

    /**
     * ImgbrokerView:crop:
     *
     * The part of the image to show, as `X,Y,WIDTH,HEIGHT` in its own pixels. Default: `NULL`, all of it.
     */
    g_object_interface_install_property(interface, g_param_spec_string("crop", NULL, NULL, NULL, writable));

    /**
     * ImgbrokerView:position:
     *
     * The part that %GTK_CONTENT_FIT_COVER keeps: a name such as `top-left`, `entropy`, `attention`, or the shares of a focal point as
     * `0.25,0.75`. Default: `NULL`, the middle.
     */
    g_object_interface_install_property(interface, g_param_spec_string("position", NULL, NULL, NULL, writable));

    /**
     * ImgbrokerView:steps:
     *
     * Steps that follow scaling, in the broker's spelling: `blur:sigma=4 round:circle`. Default: `NULL`, none.
     */
    g_object_interface_install_property(interface, g_param_spec_string("steps", NULL, NULL, NULL, writable));

    /**
     * ImgbrokerView:preset:
     *
     * The name of a variant in the broker's configuration, in place of the size, `crop`, `position` and `steps`. Default: `NULL`, none.
     */
    g_object_interface_install_property(interface, g_param_spec_string("preset", NULL, NULL, NULL, writable));

    /**
     * ImgbrokerView:flags:
     *
     * How the image is loaded. Default: none.
     */
    g_object_interface_install_property(
        interface, g_param_spec_flags("flags", NULL, NULL, IMGBROKER_TYPE_LOAD_FLAGS, 0, writable));

    /**
     * ImgbrokerView:priority:
     *
     * The order in which images are loaded; it changes a running request. Default: %IMGBROKER_LOAD_PRIORITY_AUTO.
     */
    g_object_interface_install_property(interface,
        g_param_spec_enum("priority", NULL, NULL, IMGBROKER_TYPE_LOAD_PRIORITY, IMGBROKER_LOAD_PRIORITY_AUTO, writable));

    /**
     * ImgbrokerView:playing:
     *
     * Whether an animation plays; it stands at its frame otherwise. Default: `TRUE`.
     */
    g_object_interface_install_property(interface, g_param_spec_boolean("playing", NULL, NULL, TRUE, writable));

    /**
     * ImgbrokerView:state:
     *
     * The state of the view.
     */
    g_object_interface_install_property(
        interface, g_param_spec_enum("state", NULL, NULL, IMGBROKER_TYPE_STATE, IMGBROKER_STATE_EMPTY, readable));

    /**
     * ImgbrokerView:progress:
     *
     * The share of the original's bytes that have arrived, 0 … 1; 0 while their number is unknown, 1 when the image is ready.
     */
    g_object_interface_install_property(interface, g_param_spec_double("progress", NULL, NULL, 0, 1, 0, readable));

    /**
     * ImgbrokerView:error:
     *
     * The last failure, in the domain of [func@gtk_error_domain]; `NULL` after a success. Without an image, the state is
     * %IMGBROKER_STATE_FAILED; an image in another size, or one that could not be confirmed, stays.
     */
    g_object_interface_install_property(interface, g_param_spec_boxed("error", NULL, NULL, G_TYPE_ERROR, readable));

    /**
     * ImgbrokerView:error-code:
     *
     * The protocol's name of the error, such as `http-status`; `NULL` without an error.
     */
    g_object_interface_install_property(interface, g_param_spec_string("error-code", NULL, NULL, NULL, readable));

    /**
     * ImgbrokerView:error-message:
     *
     * One sentence about the error, for a label; `NULL` without an error.
     */
    g_object_interface_install_property(interface, g_param_spec_string("error-message", NULL, NULL, NULL, readable));

    /**
     * ImgbrokerView:texture:
     *
     * The loaded image, or the present frame of an animation; `NULL` while there is none. It shares the memory of the broker, and holds its
     * lease: it is not copied, and stays in memory until it is released.
     */
    g_object_interface_install_property(interface, g_param_spec_object("texture", NULL, NULL, GDK_TYPE_TEXTURE, readable));

    /**
     * ImgbrokerView:image-thumb-hash:
     *
     * The ThumbHash of the loaded image in Base64, for [property@Picture:thumb-hash] at another time; `NULL` if it is unknown.
     */
    g_object_interface_install_property(interface, g_param_spec_string("image-thumb-hash", NULL, NULL, NULL, readable));
}

/**
 * imgbroker_view_set_uri:
 * @view: a view
 * @uri: (nullable): a URL, or the path of a file; `NULL` removes the source
 *
 * Sets the source of the image. The running request is cancelled, and the last image removed.
 */
void imgbroker_view_set_uri(ImgbrokerView *view, const char *uri) {
    g_return_if_fail(IMGBROKER_IS_VIEW(view));
    g_object_set(view, "uri", uri, NULL);
    if (uri == NULL) g_object_set(view, "file", NULL, "bytes", NULL, NULL);
}

/**
 * imgbroker_view_set_file:
 * @view: a view
 * @file: (nullable): a file; `NULL` removes the source
 *
 * Sets the source of the image. The running request is cancelled, and the last image removed.
 */
void imgbroker_view_set_file(ImgbrokerView *view, GFile *file) {
    g_return_if_fail(IMGBROKER_IS_VIEW(view) && (file == NULL || G_IS_FILE(file)));
    if (file == NULL) imgbroker_view_set_uri(view, NULL);
    g_object_set(view, "file", file, NULL);
}

/**
 * imgbroker_view_set_bytes:
 * @view: a view
 * @bytes: (nullable): an encoded image; `NULL` removes the source
 *
 * Sets the source of the image. The running request is cancelled, and the last image removed.
 */
void imgbroker_view_set_bytes(ImgbrokerView *view, GBytes *bytes) {
    g_return_if_fail(IMGBROKER_IS_VIEW(view));
    if (bytes == NULL) imgbroker_view_set_uri(view, NULL);
    g_object_set(view, "bytes", bytes, NULL);
}

/**
 * imgbroker_view_get_state:
 * @view: a view
 *
 * Gets the state of the view.
 *
 * Returns: the state
 */
ImgbrokerState imgbroker_view_get_state(ImgbrokerView *view) {
    g_return_val_if_fail(IMGBROKER_IS_VIEW(view), IMGBROKER_STATE_EMPTY);
    ImgbrokerState state;
    g_object_get(view, "state", &state, NULL);
    return state;
}

/**
 * imgbroker_view_dup_error:
 * @view: a view
 *
 * Copies the last failure.
 *
 * Returns: (transfer full) (nullable): the failure, to be freed with [method@GLib.Error.free]
 */
GError *imgbroker_view_dup_error(ImgbrokerView *view) {
    g_return_val_if_fail(IMGBROKER_IS_VIEW(view), NULL);
    GError *error;
    g_object_get(view, "error", &error, NULL);
    return error;
}

/**
 * imgbroker_view_retry:
 * @view: a view
 *
 * Loads the image again after a failure, even if the broker would not try its URL yet.
 */
void imgbroker_view_retry(ImgbrokerView *view) {
    g_return_if_fail(IMGBROKER_IS_VIEW(view));
    IMGBROKER_VIEW_GET_IFACE(view)->retry(view);
}

/**
 * imgbroker_view_show_image:
 * @view: a view
 *
 * Shows the image of the present source in spite of %IMGBROKER_LOAD_AVOID_AUTO_SHOW.
 */
void imgbroker_view_show_image(ImgbrokerView *view) {
    g_return_if_fail(IMGBROKER_IS_VIEW(view));
    IMGBROKER_VIEW_GET_IFACE(view)->show_image(view);
}
