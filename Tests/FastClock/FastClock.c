// Makes the monotonic clock of a process run FAST_CLOCK times as fast (LD_PRELOAD). A test of a long timeout takes a fraction
// of its time then, and the process needs no option for it. Timeouts of epoll_wait are shortened in the same proportion.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int (*real_clock)(clockid_t, struct timespec *);
static int (*real_wait)(int, struct epoll_event *, int, int);
static int64_t factor = 1;
static int64_t start;

static int64_t nanoseconds(const struct timespec *time) { return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec; }

__attribute__((constructor)) static void prepare(void) {
    struct timespec now;
    const char *text = getenv("FAST_CLOCK");
    real_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    real_wait = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    real_clock(CLOCK_MONOTONIC, &now);
    start = nanoseconds(&now);
    if (text && atoi(text) > 0) factor = atoi(text);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    // Other libraries may be initialised first.
    int status = real_clock ? real_clock(clock, time) : (int)syscall(SYS_clock_gettime, clock, time);
    if (status == 0 && real_clock && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW)) {
        int64_t fast = start + (nanoseconds(time) - start) * factor;
        time->tv_sec = fast / 1000000000;
        time->tv_nsec = fast % 1000000000;
    }
    return status;
}

int epoll_wait(int queue, struct epoll_event *events, int capacity, int milliseconds) {
    // Rounded up, so that the time has come when the wait is over.
    int shorter = milliseconds > 0 ? (int)((milliseconds + factor - 1) / factor) : milliseconds;
    return real_wait(queue, events, capacity, shorter);
}
