// imgbroker-thumbnailer: the D-Bus services Thumbnailer1 and Cache1 of the freedesktop thumbnail management specification.

#include "private.h"

#include <locale.h>
#include <string.h>

#define THUMBNAILER "org.freedesktop.thumbnails.Thumbnailer1"
#define CACHE "org.freedesktop.thumbnails.Cache1"
#define THUMBNAILER_PATH "/org/freedesktop/thumbnails/Thumbnailer1"
#define CACHE_PATH "/org/freedesktop/thumbnails/Cache1"

// Seconds.
enum { IDLE_TIME = 60, LEAVING_TIME = 1 };

static const char description[] =
    "<node><interface name='" THUMBNAILER "'>"
    "<method name='Queue'><arg type='as' name='uris' direction='in'/><arg type='as' name='mime_types' direction='in'/>"
    "<arg type='s' name='flavor' direction='in'/><arg type='s' name='scheduler' direction='in'/>"
    "<arg type='u' name='handle_to_dequeue' direction='in'/><arg type='u' name='handle' direction='out'/></method>"
    "<method name='Dequeue'><arg type='u' name='handle' direction='in'/></method>"
    "<method name='GetSupported'><arg type='as' name='uri_schemes' direction='out'/>"
    "<arg type='as' name='mime_types' direction='out'/></method>"
    "<method name='GetFlavors'><arg type='as' name='flavors' direction='out'/></method>"
    "<method name='GetSchedulers'><arg type='as' name='schedulers' direction='out'/></method>"
    "<signal name='Started'><arg type='u' name='handle'/></signal>"
    "<signal name='Ready'><arg type='u' name='handle'/><arg type='as' name='uris'/></signal>"
    "<signal name='Error'><arg type='u' name='handle'/><arg type='as' name='failed_uris'/><arg type='i' name='error_code'/>"
    "<arg type='s' name='message'/></signal>"
    "<signal name='Finished'><arg type='u' name='handle'/></signal>"
    "</interface><interface name='" CACHE "'>"
    "<method name='Move'><arg type='as' name='from_uris' direction='in'/><arg type='as' name='to_uris' direction='in'/></method>"
    "<method name='Copy'><arg type='as' name='from_uris' direction='in'/><arg type='as' name='to_uris' direction='in'/></method>"
    "<method name='Delete'><arg type='as' name='uris' direction='in'/></method>"
    "<method name='Cleanup'><arg type='as' name='base_uris' direction='in'/><arg type='u' name='since' direction='in'/></method>"
    "</interface></node>";

static const char *const schedulers[] = {"default", "foreground", "background", NULL};

static GMainLoop *loop;
static GDBusConnection *bus;
// One thread, so that calls are carried out in their order, and leave the other threads to thumbnails.
static GThreadPool *changes;
static guint thumbnailer_name, cache_name, idle_timer, cache_calls;
static int idle_time = IDLE_TIME;
static gboolean is_leaving;
static int status;

// The end

static gboolean leave_if_idle(gpointer data);

// Postpones the end.
static void touch(void) {
    if (idle_timer != 0) g_source_remove(idle_timer);
    idle_timer = g_timeout_add_seconds((guint)(is_leaving ? LEAVING_TIME : idle_time), leave_if_idle, NULL);
}

// Gives the names back first, and serves the calls that have arrived before that: later ones start another process.
static gboolean leave_if_idle(gpointer data) {
    (void)data;
    if (!queue_is_empty() || cache_calls > 0) return G_SOURCE_CONTINUE;
    if (is_leaving) {
        g_main_loop_quit(loop);
        return G_SOURCE_CONTINUE;
    }
    is_leaving = TRUE;
    g_bus_unown_name(thumbnailer_name);
    g_bus_unown_name(cache_name);
    idle_timer = 0;
    touch();
    return G_SOURCE_REMOVE;
}

// Callers

static void lose_caller(GDBusConnection *connection, const char *name, gpointer data) {
    (void)connection;
    (void)data;
    queue_lose(name);
}

guint watch_caller(const char *caller) {
    return g_bus_watch_name_on_connection(bus, caller, G_BUS_NAME_WATCHER_FLAGS_NONE, NULL, lose_caller, NULL, NULL);
}

// Signals

static void emit(const char *caller, const char *name, GVariant *arguments) {
    g_dbus_connection_emit_signal(bus, caller, THUMBNAILER_PATH, THUMBNAILER, name, arguments, NULL);
}

