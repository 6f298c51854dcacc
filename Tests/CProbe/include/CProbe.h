// What a process that was taken over would try.
#ifndef CPROBE_H
#define CPROBE_H

#include <stddef.h>

/// Makes ready what attempts are to find: called before the sandbox is entered.
void cprobe_prepare(void);
/// Tries what has this name; 0 when it succeeded, -1 when the name is unknown, else the error. It may not return.
int cprobe_attempt(const char *name);
/// Waits, for good unless it is woken; with `waiting` 0 it only keeps the processor busy for a while.
void cprobe_pause(int waiting);
/// Uses memory until there is no more, and frees it; how many bytes there were.
size_t cprobe_fill_memory(void);
/// Sends itself a signal; 0, or the error.
int cprobe_signal_itself(int signal);
/// The signal that the kernel sends when the parent dies (0 for none), or -1 when it cannot be read.
int cprobe_death_signal(void);
/// 1 when the process can dump a core and be traced by others of its user, 0 when not, -1 when it cannot be read.
int cprobe_is_dumpable(void);
/// Tries what has this name with a path; as above.
int cprobe_attempt_path(const char *name, const char *path);
/// Starts a thread that does nothing; 0, or an error.
int cprobe_start_thread(void);
/// From now on any system call but read, write and exit ends the process with SIGKILL (the strict mode of seccomp); 0, or
/// the error.
int cprobe_forbid_calls(void);
/// Makes a system call.
void cprobe_call(void);
/// Ends a process in that mode: `_exit` makes another call.
_Noreturn void cprobe_exit(int status);

#endif
