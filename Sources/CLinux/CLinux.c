#define _GNU_SOURCE
#include "CLinux.h"

#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <linux/openat2.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

int clinux_memfd_create(const char *name) {
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd;
}

int clinux_seal_all(void) { return F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE; }
int clinux_seal_seals(void) { return F_SEAL_SEAL; }
int clinux_seal_size(void) { return F_SEAL_SHRINK | F_SEAL_GROW; }
int clinux_seal_growth(void) { return F_SEAL_GROW; }
int clinux_seal_foreign_writes(void) { return F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE; }
int clinux_add_seals(int fd, int seals) { return fcntl(fd, F_ADD_SEALS, seals); }
int clinux_get_seals(int fd) { return fcntl(fd, F_GET_SEALS); }

int clinux_is_ignored(int signal) {
    struct sigaction action;
    return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int clinux_replace(int source, int target) { return dup3(source, target, O_CLOEXEC); }

int clinux_open_beneath(int folder, const char *path, int flags, mode_t mode) {
    struct open_how how = {
        .flags = (unsigned)(flags | O_CLOEXEC), .mode = flags & O_CREAT ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
}
int clinux_open_temporary(const char *directory, mode_t mode) {
    return open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
}

ssize_t clinux_copy_range(int source, int target, off_t offset, size_t count) {
    off64_t from = offset, to = offset;
    return copy_file_range(source, &from, target, &to, count, 0);
}

unsigned long long clinux_remembered_device(int fd) {
    struct statx status;
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status)) return 0;
    return (unsigned long long)status.stx_dev_major << 32 | status.stx_dev_minor;
}

int clinux_identity(int fd, char *text, size_t size) {
    struct statx status;
    if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &status)) return 0;
    // Each copy of bytes in a memfd, which has no name, has another identity.
    if (!S_ISREG(status.stx_mode) || status.stx_nlink == 0) return 0;
    int length = snprintf(text, size, "file:%u.%u.%llu.%llu.%lld.%u.%lld.%u", status.stx_dev_major, status.stx_dev_minor,
        (unsigned long long)status.stx_ino, (unsigned long long)status.stx_size,
        (long long)status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec,
        (long long)status.stx_ctime.tv_sec, status.stx_ctime.tv_nsec);
    return length > 0 && (size_t)length < size ? length : 0;
}

int clinux_path_flag(void) { return O_PATH; }

int clinux_set_socket_access(const char *path, mode_t mode, gid_t group) {
    // A descriptor of the file itself, so that no link that takes its place is followed.
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC), error = 0;
    if (fd < 0) return -1;
    struct stat status;
    char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if (fstat(fd, &status) < 0) error = errno;
    else if (!S_ISSOCK(status.st_mode)) error = ENOTSOCK;
    else if (group != (gid_t)-1 && fchownat(fd, "", (uid_t)-1, group, AT_EMPTY_PATH) < 0) error = errno;
    else if (chmod(name, mode) < 0) error = errno;
    close(fd);
    errno = error;
    return error ? -1 : 0;
}

int clinux_accept(int listener) {
    int socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket >= 0) clinux_keep_urgent_in_line(socket);
    return socket;
}

void clinux_keep_urgent_in_line(int socket) {
    int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_OOBINLINE, &on, sizeof on);
}

ssize_t clinux_send(int socket, const void *bytes, size_t length, const int *fds, size_t fd_count) {
    struct iovec part = {(void *)bytes, length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    union {
        char space[CMSG_SPACE(sizeof(int) * CLINUX_MAX_DESCRIPTORS)];
        struct cmsghdr align;
    } control;
    if (fd_count > CLINUX_MAX_DESCRIPTORS) {
        errno = EINVAL;
        return -1;
    }
    if (fd_count > 0) {
        memset(&control, 0, CMSG_SPACE(sizeof(int) * fd_count));
        message.msg_control = control.space;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(header), fds, sizeof(int) * fd_count);
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL);
}

ssize_t clinux_peek(int socket, void *buffer, size_t length, int *with_descriptors) {
    struct iovec part = {buffer, length};
    // Without room for descriptors the peek takes none.
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t count = recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);
    *with_descriptors = count >= 0 && (message.msg_flags & MSG_CTRUNC) != 0;
    return count;
}

ssize_t clinux_receive(int socket, void *buffer, size_t length, int *fds, size_t *fd_count, int *truncated) {
    struct iovec part = {buffer, length};
    union {
        char space[CMSG_SPACE(sizeof(int) * CLINUX_MAX_DESCRIPTORS)];
        struct cmsghdr align;
    } control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    *fd_count = 0;
    *truncated = 0;
    // Bytes that the kernel does not write must not count as descriptors.
    memset(&control, 0, sizeof control);
    ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (received < 0) return received;
    *truncated = (message.msg_flags & MSG_CTRUNC) != 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        const unsigned char *data = CMSG_DATA(header);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, data + i * sizeof(int), sizeof(int));
            if (*fd_count < CLINUX_MAX_DESCRIPTORS) fds[(*fd_count)++] = fd;
            else close(fd);
        }
    }
    return received;
}

size_t clinux_raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return 1024;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}

int clinux_shorten_time_slice(uint64_t nanoseconds) {
    // Another policy was chosen by who started this process.
    if (sched_getscheduler(0) != SCHED_OTHER) return 0;
    // The first version of the kernel's structure, which glibc 2.36 has no name for.
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes = {.size = sizeof attributes, .policy = SCHED_OTHER, .runtime = nanoseconds};
    const uint64_t reset_on_fork = 1;
    attributes.flags = reset_on_fork;
    attributes.nice = getpriority(PRIO_PROCESS, 0);
    return (int)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

int clinux_forbid_core_dumps(void) {
    struct rlimit limit = {0, 0};
    // Also keeps other processes of the same user from reading this one's memory.
    if (prctl(PR_SET_DUMPABLE, 0) < 0) return -1;
    return setrlimit(RLIMIT_CORE, &limit);
}

int clinux_become_user(uid_t uid, gid_t gid) {
    if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0) return -1;
    return setresuid(uid, uid, uid);
}

int clinux_processors(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

int clinux_start_thread(const char *name, void *(*body)(void *), void *argument) {
    // A fault of the thread itself is handled like one of any other.
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&blocked, faults[i]);
    int error = pthread_sigmask(SIG_BLOCK, &blocked, &before);
    if (error) return error;
    pthread_t thread;
    error = pthread_create(&thread, NULL, body, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) return error;
    pthread_setname_np(thread, name);
    pthread_detach(thread);
    return 0;
}
