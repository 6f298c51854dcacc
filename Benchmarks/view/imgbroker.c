// The image as an ImgbrokerPicture.

#include "view.h"

#include <imgbroker-gtk.h>

GtkWidget *picture_new(void) {
    return imgbroker_picture_new();
}

void picture_load(GtkWidget *picture, const char *path) {
    imgbroker_view_set_uri(IMGBROKER_VIEW(picture), path);
}

gboolean picture_is_shown(GtkWidget *picture) {
    return imgbroker_view_get_state(IMGBROKER_VIEW(picture)) == IMGBROKER_STATE_READY;
}
