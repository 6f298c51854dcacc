// A gallery of images from URLs, files and folders, in a grid that scrolls: an example of imgbroker in a main loop.
//
// usage: gallery [URL|FILE|FOLDER]...
//
// The connection's descriptor is a source of GLib's main loop, so there is no thread and no blocking call. A tile
// requests its thumbnail when it scrolls into view, in the pixels of the screen, and cancels it when it scrolls out.
// Textures refer to the broker's pages: no pixel is copied before GTK draws it.

#include <gtk/gtk.h>
#include <glib-unix.h>
#include <stdlib.h>
#include <string.h>

#include <imgbroker.h>

#define TILE_WIDTH 220
#define TILE_HEIGHT 165

// The connection, and the window that shows its images.
static struct {
    imgbroker *broker;
    GListStore *items;
    GtkWidget *stack, *back, *window, *title;
    // The large view: its picture and message, its item, and its request.
    GtkWidget *large, *large_message;
    guint large_position;
    guint64 large_request;
} gallery;

// An image of the gallery

#define ITEM_TYPE (item_get_type())
G_DECLARE_FINAL_TYPE(Item, item, GALLERY, ITEM, GObject)

struct _Item {
    GObject parent;
    char *source;
    char *name;
    // Its thumbnail or the reason why it has none; NULL until either is known.
    GdkTexture *texture;
    char *message;
    // The request for the thumbnail; 0 for none.
    guint64 request;
    // The scale factor for which it was requested.
    int scale;
    // The tile that shows it; NULL out of view.
    GtkWidget *tile;
};

G_DEFINE_FINAL_TYPE(Item, item, G_TYPE_OBJECT)

static void item_finalize(GObject *object) {
    Item *item = GALLERY_ITEM(object);
    g_free(item->source);
    g_free(item->name);
    g_clear_object(&item->texture);
    g_free(item->message);
    G_OBJECT_CLASS(item_parent_class)->finalize(object);
}

static void item_class_init(ItemClass *class) {
    G_OBJECT_CLASS(class)->finalize = item_finalize;
}

static void item_init(Item *item) {
    (void)item;
}

static void add_item(const char *source) {
    Item *item = g_object_new(ITEM_TYPE, NULL);
    item->source = g_strdup(source);
    item->name = g_path_get_basename(source);
    g_list_store_append(gallery.items, item);
    g_object_unref(item);
}

static int compare_names(gconstpointer left, gconstpointer right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

// Adds a URL, a file, or the images of a folder.
static void add_source(const char *source) {
    GDir *folder = strstr(source, "://") != NULL ? NULL : g_dir_open(source, 0, NULL);
    if (folder == NULL) {
        add_item(source);
        return;
    }
    static const char *const endings[] = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".avif"};
    GPtrArray *paths = g_ptr_array_new_with_free_func(g_free);
    const char *name;
    while ((name = g_dir_read_name(folder)) != NULL) {
        char *folded = g_ascii_strdown(name, -1);
        for (gsize index = 0; index < G_N_ELEMENTS(endings); index++) {
            if (g_str_has_suffix(folded, endings[index])) g_ptr_array_add(paths, g_build_filename(source, name, NULL));
        }
        g_free(folded);
    }
    g_ptr_array_sort(paths, compare_names);
    for (guint index = 0; index < paths->len; index++) add_item(g_ptr_array_index(paths, index));
    g_ptr_array_unref(paths);
    g_dir_close(folder);
}

// Images

static void release_image(gpointer image) {
    imgbroker_image_release(image);
}

// Makes a texture of an image's pages, and takes over the reference to the image. GTK may release it in any thread.
static GdkTexture *texture_of(imgbroker_image *image) {
    GBytes *pages = g_bytes_new_with_free_func(image->pixels, image->stride * image->height, release_image, image);
    GdkTexture *texture = gdk_memory_texture_new(
        (int)image->width, (int)image->height, GDK_MEMORY_B8G8R8A8_PREMULTIPLIED, pages, image->stride);
    g_bytes_unref(pages);
    return texture;
}

