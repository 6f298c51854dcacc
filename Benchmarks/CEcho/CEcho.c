#define _GNU_SOURCE
#include "CEcho.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { maximum_bytes = 1 << 16 };

int cecho_pin(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    return sched_setaffinity(0, sizeof set, &set);
}

int cecho_unpin(void) {
    cpu_set_t set;
    memset(&set, 0xff, sizeof set);
    return sched_setaffinity(0, sizeof set, &set);
}

static ssize_t send_with(int socket, const void *bytes, size_t count, int fd) {
    if (fd < 0) return send(socket, bytes, count, MSG_NOSIGNAL);
    struct iovec part = {(void *)bytes, count};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return sendmsg(socket, &message, MSG_NOSIGNAL);
}

enum { descriptors_at_once = 64 };

/// Receives once. The descriptors that come are the caller's; `*count` is how many.
static ssize_t receive(int socket, void *buffer, size_t capacity, int descriptors[descriptors_at_once], int *count) {
    struct iovec part = {buffer, capacity};
    union {
        char space[CMSG_SPACE(sizeof(int) * descriptors_at_once)];
        struct cmsghdr align;
    } control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    *count = 0;
    ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (received <= 0) return received;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        int came = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(descriptors + *count, CMSG_DATA(header), (size_t)came * sizeof(int));
        *count += came;
    }
    return received;
}

static ssize_t receive_closing(int socket, void *buffer, size_t capacity, int *closed) {
    int descriptors[descriptors_at_once], count;
    ssize_t received = receive(socket, buffer, capacity, descriptors, &count);
    for (int i = 0; i < count; i++) close(descriptors[i]);
    *closed += count;
    return received;
}

static long nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

int cecho_start(size_t request_bytes, size_t reply_bytes, size_t buffer_bytes, int waits_in_epoll, pid_t *pid) {
    int ends[2];
    if (reply_bytes > maximum_bytes || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0) return -1;
    *pid = fork();
    if (*pid != 0) {
        close(ends[1]);
        return ends[0];
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[0]);
    static char request[maximum_bytes], reply[maximum_bytes];
    memset(reply, 'x', sizeof reply);
    int fd = buffer_bytes > 0 ? memfd_create("echo", MFD_CLOEXEC) : -1;
    if (buffer_bytes > 0 && (fd < 0 || ftruncate(fd, (off_t)buffer_bytes) < 0)) _exit(1);
    struct epoll_event event = {.events = EPOLLIN};
    int queue = epoll_create1(EPOLL_CLOEXEC);
    if (queue < 0 || epoll_ctl(queue, EPOLL_CTL_ADD, ends[1], &event) < 0) _exit(1);
    size_t there = 0;
    for (;;) {
        if (waits_in_epoll && epoll_wait(queue, &event, 1, -1) < 0) _exit(1);
        ssize_t count = read(ends[1], request, sizeof request);
        if (count <= 0) _exit(0);
        for (there += (size_t)count; there >= request_bytes; there -= request_bytes)
            if (send_with(ends[1], reply, reply_bytes, fd) < 0) _exit(1);
    }
}

int cecho_connect(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) return -1;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ? -1 : fd;
}

ssize_t cecho_receive(int socket, char *buffer, size_t capacity) {
    int descriptors = 0;
    return receive_closing(socket, buffer, capacity, &descriptors);
}

long cecho_round_trip(
    int socket, const char *request, size_t request_bytes, size_t reply_bytes, int polls, int *descriptors) {
    char buffer[maximum_bytes];
    long begun = nanoseconds();
    if (send(socket, request, request_bytes, MSG_NOSIGNAL) != (ssize_t)request_bytes) return -1;
    for (size_t there = 0; there < reply_bytes;) {
        struct pollfd readable = {.fd = socket, .events = POLLIN};
        if (polls && poll(&readable, 1, -1) < 0) return -1;
        ssize_t count = receive_closing(socket, buffer, sizeof buffer, descriptors);
        if (count <= 0) return -1;
        there += (size_t)count;
    }
    return nanoseconds() - begun;
}

uint64_t cecho_sum(const void *bytes, size_t count) {
    const uint64_t *words = bytes;
    uint64_t sum = 0;
    for (size_t i = 0; i < count / sizeof *words; i++) sum += words[i];
    return sum;
}

long cecho_fetch(
    int socket, const char *request, size_t request_bytes, char *buffer, size_t reply_bytes, uint64_t *sum) {
    long begun = nanoseconds();
    if (send(socket, request, request_bytes, MSG_NOSIGNAL) != (ssize_t)request_bytes) return -1;
    for (size_t there = 0; there < reply_bytes;) {
        ssize_t came = recv(socket, buffer + there, reply_bytes - there, 0);
        if (came <= 0) return -1;
        there += (size_t)came;
    }
    *sum += cecho_sum(buffer, reply_bytes);
    return nanoseconds() - begun;
}

long cecho_pipeline(
    int socket, const char *request, size_t request_bytes, size_t reply_bytes, int depth, int rounds) {
    char buffer[maximum_bytes];
    char *requests = malloc(request_bytes * (size_t)depth);
    if (!requests) return -1;
    for (int i = 0; i < depth; i++) memcpy(requests + (size_t)i * request_bytes, request, request_bytes);
    long begun = nanoseconds(), result = -1;
    size_t there = 0;
    for (int sent = 0, answered = 0, closed = 0; answered < rounds;) {
        int wanted = answered + depth < rounds ? answered + depth - sent : rounds - sent;
        size_t bytes = (size_t)wanted * request_bytes;
        if (wanted > 0 && send(socket, requests, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) break;
        sent += wanted;
        ssize_t count = receive_closing(socket, buffer, sizeof buffer, &closed);
        if (count <= 0) break;
        there += (size_t)count;
        answered = (int)(there / reply_bytes);
        if (answered >= rounds) result = nanoseconds() - begun;
    }
    free(requests);
    return result;
}
