// The least that a hit with a descriptor can cost: a C process that answers every request over a Unix stream socket
// with as many bytes as the broker does, and a descriptor.
#ifndef CECHO_H
#define CECHO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/// Pins the calling thread (and what it starts) to one processor. 0, or -1 with errno.
int cecho_pin(int processor);

/// Lets the calling thread run on any processor again. 0, or -1 with errno.
int cecho_unpin(void);

/// Starts the echo process: on its end of the returned socket it answers every request of `request_bytes` with
/// `reply_bytes` and a descriptor of a memfd of `buffer_bytes`. It waits in epoll_wait(2) or in read(2). `*pid` is the
/// process. The socket, or -1.
int cecho_start(size_t request_bytes, size_t reply_bytes, size_t buffer_bytes, int waits_in_epoll, pid_t *pid);

/// Connects to the Unix socket at `path`: the socket, or -1.
int cecho_connect(const char *path);

/// Sends `request` and receives an answer of at least `reply_bytes`, closing the descriptor that comes with it.
/// If `polls`, it waits in poll(2) instead of in recvmsg(2): who waits there for bytes is also woken when the other end
/// has read the request. Nanoseconds, or -1. `*descriptors` counts those that came.
long cecho_round_trip(
    int socket, const char *request, size_t request_bytes, size_t reply_bytes, int polls, int *descriptors);

/// Receives once, without sending: for the first reply, whose length is not known. Bytes, or -1.
ssize_t cecho_receive(int socket, char *buffer, size_t capacity);

/// As `cecho_round_trip`; then the buffer of the descriptor is read to its end: through a mapping made for that, or, up to
/// 256 KiB, as a copy in memory that is kept. Nanoseconds, or -1.
long cecho_hit_and_read(
    int socket, const char *request, size_t request_bytes, size_t reply_bytes, size_t buffer_bytes, uint64_t *sum);

/// Sends `request`, receives `reply_bytes` into `buffer` and reads them to their end. Nanoseconds, or -1.
long cecho_fetch(
    int socket, const char *request, size_t request_bytes, char *buffer, size_t reply_bytes, uint64_t *sum);

/// Asks `rounds` times with at most `depth` requests under way; each answer has a descriptor. Nanoseconds, or -1.
long cecho_pipeline(int socket, const char *request, size_t request_bytes, int depth, int rounds);

#endif
