// An HTTP server of libmicrohttpd, whose start is variadic and so cannot be imported by Swift. It contains no decisions but
// those that bound it: no request bodies, a limit of a request's header, one request for each connection.
#ifndef CWEBSERVER_H
#define CWEBSERVER_H

#include <stddef.h>
#include <stdint.h>

/// The answer to a request. The handler allocates `body` with malloc; the server frees it.
struct cwebserver_response {
    unsigned int status;
    void *body;
    size_t length;
    /// A constant, not freed.
    const char *content_type;
};

/// A request whose header is complete.
struct cwebserver_request {
    /// The connection's socket.
    int descriptor;
    const char *method;
    const char *path;
    /// One of the Host fields, NULL without one.
    const char *host;
    /// The number of Host fields.
    unsigned int hosts;
};

/// What the server calls, on threads of its own. A descriptor names a connection until `closed` returns.
struct cwebserver_handlers {
    /// A connection was accepted from an address of `length` bytes: 4 for IPv4, 16 for IPv6.
    void (*opened)(void *context, int descriptor, const uint8_t *address, size_t length);
    /// Answers the request of a connection.
    void (*answer)(void *context, const struct cwebserver_request *request, struct cwebserver_response *response);
    /// A connection is going to be closed.
    void (*closed)(void *context, int descriptor);
};

/// Opens a listening TCP socket at a numeric address. Returns the descriptor, or the negative errno; -EINVAL for an address that is
/// not numeric.
int cwebserver_listen(const char *address, uint16_t port);

/// The port of a listening socket; 0 on error.
uint16_t cwebserver_port(int descriptor);

/// Serves at most `connections` connections of `descriptor`, which it owns from then on, on threads of its own for as long as the process runs.
/// `fields` are further response fields: names and values in turn, ended by NULL; they are not copied.
/// Returns 0, or the errno.
int cwebserver_start(
    int descriptor, unsigned int connections, const char *const *fields, struct cwebserver_handlers handlers,
    void *context);

/// Ends a connection from any thread; its own closes it.
void cwebserver_end(int descriptor);

/// Blocks SIGINT, SIGTERM and SIGHUP for this thread and those that it starts, and ignores SIGPIPE.
void cwebserver_block_signals(void);

/// Waits until one of the blocked signals arrives.
void cwebserver_wait_for_signal(void);

#endif