void emit_started(const char *caller, guint handle) {
    emit(caller, "Started", g_variant_new("(u)", handle));
}

void emit_ready(const char *caller, guint handle, const char *uri) {
    emit(caller, "Ready", g_variant_new("(u@as)", handle, g_variant_new_strv(&uri, 1)));
}

void emit_error(const char *caller, guint handle, const char *uri, ErrorCode code, const char *message) {
    // Messages of the broker may be cut within a character.
    char *text = g_utf8_make_valid(message, -1);
    emit(caller, "Error", g_variant_new("(u@asis)", handle, g_variant_new_strv(&uri, 1), (gint32)code, text));
    g_free(text);
}

void emit_finished(const char *caller, guint handle) {
    emit(caller, "Finished", g_variant_new("(u)", handle));
    touch();
}

// Thumbnailer1

static void queue(GDBusMethodInvocation *call, const char *caller, GVariant *arguments) {
    const char **uris, **mime_types, *flavor, *scheduler;
    guint replaced;
    GError *error = NULL;
    g_variant_get(arguments, "(^a&s^a&s&s&su)", &uris, &mime_types, &flavor, &scheduler, &replaced);
    queue_remove(replaced);
    guint handle = queue_add(caller, uris, mime_types, flavor, strcmp(scheduler, "background") == 0, &error);
    if (handle == 0) {
        g_dbus_method_invocation_take_error(call, error);
    } else {
        g_dbus_method_invocation_return_value(call, g_variant_new("(u)", handle));
    }
    g_free(uris);
    g_free(mime_types);
}

static void return_supported(GDBusMethodInvocation *call) {
    GVariantBuilder schemes;
    g_variant_builder_init(&schemes, G_VARIANT_TYPE("as"));
    // A scheme for each type.
    for (const char *const *type = supported_types; *type != NULL; type++) g_variant_builder_add(&schemes, "s", "file");
    g_dbus_method_invocation_return_value(call, g_variant_new("(as^as)", &schemes, supported_types));
}

static void take_call(
    GDBusConnection *connection, const char *caller, const char *path, const char *interface, const char *method, GVariant *arguments,
    GDBusMethodInvocation *call, gpointer data) {
    (void)connection;
    (void)path;
    (void)interface;
    (void)data;
    touch();
    if (strcmp(method, "Queue") == 0) {
        queue(call, caller, arguments);
    } else if (strcmp(method, "Dequeue") == 0) {
        guint handle;
        g_variant_get(arguments, "(u)", &handle);
        queue_remove(handle);
        g_dbus_method_invocation_return_value(call, NULL);
    } else if (strcmp(method, "GetSupported") == 0) {
        return_supported(call);
    } else if (strcmp(method, "GetFlavors") == 0) {
        const char *names[FLAVOR_COUNT + 1] = {NULL};
        for (int index = 0; index < FLAVOR_COUNT; index++) names[index] = flavors[index].name;
        g_dbus_method_invocation_return_value(call, g_variant_new("(^as)", names));
    } else {
        g_dbus_method_invocation_return_value(call, g_variant_new("(^as)", schedulers));
    }
}

// Cache1

static void copy_all(GVariant *arguments, gboolean moves) {
    const char **from, **to;
    g_variant_get(arguments, "(^a&s^a&s)", &from, &to);
    for (gsize index = 0; from[index] != NULL && to[index] != NULL; index++) {
        cache_copy(from[index], to[index]);
        if (moves) cache_delete(from[index]);
    }
    g_free(from);
    g_free(to);
}

static gboolean finish_change(gpointer data) {
    (void)data;
    cache_calls--;
    touch();
    return G_SOURCE_REMOVE;
}

// Carries out a call, in the thread of these calls.
static void change(gpointer data, gpointer unused) {
    (void)unused;
    GDBusMethodInvocation *call = data;
    GVariant *arguments = g_dbus_method_invocation_get_parameters(call);
    const char *method = g_dbus_method_invocation_get_method_name(call), **uris;
    guint since = 0;
    if (strcmp(method, "Move") == 0 || strcmp(method, "Copy") == 0) {
        copy_all(arguments, *method == 'M');
    } else {
        gboolean is_cleanup = strcmp(method, "Cleanup") == 0, has_folders = FALSE;
        g_variant_get_child(arguments, 0, "^a&s", &uris);
        if (is_cleanup) g_variant_get_child(arguments, 1, "u", &since);
        for (gsize index = 0; since == 0 && uris[index] != NULL; index++) {
            cache_delete(uris[index]);
            has_folders = has_folders || g_str_has_suffix(uris[index], "/");
        }
        // File managers clean up after each deleted file, which takes no search.
        if (is_cleanup && (since != 0 || has_folders)) cache_clean(uris, since);
        g_free(uris);
    }
    g_dbus_method_invocation_return_value(call, NULL);
    g_idle_add(finish_change, NULL);
}

