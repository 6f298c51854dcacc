// The minimum cost of a hit with a descriptor: a C process that replies to every request over a Unix stream socket with
// the same number of bytes as the broker, and a descriptor.
#ifndef CECHO_H
#define CECHO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/// Pins the calling thread and its children to one processor. 0, or -1 with errno.
int cecho_pin(int processor);

/// Lets the calling thread run on any processor again. 0, or -1 with errno.
int cecho_unpin(void);

/// Starts the echo process: on its end of the returned socket it replies to every request of `request_bytes` with
/// `reply_bytes` and, unless `buffer_bytes` is 0, a descriptor of a memfd of so many. It waits in epoll_wait(2) or in read(2). `*pid` is the
/// process. Returns the socket, or -1.
int cecho_start(size_t request_bytes, size_t reply_bytes, size_t buffer_bytes, int waits_in_epoll, pid_t *pid);

/// Connects to the Unix socket at `path`: the socket, or -1.
int cecho_connect(const char *path);

/// Sends `request`, receives a reply of at least `reply_bytes` and closes its descriptor. If `polls`, it waits in poll(2)
/// instead of recvmsg(2), which is also woken when the peer has read the request. Returns nanoseconds, or -1.
/// `*descriptors` is the number of descriptors received.
long cecho_round_trip(
    int socket, const char *request, size_t request_bytes, size_t reply_bytes, int polls, int *descriptors);

/// Receives once, without sending: for the first reply, whose length is unknown. Returns bytes, or -1.
ssize_t cecho_receive(int socket, char *buffer, size_t capacity);

/// Returns the sum of the words of `count` bytes.
uint64_t cecho_sum(const void *bytes, size_t count);

/// Sends `request`, receives `reply_bytes` into `buffer` and reads all of them. Returns nanoseconds, or -1.
long cecho_fetch(
    int socket, const char *request, size_t request_bytes, char *buffer, size_t reply_bytes, uint64_t *sum);

/// Sends `rounds` requests with at most `depth` in flight; each reply has `reply_bytes`. Returns nanoseconds, or -1.
long cecho_pipeline(
    int socket, const char *request, size_t request_bytes, size_t reply_bytes, int depth, int rounds);

#endif
