#define _GNU_SOURCE
#include "CTestSupport.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "MemoryFile.h"

int ctest_set_effective_user(uid_t uid) {
    return (int)syscall(SYS_setresuid, (uid_t)-1, uid, (uid_t)-1);
}

long ctest_limit_descriptors(pid_t pid, long count) {
    struct rlimit old;
    if (prlimit(pid, RLIMIT_NOFILE, NULL, &old) < 0) return -1;
    struct rlimit limit = {(rlim_t)count, old.rlim_max};
    return prlimit(pid, RLIMIT_NOFILE, &limit, NULL) < 0 ? -1 : (long)old.rlim_cur;
}

long long ctest_time_slice(pid_t thread) {
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes = {0};
    if (syscall(SYS_sched_getattr, thread, &attributes, sizeof attributes, 0) < 0) return -1;
    return (long long)attributes.runtime;
}

int ctest_send_urgent(int socket, int descriptor) {
    char byte = 0;
    struct iovec part = {&byte, 1};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (descriptor >= 0) {
        message.msg_control = control.space;
        message.msg_controllen = sizeof control.space;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    return (int)sendmsg(socket, &message, MSG_OOB | MSG_NOSIGNAL);
}

int ctest_huge_memory_file(long size) {
    int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (file >= 0 && ftruncate(file, size) < 0) {
        close(file);
        return -1;
    }
    return file;
}

memory_file ctest_memory_file(void) {
    memory_file file = {.descriptor = memfd_create("test", MFD_CLOEXEC)};
    snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.descriptor);
    return file;
}

uint8_t *ctest_take_bytes(memory_file *file, size_t *length) {
    struct stat status = {0};
    fstat(file->descriptor, &status);
    uint8_t *bytes = status.st_size > 0 ? malloc((size_t)status.st_size) : NULL;
    ssize_t count = bytes ? pread(file->descriptor, bytes, (size_t)status.st_size, 0) : 0;
    *length = count > 0 ? (size_t)count : 0;
    close(file->descriptor);
    return bytes;
}
