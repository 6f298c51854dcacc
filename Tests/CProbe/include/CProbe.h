// What a process that was taken over would try.
#ifndef CPROBE_H
#define CPROBE_H

/// Makes ready what attempts are to find: called before the sandbox is entered.
void cprobe_prepare(void);
/// Tries what has this name; 0 when it succeeded, -1 when the name is unknown, else the error. It may not return.
int cprobe_attempt(const char *name);
/// Tries what has this name with a path; as above.
int cprobe_attempt_path(const char *name, const char *path);
/// Starts a thread that does nothing; 0, or an error.
int cprobe_start_thread(void);

#endif
