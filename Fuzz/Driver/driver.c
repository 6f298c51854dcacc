// The functions that libFuzzer calls. The environment variable FUZZ_TARGET selects the target.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int32_t fuzz_select(const char *name);
void fuzz_run(const uint8_t *bytes, size_t count);
void fuzz_list(void);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    const char *name = getenv("FUZZ_TARGET");
    if (name && fuzz_select(name)) return 0;
    fprintf(stderr, "FUZZ_TARGET must be one of:\n");
    fuzz_list();
    exit(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    fuzz_run(bytes, count);
    return 0;
}
