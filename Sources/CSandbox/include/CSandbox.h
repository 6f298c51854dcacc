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

// Functions of Landlock return -1 with errno after a failure.

/// The version of the kernel; 0 without Landlock.
int csandbox_landlock_abi(void);
/// Makes rules that deny everything that version `abi` can deny: the file system, binding to TCP ports and, unless
/// `connecting`, connecting to them, and signals and abstract sockets of other processes. Returns their descriptor.
int csandbox_landlock_create(int abi, int connecting);
/// Permits to read the file or, below the directory, all files. If it is `writable`, files and directories below it can
/// also be listed, made, changed and removed. A missing path is skipped.
int csandbox_landlock_allow_path(int ruleset, int abi, const char *path, int writable);
/// Permits to connect to a port, since version 4.
int csandbox_landlock_allow_port(int ruleset, uint16_t port);
int csandbox_landlock_restrict(int ruleset);

/// Sets the soft and hard limit of an RLIMIT_ resource; 0, or -1 with errno. Values above the present hard limit are
/// reduced to it.
int csandbox_limit(int resource, uint64_t value);

#endif
