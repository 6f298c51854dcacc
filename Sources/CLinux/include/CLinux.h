// What Swift cannot import from Linux: calls behind _GNU_SOURCE, variadic functions, function-like macros, and
// constants whose type differs between headers. Nothing here decides anything.
//
// This header itself does without _GNU_SOURCE: with it, glibc's types would look different here and in the module that
// Swift knows them from, and no file could import both.
#ifndef CLINUX_H
#define CLINUX_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/// The most descriptors that one message carries (the kernel's SCM_MAX_FD).
#define CLINUX_MAX_DESCRIPTORS 253

/// memfd_create with sealing allowed and, where the kernel knows it (6.3), without the right to be executed.
int clinux_memfd_create(const char *name);
/// Adds `seals` to a memfd; 0, or -1 with errno.
int clinux_add_seals(int fd, int seals);
/// The seals of a memfd, or -1 with errno.
int clinux_get_seals(int fd);

/// A descriptor's news from epoll, without its union.
struct clinux_event {
    uint64_t token;
    int readable;
    int writable;
};
int clinux_epoll_create(void);
/// Adds (or, with `change`, changes) what is watched of `fd`, reported as `token`; 0, or -1 with errno.
int clinux_epoll_watch(int queue, int fd, uint64_t token, int reading, int writing, int change);
int clinux_epoll_forget(int queue, int fd);
/// Waits for up to `capacity` (at most 256) events; -1 milliseconds: for ever. Their number, or -1 with errno.
int clinux_epoll_wait(int queue, struct clinux_event *events, int capacity, int milliseconds);

/// Blocks the `count` signals in this process and returns a descriptor that reports them instead, or -1.
int clinux_signalfd(const int *signals, size_t count);
/// The next signal that `fd` reports, or 0.
int clinux_signalfd_next(int fd);
/// A timer of the monotonic clock as a descriptor, or -1.
int clinux_timerfd(void);
/// Sets the timer to an absolute time of the monotonic clock; 0 and 0 stop it.
int clinux_timerfd_set(int fd, int64_t seconds, int64_t nanoseconds);

/// Starts `path` with `arguments` and `environment`: signals at their defaults and none blocked, `control` as
/// descriptor 3, standard streams as they are (input from /dev/null), everything else closed. 0 and `*pid`, or an
/// error number.
int clinux_spawn(pid_t *pid, const char *path, char *const arguments[], char *const environment[], int control);
/// Forks, without the C library's knowing, a child of the caller's parent, in a process group of its own: its pid, 0 in
/// the child, or -1.
pid_t clinux_fork_sibling(void);
void clinux_set_name(const char *name);
int clinux_pidfd_open(pid_t pid);
/// 0 when the process behind `pidfd` is a child of this one, else -1.
int clinux_pidfd_is_child(int pidfd);
int clinux_pidfd_send_signal(int pidfd, int signal);
/// Reaps the child behind `pidfd` if it has ended. 1: reaped, `*code` is its exit status or signal, `*signaled`
/// says which, `*peak` the most memory it had, in bytes; 0: still running; -1: errno.
int clinux_pidfd_reap(int pidfd, int *code, int *signaled, int64_t *peak);
/// The processor time that a process, not reaped yet, has used so far: 0, or -1 with errno.
int clinux_processor_time(pid_t pid, int64_t *nanoseconds);
/// Whether a process, not reaped yet, is ending or has been told to by SIGKILL: what it had is freed before its end is
/// reported, which takes longer than all else about it. 0 where nothing can be learnt.
int clinux_is_ending(pid_t pid);

/// Waits up to `milliseconds` for `fd` to become readable: 1, 0 when it did not, or -1 with errno.
int clinux_wait_readable(int fd, int milliseconds);

/// Asks the kernel to send SIGKILL to this process when its parent dies.
int clinux_die_with_parent(void);
/// open with all its arguments.
int clinux_open(const char *path, int flags, mode_t mode);
/// open with O_TMPFILE, for reading and writing: a file in `directory` that has no name.
int clinux_open_temporary(const char *directory, mode_t mode);
/// Gives a file without a name the name `path` (linkat through /proc/self/fd): 0, or -1 with errno.
int clinux_link_temporary(int fd, const char *path);
/// copy_file_range of up to `count` bytes at `offset` of `source` to `offset` of `target`. Bytes copied (0: end), or -1
/// with errno.
ssize_t clinux_copy_range(int source, int target, off_t offset, size_t count);
/// Whether clinux_copy_range failed because it cannot copy between these two files at all.
int clinux_cannot_copy_range(int error);
/// Whether open failed because the file system has no O_TMPFILE.
int clinux_lacks_temporary(int error);
/// fcntl(F_DUPFD_CLOEXEC).
int clinux_duplicate(int fd);
/// fcntl(F_SETFL) with O_NONBLOCK.
int clinux_set_nonblocking(int fd);
/// 1 when something could be received on a socket, or its end; 0 when not. Takes nothing.
int clinux_has_arrived(int fd);
/// Makes `target` mean the open file of `source`, closed on exec.
int clinux_replace(int source, int target);