// Requests the image of an item in a size in pixels of the screen. Returns the request, or 0.
static guint64 request_image(
    const Item *item, int width, int height, imgbroker_fit fit, bool is_large, imgbroker_error *error) {
    imgbroker_options options = {
        .width = (uint32_t)width,
        .height = (uint32_t)height,
        .fit = fit,
        .format = IMGBROKER_BGRA8,
        .progressive = is_large,
        .priority = is_large ? IMGBROKER_PRIORITY_HIGH : IMGBROKER_PRIORITY_NORMAL,
    };
    imgbroker_request request = {.options = &options, .user = (void *)item};
    *(strstr(item->source, "://") != NULL ? &request.url : &request.path) = item->source;
    return imgbroker_send(gallery.broker, &request, error);
}

// Tiles

// The widgets of a tile.
typedef struct {
    GtkWidget *picture, *spinner, *message, *name;
} Tile;

// Shows the present state of an item in its tile.
static void show_item(const Item *item) {
    if (item->tile == NULL) return;
    const Tile *tile = g_object_get_data(G_OBJECT(item->tile), "tile");
    gtk_picture_set_paintable(GTK_PICTURE(tile->picture), GDK_PAINTABLE(item->texture));
    gtk_label_set_text(GTK_LABEL(tile->name), item->name);
    gtk_label_set_text(GTK_LABEL(tile->message), item->message != NULL ? item->message : "");
    gtk_widget_set_visible(tile->message, item->message != NULL);
    gtk_widget_set_visible(tile->spinner, item->texture == NULL && item->message == NULL);
    if (item->message != NULL) {
        gtk_widget_add_css_class(item->tile, "failed");
    } else {
        gtk_widget_remove_css_class(item->tile, "failed");
    }
}

// Requests the thumbnail of an item in view, unless it is here or requested in this scale.
static void request_thumbnail(Item *item) {
    int scale = gtk_widget_get_scale_factor(item->tile);
    if (item->scale == scale && (item->texture != NULL || item->message != NULL || item->request != 0)) return;
    if (item->request != 0) imgbroker_cancel(gallery.broker, item->request);
    imgbroker_error error;
    item->scale = scale;
    item->request =
        request_image(item, TILE_WIDTH * scale, TILE_HEIGHT * scale, IMGBROKER_COVER, false, &error);
    if (item->request != 0) return;
    g_free(item->message);
    item->message = g_strdup(error.message);
}

static void scale_changed(GtkWidget *widget, GParamSpec *property, gpointer data) {
    (void)property;
    (void)data;
    Item *item = gtk_list_item_get_item(g_object_get_data(G_OBJECT(widget), "list-item"));
    if (item != NULL && item->tile == widget) request_thumbnail(item);
}

static void setup_tile(GtkSignalListItemFactory *factory, GtkListItem *list_item, gpointer data) {
    (void)factory;
    (void)data;
    Tile *tile = g_new0(Tile, 1);
    GtkWidget *box = gtk_box_new(GTK_ORIENTATION_VERTICAL, 6), *overlay = gtk_overlay_new();
    tile->picture = gtk_picture_new();
    gtk_picture_set_content_fit(GTK_PICTURE(tile->picture), GTK_CONTENT_FIT_COVER);
    gtk_widget_set_size_request(tile->picture, TILE_WIDTH, TILE_HEIGHT);
    tile->spinner = gtk_spinner_new();
    gtk_spinner_start(GTK_SPINNER(tile->spinner));
    gtk_widget_set_size_request(tile->spinner, 24, 24);
    gtk_widget_set_halign(tile->spinner, GTK_ALIGN_CENTER);
    gtk_widget_set_valign(tile->spinner, GTK_ALIGN_CENTER);
    tile->message = gtk_label_new(NULL);
    gtk_label_set_wrap(GTK_LABEL(tile->message), TRUE);
    gtk_label_set_wrap_mode(GTK_LABEL(tile->message), PANGO_WRAP_WORD_CHAR);
    gtk_label_set_lines(GTK_LABEL(tile->message), 6);
    gtk_label_set_ellipsize(GTK_LABEL(tile->message), PANGO_ELLIPSIZE_END);
    gtk_label_set_justify(GTK_LABEL(tile->message), GTK_JUSTIFY_CENTER);
    gtk_label_set_max_width_chars(GTK_LABEL(tile->message), 20);
    gtk_widget_add_css_class(tile->message, "message");
    gtk_widget_set_halign(tile->message, GTK_ALIGN_CENTER);
    gtk_widget_set_valign(tile->message, GTK_ALIGN_CENTER);
    tile->name = gtk_label_new(NULL);
    gtk_label_set_ellipsize(GTK_LABEL(tile->name), PANGO_ELLIPSIZE_MIDDLE);
    gtk_label_set_max_width_chars(GTK_LABEL(tile->name), 18);
    gtk_widget_add_css_class(tile->name, "name");
    gtk_overlay_set_child(GTK_OVERLAY(overlay), tile->picture);
    gtk_overlay_add_overlay(GTK_OVERLAY(overlay), tile->spinner);
    gtk_overlay_add_overlay(GTK_OVERLAY(overlay), tile->message);
    gtk_widget_set_overflow(overlay, GTK_OVERFLOW_HIDDEN);
    gtk_widget_set_halign(overlay, GTK_ALIGN_CENTER);
    gtk_widget_add_css_class(overlay, "frame");
    gtk_box_append(GTK_BOX(box), overlay);
    gtk_box_append(GTK_BOX(box), tile->name);
    gtk_widget_add_css_class(box, "tile");
    g_object_set_data_full(G_OBJECT(box), "tile", tile, g_free);
    g_object_set_data(G_OBJECT(box), "list-item", list_item);
    g_signal_connect(box, "notify::scale-factor", G_CALLBACK(scale_changed), NULL);
    gtk_list_item_set_child(list_item, box);
}

