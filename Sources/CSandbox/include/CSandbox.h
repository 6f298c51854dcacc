// System calls by which a process gives up rights irrevocably, in C because they have no functions in the C library or
// variadic ones. The permitted calls and paths are decided in Swift.
#ifndef CSANDBOX_H
#define CSANDBOX_H

#include <stddef.h>
#include <stdint.h>

/// Whether the kernel can kill a process for a system call; 0, or -1 with errno.
int csandbox_seccomp_available(void);

/// Keeps this process and its children from gaining rights through execve; 0, or -1 with errno.
int csandbox_no_new_privileges(void);

int csandbox_landlock_abi(void);
/// A path with its descendants that stays permitted.
struct csandbox_path {
    const char *path;
    /// Whether files and directories below it can be listed, made, changed and removed, and not only files read.
    int writable;
};

/// Denies everything that Landlock version `abi` can deny: the file system except the `count` paths (missing ones are
/// skipped), binding to TCP ports and, unless `connecting`, connecting to them, and signals and abstract sockets of
/// other processes. With `ports`, connections to these ports alone are permitted. 0, or -1 with errno.
int csandbox_landlock_enter(
    int abi, const struct csandbox_path *paths, size_t count, int connecting, const uint16_t *ports, size_t port_count);

/// Sets the soft and hard limit of an RLIMIT_ resource; 0, or -1 with errno. Values above the present hard limit are
/// reduced to it.
int csandbox_limit(int resource, uint64_t value);

#endif
