// A file in memory, for libraries that write to a path.
#ifndef MEMORYFILE_H
#define MEMORYFILE_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    int descriptor;
    char path[32];
} memory_file;

memory_file ctest_memory_file(void);

/// Closes the file and returns its bytes, to be freed with free; NULL without any.
uint8_t *ctest_take_bytes(memory_file *file, size_t *length);

#endif
