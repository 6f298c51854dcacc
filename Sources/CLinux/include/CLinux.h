// Functions of Linux that Swift cannot import: those behind _GNU_SOURCE, variadic functions, function-like macros, and
// constants whose type differs between headers. They contain no decisions.
//
// This header does without _GNU_SOURCE. With it, glibc's types would differ from those of Swift's Glibc module, and no
// file could import both.
#ifndef CLINUX_H
#define CLINUX_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/// The limit of descriptors in one message (the kernel's SCM_MAX_FD).
#define CLINUX_MAX_DESCRIPTORS 253

/// memfd_create with sealing allowed and, from kernel 6.3 on, without the right to be executed.
int clinux_memfd_create(const char *name);
int clinux_add_seals(int fd, int seals);
int clinux_get_seals(int fd);

int clinux_is_ignored(int signal);

/// Starts the program behind the descriptor `program`, whose number is above 5, or `path` when that is -1 or a script's,
/// with `arguments` and `environment`: signals at their defaults and none blocked, `control` as descriptor 3, `more` as 4
/// unless it is -1, input from /dev/null, the other standard streams inherited, everything else closed. 0 and `*pid`, or
/// an error number.
int clinux_spawn(
    pid_t *pid, int program, const char *path, char *const arguments[], char *const environment[], int control,
    int more);
/// Reaps one exited child that is not in `own`. 1: reaped; 0: none has exited; -1: one of `own` is to be reaped first.
int clinux_reap_stranger(const pid_t *own, size_t count);
/// Forks a child of the caller's parent, in a process group of its own, without the C library's fork handlers. Its pid,
/// 0 in the child, or -1.
pid_t clinux_fork_sibling(void);
void clinux_set_name(const char *name);
int clinux_pidfd_open(pid_t pid);
/// 0 when the process behind `pidfd` is a child of this one, else -1.
int clinux_pidfd_is_child(int pidfd);
int clinux_pidfd_send_signal(int pidfd, int signal);
/// Reaps the child behind `pidfd` if it has exited. 1: reaped, `*code` is its exit status or, if `*signaled`, its
/// signal, `*peak` its peak memory in bytes; 0: still running; -1: errno.
int clinux_pidfd_reap(int pidfd, int *code, int *signaled, int64_t *peak);

/// Asks the kernel to send SIGKILL to this process when its parent dies.
int clinux_die_with_parent(void);
/// openat2 with RESOLVE_BENEATH and without links of /proc: `path` must lead to a file beneath the directory `folder`, or it fails
/// with EXDEV. Closed on exec.
int clinux_open_beneath(int folder, const char *path, int flags, mode_t mode);
/// open with O_TMPFILE, for reading and writing: a nameless file in `directory`.
int clinux_open_temporary(const char *directory, mode_t mode);
/// copy_file_range of up to `count` bytes at `offset` of `source` to `offset` of `target`. Bytes copied (0: end), or -1
/// with errno.
ssize_t clinux_copy_range(int source, int target, off_t offset, size_t count);
/// statx without asking a server or another process: what the kernel remembers; 0 for an unknown device.
unsigned long long clinux_remembered_device(int fd);
/// Writes the identity of a regular file and of its contents as text: device, inode, size, times of modification and change. Does
/// not ask a server or another process (statx). Returns its length without the final zero; 0 for other files.
int clinux_identity(int fd, char *text, size_t size);
/// O_PATH, which the headers hide from Swift.
int clinux_path_flag(void);
/// Makes `target` a descriptor of the open file of `source`, closed on exec.
int clinux_replace(int source, int target);

/// Sets the group (-1: unchanged) and then the mode of a socket's file, and follows no link: 0, or -1 with errno, ENOTSOCK for
/// another file.
int clinux_set_socket_access(const char *path, mode_t mode, gid_t group);
/// accept4 with close-on-exec, nonblocking.
int clinux_accept(int listener);
/// Has urgent bytes (MSG_OOB) delivered as others. Otherwise a peek would not show them, nor the descriptors that they come
/// with, and reading past them would close these.
void clinux_keep_urgent_in_line(int socket);

/// sendmsg with `fd_count` descriptors, without SIGPIPE. Bytes sent, or -1 with errno.
ssize_t clinux_send(int socket, const void *bytes, size_t length, const int *fds, size_t fd_count);

/// recvmsg with room for CLINUX_MAX_DESCRIPTORS. Bytes received (0: end), or -1 with errno. Writes `*fd_count`
/// descriptors, closed on exec, to `fds`, and sets `*truncated` when the kernel had to drop some.
ssize_t clinux_receive(int socket, void *buffer, size_t length, int *fds, size_t *fd_count, int *truncated);

/// Reads bytes from a socket without waiting, and leaves them there: bytes (0: end), or -1 with errno. Sets
/// `*with_descriptors` when descriptors belong to some of them, which only clinux_receive delivers.
ssize_t clinux_peek(int socket, void *buffer, size_t length, int *with_descriptors);

size_t clinux_raise_descriptor_limit(void);
/// Gives this thread time slices of `nanoseconds`, and its children those of the kernel, unless it has a policy of its own:
/// 0, or -1 with errno.
int clinux_shorten_time_slice(uint64_t nanoseconds);
/// Sets RLIMIT_CORE to 0, and makes the process undumpable: 0, or -1 with errno.
int clinux_forbid_core_dumps(void);
int clinux_become_user(uid_t uid, gid_t gid);

/// A digest of the code of this process: of the build ids of the program and its libraries, or of the code of those
/// without one.
uint64_t clinux_code_digest(void);

/// Starts a detached thread that runs `body` with `argument`, under a name of at most 15 bytes, with all signals blocked that other
/// processes and timers send: 0, or an error number.
int clinux_start_thread(const char *name, void *(*body)(void *), void *argument);

int clinux_processors(void);

/// All four seals; the one of the seals; those of the size alone; the one against growing.
int clinux_seal_all(void);
int clinux_seal_seals(void);
int clinux_seal_size(void);
int clinux_seal_growth(void);
/// The seals of the size, of the seals themselves, and against all writing except through existing mappings.
int clinux_seal_foreign_writes(void);

/// A word that one process writes and others read: a reader that sees the value also sees everything written before it.
static inline uint64_t clinux_load_acquire(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static inline uint32_t clinux_load_acquire_32(const uint32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static inline void clinux_store_release(uint64_t *word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
/// The monotonic clock as of its last tick, in tenths of a second, without a system call.
static inline int64_t clinux_coarse_tenths(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (int64_t)time.tv_sec * 10 + time.tv_nsec / 100000000;
}

/// Writes the calling thread's number to `word` in shared memory, and lets the kernel add `clinux_owner_died` to it when
/// the thread exits for any reason: 0, or -1 with errno. One word a thread, which must use no robust mutexes.
int clinux_own_until_death(uint32_t *word);
/// Sets such a word to 0 when its owner no longer needs it.
void clinux_disown(uint32_t *word);
uint32_t clinux_owner_died(void);

#endif
