// Starting and observing child processes.

#define _GNU_SOURCE
#include "CLinux.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

// The new process's way to its program; returns only after an error. It shares the caller's memory until then.
static void execute(
    int program, const char *path, char *const arguments[], char *const environment[], int control, int more) {
    // No number may be left to open, so each descriptor takes the place of another. `more` may be 3, or `control` 4.
    if (more >= 0 && dup2(more, 0) < 0) return;
    if (control == 3 ? fcntl(3, F_SETFD, 0) < 0 : dup2(control, 3) < 0) return;
    if (more >= 0 ? dup2(0, 4) < 0 : close(4) < 0 && errno != EBADF) return;
    if (program >= 0 && dup3(program, 5, O_CLOEXEC) < 0) return;
    closefrom(program >= 0 ? 6 : 5);
    close(0);
    if (open("/dev/null", O_RDONLY) != 0) return;
    // In a process group of its own: the terminal sends Ctrl-C to the parent alone, which stops the child in order.
    if (setpgid(0, 0) < 0) return;
    struct sigaction usual = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++) sigaction(number, &usual, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (program >= 0) {
        syscall(SYS_execveat, 5, "", arguments, environment, AT_EMPTY_PATH);
        // A script's interpreter would find its descriptor closed.
        if (errno != ENOENT && errno != ENOSYS) return;
    }
    execve(path, arguments, environment);
}

int clinux_spawn(
    pid_t *pid, int program, const char *path, char *const arguments[], char *const environment[], int control,
    int more) {
    sigset_t all, before;
    sigfillset(&all);
    // No handler may run in the child, where it would change the caller's memory.
    int error = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (error) return error;
    // posix_spawn cannot execute a descriptor's file, nor close that descriptor with it.
    volatile int failure = 0;
    pid_t child = vfork();
    if (child == 0) {
        execute(program, path, arguments, environment, control, more);
        failure = errno;
        _exit(127);
    }
    error = child < 0 ? errno : failure;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (child > 0 && error) {
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
    }
    *pid = child;
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

int clinux_die_with_parent(void) { return prctl(PR_SET_PDEATHSIG, SIGKILL); }
