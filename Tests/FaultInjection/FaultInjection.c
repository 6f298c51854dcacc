// Lets file system calls fail, or kills the process during a call. Not part of the package: tests compile it when they run
// and preload it into the unmodified programs.
//
// LD_PRELOAD names the library, FAULT_CONTROL a file with a `struct control`, FAULT_DIRECTORY a directory: calls on paths
// in it, on files opened in it and on memfds are counted, and the calls that the control file selects fail. With
// FAULT_DIRECTORY=* calls on all open files are counted, and no calls on paths. With the error ENOBUFS, all calls that send
// messages fail, and no others.
//
// FAULT_LOG names a file to which the changes of files opened in the directory are appended, each as a `struct change`, the
// file's name in the directory (empty for the directory itself) and the written bytes, so that a test can tell what a power
// failure may leave.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { KILL = -1, TEAR = -2 };

struct control {
    /// The number of calls so far.
    _Atomic int64_t calls;
    /// The number of the first call that fails; 0: none.
    _Atomic int64_t first;
    /// The number of the last call that fails.
    _Atomic int64_t last;
    /// The distance between two of these calls that fail.
    _Atomic int64_t stride;
    /// The error number; KILL: the process is killed before the call; TEAR: it is killed in the middle of a write.
    _Atomic int64_t error;
    /// The number of calls that have failed.
    _Atomic int64_t failed;
    /// The seconds that are added to the time of day.
    _Atomic int64_t seconds;
};

enum { MAX_FILES = 4096, MAX_DIRECTORY = 512 };

/// A change of a file.
enum { WRITE = 1, TRUNCATE = 2, SYNC = 3, REMOVE = 4 };

struct change {
    int64_t kind;
    /// Where the bytes were written, or the new size.
    int64_t at;
    /// The number of bytes that follow the name.
    int64_t count;
    int64_t name_length;
};

static struct control none;
static struct control *control = &none;
static char directory[MAX_DIRECTORY];
static size_t directory_length;
static char tracked[MAX_FILES];
static int all_files;
/// The log of changes and its length; -1: none.
static int log_file = -1;
static int64_t log_length;
/// The names of open files in the directory, for the log.
static char *names[MAX_FILES];

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULT_CONTROL"), *folder = getenv("FAULT_DIRECTORY");
    if (!path || !folder || strlen(folder) >= sizeof directory) return;
    int file = REAL(open)(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *page = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    REAL(close)(file);
    if (page == MAP_FAILED) return;
    strcpy(directory, folder);
    directory_length = strlen(folder);
    all_files = strcmp(folder, "*") == 0;
    control = page;
    const char *changes = getenv("FAULT_LOG");
    if (changes) log_file = REAL(open)(changes, O_WRONLY | O_CLOEXEC);
}

/// Kills the process at once: by the signal or, in a sandbox, by the forbidden call.
static void end(void) {
    syscall(SYS_tgkill, getpid(), gettid(), SIGKILL);
    for (;;) pause();
}

static int concerns(const char *path) {
    return directory_length > 0 && !all_files && path && strncmp(path, directory, directory_length) == 0
        && (path[directory_length] == 0 || path[directory_length] == '/');
}

static int is_tracked(int file) { return all_files || (file >= 0 && file < MAX_FILES && tracked[file]); }

static int track(int file) {
    if (file >= 0 && file < MAX_FILES) tracked[file] = 1;
    return file;
}

static void append(const void *bytes, size_t count) {
    ssize_t (*call)(int, const void *, size_t, off_t) = REAL(pwrite);
    if (call(log_file, bytes, count, log_length) == (ssize_t)count) log_length += (int64_t)count;
}

static void note_name(int kind, const char *name, int64_t at, const void *bytes, size_t count) {
    if (log_file < 0) return;
    struct change change = {kind, at, (int64_t)count, (int64_t)strlen(name)};
    append(&change, sizeof change);
    append(name, strlen(name));
    if (count > 0) append(bytes, count);
}

/// Appends a change of an open file to the log.
static void note(int kind, int file, int64_t at, const void *bytes, size_t count) {
    if (file >= 0 && file < MAX_FILES && names[file]) note_name(kind, names[file], at, bytes, count);
}

static int is_lack_of_space(int64_t error) { return error == ENOSPC || error == EDQUOT || error == ENOMEM; }

/// Counts a call and returns whether it fails, with errno set. Errors for lack of space apply only where `takes_room`.
static int fails(int takes_room) {
    int64_t call = atomic_fetch_add(&control->calls, 1) + 1;
    int64_t first = control->first, stride = control->stride, error = control->error;
    if (first == 0 || call < first || call > control->last || (stride > 1 && (call - first) % stride != 0)) return 0;
    if (error == TEAR || error == ENOBUFS || (is_lack_of_space(error) && !takes_room)) return 0;
    atomic_fetch_add(&control->failed, 1);
    if (error == KILL) end();
    errno = (int)error;
    return 1;
}

/// Whether the process is killed within the call that was counted last.
static int tears(void) {
    return control->error == TEAR && control->first != 0 && control->calls >= control->first;
}

// Paths

// The names with 64 are the same functions where `off_t` has 64 bits.
_Static_assert(sizeof(off_t) == sizeof(off64_t), "off_t has another size than off64_t");
#define SAME_AS(name) __attribute__((alias(#name)))

