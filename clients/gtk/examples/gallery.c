// A gallery of images from URLs, files and folders, in a grid that scrolls. A click shows one large, Escape the grid.
//
// usage: gallery [URL|FILE|FOLDER]...

#include <imgbroker-gtk.h>

#include <string.h>

// A tile of the grid: GTK binds it to an item of the list, whose text is the source of the image.
static const char tile[] =
    "<interface><template class='GtkListItem'><property name='child'><object class='GtkBox'>"
    "  <property name='orientation'>vertical</property><property name='spacing'>6</property>"
    "  <child><object class='GtkOverlay'>"
    "    <property name='halign'>center</property><property name='overflow'>hidden</property>"
    "    <style><class name='frame'/></style>"
    "    <property name='child'><object class='ImgbrokerPicture' id='picture'>"
    "      <property name='width-request'>220</property><property name='height-request'>165</property>"
    "      <property name='content-fit'>cover</property><property name='error-icon-name'/>"
    "      <binding name='uri'><lookup name='string' type='GtkStringObject'><lookup name='item'>GtkListItem</lookup></lookup></binding>"
    "    </object></property>"
    "    <child type='overlay'><object class='GtkLabel'>"
    "      <property name='wrap'>1</property><property name='lines'>6</property><property name='ellipsize'>end</property>"
    "      <property name='max-width-chars'>20</property><property name='justify'>center</property>"
    "      <property name='halign'>center</property><property name='valign'>center</property><style><class name='message'/></style>"
    "      <binding name='label'><lookup name='error-message'>picture</lookup></binding>"
    "    </object></child>"
    "  </object></child>"
    "  <child><object class='GtkLabel'>"
    "    <property name='ellipsize'>middle</property><property name='max-width-chars'>14</property>"
    "    <binding name='label'><closure type='gchararray' function='base_name'><lookup name='uri'>picture</lookup></closure></binding>"
    "  </object></child>"
    "</object></property></template></interface>";

static const char style[] = "gridview { padding: 16px; } gridview > child { padding: 8px; border-radius: 14px; } gridview > child > box { margin: 0; } .message { padding: 12px; }"
    ".frame { border: none; border-radius: 10px; background: alpha(currentColor, 0.08); }";

static GtkStringList *sources;
static GtkWidget *stack, *large;

static char *base_name(gpointer item, const char *source) {
    (void)item;
    return source != NULL ? g_path_get_basename(source) : NULL;
}

static int compare_paths(gconstpointer left, gconstpointer right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

// Adds a URL, a file, or the images of a folder.
static void add_source(const char *source) {
    GDir *folder = strstr(source, "://") != NULL ? NULL : g_dir_open(source, 0, NULL);
    if (folder == NULL) {
        gtk_string_list_append(sources, source);
        return;
    }
    GPtrArray *paths = g_ptr_array_new_with_free_func(g_free);
    for (const char *name; (name = g_dir_read_name(folder)) != NULL;) {
        char *type = g_content_type_guess(name, NULL, 0, NULL);
        if (g_str_has_prefix(type, "image/")) g_ptr_array_add(paths, g_build_filename(source, name, NULL));
        g_free(type);
    }
    g_ptr_array_sort(paths, compare_paths);
    for (guint index = 0; index < paths->len; index++) gtk_string_list_append(sources, g_ptr_array_index(paths, index));
    g_ptr_array_unref(paths);
    g_dir_close(folder);
}

static gboolean show_grid(void) {
    gtk_stack_set_visible_child_name(GTK_STACK(stack), "grid");
    return TRUE;
}

static void show_large(GtkGridView *grid, guint position) {
    (void)grid;
    imgbroker_view_set_uri(IMGBROKER_VIEW(large), gtk_string_list_get_string(sources, position));
    gtk_stack_set_visible_child_name(GTK_STACK(stack), "large");
}

static void activate(GtkApplication *application) {
    GtkCssProvider *provider = gtk_css_provider_new();
    gtk_css_provider_load_from_data(provider, style, -1);
    gtk_style_context_add_provider_for_display(
        gdk_display_get_default(), GTK_STYLE_PROVIDER(provider), GTK_STYLE_PROVIDER_PRIORITY_APPLICATION);

    GtkBuilderScope *scope = gtk_builder_cscope_new();
    gtk_builder_cscope_add_callback(GTK_BUILDER_CSCOPE(scope), base_name);
    GBytes *tiles = g_bytes_new_static(tile, sizeof tile - 1);
    GtkWidget *grid = gtk_grid_view_new(GTK_SELECTION_MODEL(gtk_no_selection_new(G_LIST_MODEL(sources))),
        gtk_builder_list_item_factory_new_from_bytes(scope, tiles));
    gtk_grid_view_set_max_columns(GTK_GRID_VIEW(grid), 12);
    gtk_grid_view_set_single_click_activate(GTK_GRID_VIEW(grid), TRUE);
    g_signal_connect(grid, "activate", G_CALLBACK(show_large), NULL);
    GtkWidget *scrolled = g_object_new(GTK_TYPE_SCROLLED_WINDOW, "child", grid, NULL);

    large = g_object_new(IMGBROKER_TYPE_PICTURE, "content-fit", GTK_CONTENT_FIT_SCALE_DOWN, "flags",
        IMGBROKER_LOAD_PROGRESSIVE, "transition", IMGBROKER_TRANSITION_CROSSFADE, "show-progress", TRUE, NULL);
    stack = gtk_stack_new();
    gtk_stack_add_named(GTK_STACK(stack), scrolled, "grid");
    gtk_stack_add_named(GTK_STACK(stack), large, "large");
    GtkEventController *keys = gtk_shortcut_controller_new();
    gtk_shortcut_controller_set_scope(GTK_SHORTCUT_CONTROLLER(keys), GTK_SHORTCUT_SCOPE_GLOBAL);
    gtk_shortcut_controller_add_shortcut(GTK_SHORTCUT_CONTROLLER(keys),
        gtk_shortcut_new(gtk_shortcut_trigger_parse_string("Escape"),
            gtk_callback_action_new((GtkShortcutFunc)(void (*)(void))show_grid, NULL, NULL)));
    gtk_widget_add_controller(stack, keys);

    GtkWidget *window = gtk_application_window_new(application);
    g_object_set(window, "title", "Gallery", "default-width", 1040, "default-height", 720, "child", stack, NULL);
    gtk_window_present(GTK_WINDOW(window));
}

int main(int count, char **arguments) {
    g_type_ensure(IMGBROKER_TYPE_PICTURE);
    sources = gtk_string_list_new(NULL);
    for (int index = 1; index < count; index++) add_source(arguments[index]);
    GtkApplication *application = gtk_application_new("org.imgbroker.Gallery", G_APPLICATION_NON_UNIQUE);
    g_signal_connect(application, "activate", G_CALLBACK(activate), NULL);
    return g_application_run(G_APPLICATION(application), 1, arguments);
}
