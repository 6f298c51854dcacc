// What Swift cannot import from Linux: calls behind _GNU_SOURCE, variadic functions, function-like macros, and
// constants whose type differs between headers. Nothing here decides anything.
#ifndef CLINUX_H
#define CLINUX_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/// The most descriptors that one message carries (the kernel's SCM_MAX_FD).
#define CLINUX_MAX_DESCRIPTORS 253

/// Closes every descriptor from `first` upwards in a child to be spawned.
int clinux_spawn_close_from(posix_spawn_file_actions_t *actions, int first);

/// memfd_create with sealing allowed and, where the kernel knows it (6.3), without the right to be executed.
int clinux_memfd_create(const char *name);
/// Adds `seals` to a memfd; 0, or -1 with errno.
int clinux_add_seals(int fd, int seals);
/// The seals of a memfd, or -1 with errno.
int clinux_get_seals(int fd);

int clinux_pidfd_open(pid_t pid);
int clinux_pidfd_send_signal(int pidfd, int signal);
/// Reaps the child behind `pidfd` if it has ended. 1: reaped, `*code` is its exit status or signal, `*signaled`
/// says which; 0: still running; -1: errno.
int clinux_pidfd_reap(int pidfd, int *code, int *signaled);

/// Asks the kernel to send SIGKILL to this process when its parent dies.
int clinux_die_with_parent(void);
/// open with all its arguments.
int clinux_open(const char *path, int flags, mode_t mode);
/// fcntl(F_DUPFD_CLOEXEC).
int clinux_duplicate(int fd);
/// fcntl(F_SETFL) with O_NONBLOCK.
int clinux_set_nonblocking(int fd);

/// connect and bind to a Unix address (a transparent union in glibc, which Swift cannot pass). ENAMETOOLONG when
/// `path` does not fit an address.
int clinux_connect_path(int socket, const char *path);
int clinux_bind_path(int socket, const char *path);
/// accept4 with close-on-exec, not blocking.
int clinux_accept(int listener);

/// sendmsg of `count` parts with `fd_count` descriptors, never raising SIGPIPE. Bytes sent, or -1 with errno.
ssize_t clinux_send(int socket, const struct iovec *parts, size_t count, const int *fds, size_t fd_count);
/// recvmsg with room for CLINUX_MAX_DESCRIPTORS. Bytes received (0: end), or -1 with errno. `*fd_count` descriptors,
/// closed on exec, are written to `fds`; `*truncated` is set when the kernel had to drop some.
ssize_t clinux_receive(int socket, void *buffer, size_t length, int *fds, size_t *fd_count, int *truncated);

/// Columns of the terminal behind `fd`, 0 when it is none.
int clinux_terminal_columns(int fd);

/// The calling thread's error number.
static inline int clinux_errno(void) { return errno; }
static inline int clinux_seal_all(void) { return F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE; }
static inline int clinux_seal_size(void) { return F_SEAL_SHRINK | F_SEAL_GROW; }

#endif
