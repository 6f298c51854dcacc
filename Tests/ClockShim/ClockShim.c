// Changes the clocks of a process (LD_PRELOAD), so that it needs no option for a test of time:
//
//     FAST_CLOCK=N    its monotonic clock runs N times as fast: a long timeout takes a fraction of its time
//     SLOW_CLOCK=N    N times as slow: a limit of time is far away, however busy the machine is
//     BOOT_CLOCK=FILE the clock since boot is ahead by the milliseconds in FILE (eight bytes, which may change), as if the
//                     machine had been suspended meanwhile
//
// Timeouts of epoll_wait and absolute timers are changed in the same proportion.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static int (*real_clock)(clockid_t, struct timespec *);
static int (*real_wait)(int, struct epoll_event *, int, int);
static int (*real_timer)(int, int, const struct itimerspec *, struct itimerspec *);
static int64_t faster = 1, slower = 1;
static int64_t start;
static const volatile int64_t *ahead;

static int64_t nanoseconds(const struct timespec *time) { return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec; }

static void set(struct timespec *time, int64_t nanoseconds) {
    time->tv_sec = nanoseconds / 1000000000;
    time->tv_nsec = nanoseconds % 1000000000;
}

static int64_t factor(const char *name) {
    const char *text = getenv(name);
    return text && atoi(text) > 0 ? atoi(text) : 1;
}

__attribute__((constructor)) static void prepare(void) {
    struct timespec now;
    const char *path = getenv("BOOT_CLOCK");
    real_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    real_wait = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    real_timer = (int (*)(int, int, const struct itimerspec *, struct itimerspec *))dlsym(RTLD_NEXT, "timerfd_settime");
    real_clock(CLOCK_MONOTONIC, &now);
    start = nanoseconds(&now);
    faster = factor("FAST_CLOCK");
    slower = factor("SLOW_CLOCK");
    if (path) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        void *page = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
        if (page == MAP_FAILED) abort();
        ahead = page;
        close(fd);
    }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    // Other libraries may be initialised first.
    int status = real_clock ? real_clock(clock, time) : (int)syscall(SYS_clock_gettime, clock, time);
    if (status != 0 || !real_clock) return status;
    if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW) {
        set(time, start + (nanoseconds(time) - start) * faster / slower);
    } else if (clock == CLOCK_BOOTTIME && ahead) {
        set(time, nanoseconds(time) + *ahead * 1000000);
    }
    return 0;
}

int epoll_wait(int queue, struct epoll_event *events, int capacity, int milliseconds) {
    // Rounded up, so that the time has come when the wait is over.
    int real = milliseconds > 0 ? (int)((milliseconds * slower + faster - 1) / faster) : milliseconds;
    return real_wait(queue, events, capacity, real);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *new_value, struct itimerspec *old_value) {
    struct itimerspec real = *new_value;
    int64_t time = nanoseconds(&real.it_value);
    // One that is cancelled when the time of day is set is none of the monotonic clock.
    if (flags == TFD_TIMER_ABSTIME && time > start) {
        set(&real.it_value, start + ((time - start) * slower + faster - 1) / faster);
    }
    return real_timer(fd, flags, &real, old_value);
}
