// The widget of an image, as gtk.c uses it.

#ifndef VIEW_H
#define VIEW_H

#include <gtk/gtk.h>

enum { PICTURE_WIDTH = 160, PICTURE_HEIGHT = 120 };

GtkWidget *picture_new(void);

// Loads a file, or removes the image and cancels its loading if `path` is NULL.
void picture_load(GtkWidget *picture, const char *path);

gboolean picture_is_shown(GtkWidget *picture);

#endif
