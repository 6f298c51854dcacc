#define _GNU_SOURCE
#include "CWebServer.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

// The longest request header, with the library's own memory for the connection.
#define CONNECTION_BYTES 16384
#define STACK_BYTES (512 * 1024)

struct server {
    struct cwebserver_handlers handlers;
    void *context;
    const char *const *fields;
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

static enum MHD_Result answer(
    void *context, struct MHD_Connection *connection, const char *path, const char *method, const char *version,
    const char *upload, size_t *upload_bytes, void **state) {
    (void)version;
    (void)upload;
    static char begun;
    struct server *server = context;
    // The library calls once after the header, and again after the body, of which there may be none.
    if (*upload_bytes != 0) return MHD_NO;
    if (!*state && (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)) {
        *state = &begun;
        return MHD_YES;
    }
    struct cwebserver_response response = {.status = MHD_HTTP_INTERNAL_SERVER_ERROR, .content_type = "text/plain"};
    struct cwebserver_request request = {
        .descriptor = descriptor_of(connection), .method = method, .path = path};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, note_host, &request);
    server->handlers.answer(server->context, &request, &response);
    struct MHD_Response *message =
        MHD_create_response_from_buffer(response.length, response.body, MHD_RESPMEM_MUST_FREE);
    if (!message) {
        free(response.body);
        return MHD_NO;
    }
    MHD_add_response_header(message, MHD_HTTP_HEADER_CONTENT_TYPE, response.content_type);
    // One request for each connection, so that the limits of a connection's time are those of a request's.
    MHD_add_response_header(message, MHD_HTTP_HEADER_CONNECTION, "close");
    if (response.status == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(message, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    for (const char *const *field = server->fields; field[0]; field += 2)
        MHD_add_response_header(message, field[0], field[1]);
    enum MHD_Result result = MHD_queue_response(connection, response.status, message);
    MHD_destroy_response(message);
    return result;
}

int cwebserver_start(
    int descriptor, unsigned int connections, const char *const *fields, struct cwebserver_handlers handlers,
    void *context) {
    struct server *server = malloc(sizeof *server);
    if (!server) return ENOMEM;
    *server = (struct server){handlers, context, fields};
    errno = 0;
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL, answer, server,
        MHD_OPTION_LISTEN_SOCKET, descriptor, MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_NOTIFY_CONNECTION,
        notify, server, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_THREAD_STACK_SIZE,
        (size_t)STACK_BYTES, MHD_OPTION_END);
    if (daemon) return 0;
    int error = errno ? errno : EINVAL;
    free(server);
    return error;
}

static void fill_signals(sigset_t *set) {
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
}

void cwebserver_block_signals(void) {
    sigset_t set;
    fill_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

void cwebserver_wait_for_signal(void) {
    sigset_t set;
    int signal;
    fill_signals(&set);
    while (sigwait(&set, &signal) != 0) {}
}
