#define _GNU_SOURCE
#include "CTestSupport.h"

#include <sys/syscall.h>
#include <unistd.h>

int ctest_set_effective_user(uid_t uid) {
    return (int)syscall(SYS_setresuid, (uid_t)-1, uid, (uid_t)-1);
}
