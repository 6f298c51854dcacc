#define _GNU_SOURCE
#include "CProbe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int memory_file = -1;
static char *page;

void cprobe_prepare(void) {
    memory_file = memfd_create("probe", 0);
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static long open_path(const char *path, int flags) { return syscall(SYS_openat, AT_FDCWD, path, flags, 0600); }

static long bind_to_port(int type) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, type, 0);
    return fd < 0 ? -1 : bind(fd, (struct sockaddr *)&address, sizeof address);
}

static struct sockaddr_in servers[2];

int cprobe_listen(void) {
    for (int i = 0; i < 2; i++) {
        socklen_t length = sizeof servers[i];
        servers[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || bind(fd, (struct sockaddr *)&servers[i], length) < 0 || listen(fd, 1) < 0 ||
            getsockname(fd, (struct sockaddr *)&servers[i], &length) < 0) {
            return -1;
        }
    }
    return ntohs(servers[0].sin_port);
}

int cprobe_lingering_socket(int seconds) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger option = {.l_onoff = 1, .l_linger = seconds};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int connection = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, length) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &length) ||
        connect(connection, (struct sockaddr *)&address, length) || accept(listener, NULL, NULL) < 0 ||
        setsockopt(connection, SOL_SOCKET, SO_LINGER, &option, sizeof option)) {
        return -1;
    }
    while (send(connection, address.sin_zero, sizeof address.sin_zero, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    return connection;
}

static long connect_to(int server) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&servers[server], sizeof servers[server]);
}

static long make_pair(int domain, int type) {
    int ends[2];
    return socketpair(domain, type, 0, ends);
}

static void *do_nothing(void *argument) {
    if (argument) pause();
    return NULL;
}

int cprobe_start_thread(void) {
    pthread_t thread;
    return pthread_create(&thread, NULL, do_nothing, page);
}

static long run_thread(void) {
    pthread_t thread;
    errno = pthread_create(&thread, NULL, do_nothing, NULL);
    if (errno) return -1;
    return pthread_join(thread, NULL);
}

static long execute(void) {
    char *const arguments[] = {"true", NULL};
    return execve("/bin/true", arguments, arguments + 1);
}

static long abort_itself(void) { abort(); }

static long use_much_memory(void) {
    char *memory = malloc(64 << 20);
    if (!memory) return -1;
    memset(memory, 1, 64 << 20);
    memory = realloc(memory, 96 << 20);
    free(memory);
    return memory ? 0 : -1;
}

void cprobe_pause(int waiting) {
    static volatile int word;
    // FUTEX_WAIT.
    if (waiting) syscall(SYS_futex, &word, 0, 0, NULL, NULL, 0);
    else for (int i = 0; i < 1000000; i++) word = 0;
}

static volatile int released;

static void release(int signal) {
    (void)signal;
    released = 1;
}

void cprobe_expect_release(void) {
    released = 0;
    signal(SIGUSR1, release);
}

void cprobe_wait_for_release(void) {
    // FUTEX_WAIT, which does not wait once the value has changed.
    while (!released) syscall(SYS_futex, &released, 0, 0, NULL, NULL, 0);
}

size_t cprobe_fill_memory(void) {
    enum { step = 1 << 20 };
    struct piece {
        struct piece *next;
    } *last = NULL, *piece;
    size_t filled = 0;
    while ((piece = malloc(step))) {
        memset(piece, 1, step);
        piece->next = last;
        last = piece;
        filled += step;
    }
    while (last) {
        piece = last->next;
        free(last);
        last = piece;
    }
    return filled;
}

int cprobe_signal_itself(int signal) {
    return syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal) < 0 ? errno : 0;
}

int cprobe_death_signal(void) {
    int signal = 0;
    return prctl(PR_GET_PDEATHSIG, &signal) < 0 ? -1 : signal;
}

int cprobe_is_dumpable(void) { return prctl(PR_GET_DUMPABLE) < 0 ? -1 : prctl(PR_GET_DUMPABLE); }

static long fault(void) {
    *(volatile int *)8 = 1;
    return 0;
}

static long divide(void) {
    volatile int zero = 0;
    return 1 / zero;
}

#define ATTEMPT(word, call) \
    if (strcmp(name, word) == 0) { \
        errno = 0; \
        return (call) < 0 ? errno : 0; \
    }