static void take_cache_call(
    GDBusConnection *connection, const char *caller, const char *path, const char *interface, const char *method, GVariant *arguments,
    GDBusMethodInvocation *call, gpointer data) {
    (void)connection;
    (void)caller;
    (void)path;
    (void)interface;
    (void)method;
    (void)arguments;
    (void)data;
    touch();
    cache_calls++;
    g_thread_pool_push(changes, call, NULL);
}

// The bus

static const GDBusInterfaceVTable thumbnailer_calls = {.method_call = take_call};
static const GDBusInterfaceVTable cache_calls_table = {.method_call = take_cache_call};

static void register_objects(GDBusConnection *connection, const char *name, gpointer data) {
    (void)name;
    (void)data;
    GError *error = NULL;
    if (bus != NULL) return;
    bus = connection;
    GDBusNodeInfo *node = g_dbus_node_info_new_for_xml(description, NULL);
    GDBusInterfaceInfo *thumbnailer = g_dbus_node_info_lookup_interface(node, THUMBNAILER);
    GDBusInterfaceInfo *cache = g_dbus_node_info_lookup_interface(node, CACHE);
    if (g_dbus_connection_register_object(bus, THUMBNAILER_PATH, thumbnailer, &thumbnailer_calls, NULL, NULL, &error) == 0 ||
        g_dbus_connection_register_object(bus, CACHE_PATH, cache, &cache_calls_table, NULL, NULL, &error) == 0) {
        g_error("%s", error->message);
    }
    g_dbus_node_info_unref(node);
}

static void lose_name(GDBusConnection *connection, const char *name, gpointer data) {
    (void)data;
    if (is_leaving) return;
    g_printerr("imgbroker-thumbnailer: %s: %s\n", name, connection == NULL ? "no session bus" : "another program has this name");
    // Another program may clean the cache.
    if (strcmp(name, THUMBNAILER) != 0) return;
    status = 1;
    g_main_loop_quit(loop);
}

int main(int count, char **arguments) {
    gboolean shows_version = FALSE;
    const GOptionEntry entries[] = {
        {"idle", 0, 0, G_OPTION_ARG_INT, &idle_time, "Exit after SECONDS without work (60)", "SECONDS"},
        {"version", 0, 0, G_OPTION_ARG_NONE, &shows_version, "Print the version", NULL},
        {0}};
    GError *error = NULL;
    setlocale(LC_ALL, "");
    GOptionContext *context = g_option_context_new("- the thumbnail service of imgbroker, which D-Bus starts");
    g_option_context_add_main_entries(context, entries, NULL);
    gboolean is_valid = g_option_context_parse(context, &count, &arguments, &error) && count == 1 && idle_time >= 1;
    g_option_context_free(context);
    if (!is_valid) {
        g_printerr("imgbroker-thumbnailer: %s\n", error == NULL ? "wrong arguments" : error->message);
        g_clear_error(&error);
        return 2;
    }
    if (shows_version) {
        g_print("imgbroker-thumbnailer " IMGBROKER_VERSION "\n");
        return 0;
    }
    loop = g_main_loop_new(NULL, FALSE);
    changes = g_thread_pool_new(change, NULL, 1, FALSE, NULL);
    cache_sweep();
    GBusNameOwnerFlags flags = G_BUS_NAME_OWNER_FLAGS_DO_NOT_QUEUE;
    thumbnailer_name = g_bus_own_name(G_BUS_TYPE_SESSION, THUMBNAILER, flags, register_objects, NULL, lose_name, NULL, NULL);
    cache_name = g_bus_own_name(G_BUS_TYPE_SESSION, CACHE, flags, register_objects, NULL, lose_name, NULL, NULL);
    touch();
    g_main_loop_run(loop);
    return status;
}
