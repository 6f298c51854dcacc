// What the files of this library share: the properties of a view, requests, and the paintable as its widget sees it.

#ifndef IMGBROKER_GTK_PRIVATE_H
#define IMGBROKER_GTK_PRIVATE_H

#include "imgbroker-gtk.h"

#include <imgbroker.h>

// The properties of the interface, in the order of their identifiers in both classes.
enum {
    PROP_URI = 1,
    PROP_FILE,
    PROP_BYTES,
    PROP_CROP,
    PROP_POSITION,
    PROP_STEPS,
    PROP_PRESET,
    PROP_FLAGS,
    PROP_PRIORITY,
    PROP_PLAYING,
    PROP_STATE,
    PROP_PROGRESS,
    PROP_ERROR,
    PROP_ERROR_CODE,
    PROP_ERROR_MESSAGE,
    PROP_TEXTURE,
    PROP_IMAGE_THUMB_HASH,
    VIEW_PROPERTIES
};

// The name of a property of the interface.
const char *imgbroker_view_property_name(guint property);

// Declares the properties of the interface in a class that implements it.
void imgbroker_view_override_properties(GObjectClass *class);

// Requests

// A request whose replies go to its owner until that abandons it.
typedef struct Request Request;

// Takes a reply, of which it may keep the image by setting it to NULL. After a final one, the request is gone.
typedef void (*TakeReply)(gpointer owner, imgbroker_reply *reply);

// Sends a request; NULL and an error if that is not possible.
Request *imgbroker_request_send(const imgbroker_request *message, TakeReply take, gpointer owner, imgbroker_error *error);

// Cancels a request, or lets its download go on for the cache. The owner gets no further reply. NULL is ignored.
void imgbroker_request_abandon(Request *request, gboolean continues);

void imgbroker_request_set_priority(Request *request, imgbroker_priority priority);

// The image of a URL that this process has kept, if it is still valid; otherwise NULL.
imgbroker_image *imgbroker_request_kept(const char *url, const imgbroker_options *options);

// The paintable of a widget

// Lets a widget decide when and in which size the image is loaded. Nothing is loaded without a box, which each change of the source
// takes away.
void imgbroker_paintable_set_managed(ImgbrokerPaintable *paintable);

// Loads the image for a box in pixels, unless the present image or request is good enough; 0 for a side without a limit.
void imgbroker_paintable_set_box(ImgbrokerPaintable *paintable, int width, int height, imgbroker_fit fit);

// Whether the image, or the one that is requested, is good enough for a box.
gboolean imgbroker_paintable_is_enough(ImgbrokerPaintable *paintable, int width, int height, imgbroker_fit fit);

// Notes whether the widget is visible, which determines the priority.
void imgbroker_paintable_set_visible(ImgbrokerPaintable *paintable, gboolean is_visible);

// Cancels the request, and keeps the image.
void imgbroker_paintable_pause(ImgbrokerPaintable *paintable);

// Releases the image and cancels its request.
void imgbroker_paintable_release(ImgbrokerPaintable *paintable);

// Whether there is an image, and the program lets it be shown.
gboolean imgbroker_paintable_has_image(ImgbrokerPaintable *paintable);

gboolean imgbroker_paintable_is_loading(ImgbrokerPaintable *paintable);

// The size of the original in pixels, or of the image where the original has another aspect ratio; also after the image was released.
// False while it is unknown.
gboolean imgbroker_paintable_get_natural_size(ImgbrokerPaintable *paintable, int *width, int *height);

// Whether the shown image was neither in memory nor kept.
gboolean imgbroker_paintable_was_loaded(ImgbrokerPaintable *paintable);

// A texture of the pixels of a ThumbHash; NULL if the text is none.
GdkTexture *imgbroker_thumb_hash_texture(const char *hash);

#endif
