// A digest of the code of this process, including its libraries.

#define _GNU_SOURCE
#include "CLinux.h"

#include <link.h>

// FNV-1a.
static uint64_t mix(uint64_t hash, const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/// The object's build id among the notes of a segment; NULL if it has none.
static const ElfW(Nhdr) *find_build_id(const unsigned char *notes, size_t size) {
    size_t at = 0;
    while (size - at >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(notes + at);
        size_t name = (note->n_namesz + (size_t)3) & ~(size_t)3, value = (note->n_descsz + (size_t)3) & ~(size_t)3;
        if (name + value > size - at - sizeof *note) break;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && memcmp(note + 1, "GNU", 4) == 0) return note;
        at += sizeof *note + name + value;
    }
    return NULL;
}

static int digest_object(struct dl_phdr_info *object, size_t size, void *result) {
    uint64_t *hash = result;
    (void)size;
    // The kernel's own object, which changes with the kernel.
    if (object->dlpi_name && strncmp(object->dlpi_name, "linux-vdso", 10) == 0) return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type != PT_NOTE) continue;
        const unsigned char *start = (const unsigned char *)(object->dlpi_addr + segment->p_vaddr);
        const ElfW(Nhdr) *note = find_build_id(start, segment->p_memsz);
        if (!note) continue;
        *hash = mix(*hash, (const unsigned char *)(note + 1) + 4, note->n_descsz);
        return 0;
    }
    // Some linkers write no build id. The code itself is hashed then.
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) && (segment->p_flags & PF_R))
            *hash = mix(*hash, (const unsigned char *)(object->dlpi_addr + segment->p_vaddr), segment->p_filesz);
    }
    return 0;
}

uint64_t clinux_code_digest(void) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    dl_iterate_phdr(digest_object, &hash);
    return hash;
}
