// cfeed BASE COUNT THREADS SIDE: loads the JPEGs BASE/0 … BASE/COUNT-1 with libcurl and one persistent connection for each
// thread, or from files if BASE is a path, decodes them with libjpeg-turbo to fit SIDE × SIDE pixels (0: in full size), and
// frees them. Prints "ready", waits for a line, prints the milliseconds of processor time, waits for the end of its input.
#include <curl/curl.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "CReference.h"

enum { most_threads = 256, largest_file = 1 << 20 };

static const char *base;
static int count, side;
static atomic_int next_number, decoded;

typedef struct {
    size_t length;
    uint8_t bytes[largest_file];
} body;

static void fail(const char *what) {
    fprintf(stderr, "cfeed: %s\n", what);
    exit(1);
}

static size_t receive(char *bytes, size_t size, size_t number, void *target) {
    body *received = target;
    size_t length = size * number;
    if (length > largest_file - received->length) return 0;
    memcpy(received->bytes + received->length, bytes, length);
    received->length += length;
    return length;
}

static void read_file(const char *path, body *file) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = descriptor < 0 ? -1 : read(descriptor, file->bytes, largest_file);
    if (length < 0) fail(path);
    file->length = (size_t)length;
    close(descriptor);
}

static void download(CURL *transfer, const char *url, body *received) {
    long status = 0;
    received->length = 0;
    curl_easy_setopt(transfer, CURLOPT_URL, url);
    if (curl_easy_perform(transfer) != CURLE_OK) fail(url);
    curl_easy_getinfo(transfer, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200) fail(url);
}

static void *load(void *unused) {
    (void)unused;
    CURL *transfer = curl_easy_init();
    body *received = malloc(sizeof *received);
    if (!transfer || !received) fail("no memory");
    curl_easy_setopt(transfer, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(transfer, CURLOPT_WRITEDATA, received);
    for (int number; (number = next_number++) < count;) {
        char name[1024];
        snprintf(name, sizeof name, "%s/%d", base, number);
        if (base[0] == '/') read_file(name, received);
        else download(transfer, name, received);
        uint8_t *pixels = cref_jpeg_within(received->bytes, received->length, (unsigned)side);
        if (!pixels) fail(name);
        free(pixels);
        decoded++;
    }
    curl_easy_cleanup(transfer);
    free(received);
    return NULL;
}

static double processor_milliseconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3
        + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

int main(int words, char **word) {
    int threads = words == 5 ? atoi(word[3]) : 0;
    if (threads < 1 || threads > most_threads) fail("usage: cfeed BASE COUNT THREADS SIDE");
    base = word[1];
    count = atoi(word[2]);
    side = atoi(word[4]);
    if (curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK) fail("no libcurl");
    char line[16];
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin)) return 1;
    double begun = processor_milliseconds();
    pthread_t running[most_threads];
    for (int i = 0; i < threads; i++)
        if (pthread_create(&running[i], NULL, load, NULL) != 0) fail("no thread");
    for (int i = 0; i < threads; i++) pthread_join(running[i], NULL);
    if (decoded != count) fail("some images are missing");
    printf("%f\n", processor_milliseconds() - begun);
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) continue;
    return 0;
}
