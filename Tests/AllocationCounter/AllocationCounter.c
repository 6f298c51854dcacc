// Counts the heap allocations of a process. Not part of the package, because a library that the package builds would link
// Swift's libraries, and this one is preloaded into programs that have their own. Tests and benchmarks compile it when they
// run.
//
// LD_PRELOAD names the library, ALLOCATION_COUNT a file: its first eight bytes are the count, in native byte order.

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// The functions of glibc, under the names by which they are still accessible.
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static _Atomic long unseen;
static _Atomic long *count = &unseen;

__attribute__((constructor)) static void map_count(void) {
    const char *path = getenv("ALLOCATION_COUNT");
    int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (file < 0) return;
    if (ftruncate(file, sizeof *count) == 0) {
        void *page = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (page != MAP_FAILED) count = page;
    }
    close(file);
}

void *malloc(size_t size) {
    atomic_fetch_add(count, 1);
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    atomic_fetch_add(count, 1);
    return __libc_calloc(number, size);
}

void *realloc(void *old, size_t size) {
    atomic_fetch_add(count, 1);
    return __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    atomic_fetch_add(count, 1);
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    atomic_fetch_add(count, 1);
    void *memory = __libc_memalign(alignment, size);
    if (!memory) return ENOMEM;
    *result = memory;
    return 0;
}
