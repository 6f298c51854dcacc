// cget PORT COUNT BYTES: writes COUNT values of BYTES bytes to a memcached on loopback, and prints `ready`. Then each line of input is
// a number of values: all are got with libmemcached, that many together. Prints the time and the processor time of each in microseconds.
#include <libmemcached/memcached.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { most_together = 256 };

static double microseconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

/// Gets the values from `first` up to `last`. Returns how many have this length.
static int get(memcached_st *server, int first, int last, size_t bytes) {
    char keys[most_together][32];
    const char *texts[most_together];
    size_t lengths[most_together];
    for (int i = first; i < last; i++) {
        texts[i - first] = keys[i - first];
        lengths[i - first] = (size_t)snprintf(keys[i - first], sizeof keys[0], "cget:%d", i);
    }
    size_t length;
    uint32_t flags;
    memcached_return_t outcome;
    if (last - first == 1) {
        free(memcached_get(server, texts[0], lengths[0], &length, &flags, &outcome));
        return outcome == MEMCACHED_SUCCESS && length == bytes;
    }
    if (memcached_mget(server, texts, lengths, (size_t)(last - first)) != MEMCACHED_SUCCESS) return 0;
    memcached_result_st result;
    if (!memcached_result_create(server, &result)) return 0;
    int found = 0;
    while (memcached_fetch_result(server, &result, &outcome)) found += memcached_result_length(&result) == bytes;
    memcached_result_free(&result);
    return found;
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
    while (fgets(line, sizeof line, stdin)) {
        int together = atoi(line);
        if (together < 1 || together > most_together) return 2;
        double begun = microseconds(CLOCK_MONOTONIC), used = microseconds(CLOCK_PROCESS_CPUTIME_ID);
        for (int first = 0; first < count; first += together) {
            int last = first + together < count ? first + together : count;
            if (get(server, first, last, bytes) != last - first) return 1;
        }
        printf("%f %f\n", (microseconds(CLOCK_MONOTONIC) - begun) / count,
               (microseconds(CLOCK_PROCESS_CPUTIME_ID) - used) / count);
        fflush(stdout);
    }
    memcached_free(server);
    return 0;
}
