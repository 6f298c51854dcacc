// The system calls by which a process gives up rights irrevocably, in C because Landlock has no library, and
// libseccomp's actions and checks are macros. The permitted calls and paths are decided in Swift.
#ifndef CSANDBOX_H
#define CSANDBOX_H

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

enum csandbox_action {
    CSANDBOX_ALLOW,
    /// Kills the process with SIGSYS.
    CSANDBOX_KILL,
    /// Fails with the error given with the rule.
    CSANDBOX_FAIL,
};

/// A condition on an argument of a call: its bits of `mask` equal `value`.
struct csandbox_check {
    unsigned argument;
    uint64_t mask;
    uint64_t value;
};

/// A filter under construction. It has no effect before it is loaded.
struct csandbox_filter;

/// Makes a filter with the default action `fallback`; NULL on failure. Calls by another architecture's table kill the
/// process. With `log`, failing calls appear in the kernel's log, as killing ones always do.
struct csandbox_filter *csandbox_filter_create(enum csandbox_action fallback, int error, int log);
/// Adds a rule for calls `name` where all `count` checks hold. The fallback applies to a call that the architecture or
/// libseccomp does not know. 0, or a negative errno.
int csandbox_filter_add(
    struct csandbox_filter *filter, const char *name, enum csandbox_action action, int error,
    const struct csandbox_check *checks, unsigned count);
/// Loads the filter into this process and frees it; 0, or a negative errno.
int csandbox_filter_load(struct csandbox_filter *filter);
void csandbox_filter_free(struct csandbox_filter *filter);

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

/// Sets the soft and hard limit; 0, or -1 with errno. Values above the present hard limit are reduced to it.
int csandbox_limit(int resource, uint64_t value);
static inline int csandbox_limit_file_size(void) { return RLIMIT_FSIZE; }
static inline int csandbox_limit_files(void) { return RLIMIT_NOFILE; }
static inline int csandbox_limit_processes(void) { return RLIMIT_NPROC; }
static inline int csandbox_limit_locked_memory(void) { return RLIMIT_MEMLOCK; }
static inline int csandbox_limit_data(void) { return RLIMIT_DATA; }
static inline int csandbox_limit_core(void) { return RLIMIT_CORE; }

#endif
