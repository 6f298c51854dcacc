// libheif does not write the part of a grid that no cell covers, and libde265 not that of a picture whose slice is missing: without
// this file, such an image shows others that were decoded before. These functions, whose memory is zero, take the place of those
// that allocate planes in this program, because the loader finds a program's symbols before those of libraries.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// Sanitizers have versions of their own, and refuse others.
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)

static void *(*real_new_array)(size_t);

__attribute__((constructor)) static void find_function(void) {
    real_new_array = (void *(*)(size_t))dlsym(RTLD_NEXT, "_Znam");
}

/// C++'s `operator new[]`, for libheif.
void *codec_heif_new_array(size_t size) __asm__("_Znam");

void *codec_heif_new_array(size_t size) {
    void *memory = calloc(1, size > 0 ? size : 1);
    // The real one throws.
    return memory ? memory : real_new_array(size);
}

/// For libde265, which asks for 16 bytes of alignment. Of pages that are new, calloc knows that they are zero.
int posix_memalign(void **memory, size_t alignment, size_t size) {
    int is_common = alignment <= _Alignof(max_align_t);
    void *found = is_common ? calloc(1, size) : memalign(alignment, size);
    if (!found) return ENOMEM;
    if (!is_common) memset(found, 0, size);
    *memory = found;
    return 0;
}

#endif
