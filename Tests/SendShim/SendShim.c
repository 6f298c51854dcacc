// Refuses messages with descriptors for 200 ms from the first one on, with the error number in SEND_ERROR, as the kernel does
// while too many descriptors of the user are in flight. Appends a byte to the file SEND_REFUSALS for each refusal. Not part
// of the package: tests compile it when they run and preload it into a client.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int file = -1, error;
static int64_t end;

static int64_t milliseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

__attribute__((constructor)) static void prepare(void) {
    const char *path = getenv("SEND_REFUSALS"), *number = getenv("SEND_ERROR");
    if (path) file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (number) error = atoi(number);
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags) {
    if (file >= 0 && error != 0 && message->msg_controllen > 0) {
        if (end == 0) end = milliseconds() + 200;
        if (milliseconds() < end && write(file, "x", 1) == 1) {
            errno = error;
            return -1;
        }
    }
    return syscall(SYS_sendmsg, socket, message, flags);
}
