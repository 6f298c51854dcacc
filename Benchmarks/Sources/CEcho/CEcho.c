#define _GNU_SOURCE
#include "CEcho.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
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

static ssize_t receive_closing(int socket, void *buffer, size_t capacity, int *descriptors) {
    struct iovec part = {buffer, capacity};
    union {
        char space[CMSG_SPACE(sizeof(int) * 8)];
        struct cmsghdr align;
    } control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (received <= 0) return received;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
            close(fd);
            (*descriptors)++;
        }
    }
    return received;
}

int cecho_start(size_t request_bytes, size_t reply_bytes, size_t buffer_bytes, pid_t *pid) {
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
    int fd = memfd_create("echo", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)buffer_bytes) < 0) _exit(1);
    size_t there = 0;
    for (;;) {
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
    static char buffer[maximum_bytes];
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    if (send(socket, request, request_bytes, MSG_NOSIGNAL) != (ssize_t)request_bytes) return -1;
    for (size_t there = 0; there < reply_bytes;) {
        struct pollfd readable = {.fd = socket, .events = POLLIN};
        if (polls && poll(&readable, 1, -1) < 0) return -1;
        ssize_t count = receive_closing(socket, buffer, sizeof buffer, descriptors);
        if (count <= 0) return -1;
        there += (size_t)count;
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    return (ended.tv_sec - begun.tv_sec) * 1000000000L + (ended.tv_nsec - begun.tv_nsec);
}
