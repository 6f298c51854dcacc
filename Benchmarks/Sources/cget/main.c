// cget PORT COUNT BYTES: writes COUNT values of BYTES bytes to a memcached on loopback, prints `ready`, and after a line of input gets
// them one after the other with libmemcached. Prints the time and the processor time of a get in microseconds.
#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double microseconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    int count = atoi(argv[2]);
    size_t bytes = (size_t)atol(argv[3]);
    char *value = malloc(bytes), key[32], line[16];
    memcached_st *server = memcached_create(NULL);
    if (!value || !server || memcached_server_add(server, "127.0.0.1", (in_port_t)atoi(argv[1])) != MEMCACHED_SUCCESS) return 1;
    memcached_behavior_set(server, MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
    memset(value, 1, bytes);
    for (int i = 0; i < count; i++) {
        int length = snprintf(key, sizeof key, "cget:%d", i);
        if (memcached_set(server, key, (size_t)length, value, bytes, 0, 0) != MEMCACHED_SUCCESS) return 1;
    }
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    double begun = microseconds(CLOCK_MONOTONIC), used = microseconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < count; i++) {
        size_t found;
        uint32_t flags;
        memcached_return_t outcome;
        int length = snprintf(key, sizeof key, "cget:%d", i);
        free(memcached_get(server, key, (size_t)length, &found, &flags, &outcome));
        if (outcome != MEMCACHED_SUCCESS || found != bytes) return 1;
    }
    printf("%f %f\n", (microseconds(CLOCK_MONOTONIC) - begun) / count,
           (microseconds(CLOCK_PROCESS_CPUTIME_ID) - used) / count);
    memcached_free(server);
    return 0;
}
