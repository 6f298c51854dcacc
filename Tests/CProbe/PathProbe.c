#define _GNU_SOURCE
#include "CProbe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

#define ATTEMPT(word, call) \
    if (strcmp(name, word) == 0) { \
        errno = 0; \
        return (call) < 0 ? errno : 0; \
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
