#define _GNU_SOURCE
#include "CSandbox.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// seccomp

int csandbox_seccomp_available(void) {
    const uint32_t action = SECCOMP_RET_KILL_PROCESS;
    return (int)syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action);
}

int csandbox_no_new_privileges(void) { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }

// Landlock: with the numbers of its calls, because the system's headers may be older than its kernel.

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

struct ruleset {
    uint64_t file_system;
    uint64_t network;
    uint64_t scopes;
};

struct __attribute__((packed)) path_beneath {
    uint64_t allowed;
    int32_t parent;
};

struct net_port {
    uint64_t allowed;
    uint64_t port;
};

enum {
    CREATE_VERSION = 1,
    RULE_PATH_BENEATH = 1,
    RULE_NET_PORT = 2,
    ACCESS_WRITE_FILE = 1 << 1,
    ACCESS_READ_FILE = 1 << 2,
    ACCESS_READ_DIRECTORY = 1 << 3,
    ACCESS_REMOVE_FILE = 1 << 5,
    ACCESS_MAKE_DIRECTORY = 1 << 7,
    ACCESS_MAKE_FILE = 1 << 8,
    ACCESS_TRUNCATE = 1 << 14,
    ACCESS_BIND_TCP = 1 << 0,
    ACCESS_CONNECT_TCP = 1 << 1,
    SCOPE_ABSTRACT_SOCKET = 1 << 0,
    SCOPE_SIGNAL = 1 << 1,
};

int csandbox_landlock_abi(void) {
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_VERSION);
    return abi < 0 ? 0 : (int)abi;
}

/// All rights to files that a version knows. The number grows with some versions.
static uint64_t file_rights(int abi) {
    int bits = abi >= 5 ? 16 : abi >= 3 ? 15 : abi == 2 ? 14 : 13;
    return (UINT64_C(1) << bits) - 1;
}

/// Regular files and directories alone, because the processes use no links, devices, pipes or sockets. Moves to another
/// directory are not included: version 1 cannot allow them.
static const uint64_t writing = ACCESS_WRITE_FILE | ACCESS_READ_DIRECTORY | ACCESS_REMOVE_FILE | ACCESS_MAKE_DIRECTORY |
                                ACCESS_MAKE_FILE | ACCESS_TRUNCATE;

int csandbox_landlock_create(int abi, int connecting) {
    struct ruleset rules = {.file_system = file_rights(abi)};
    if (abi >= 4) rules.network = ACCESS_BIND_TCP | (connecting ? 0 : ACCESS_CONNECT_TCP);
    if (abi >= 6) rules.scopes = SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL;
    size_t size = abi >= 6 ? sizeof rules : abi >= 4 ? 16 : 8;
    return (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
}

int csandbox_landlock_allow_path(int ruleset, int abi, const char *path, int writable) {
    // Directories that are only read cannot be listed, because the processes know the names that they need. A file in
    // the place of a writable directory is skipped, because these rights do not apply to files.
    int flags = O_PATH | O_CLOEXEC | (writable ? O_DIRECTORY : 0);
    struct path_beneath rule = {.allowed = ACCESS_READ_FILE, .parent = open(path, flags)};
    if (rule.parent < 0) return 0;
    if (writable) rule.allowed |= writing & file_rights(abi);
    int status = (int)syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0);
    close(rule.parent);
    return status;
}

int csandbox_landlock_allow_port(int ruleset, uint16_t port) {
    struct net_port rule = {.allowed = ACCESS_CONNECT_TCP, .port = port};
    return (int)syscall(SYS_landlock_add_rule, ruleset, RULE_NET_PORT, &rule, 0);
}

int csandbox_landlock_restrict(int ruleset) { return (int)syscall(SYS_landlock_restrict_self, ruleset, 0); }

// Limits

int csandbox_limit(int resource, uint64_t value) {
    struct rlimit present;
    if (getrlimit((__rlimit_resource_t)resource, &present) < 0) return -1;
    rlim_t lowest = present.rlim_max < value ? present.rlim_max : (rlim_t)value;
    struct rlimit limit = {lowest, lowest};
    return setrlimit((__rlimit_resource_t)resource, &limit);
}
