// An HTTP server of libmicrohttpd, whose start is variadic and so cannot be imported by Swift. It contains no decisions but
// those that bound it: no request bodies, a limit of connections, of a request's header and of silence.
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

/// Answers a request, on the connection's own thread. `host` is the Host field, NULL without one.
typedef void (*cwebserver_handler)(
    void *context, const char *method, const char *path, const char *host, struct cwebserver_response *response);

/// Opens a listening TCP socket at a numeric address. Returns the descriptor, or the negative errno; -EINVAL for an address that is
/// not numeric.
int cwebserver_listen(const char *address, uint16_t port);

/// The port of a listening socket; 0 on error.
uint16_t cwebserver_port(int descriptor);

/// Serves the connections of `descriptor`, which it owns from then on, on threads of its own for as long as the process runs.
/// `fields` are further response fields: names and values in turn, ended by NULL; they are not copied.
/// Returns 0, or the errno.
int cwebserver_start(
    int descriptor, unsigned int connections, unsigned int silence_seconds, const char *const *fields,
    cwebserver_handler handler, void *context);

/// Blocks SIGINT, SIGTERM and SIGHUP for this thread and those that it starts, and ignores SIGPIPE.
void cwebserver_block_signals(void);

/// Waits until one of the blocked signals arrives.
void cwebserver_wait_for_signal(void);

#endif