/// connect and bind to a Unix address (a transparent union in glibc, which Swift cannot pass). ENAMETOOLONG when
/// `path` does not fit an address.
int clinux_connect_path(int socket, const char *path);
int clinux_bind_path(int socket, const char *path);
/// accept4 with close-on-exec, not blocking.
int clinux_accept(int listener);

/// The process at the other end of a Unix socket: 0, or -1 with errno.
int clinux_peer(int socket, pid_t *pid, uid_t *uid, gid_t *gid);
// The supplementary groups of the other end; their number, or -1.
int clinux_peer_groups(int socket, gid_t *groups, int capacity);
// Whether a file lies in memory (tmpfs, memfd), so that reading it waits for nothing.
int clinux_is_in_memory(int fd);

/// sendmsg of `count` parts with `fd_count` descriptors, never raising SIGPIPE. Bytes sent, or -1 with errno.
ssize_t clinux_send(int socket, const struct iovec *parts, size_t count, const int *fds, size_t fd_count);
/// What the other end of a stream socket has not received yet, with the kernel's own bookkeeping: bytes, or -1.
int clinux_unread_bytes(int socket);

/// recvmsg with room for CLINUX_MAX_DESCRIPTORS. Bytes received (0: end), or -1 with errno. `*fd_count` descriptors,
/// closed on exec, are written to `fds`; `*truncated` is set when the kernel had to drop some.
ssize_t clinux_receive(int socket, void *buffer, size_t length, int *fds, size_t *fd_count, int *truncated);

/// Looks at what is there to be received, without waiting, and leaves it there: bytes (0: end), or -1 with errno.
/// `*with_descriptors` is set when descriptors come with some of them, which only clinux_receive brings.
ssize_t clinux_peek(int socket, void *buffer, size_t length, int *with_descriptors);

/// Raises the number of descriptors this process may open to the most it is allowed, and returns it.
size_t clinux_raise_descriptor_limit(void);
/// Sets RLIMIT_CORE to 0.
int clinux_forbid_core_dumps(void);
/// The user's numbers by name or decimal id: 0, or -1 when there is none.
int clinux_find_user(const char *name, uid_t *uid, gid_t *gid);
/// A group's number by name or decimal id: 0, or -1 when there is none.
int clinux_find_group(const char *name, gid_t *gid);
/// Becomes `uid` and `gid` for good, without supplementary groups: 0, or -1 with errno.
int clinux_become_user(uid_t uid, gid_t gid);
/// Writes /proc/self/oom_score_adj and the like: 0, or -1 with errno.
int clinux_write_file(const char *path, const char *text);

/// A number that changes whenever the code of this process does: a digest of the build ids of the program and its
/// libraries, or of the code of those without one.
uint64_t clinux_code_digest(void);

/// Processors this process may run on.
int clinux_processors(void);

/// Columns of the terminal behind `fd`, 0 when it is none.
int clinux_terminal_columns(int fd);

static inline void *clinux_map_failed(void) { return MAP_FAILED; }
/// The calling thread's error number.
static inline int clinux_errno(void) { return errno; }
/// All four seals, those of the size alone, and the one against growing.
int clinux_seal_all(void);
int clinux_seal_size(void);
int clinux_seal_growth(void);
/// Those of the size, of the seals themselves, and against all writing but through mappings that exist.
int clinux_seal_foreign_writes(void);

/// A word that one process writes and others read: whoever sees it sees what was written before it.
static inline uint64_t clinux_load_acquire(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static inline uint32_t clinux_load_acquire_32(const uint32_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static inline void clinux_store_release(uint64_t *word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}
/// Tenths of a second of the monotonic clock as of its last tick: no system call.
static inline int64_t clinux_coarse_tenths(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (int64_t)time.tv_sec * 10 + time.tv_nsec / 100000000;
}

/// Writes the calling thread's number to `word`, which is shared, and lets the kernel add `clinux_owner_died` to it when
/// the thread ends, in whatever way: 0, or -1 with errno. One word a thread, which must use no robust mutexes.
int clinux_own_until_death(uint32_t *word);
/// Sets such a word to 0: its owner has no need of it any more.
void clinux_disown(uint32_t *word);
uint32_t clinux_owner_died(void);

#endif
