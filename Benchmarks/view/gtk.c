// A GtkListView whose rows are an image and a label, for `make bench BENCH=view`. The widget of the image is in imgbroker.c or inprocess.c.
//
// usage: PROGRAM FOLDER COUNT MILLISECONDS
//
// Shows the files 0, 1, 2 … of a folder, and prints "first-screen" when all visible rows have drawn their image. After a line on standard
// input it scrolls by one screen each MILLISECONDS, waits for nothing, and prints "scrolled" with the number of rows whose image was
// shown before they were scrolled away. It exits at the end of its input.

#include "view.h"

#include <glib-unix.h>
#include <stdlib.h>
#include <unistd.h>

enum { WIDTH = 480, HEIGHT = 1080 };

static GtkAdjustment *adjustment;
static GPtrArray *items;
static guint count, step;
// Whether a row has shown its image.
static gboolean *was_shown;

// The number of visible rows, and of those that show their image.
static guint count_visible(guint *ready) {
    double height = gtk_adjustment_get_upper(adjustment) / count;
    double top = gtk_adjustment_get_value(adjustment), bottom = top + gtk_adjustment_get_page_size(adjustment);
    guint visible = 0;
    *ready = 0;
    for (guint index = 0; index < items->len; index++) {
        GtkListItem *item = g_ptr_array_index(items, index);
        guint position = gtk_list_item_get_position(item);
        if (position == GTK_INVALID_LIST_POSITION) continue;
        if ((position + 0.5) * height < top || (position + 0.5) * height > bottom) continue;
        visible++;
        if (!picture_is_shown(gtk_widget_get_first_child(gtk_list_item_get_child(item)))) continue;
        was_shown[position] = TRUE;
        (*ready)++;
    }
    return visible;
}

static void setup(GtkSignalListItemFactory *factory, GtkListItem *item, gpointer data) {
    (void)factory, (void)data;
    GtkWidget *row = gtk_box_new(GTK_ORIENTATION_HORIZONTAL, 12), *picture = picture_new();
    gtk_widget_set_size_request(picture, PICTURE_WIDTH, PICTURE_HEIGHT);
    gtk_box_append(GTK_BOX(row), picture);
    gtk_box_append(GTK_BOX(row), gtk_label_new(NULL));
    gtk_list_item_set_child(item, row);
    g_ptr_array_add(items, item);
}

static void bind(GtkSignalListItemFactory *factory, GtkListItem *item, gpointer data) {
    (void)factory, (void)data;
    GtkWidget *picture = gtk_widget_get_first_child(gtk_list_item_get_child(item));
    const char *path = gtk_string_object_get_string(gtk_list_item_get_item(item));
    picture_load(picture, path);
    gtk_label_set_text(GTK_LABEL(gtk_widget_get_next_sibling(picture)), path);
}

static void unbind(GtkSignalListItemFactory *factory, GtkListItem *item, gpointer data) {
    (void)factory, (void)data;
    picture_load(gtk_widget_get_first_child(gtk_list_item_get_child(item)), NULL);
}

static void teardown(GtkSignalListItemFactory *factory, GtkListItem *item, gpointer data) {
    (void)factory, (void)data;
    g_ptr_array_remove_fast(items, item);
}

static gboolean scroll(gpointer data) {
    (void)data;
    guint ready, shown = 0;
    count_visible(&ready);
    double value = gtk_adjustment_get_value(adjustment), page = gtk_adjustment_get_page_size(adjustment);
    if (value + page >= gtk_adjustment_get_upper(adjustment) - 1) {
        for (guint position = 0; position < count; position++) shown += was_shown[position] ? 1 : 0;
        g_print("scrolled %u\n", shown);
        return G_SOURCE_REMOVE;
    }
    gtk_adjustment_set_value(adjustment, value + page);
    return G_SOURCE_CONTINUE;
}

static gboolean read_line(gint descriptor, GIOCondition condition, gpointer data) {
    (void)condition, (void)data;
    char line[16];
    if (read(descriptor, line, sizeof line) <= 0) _exit(0);
    g_timeout_add(step, scroll, NULL);
    return G_SOURCE_CONTINUE;
}

static void frame_drawn(GdkFrameClock *clock, gpointer data) {
    (void)data;
    guint ready, visible = count_visible(&ready);
    if (visible < HEIGHT / (PICTURE_HEIGHT * 2) || ready < visible) return;
    g_signal_handlers_disconnect_by_func(clock, frame_drawn, data);
    g_print("first-screen\n");
}

int main(int argc, char **argv) {
    if (argc != 4 || !gtk_init_check()) return 2;
    count = (guint)atoi(argv[2]);
    step = (guint)atoi(argv[3]);
    items = g_ptr_array_new();
    was_shown = g_new0(gboolean, count);
    GtkStringList *paths = gtk_string_list_new(NULL);
    for (guint number = 0; number < count; number++) {
        gtk_string_list_take(paths, g_strdup_printf("%s/%u", argv[1], number));
    }
    GtkListItemFactory *factory = gtk_signal_list_item_factory_new();
    g_signal_connect(factory, "setup", G_CALLBACK(setup), NULL);
    g_signal_connect(factory, "bind", G_CALLBACK(bind), NULL);
    g_signal_connect(factory, "unbind", G_CALLBACK(unbind), NULL);
    g_signal_connect(factory, "teardown", G_CALLBACK(teardown), NULL);
    GtkWidget *list = gtk_list_view_new(GTK_SELECTION_MODEL(gtk_no_selection_new(G_LIST_MODEL(paths))), factory);
    GtkWidget *scrolled = gtk_scrolled_window_new(), *window = gtk_window_new();
    gtk_scrolled_window_set_child(GTK_SCROLLED_WINDOW(scrolled), list);
    adjustment = gtk_scrolled_window_get_vadjustment(GTK_SCROLLED_WINDOW(scrolled));
    gtk_window_set_decorated(GTK_WINDOW(window), FALSE);
    gtk_window_set_default_size(GTK_WINDOW(window), WIDTH, HEIGHT);
    gtk_window_set_child(GTK_WINDOW(window), scrolled);
    gtk_window_present(GTK_WINDOW(window));
    g_signal_connect(gtk_widget_get_frame_clock(window), "after-paint", G_CALLBACK(frame_drawn), NULL);
    g_unix_fd_add(STDIN_FILENO, G_IO_IN | G_IO_HUP, read_line, NULL);
    g_main_loop_run(g_main_loop_new(NULL, FALSE));
}
