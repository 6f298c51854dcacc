// A word of shared memory that records whether a thread is alive: the kernel marks it when the thread exits (robust
// futexes).

#define _GNU_SOURCE
#include "CLinux.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

int clinux_own_until_death(uint32_t *word) {
    // In shared memory, because the kernel may reclaim private memory before it reads the list when memory is short.
    struct {
        struct robust_list_head head;
        struct robust_list entry;
    } *list = mmap(NULL, sizeof *list, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (list == MAP_FAILED) return -1;
    list->head.list.next = &list->entry;
    list->entry.next = &list->head.list;
    list->head.futex_offset = (long)((uintptr_t)word - (uintptr_t)&list->entry);
    if (syscall(SYS_set_robust_list, &list->head, sizeof list->head) != 0) {
        munmap(list, sizeof *list);
        return -1;
    }
    __atomic_store_n(word, (uint32_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    return 0;
}

void clinux_disown(uint32_t *word) { __atomic_store_n(word, 0, __ATOMIC_RELEASE); }
uint32_t clinux_owner_died(void) { return FUTEX_OWNER_DIED; }
