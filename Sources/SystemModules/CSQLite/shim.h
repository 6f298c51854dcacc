#include <sqlite3.h>
#include <sys/stat.h>

/// Keeps SQLite from replacing links in a database's path by their targets, which may be out of reach where the path is not
/// (/proc/self/fd/4/index). 0, or an error code.
static inline int csqlite_keep_paths(void) {
    sqlite3_vfs *files = sqlite3_vfs_find(0);
    if (!files || files->iVersion < 3) return SQLITE_ERROR;
    return files->xSetSystemCall(files, "lstat", (sqlite3_syscall_ptr)stat);
}

/// Turns off mutexes and memory statistics, before SQLite's first use. 0, or an error code.
static inline int csqlite_use_one_thread(void) {
    int error = sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
    return error ? error : sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}
