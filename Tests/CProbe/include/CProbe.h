// The attempts of a compromised process.
#ifndef CPROBE_H
#define CPROBE_H

#include <stddef.h>

/// Makes the objects that attempts need. Call it before the sandbox is entered.
void cprobe_prepare(void);

/// Listens on two ports of loopback, for the attempts `connect` and `connect-other`. Returns the first; -1 if it cannot.
int cprobe_listen(void);
/// Returns a TCP socket with unsent bytes, whose last `close` waits for `seconds`; its peer stays open. -1 if it cannot.
int cprobe_lingering_socket(int seconds);
/// Makes the attempt `name`: 0 on success, -1 for an unknown name, else the error. It may not return.
int cprobe_attempt(const char *name);
/// Waits forever; with `waiting` 0 it keeps the processor busy for a while instead.
void cprobe_pause(int waiting);
/// Installs a handler of SIGUSR1 for `cprobe_wait_for_release`.
void cprobe_expect_release(void);
/// Waits for SIGUSR1.
void cprobe_wait_for_release(void);
/// Allocates all available memory and frees it. Returns the number of bytes.
size_t cprobe_fill_memory(void);
/// Sends itself a signal; 0, or the error.
int cprobe_signal_itself(int signal);
/// The signal that the kernel sends when the parent dies (0 for none), or -1 when it cannot be read.
int cprobe_death_signal(void);
/// 1 when the process can dump a core and be traced by others of its user, 0 when not, -1 when it cannot be read.
int cprobe_is_dumpable(void);
/// Makes the attempt `name` with a path; the result is as above.
int cprobe_attempt_path(const char *name, const char *path);
/// Starts an idle thread; 0, or an error.
int cprobe_start_thread(void);
/// Makes any system call except read, write and exit kill the process with SIGKILL (seccomp's strict mode); 0, or the
/// error.
int cprobe_forbid_calls(void);
/// Makes a system call.
void cprobe_call(void);
/// Exits in that mode, in which `_exit` would make a forbidden call.
_Noreturn void cprobe_exit(int status);

#endif
