#define _GNU_SOURCE
#include "CWebServer.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define STACK_BYTES (512 * 1024)

struct server {
    struct cwebserver_handlers handlers;
    void *context;
};

// A request, from its first line on.
struct state {
    // The object that takes the body; NULL before the header is complete.
    void *object;
    bool has_begun;
    char target[];
};

int cwebserver_listen(const char *address, uint16_t port) {
    char service[8];
    snprintf(service, sizeof service, "%u", (unsigned)port);
    struct addrinfo hints = {
        .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE, .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(address, service, &hints, &found) != 0 || !found) return -EINVAL;
    int result, one = 1;
    int descriptor = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0 || setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0
        || bind(descriptor, found->ai_addr, found->ai_addrlen) != 0 || listen(descriptor, 64) != 0) {
        result = -errno;
        if (descriptor >= 0) close(descriptor);
    } else {
        result = descriptor;
    }
    freeaddrinfo(found);
    return result;
}

uint16_t cwebserver_port(int descriptor) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    socklen_t length = sizeof address;
    if (getsockname(descriptor, &address.any, &length) != 0) return 0;
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

void cwebserver_end(int descriptor) { shutdown(descriptor, SHUT_RDWR); }

void cwebserver_refuse(int descriptor, const void *bytes, size_t length) {
    // An answer fits into the buffer of a socket to which nothing was sent.
    ssize_t sent = send(descriptor, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent;
    cwebserver_end(descriptor);
}

int cwebserver_set_body(struct cwebserver_response *response, unsigned int status, const void *bytes, size_t length) {
    response->status = status;
    response->message = MHD_create_response_from_buffer(length, (void *)bytes, MHD_RESPMEM_MUST_COPY);
    return response->message ? 0 : -1;
}

void cwebserver_add_field(struct cwebserver_response *response, const char *name, const char *value) {
    MHD_add_response_header(response->message, name, value);
}

const char *cwebserver_field(const struct cwebserver_request *request, const char *name) {
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

static int descriptor_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

static void notify(
    void *context, struct MHD_Connection *connection, void **socket_context, enum MHD_ConnectionNotificationCode code) {
    (void)socket_context;
    struct server *server = context;
    int descriptor = descriptor_of(connection);
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) return server->handlers.closed(server->context, descriptor);
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    if (address && address->sa_family == AF_INET6)
        server->handlers.opened(
            server->context, descriptor, ((const struct sockaddr_in6 *)address)->sin6_addr.s6_addr, 16);
    else if (address && address->sa_family == AF_INET)
        server->handlers.opened(
            server->context, descriptor, (const uint8_t *)&((const struct sockaddr_in *)address)->sin_addr, 4);
    else if (address && address->sa_family == AF_UNIX)
        server->handlers.opened(server->context, descriptor, NULL, 0);
    else
        cwebserver_end(descriptor);
}

static enum MHD_Result note_host(void *context, enum MHD_ValueKind kind, const char *name, const char *value) {
    (void)kind;
    struct cwebserver_request *request = context;
    if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) {
        request->host = value;
        request->hosts++;
    }
    return MHD_YES;
}

static void *note_target(void *context, const char *target, struct MHD_Connection *connection) {
    (void)context;
    (void)connection;
    size_t bytes = strlen(target) + 1;
    struct state *state = calloc(1, sizeof *state + bytes);
    if (state) memcpy(state->target, target, bytes);
    return state;
}

static void finish(
    void *context, struct MHD_Connection *connection, void **own, enum MHD_RequestTerminationCode code) {
    (void)connection;
    (void)code;
    struct server *server = context;
    struct state *state = *own;
    if (state && state->object) server->handlers.finished(server->context, state->object);
    free(state);
    *own = NULL;
}

static enum MHD_Result answer(
    void *context, struct MHD_Connection *connection, const char *path, const char *method, const char *version,
    const char *upload, size_t *upload_bytes, void **own) {
    (void)version;
    struct server *server = context;
    struct state *state = *own;
    if (!state || (state->has_begun && !state->object)) return MHD_NO;
    struct cwebserver_response response = {0};
    struct cwebserver_request request = {
        .connection = connection, .descriptor = descriptor_of(connection), .method = method, .path = path,
        .target = state->target};
    // The library calls once after the header, with each part of the body, and again after the body, of which there may be none.
    if (state->has_begun && *upload_bytes != 0) {
        if (!server->handlers.receive(server->context, state->object, request.descriptor, upload, *upload_bytes))
            return MHD_NO;
        *upload_bytes = 0;
        return MHD_YES;
    }
    MHD_get_connection_values(connection, MHD_HEADER_KIND, note_host, &request);
    if (state->has_begun) {
        server->handlers.answer(server->context, state->object, &request, &response);
    } else {
        state->has_begun = true;
        state->object = server->handlers.begin(server->context, &request, &response);
        if (state->object) return MHD_YES;
    }
    if (!response.message) return MHD_NO;
    // One request for each connection, so that the limits of a connection's time are those of a request's.
    MHD_add_response_header(response.message, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result result = MHD_queue_response(connection, response.status, response.message);
    MHD_destroy_response(response.message);
    return result;
}

int cwebserver_start(
    int descriptor, unsigned int connections, size_t connection_bytes, struct cwebserver_handlers handlers,
    void *context) {
    struct server *server = malloc(sizeof *server);
    if (!server) return ENOMEM;
    *server = (struct server){handlers, context};
    errno = 0;
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL, answer, server,
        MHD_OPTION_LISTEN_SOCKET, descriptor, MHD_OPTION_CONNECTION_LIMIT, connections,
        MHD_OPTION_NOTIFY_CONNECTION, notify, server, MHD_OPTION_NOTIFY_COMPLETED, finish, server,
        MHD_OPTION_URI_LOG_CALLBACK, note_target, server, MHD_OPTION_CONNECTION_MEMORY_LIMIT, connection_bytes,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_END);
    if (daemon) return 0;
    int error = errno ? errno : EINVAL;
    free(server);
    return error;
}