static void bind_tile(GtkSignalListItemFactory *factory, GtkListItem *list_item, gpointer data) {
    (void)factory;
    (void)data;
    Item *item = gtk_list_item_get_item(list_item);
    item->tile = gtk_list_item_get_child(list_item);
    request_thumbnail(item);
    show_item(item);
}

static void unbind_tile(GtkSignalListItemFactory *factory, GtkListItem *list_item, gpointer data) {
    (void)factory;
    (void)data;
    Item *item = gtk_list_item_get_item(list_item);
    item->tile = NULL;
    if (item->request != 0) imgbroker_cancel(gallery.broker, item->request);
}

// The large view

static void show_grid(void) {
    if (gallery.large_request != 0) imgbroker_cancel(gallery.broker, gallery.large_request);
    gallery.large_request = 0;
    gtk_stack_set_visible_child_name(GTK_STACK(gallery.stack), "grid");
    gtk_widget_set_visible(gallery.back, FALSE);
    gtk_label_set_text(GTK_LABEL(gallery.title), "Gallery");
}

static void show_large(GtkGridView *view, guint position, gpointer data) {
    (void)view;
    (void)data;
    Item *item = g_list_model_get_item(G_LIST_MODEL(gallery.items), position);
    if (item == NULL) return;
    if (gallery.large_request != 0) imgbroker_cancel(gallery.broker, gallery.large_request);
    gallery.large_position = position;
    // The picture is empty until its pixels are here: the thumbnail has another crop.
    gtk_picture_set_paintable(GTK_PICTURE(gallery.large), NULL);
    gtk_widget_set_visible(gallery.large_message, FALSE);
    int scale = gtk_widget_get_scale_factor(gallery.stack);
    imgbroker_error error;
    gallery.large_request = request_image(item, gtk_widget_get_width(gallery.stack) * scale,
        gtk_widget_get_height(gallery.stack) * scale, IMGBROKER_INSIDE, true, &error);
    if (gallery.large_request == 0) {
        gtk_label_set_text(GTK_LABEL(gallery.large_message), error.message);
        gtk_widget_set_visible(gallery.large_message, TRUE);
    }
    gtk_stack_set_visible_child_name(GTK_STACK(gallery.stack), "large");
    gtk_widget_set_visible(gallery.back, TRUE);
    gtk_label_set_text(GTK_LABEL(gallery.title), item->name);
    g_object_unref(item);
}

