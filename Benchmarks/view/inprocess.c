// The image as a GtkPicture, decoded in the process: by gdk-pixbuf in threads, in the size of the row, in the pixels of the screen.

#include "view.h"

typedef struct {
    char *path;
    int scale;
} Job;

static void free_job(gpointer data) {
    Job *job = data;
    g_free(job->path);
    g_free(job);
}

static void decode(GTask *task, gpointer source, gpointer data, GCancellable *cancellable) {
    (void)source, (void)cancellable;
    Job *job = data;
    GError *error = NULL;
    if (g_task_return_error_if_cancelled(task)) return;
    GdkPixbuf *pixels = gdk_pixbuf_new_from_file_at_scale(
        job->path, PICTURE_WIDTH * job->scale, PICTURE_HEIGHT * job->scale, TRUE, &error);
    if (pixels == NULL) {
        g_task_return_error(task, error);
        return;
    }
    g_task_return_pointer(task, gdk_texture_new_for_pixbuf(pixels), g_object_unref);
    g_object_unref(pixels);
}

static void show(GObject *picture, GAsyncResult *result, gpointer data) {
    (void)data;
    GError *error = NULL;
    GdkTexture *texture = g_task_propagate_pointer(G_TASK(result), &error);
    // The row of a cancelled task may show another file by now.
    if (texture != NULL) gtk_picture_set_paintable(GTK_PICTURE(picture), GDK_PAINTABLE(texture));
    g_clear_object(&texture);
    g_clear_error(&error);
}

GtkWidget *picture_new(void) {
    return gtk_picture_new();
}

void picture_load(GtkWidget *picture, const char *path) {
    GCancellable *last = g_object_get_data(G_OBJECT(picture), "loading");
    if (last != NULL) g_cancellable_cancel(last);
    gtk_picture_set_paintable(GTK_PICTURE(picture), NULL);
    g_object_set_data(G_OBJECT(picture), "loading", NULL);
    if (path == NULL) return;
    GCancellable *cancellable = g_cancellable_new();
    g_object_set_data_full(G_OBJECT(picture), "loading", cancellable, g_object_unref);
    GTask *task = g_task_new(picture, cancellable, show, NULL);
    Job *job = g_new(Job, 1);
    *job = (Job){g_strdup(path), gtk_widget_get_scale_factor(picture)};
    g_task_set_task_data(task, job, free_job);
    g_task_run_in_thread(task, decode);
    g_object_unref(task);
}

gboolean picture_is_shown(GtkWidget *picture) {
    return gtk_picture_get_paintable(GTK_PICTURE(picture)) != NULL;
}
