// System calls and image encoders that only tests need.
#ifndef CTESTSUPPORT_H
#define CTESTSUPPORT_H

#include <sys/types.h>

#include "TestEncoders.h"
#include "TestFamilies.h"

#ifndef WITHOUT_AVIF
#include "TestAVIF.h"
#endif

/// Changes the effective user of the calling thread only, where glibc's own functions change that of all threads. Returns
/// 0, or -1 with errno.
int ctest_set_effective_user(uid_t uid);

/// Makes a memfd of huge pages with `size` bytes. Returns -1 without them.
int ctest_huge_memory_file(long size);

/// Sends one urgent byte (MSG_OOB) with a descriptor. Returns 1, or -1 with errno.
int ctest_send_urgent(int socket, int descriptor);

/// Limits the descriptors of another process to `count`. Returns the previous limit, or -1 with errno.
long ctest_limit_descriptors(pid_t pid, long count);

/// The time slice of a thread in nanoseconds, 0 for the calling one; 0 before Linux 6.12, -1 with errno.
long long ctest_time_slice(pid_t thread);

#endif