static gboolean key_pressed(
    GtkEventControllerKey *controller, guint key, guint code, GdkModifierType modifiers, gpointer data) {
    (void)controller;
    (void)code;
    (void)modifiers;
    (void)data;
    if (strcmp(gtk_stack_get_visible_child_name(GTK_STACK(gallery.stack)), "large") != 0) return FALSE;
    guint count = g_list_model_get_n_items(G_LIST_MODEL(gallery.items));
    if (key == GDK_KEY_Escape) show_grid();
    if (key == GDK_KEY_Left && gallery.large_position > 0) show_large(NULL, gallery.large_position - 1, NULL);
    if (key == GDK_KEY_Right && gallery.large_position + 1 < count) show_large(NULL, gallery.large_position + 1, NULL);
    return key == GDK_KEY_Escape || key == GDK_KEY_Left || key == GDK_KEY_Right;
}

// Replies

// Shows a reply in the large view.
static void take_large(imgbroker_reply *reply) {
    if (reply->final) gallery.large_request = 0;
    if (reply->image != NULL && reply->image->width > 0) {
        GdkTexture *texture = texture_of(reply->image);
        reply->image = NULL;
        gtk_picture_set_paintable(GTK_PICTURE(gallery.large), GDK_PAINTABLE(texture));
        g_object_unref(texture);
    } else if (reply->error.code != IMGBROKER_OK && reply->error.code != IMGBROKER_ERROR_CANCELLED) {
        gtk_label_set_text(GTK_LABEL(gallery.large_message), reply->error.message);
        gtk_widget_set_visible(gallery.large_message, TRUE);
    }
}

// Shows a reply in the tile of its item.
static void take_thumbnail(Item *item, imgbroker_reply *reply) {
    item->request = 0;
    if (reply->error.code == IMGBROKER_ERROR_CANCELLED) {
        // It has scrolled out of view, and perhaps into it again.
        item->scale = 0;
        if (item->tile != NULL) {
            request_thumbnail(item);
            show_item(item);
        }
        return;
    }
    g_clear_object(&item->texture);
    g_clear_pointer(&item->message, g_free);
    if (reply->image != NULL && reply->image->width > 0) {
        item->texture = texture_of(reply->image);
        reply->image = NULL;
    } else {
        item->message = g_strdup(reply->error.message);
    }
    show_item(item);
}

static gboolean broker_is_ready(gint descriptor, GIOCondition condition, gpointer data) {
    (void)descriptor;
    (void)condition;
    (void)data;
    imgbroker_reply reply;
    imgbroker_process(gallery.broker);
    while (imgbroker_next(gallery.broker, &reply)) {
        Item *item = reply.user;
        if (reply.request == gallery.large_request) {
            take_large(&reply);
        } else if (reply.request == item->request) {
            take_thumbnail(item, &reply);
        }
        imgbroker_reply_clear(&reply);
    }
    return G_SOURCE_CONTINUE;
}

// The window

static const char style[] =
    "window { background: #1d1f24; color: #e6e6ea; }"
    "headerbar { background: #25282e; color: #e6e6ea; box-shadow: none; border-bottom: 1px solid #111317; }"
    "gridview { background: transparent; padding: 16px; }"
    "gridview > child { padding: 8px; border-radius: 14px; background: transparent; outline: none; }"
    "gridview > child:hover { background: #2b2f37; }"
    ".tile { margin: 0; border-spacing: 6px; }"
    ".tile .frame { border: none; border-radius: 10px; background: #2b2f37; }"
    ".tile .name { font-size: 12px; color: #a9adb8; }"
    ".tile .message { font-size: 12px; color: #f0b4ae; padding: 12px; }"
    ".failed .frame { background: #3a2628; }"
    ".large { background: #121317; }"
    ".large label { color: #f0b4ae; }";

