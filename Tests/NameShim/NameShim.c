// A resolver whose answers change: the n-th look-up of names under ".rebind.test" returns the n-th of the answers in
// NAME_ANSWERS, and later ones the last. Answers are separated by ";", the addresses of an answer by ",". Not part of the
// package: tests compile it when they run and preload it into the download worker.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*resolver)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static resolver real;
static char answers[1024];
static atomic_int questions;

// Reads the variable and looks the function up at load time, because a sandbox may forbid it later.
__attribute__((constructor)) static void prepare(void) {
    real = (resolver)dlsym(RTLD_NEXT, "getaddrinfo");
    const char *text = getenv("NAME_ANSWERS");
    snprintf(answers, sizeof answers, "%s", text ? text : "");
}

static int ends_with(const char *text, const char *end) {
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **result) {
    if (!name || !ends_with(name, ".rebind.test")) return real(name, service, hints, result);
    char copy[sizeof answers];
    strcpy(copy, answers);
    char *rest = copy, *answer = strsep(&rest, ";");
    for (int left = atomic_fetch_add(&questions, 1); left > 0 && rest; left--) answer = strsep(&rest, ";");

    struct addrinfo *first = NULL, **next = &first;
    for (char *address = strsep(&answer, ","); address; address = strsep(&answer, ",")) {
        struct addrinfo numeric = hints ? *hints : (struct addrinfo){0};
        numeric.ai_flags = AI_NUMERICHOST;
        numeric.ai_family = AF_UNSPEC;
        if (real(address, service, &numeric, next) != 0) continue;
        while (*next) next = &(*next)->ai_next;
    }
    *result = first;
    return first ? 0 : EAI_NONAME;
}