int cprobe_attempt(const char *name) {
    ATTEMPT("nothing", 0)
    ATTEMPT("memory", use_much_memory())
    ATTEMPT("abort", abort_itself())
    ATTEMPT("fault", fault())
    ATTEMPT("divide", divide())
    // Files.
    ATTEMPT("open", open_path("/etc/hostname", O_RDONLY))
    ATTEMPT("open-home", open_path("/root", O_RDONLY | O_DIRECTORY))
    ATTEMPT("open-process", open_path("/proc/self/maps", O_RDONLY))
    ATTEMPT("list", open_path("/etc", O_RDONLY | O_DIRECTORY))
    ATTEMPT("open-to-write", open_path("/dev/null", O_WRONLY))
    ATTEMPT("create", open_path("/tmp/imgprobe", O_WRONLY | O_CREAT))
    ATTEMPT("unlink", unlink("/tmp/imgprobe"))
    ATTEMPT("write-much", pwrite(memory_file, page, 4096, 1 << 20))
    ATTEMPT("write-little", pwrite(memory_file, page, 4096, 0))
    ATTEMPT("io-uring", syscall(SYS_io_uring_setup, 1, NULL))
    // Processes.
    ATTEMPT("execve", execute())
    ATTEMPT("fork", syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0))
    ATTEMPT("clone3", syscall(SYS_clone3, NULL, 0))
    ATTEMPT("thread", run_thread())
    ATTEMPT("ptrace", ptrace(PTRACE_ATTACH, getppid(), NULL, NULL))
    ATTEMPT("kill", kill(syscall(SYS_getpid) == 1 ? 0 : 1, 0))
    ATTEMPT("tgkill", syscall(SYS_tgkill, 1, 1, 0))
    ATTEMPT("priority", setpriority(PRIO_PROCESS, 0, 1))
    // Memory.
    ATTEMPT("memfd", memfd_create("probe", 0))
    ATTEMPT("mprotect-exec", mprotect(page, 4096, PROT_READ | PROT_EXEC))
    ATTEMPT("mmap-exec", mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, memory_file, 0) == MAP_FAILED ? -1 : 0)
    // Sockets.
    ATTEMPT("socket", socket(AF_INET, SOCK_STREAM, 0))
    ATTEMPT("socket-unix", socket(AF_UNIX, SOCK_STREAM, 0))
    ATTEMPT("socket-packet", socket(AF_PACKET, SOCK_RAW, 0))
    ATTEMPT("socketpair", make_pair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK))
    ATTEMPT("socketpair-datagram", make_pair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC))
    ATTEMPT("socketpair-packet", make_pair(AF_UNIX, SOCK_SEQPACKET))
    ATTEMPT("socketpair-tipc", make_pair(AF_TIPC, SOCK_STREAM))
    ATTEMPT("bind-tcp", bind_to_port(SOCK_STREAM))
    ATTEMPT("listen", listen(0, 1))
    ATTEMPT("connect", connect_to(0))
    ATTEMPT("connect-other", connect_to(1))
    ATTEMPT("datagrams", socket(AF_INET, SOCK_DGRAM, 0))
    ATTEMPT("terminal", ioctl(2, TIOCSTI, "x"))
#ifdef __x86_64__
    // The same call by the table of another architecture.
    ATTEMPT("foreign", syscall(0x40000000 | SYS_getpid))
#endif
    return -1;
}

/// Another name in the same folder.
static const char *beside(const char *path) {
    static char other[4096];
    snprintf(other, sizeof other, "%s.other", path);
    return other;
}

static int seal(void) {
    int file = memfd_create("probe", MFD_ALLOW_SEALING);
    return file < 0 ? -1 : fcntl(file, F_ADD_SEALS, F_SEAL_WRITE);
}

static int link_nameless(const char *path) {
    char folder[4096], source[64];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    int file = open(folder, O_TMPFILE | O_RDWR, 0600);
    if (file < 0) return -1;
    snprintf(source, sizeof source, "/proc/self/fd/%d", file);
    return linkat(AT_FDCWD, source, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

int cprobe_attempt_path(const char *name, const char *path) {
    ATTEMPT("read", open(path, O_RDONLY))
    ATTEMPT("write", open(path, O_RDWR))
    ATTEMPT("create-file", open(path, O_RDWR | O_CREAT | O_EXCL, 0600))
    ATTEMPT("link-nameless", link_nameless(path))
    ATTEMPT("list-folder", open(path, O_RDONLY | O_DIRECTORY))
    ATTEMPT("make-folder", mkdir(path, 0700))
    ATTEMPT("remove-file", unlink(path))
    ATTEMPT("rename", rename(path, beside(path)))
    ATTEMPT("truncate", ftruncate(open(path, O_RDWR), 0))
    ATTEMPT("make-link", symlink("/etc/passwd", path))
    ATTEMPT("make-pipe", mkfifo(path, 0600))
    ATTEMPT("change-root", chroot(path))
    ATTEMPT("seal", seal())
    return -1;
}

int cprobe_forbid_calls(void) { return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) < 0 ? errno : 0; }

void cprobe_call(void) { syscall(SYS_getppid); }

void cprobe_exit(int status) {
    for (;;) syscall(SYS_exit, status);
}
