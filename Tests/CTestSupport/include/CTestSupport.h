// What only tests need of Linux and Swift cannot call: variadic functions.
#ifndef CTESTSUPPORT_H
#define CTESTSUPPORT_H

#include <sys/types.h>

#ifndef WITHOUT_AVIF
#include "TestAVIF.h"
#endif

/// Gives the calling thread alone another effective user: 0, or -1 with errno. (glibc's own functions change all
/// threads.)
int ctest_set_effective_user(uid_t uid);

/// Lets another process open so many descriptors from now on. How many it could before, or -1 with errno.
long ctest_limit_descriptors(pid_t pid, long count);

#endif
