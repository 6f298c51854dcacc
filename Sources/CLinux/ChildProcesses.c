// Starting and observing child processes.

#define _GNU_SOURCE
#include "CLinux.h"

#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

int clinux_spawn(
    pid_t *pid, const char *path, char *const arguments[], char *const environment[], int control, int more) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    error = posix_spawnattr_init(&attributes);
    if (error) {
        posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    sigfillset(&all);
    sigemptyset(&none);
    // If `control` is 3 already, dup2 clears its close-on-exec flag (since glibc 2.29; closefrom needs 2.34).
    if (!error) error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    // Through a number of its own, because `more` may be 3, or `control` 4.
    if (!error && more >= 0) error = posix_spawn_file_actions_adddup2(&actions, more, 5 + (control == 5));
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, control, 3);
    if (!error && more >= 0) error = posix_spawn_file_actions_adddup2(&actions, 5 + (control == 5), 4);
    if (!error) error = posix_spawn_file_actions_addclosefrom_np(&actions, more >= 0 ? 5 : 4);
    if (!error) error = posix_spawnattr_setsigdefault(&attributes, &all);
    if (!error) error = posix_spawnattr_setsigmask(&attributes, &none);
    // In a process group of its own: the terminal sends Ctrl-C to the parent alone, which stops the child in order.
    if (!error) error = posix_spawnattr_setpgroup(&attributes, 0);
    if (!error)
        error = posix_spawnattr_setflags(
            &attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    if (!error) error = posix_spawn(pid, path, &actions, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

pid_t clinux_fork_sibling(void) {
    // clone and not clone3, which many containers deny. The order of its parameters differs between processors; all but
    // the first are zero.
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) setpgid(0, 0);
    return pid;
}

void clinux_set_name(const char *name) { prctl(PR_SET_NAME, name); }

int clinux_pidfd_open(pid_t pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }
int clinux_pidfd_send_signal(int pidfd, int signal) {
    return (int)syscall(SYS_pidfd_send_signal, pidfd, signal, NULL, 0);
}

int clinux_pidfd_reap(int pidfd, int *code, int *signaled, int64_t *peak) {
    siginfo_t info;
    struct rusage usage;
    memset(&info, 0, sizeof info);
    memset(&usage, 0, sizeof usage);
    // The system call has one argument more than the C library's function.
    if (syscall(SYS_waitid, P_PIDFD, pidfd, &info, WEXITED | WNOHANG, &usage) < 0) return -1;
    if (info.si_pid == 0) return 0;
    *peak = (int64_t)usage.ru_maxrss * 1024;
    *code = info.si_status;
    *signaled = info.si_code != CLD_EXITED;
    return 1;
}

int clinux_pidfd_is_child(int pidfd) {
    siginfo_t info;
    return (int)syscall(SYS_waitid, P_PIDFD, pidfd, &info, WEXITED | WNOHANG | WNOWAIT, NULL);
}

int clinux_reap_stranger(const pid_t *own, size_t count) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0) return 0;
    for (size_t i = 0; i < count; i++)
        if (own[i] == info.si_pid) return -1;
    return waitid(P_PID, (id_t)info.si_pid, &info, WEXITED | WNOHANG) == 0;
}

int clinux_processor_time(pid_t pid, int64_t *nanoseconds) {
    clockid_t clock;
    struct timespec used;
    int error = clock_getcpuclockid(pid, &clock);
    if (error) {
        errno = error;
        return -1;
    }
    if (clock_gettime(clock, &used) < 0) return -1;
    *nanoseconds = (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
    return 0;
}

int clinux_is_ending(pid_t pid) {
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t count = read(fd, text, sizeof text - 1);
    close(fd);
    if (count <= 0) return 0;
    text[count] = 0;
    // The fields follow the name, which is in parentheses: the state is field 3, the kernel's flags are 9, pending
    // signals 31 (proc_pid_stat(5)).
    const char *field = strrchr(text, ')');
    unsigned long flags = 0, pending = 0;
    for (int number = 3; field && (field = strchr(field + 1, ' ')); number++) {
        if (number == 9) flags = strtoul(field, NULL, 10);
        if (number != 31) continue;
        pending = strtoul(field, NULL, 10);
        break;
    }
    const unsigned long exiting = 0x4;
    return (flags & exiting) != 0 || (pending >> (SIGKILL - 1) & 1) != 0;
}

int clinux_die_with_parent(void) { return prctl(PR_SET_PDEATHSIG, SIGKILL); }