static void activate(GtkApplication *application, gpointer data) {
    (void)data;
    g_object_set(gtk_settings_get_default(), "gtk-application-prefer-dark-theme", TRUE, NULL);
    GtkCssProvider *provider = gtk_css_provider_new();
    gtk_css_provider_load_from_data(provider, style, -1);
    gtk_style_context_add_provider_for_display(
        gdk_display_get_default(), GTK_STYLE_PROVIDER(provider), GTK_STYLE_PROVIDER_PRIORITY_APPLICATION);
    g_object_unref(provider);

    GtkListItemFactory *factory = gtk_signal_list_item_factory_new();
    g_signal_connect(factory, "setup", G_CALLBACK(setup_tile), NULL);
    g_signal_connect(factory, "bind", G_CALLBACK(bind_tile), NULL);
    g_signal_connect(factory, "unbind", G_CALLBACK(unbind_tile), NULL);
    GtkSelectionModel *model = GTK_SELECTION_MODEL(gtk_no_selection_new(g_object_ref(G_LIST_MODEL(gallery.items))));
    GtkWidget *grid = gtk_grid_view_new(model, factory), *scrolled = gtk_scrolled_window_new();
    gtk_grid_view_set_max_columns(GTK_GRID_VIEW(grid), 12);
    gtk_grid_view_set_single_click_activate(GTK_GRID_VIEW(grid), TRUE);
    g_signal_connect(grid, "activate", G_CALLBACK(show_large), NULL);
    gtk_scrolled_window_set_policy(GTK_SCROLLED_WINDOW(scrolled), GTK_POLICY_NEVER, GTK_POLICY_AUTOMATIC);
    gtk_scrolled_window_set_child(GTK_SCROLLED_WINDOW(scrolled), grid);

    GtkWidget *large = gtk_overlay_new();
    gallery.large = gtk_picture_new();
    gtk_picture_set_content_fit(GTK_PICTURE(gallery.large), GTK_CONTENT_FIT_SCALE_DOWN);
    gallery.large_message = gtk_label_new(NULL);
    gtk_label_set_wrap(GTK_LABEL(gallery.large_message), TRUE);
    gtk_overlay_set_child(GTK_OVERLAY(large), gallery.large);
    gtk_overlay_add_overlay(GTK_OVERLAY(large), gallery.large_message);
    gtk_widget_add_css_class(large, "large");

    gallery.stack = gtk_stack_new();
    gtk_stack_add_named(GTK_STACK(gallery.stack), scrolled, "grid");
    gtk_stack_add_named(GTK_STACK(gallery.stack), large, "large");

    GtkWidget *header = gtk_header_bar_new();
    gallery.back = gtk_button_new_from_icon_name("go-previous-symbolic");
    gallery.title = gtk_label_new(NULL);
    gtk_widget_set_tooltip_text(gallery.back, "All images");
    g_signal_connect(gallery.back, "clicked", G_CALLBACK(show_grid), NULL);
    gtk_header_bar_pack_start(GTK_HEADER_BAR(header), gallery.back);
    gtk_header_bar_set_title_widget(GTK_HEADER_BAR(header), gallery.title);

    gallery.window = gtk_application_window_new(application);
    gtk_window_set_title(GTK_WINDOW(gallery.window), "Gallery");
    gtk_window_set_default_size(GTK_WINDOW(gallery.window), 1040, 720);
    gtk_window_set_titlebar(GTK_WINDOW(gallery.window), header);
    gtk_window_set_child(GTK_WINDOW(gallery.window), gallery.stack);
    GtkEventController *keys = gtk_event_controller_key_new();
    gtk_event_controller_set_propagation_phase(keys, GTK_PHASE_CAPTURE);
    g_signal_connect(keys, "key-pressed", G_CALLBACK(key_pressed), NULL);
    gtk_widget_add_controller(gallery.window, keys);
    show_grid();
    gtk_window_present(GTK_WINDOW(gallery.window));
}

int main(int count, char **arguments) {
    imgbroker_error error;
    gallery.broker = imgbroker_open(NULL, &error);
    if (gallery.broker == NULL) {
        g_printerr("gallery: %s\n", error.message);
        return EXIT_FAILURE;
    }
    gallery.items = g_list_store_new(ITEM_TYPE);
    for (int index = 1; index < count; index++) add_source(arguments[index]);
    guint source = g_unix_fd_add(imgbroker_fd(gallery.broker), G_IO_IN, broker_is_ready, NULL);
    GtkApplication *application = gtk_application_new("org.imgbroker.Gallery", G_APPLICATION_NON_UNIQUE);
    g_signal_connect(application, "activate", G_CALLBACK(activate), NULL);
    int status = g_application_run(G_APPLICATION(application), 1, arguments);
    g_source_remove(source);
    g_object_unref(application);
    g_object_unref(gallery.items);
    imgbroker_close(gallery.broker);
    return status;
}