int open(const char *path, int flags, ...) {
    int makes_file = (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
    va_list rest;
    va_start(rest, flags);
    mode_t mode = makes_file ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (!concerns(path)) return REAL(open)(path, flags, mode);
    if (fails(makes_file)) return -1;
    int file = track(REAL(open)(path, flags, mode));
    const char *name = path + directory_length;
    // The directory itself, which has an empty name here, is opened to be synchronised.
    if (log_file >= 0 && file >= 0 && file < MAX_FILES && ((flags & O_ACCMODE) != O_RDONLY || *name == 0))
        names[file] = strdup(*name ? name + 1 : name);
    return file;
}

int open64(const char *path, int flags, ...) SAME_AS(open);

int close(int file) {
    if (file >= 0 && file < MAX_FILES) {
        tracked[file] = 0;
        free(names[file]);
        names[file] = NULL;
    }
    return REAL(close)(file);
}

#define ON_PATH(name, room, path, parameters, arguments) \
    int name parameters { return concerns(path) && fails(room) ? -1 : REAL(name) arguments; }

ON_PATH(mkdir, 1, path, (const char *path, mode_t mode), (path, mode))
ON_PATH(rename, 1, to, (const char *from, const char *to), (from, to))
ON_PATH(access, 0, path, (const char *path, int mode), (path, mode))
ON_PATH(stat, 0, path, (const char *restrict path, struct stat *restrict status), (path, status))
ON_PATH(lstat, 0, path, (const char *restrict path, struct stat *restrict status), (path, status))
ON_PATH(stat64, 0, path, (const char *restrict path, struct stat64 *restrict status), (path, status))
ON_PATH(lstat64, 0, path, (const char *restrict path, struct stat64 *restrict status), (path, status))
ON_PATH(
    linkat, 1, to, (int old, const char *from, int new, const char *to, int flags), (old, from, new, to, flags))
ON_PATH(
    utimensat, 0, path, (int folder, const char *path, const struct timespec times[2], int flags),
    (folder, path, times, flags))

int unlink(const char *path) {
    if (!concerns(path)) return REAL(unlink)(path);
    if (fails(0)) return -1;
    if (path[directory_length]) note_name(REMOVE, path + directory_length + 1, 0, NULL, 0);
    return REAL(unlink)(path);
}

DIR *opendir(const char *path) { return concerns(path) && fails(0) ? NULL : REAL(opendir)(path); }

// Files

#define ON_FILE(type, failure, name, room, file, parameters, arguments) \
    type name parameters { return is_tracked(file) && fails(room) ? failure : REAL(name) arguments; }

ON_FILE(ssize_t, -1, pread, 0, file, (int file, void *bytes, size_t count, off_t at), (file, bytes, count, at))
ON_FILE(int, errno, posix_fallocate, 1, file, (int file, off_t at, off_t size), (file, at, size))
ON_FILE(int, -1, fstat, 0, file, (int file, struct stat *status), (file, status))
ON_FILE(int, -1, fstat64, 0, file, (int file, struct stat64 *status), (file, status))
ON_FILE(int, -1, futimens, 0, file, (int file, const struct timespec times[2]), (file, times))
ON_FILE(int, -1, flock, 0, file, (int file, int operation), (file, operation))

ssize_t pread64(int file, void *bytes, size_t count, off64_t at) SAME_AS(pread);
int posix_fallocate64(int file, off64_t at, off64_t size) SAME_AS(posix_fallocate);

int ftruncate(int file, off_t size) {
    if (is_tracked(file) && fails(1)) return -1;
    note(TRUNCATE, file, size, NULL, 0);
    return REAL(ftruncate)(file, size);
}

int ftruncate64(int file, off64_t size) SAME_AS(ftruncate);

static int sync_as(int (*call)(int), int file) {
    if (is_tracked(file) && fails(1)) return -1;
    int result = call(file);
    if (result == 0) note(SYNC, file, 0, NULL, 0);
    return result;
}

int fsync(int file) { return sync_as(REAL(fsync), file); }
int fdatasync(int file) { return sync_as(REAL(fdatasync), file); }

ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) {
    if (is_tracked(file)) {
        if (fails(1)) return -1;
        if (tears()) {
            REAL(pwrite)(file, bytes, count / 2, at);
            end();
        }
        note(WRITE, file, at, bytes, count);
    }
    return REAL(pwrite)(file, bytes, count, at);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) SAME_AS(pwrite);

ssize_t copy_file_range(int from, off64_t *start, int to, off64_t *at, size_t count, unsigned flags) {
    if (is_tracked(to)) {
        if (fails(1)) return -1;
        if (tears()) {
            REAL(copy_file_range)(from, start, to, at, count / 2, flags);
            end();
        }
    }
    return REAL(copy_file_range)(from, start, to, at, count, flags);
}

int memfd_create(const char *name, unsigned flags) {
    return fails(1) ? -1 : track(REAL(memfd_create)(name, flags));
}

// Locks and seals.
int fcntl(int file, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return is_tracked(file) && fails(0) ? -1 : REAL(fcntl)(file, command, argument);
}

int fcntl64(int file, int command, ...) SAME_AS(fcntl);

// Messages

ssize_t sendmsg(int socket, const struct msghdr *message, int flags) {
    if (control->first == 0 || control->error != ENOBUFS) return REAL(sendmsg)(socket, message, flags);
    atomic_fetch_add(&control->failed, 1);
    errno = ENOBUFS;
    return -1;
}

// Time

int clock_gettime(clockid_t clock, struct timespec *time) {
    int status = REAL(clock_gettime)(clock, time);
    if (clock == CLOCK_REALTIME) time->tv_sec += control->seconds;
    return status;
}
