// What a process gives up for good, as C has to say it: Landlock has no library, and libseccomp's actions and checks are
// macros. Which calls and paths remain is decided in Swift.
#ifndef CSANDBOX_H
#define CSANDBOX_H

#include <stddef.h>
#include <stdint.h>

/// What becomes of a system call.
enum csandbox_action {
    CSANDBOX_ALLOW,
    /// It ends the process with SIGSYS.
    CSANDBOX_KILL,
    /// It fails with the error that is given beside.
    CSANDBOX_FAIL,
};

/// What an argument of a call is compared for: its bits of `mask` equal `value`.
struct csandbox_check {
    unsigned argument;
    uint64_t mask;
    uint64_t value;
};

/// A filter that is being put together; no call is decided before it is loaded.
struct csandbox_filter;

/// A filter that does with all calls what `fallback` says, or NULL. Foreign architectures end the process.
/// With `log`, calls that fail show in the kernel's log, as those that end the process do anyway.
struct csandbox_filter *csandbox_filter_create(enum csandbox_action fallback, int error, int log);
/// Decides the call of this name where all `count` checks are true; a call that the architecture or libseccomp does not
/// know stays with the fallback. 0, or a negative errno.
int csandbox_filter_add(
    struct csandbox_filter *filter, const char *name, enum csandbox_action action, int error,
    const struct csandbox_check *checks, unsigned count);
/// Puts it in force for this process and frees it; 0, or a negative errno.
int csandbox_filter_load(struct csandbox_filter *filter);
void csandbox_filter_free(struct csandbox_filter *filter);

/// Keeps this process and all that it will start from getting rights by execve; 0, or -1 with errno.
int csandbox_no_new_privileges(void);

/// The version of the kernel's Landlock; 0 where there is none.
int csandbox_landlock_abi(void);
/// A path beneath which something stays allowed.
struct csandbox_path {
    const char *path;
    /// Whether files and folders can be listed, made, changed and removed there, too, and not only files read.
    int writable;
};

/// Denies what the version `abi` can deny: all of the file system but what is beneath the `count` paths (those that do
/// not exist are passed over), TCP ports to bind and, unless `connecting`, to connect to, and signals and abstract
/// sockets of others. 0, or -1 with errno.
int csandbox_landlock_enter(int abi, const struct csandbox_path *paths, size_t count, int connecting);

/// A limit, soft and hard; 0, or -1 with errno. A value that is above the present hard limit becomes that.
int csandbox_limit(int resource, uint64_t value);
int csandbox_limit_file_size(void);
int csandbox_limit_files(void);
int csandbox_limit_processes(void);
int csandbox_limit_locked_memory(void);
int csandbox_limit_data(void);
int csandbox_limit_core(void);
/// Makes a write beyond the limit of a file's size fail instead of ending the process.
void csandbox_ignore_file_size_signal(void);

#endif
