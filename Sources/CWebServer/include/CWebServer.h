// An HTTP server of libmicrohttpd, whose start is variadic and so cannot be imported by Swift. It contains no decisions but
// those that bound it: a limit of a request's header, one request for each connection.
#ifndef CWEBSERVER_H
#define CWEBSERVER_H

#include <stddef.h>
#include <stdint.h>

#pragma clang assume_nonnull begin

struct MHD_Connection;
struct MHD_Response;

/// The answer to a request, without a body until one is set.
struct cwebserver_response {
    unsigned int status;
    struct MHD_Response *_Nullable message;
};

/// Gives a response its status and a copy of its body. Returns 0, or -1 without memory.
int cwebserver_set_body(
    struct cwebserver_response *response, unsigned int status, const void *_Nullable bytes, size_t length);

/// Adds a field to a response that has a body.
void cwebserver_add_field(struct cwebserver_response *response, const char *name, const char *value);

/// A request whose header is complete.
struct cwebserver_request {
    struct MHD_Connection *connection;
    /// The connection's socket.
    int descriptor;
    const char *method;
    /// The path, without percent-encoding and query.
    const char *path;
    /// The target as the client wrote it, with its query.
    const char *target;
    /// One of the Host fields, NULL without one.
    const char *_Nullable host;
    /// The number of Host fields.
    unsigned int hosts;
};

/// The first field of this name; NULL without one.
const char *_Nullable cwebserver_field(const struct cwebserver_request *request, const char *name);

/// What the server calls, on threads of its own. A descriptor names a connection until `closed` returns.
struct cwebserver_handlers {
    /// A connection was accepted from an address of `length` bytes: 4 for IPv4, 16 for IPv6, 0 for a Unix socket.
    void (*opened)(void *context, int descriptor, const uint8_t *_Nullable address, size_t length);
    /// A header is complete. Returns an object that takes the body, which `finished` releases; NULL when the response is the answer.
    void *_Nullable (*_Nonnull begin)(
        void *context, const struct cwebserver_request *request, struct cwebserver_response *response);
    /// Takes a part of the body. Returns 0 to end the connection without an answer.
    int (*receive)(void *context, void *object, int descriptor, const void *bytes, size_t length);
    /// Answers the request of a connection, whose body is complete.
    void (*answer)(
        void *context, void *object, const struct cwebserver_request *request, struct cwebserver_response *response);
    /// The request of an object has ended, answered or not.
    void (*finished)(void *context, void *object);
    /// A connection is going to be closed.
    void (*closed)(void *context, int descriptor);
};

/// Opens a listening TCP socket at a numeric address. Returns the descriptor, or the negative errno; -EINVAL for an address that is
/// not numeric.
int cwebserver_listen(const char *address, uint16_t port);

/// The port of a listening socket; 0 on error.
uint16_t cwebserver_port(int descriptor);

/// Serves the connections of `descriptor`, which it owns from then on, on threads of its own for as long as the process runs.
/// `connection_bytes` are for the longest header and the library's own memory. Returns 0, or the errno.
int cwebserver_start(
    int descriptor, unsigned int connections, size_t connection_bytes, struct cwebserver_handlers handlers,
    void *context);

/// Ends a connection from any thread; its own closes it.
void cwebserver_end(int descriptor);

/// Sends what the socket takes of `bytes` at once, and ends the connection. For one whose answer has not begun.
void cwebserver_refuse(int descriptor, const void *_Nullable bytes, size_t length);

#pragma clang assume_nonnull end

#endif
