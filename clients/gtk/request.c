// The connection to the broker, in the main loop of GTK's thread.

#include "private.h"

#include <glib-unix.h>

struct Request {
    guint64 number;
    TakeReply take;
    gpointer owner;
};

// Textures that are shown hold images of their own.
enum { KEPT_BYTES = 32 << 20 };

static imgbroker *connection;

static gboolean take_replies(gint descriptor, GIOCondition condition, gpointer data) {
    (void)descriptor;
    (void)condition;
    (void)data;
    imgbroker_reply reply;
    imgbroker_process(connection);
    while (imgbroker_next(connection, &reply)) {
        Request *request = reply.user;
        if (request->take != NULL) request->take(request->owner, &reply);
        if (reply.final) g_free(request);
        imgbroker_reply_clear(&reply);
    }
    return G_SOURCE_CONTINUE;
}

// Opens the connection, which lasts as long as the process.
static gboolean is_open(imgbroker_error *error) {
    if (connection != NULL) return TRUE;
    const char *name = g_get_prgname();
    imgbroker_settings settings = {.client = name, .keep_bytes = KEPT_BYTES};
    connection = imgbroker_open(&settings, error);
    if (connection == NULL) return FALSE;
    g_unix_fd_add(imgbroker_fd(connection), G_IO_IN, take_replies, NULL);
    return TRUE;
}

Request *imgbroker_request_send(const imgbroker_request *message, TakeReply take, gpointer owner, imgbroker_error *error) {
    if (!is_open(error)) return NULL;
    Request *request = g_new0(Request, 1);
    request->take = take;
    request->owner = owner;
    imgbroker_request copy = *message;
    copy.user = request;
    request->number = imgbroker_send(connection, &copy, error);
    if (request->number == 0) g_clear_pointer(&request, g_free);
    return request;
}

void imgbroker_request_abandon(Request *request, gboolean continues) {
    if (request == NULL) return;
    request->take = NULL;
    if (continues) imgbroker_update(connection, request->number, IMGBROKER_PRIORITY_DEFAULT, true);
    imgbroker_cancel(connection, request->number);
}

void imgbroker_request_set_priority(Request *request, imgbroker_priority priority) {
    imgbroker_update(connection, request->number, priority, false);
}

imgbroker_image *imgbroker_request_kept(const char *url, const imgbroker_options *options) {
    return is_open(NULL) ? imgbroker_get_kept(connection, url, options) : NULL;
}
