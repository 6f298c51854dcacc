#define _GNU_SOURCE
#include "CTestSupport.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int ctest_set_effective_user(uid_t uid) {
    return (int)syscall(SYS_setresuid, (uid_t)-1, uid, (uid_t)-1);
}

long ctest_limit_descriptors(pid_t pid, long count) {
    struct rlimit old;
    if (prlimit(pid, RLIMIT_NOFILE, NULL, &old) < 0) return -1;
    struct rlimit limit = {(rlim_t)count, old.rlim_max};
    return prlimit(pid, RLIMIT_NOFILE, &limit, NULL) < 0 ? -1 : (long)old.rlim_cur;
}
