// Tests of the client that need a process of their own: see test_client.py, which provides brokers and origins.
//
// usage: client_tests TEST SOCKET [ARGUMENT]...
//
// A test that needs something to happen outside prints a line and waits for one.

#define _GNU_SOURCE 1

#include "imgbroker.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

static imgbroker_error error;
// The socket, and what else the test is given.
static char **arguments;

// Fails with the error's message unless a call succeeded.
static void expect(imgbroker_code code, imgbroker_code expected, int line) {
    if (code == expected) return;
    fprintf(stderr, "line %d: %s instead of %s: %s\n", line, imgbroker_code_name(code), imgbroker_code_name(expected),
        error.message);
    exit(1);
}
#define EXPECT(code, expected) expect(code, expected, __LINE__)
#define OK(code) expect(code, IMGBROKER_OK, __LINE__)

// Prints a line, and waits for one.
static void ask(const char *text) {
    char line[16];
    printf("%s\n", text);
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin) != NULL);
}

static imgbroker *open_connection_or_null(const char *socket) {
    return imgbroker_open(&(imgbroker_settings){.socket = socket}, &error);
}

static imgbroker *open_connection(const char *socket) {
    imgbroker *broker = open_connection_or_null(socket);
    CHECK(broker != NULL);
    return broker;
}

static bool is_utf8(const char *text) {
    json_t *string = json_string(text);
    bool is_valid = string != NULL;
    json_decref(string);
    return is_valid;
}

static int count_entries(const char *folder) {
    DIR *directory = opendir(folder);
    CHECK(directory != NULL);
    int count = 0;
    while (readdir(directory) != NULL) count++;
    closedir(directory);
    return count;
}

// Checks that all descriptors but the standard ones are closed by exec.
static void check_close_on_exec(void) {
    for (int descriptor = 3; descriptor < 200; descriptor++) {
        int flags = fcntl(descriptor, F_GETFD);
        CHECK(flags < 0 || (flags & FD_CLOEXEC) != 0);
    }
}

static int count_mappings(void) {
    FILE *file = fopen("/proc/self/maps", "r");
    CHECK(file != NULL);
    char *line = NULL;
    size_t capacity = 0;
    int count = 0;
    // The sanitizer's mappings are its own.
    while (getline(&line, &capacity, file) > 0) count += strstr(line, "memfd:") != NULL;
    free(line);
    fclose(file);
    return count;
}

// Waits until the connection has something to do, and does it.
static void step(imgbroker *broker) {
    struct pollfd poller = {.fd = imgbroker_fd(broker), .events = POLLIN};
    CHECK(poll(&poller, 1, 20000) == 1);
    imgbroker_process(broker);
}

// Waits for the next reply.
static imgbroker_reply next(imgbroker *broker) {
    imgbroker_reply reply;
    while (!imgbroker_next(broker, &reply)) step(broker);
    return reply;
}

static imgbroker_image *load(imgbroker *broker, const char *url, const imgbroker_options *options, int line) {
    imgbroker_image *image;
    expect(imgbroker_get(broker, url, options, &image, &error), IMGBROKER_OK, line);
    return image;
}
// Loads an image by a URL and options.
#define LOAD(broker, url, ...) load(broker, url, __VA_ARGS__, __LINE__)

// Loads an image, checks a condition of `loaded`, and releases it.
#define CHECK_LOADED(condition, ...) \
    do { \
        imgbroker_image *loaded = LOAD(__VA_ARGS__); \
        CHECK(condition); \
        imgbroker_image_release(loaded); \
    } while (0)

// Reads a number out of the broker's figures.
static long long figure(imgbroker *broker, const char *name) {
    char *json, pattern[64];
    OK(imgbroker_stats(broker, &json, &error));
    snprintf(pattern, sizeof pattern, "\"%s\":", name);
    const char *at = strstr(json, pattern);
    CHECK(at != NULL);
    long long value = atoll(at + strlen(pattern));
    free(json);
    return value;
}

static void test_fork(imgbroker *broker) {
    imgbroker_image *image = LOAD(broker, arguments[1], NULL);
    uint8_t first = image->pixels[0];
    pid_t child = fork();
    if (child == 0) {
        imgbroker_image *other = NULL;
        imgbroker_reply reply;
        EXPECT(imgbroker_get(broker, arguments[1], NULL, &other, &error), IMGBROKER_ERROR_FORKED);
        CHECK(other == NULL && image->pixels[0] == first && !imgbroker_next(broker, &reply));
        CHECK(imgbroker_send(broker, &(imgbroker_request){.url = arguments[1]}, &error) == 0);
        imgbroker_process(broker);
        imgbroker_cancel(broker, 1);
        imgbroker_image_release(image);
        imgbroker_close(broker);
        broker = open_connection(arguments[0]);
        CHECK_LOADED(loaded->pixels[0] == first, broker, arguments[1], NULL);
        imgbroker_close(broker);
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(image->pixels[0] == first);
    imgbroker_image_release(image);
    imgbroker_image_release(LOAD(broker, arguments[1], &(imgbroker_options){.width = 5}));
    // The child has released nothing and sent nothing: the parent's connection is as it was.
    CHECK_LOADED(loaded->pixels[0] == first, broker, arguments[1], NULL);
}

// Connects, and opens descriptors until none of 32 is left. Returns their number.
static int fill_table(imgbroker *broker, int *descriptors) {
    char *json;
    OK(imgbroker_hello(broker, &json, &error));
    free(json);
    CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){32, 32}) == 0);
    int count = 0;
    while ((descriptors[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) count++;
    return count;
}

static void test_full_table(imgbroker *broker) {
    static int descriptors[64];
    imgbroker_image *image = NULL;
    int count = fill_table(broker, descriptors);
    EXPECT(imgbroker_get(broker, arguments[1], NULL, &image, &error), IMGBROKER_ERROR_PROCESS_LIMIT);
    CHECK(image == NULL && error.retryable);
    EXPECT(imgbroker_get(broker, arguments[1], NULL, &image, &error), IMGBROKER_ERROR_PROCESS_LIMIT);
    EXPECT(imgbroker_get_path(broker, "/etc/hostname", NULL, &image, &error), IMGBROKER_ERROR_PROCESS_LIMIT);
    EXPECT(imgbroker_store(broker, arguments[1], "x", 1, NULL, &error), IMGBROKER_ERROR_PROCESS_LIMIT);
    CHECK(imgbroker_open(NULL, &error) == NULL && error.code == IMGBROKER_ERROR_PROCESS_LIMIT);
    close(descriptors[--count]);
    // An image takes a descriptor only while it arrives.
    for (uint32_t width = 1; width < 9; width++) {
        CHECK_LOADED(loaded->width == width && loaded->size > 0,
            broker, arguments[1], &(imgbroker_options){.width = width});
    }
    imgbroker_image_release(LOAD(broker, arguments[1], NULL));
    while (count > 0) close(descriptors[--count]);
}

static void test_no_broker(imgbroker *broker) {
    imgbroker_image *image;
    EXPECT(imgbroker_get(broker, "http://127.0.0.1/a.png", NULL, &image, &error), IMGBROKER_ERROR_NO_BROKER);
    CHECK(image == NULL && error.retryable && strstr(error.message, arguments[0]) != NULL);
    uint64_t number = imgbroker_send(broker, &(imgbroker_request){.url = "http://127.0.0.1/a.png"}, &error);
    imgbroker_reply reply = next(broker);
    CHECK(reply.final && reply.request == number && reply.error.code == IMGBROKER_ERROR_NO_BROKER);
    imgbroker_reply_clear(&reply);
    imgbroker_close(broker);
    char path[300];
    memset(path, 'a', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    broker = open_connection(path);
    EXPECT(imgbroker_get(broker, "http://127.0.0.1/a.png", NULL, &image, &error), IMGBROKER_ERROR_NO_BROKER);
    imgbroker_close(broker);
}

static void test_arguments(imgbroker *broker) {
    imgbroker_image *image;
    EXPECT(imgbroker_get(broker, NULL, NULL, &image, &error), IMGBROKER_ERROR_INVALID_ARGUMENT);
    EXPECT(imgbroker_get(broker, "http://a/\xff", NULL, &image, &error), IMGBROKER_ERROR_INVALID_ARGUMENT);
    EXPECT(imgbroker_get_path(broker, "/does/not/exist.png", NULL, &image, &error), IMGBROKER_ERROR_FILE);
    CHECK(strstr(error.message, "/does/not/exist.png") != NULL);
    // The end of a long path is cut, before a character. Of the one path or the other, the room ends within a character.
    char long_path[243] = "/a";
    for (size_t index = 2; index < 242; index += 2) memcpy(long_path + index, "\xd0\xb6", 3);
    for (int index = 0; index < 2; index++) {
        const char *path = long_path + 1 - index;
        EXPECT(imgbroker_get_path(broker, path, NULL, &image, &error), IMGBROKER_ERROR_FILE);
        CHECK(is_utf8(error.message) && strstr(error.message, "cannot open ") != NULL);
        CHECK(strstr(error.message, "\xd0\xb6 (") != NULL);
    }
    char pipe_path[200];
    snprintf(pipe_path, sizeof pipe_path, "%s.pipe", arguments[0]);
    CHECK(mkfifo(pipe_path, 0600) == 0);
    EXPECT(imgbroker_get_path(broker, pipe_path, NULL, &image, &error), IMGBROKER_ERROR_BAD_REQUEST);
    unlink(pipe_path);
    EXPECT(imgbroker_get_fd(broker, -1, NULL, &image, &error), IMGBROKER_ERROR_INVALID_ARGUMENT);
    EXPECT(imgbroker_get(broker, arguments[1], &(imgbroker_options){.fit = (imgbroker_fit)9}, &image, &error),
        IMGBROKER_ERROR_INVALID_ARGUMENT);
    EXPECT(imgbroker_get(broker, arguments[1], &(imgbroker_options){.steps = "sparkle:sigma=4"}, &image, &error),
        IMGBROKER_ERROR_BAD_REQUEST);
    EXPECT(imgbroker_get(broker, arguments[1], &(imgbroker_options){.width = 70000}, &image, &error),
        IMGBROKER_ERROR_BAD_REQUEST);
    char *url = malloc(2 << 20);
    memset(url, 'a', 2 << 20);
    url[(2 << 20) - 1] = '\0';
    EXPECT(imgbroker_get(broker, url, NULL, &image, &error), IMGBROKER_ERROR_INVALID_ARGUMENT);
    free(url);
    imgbroker_reply reply;
    imgbroker_call(broker, &(imgbroker_request){.kind = IMGBROKER_OTHER, .json = "[1]"}, &reply);
    CHECK(reply.error.code == IMGBROKER_ERROR_INVALID_ARGUMENT);
    imgbroker_call(broker,
        &(imgbroker_request){
            .kind = IMGBROKER_OTHER, .json = "{\"type\":\"subscribe\",\"events\":[\"started\"]}"}, &reply);
    CHECK(reply.error.code == IMGBROKER_ERROR_INVALID_ARGUMENT);
    // Errors may be ignored, and no refusal affects the connection.
    CHECK(imgbroker_get(broker, NULL, NULL, &image, NULL) == IMGBROKER_ERROR_INVALID_ARGUMENT);
    CHECK_LOADED(loaded->width == 50 && loaded->height == 50,
        broker, arguments[1], &(imgbroker_options){.steps = " pad:width=40,height=50,color=#ff0000ff  round:circle "});
    imgbroker_image_release(NULL);
}

static void test_store(imgbroker *broker) {
    const char *url = "http://127.0.0.1/stored";
    enum { WIDTH = 3, HEIGHT = 2, STRIDE = 16, OFFSET = 32 };
    uint8_t rows[OFFSET + STRIDE * HEIGHT];
    for (size_t index = 0; index < sizeof rows; index++) rows[index] = (uint8_t)(index | 3);
    imgbroker_pixels pixels = {.width = WIDTH, .height = HEIGHT, .stride = STRIDE, .offset = OFFSET,
        .format = IMGBROKER_BGRA8, .alpha = IMGBROKER_STRAIGHT};
    imgbroker_options options = {.format = IMGBROKER_BGRA8, .alpha = IMGBROKER_STRAIGHT};
    imgbroker_image *image;
    OK(imgbroker_store_pixels(broker, url, &pixels, rows, sizeof rows, IMGBROKER_STORAGE_MEMORY, &error));
    image = LOAD(broker, url, &options);
    CHECK(image->width == WIDTH && image->height == HEIGHT && image->stride == STRIDE);
    CHECK(image->format == IMGBROKER_BGRA8 && image->alpha == IMGBROKER_STRAIGHT);
    CHECK(memcmp(image->pixels, rows + OFFSET, (HEIGHT - 1) * STRIDE + 4 * WIDTH) == 0);
    imgbroker_image_release(image);

    // A payload that arrives in many parts.
    pixels = (imgbroker_pixels){.width = 2000, .height = 1000, .alpha = IMGBROKER_STRAIGHT};
    size_t size = (size_t)4 * pixels.width * pixels.height;
    uint8_t *many = malloc(size);
    for (size_t index = 0; index < size; index++) many[index] = (uint8_t)(index * index >> 8);
    OK(imgbroker_store_pixels(broker, url, &pixels, many, size, IMGBROKER_STORAGE_MEMORY, &error));
    imgbroker_options by_payload = {.alpha = IMGBROKER_STRAIGHT, .delivery = IMGBROKER_INLINE};
    CHECK_LOADED(loaded->size == size && memcmp(loaded->pixels, many, size) == 0, broker, url, &by_payload);
    free(many);
    pixels = (imgbroker_pixels){.width = WIDTH, .height = HEIGHT, .stride = STRIDE, .offset = OFFSET,
        .format = IMGBROKER_BGRA8, .alpha = IMGBROKER_STRAIGHT};

    // A sealed memfd is shared as it is.
    int descriptor = memfd_create("rows", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(write(descriptor, rows, sizeof rows) == sizeof rows);
    CHECK(fcntl(descriptor, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0);
    imgbroker_reply reply;
    imgbroker_request request = {
        .kind = IMGBROKER_STORE, .url = url, .descriptor = descriptor, .pixels = &pixels};
    imgbroker_call(broker, &request, &reply);
    error = reply.error;
    OK(reply.error.code);
    imgbroker_reply_clear(&reply);
    CHECK_LOADED(loaded->pixels[0] == rows[OFFSET], broker, url, &options);
    close(descriptor);

    // Encoded bytes.
    static const uint8_t gif[] = {'G', 'I', 'F', '8', '9', 'a', 1, 0, 1, 0, 0x80, 0, 0, 10, 20, 30, 0, 0, 0, 0x2c, 0, 0,
        0, 0, 1, 0, 1, 0, 0, 2, 2, 0x44, 1, 0, 0x3b};
    OK(imgbroker_store(broker, url, gif, sizeof gif, "image/gif", &error));
    CHECK_LOADED(loaded->width == 1 && memcmp(loaded->pixels, "\x0a\x14\x1e\xff", 4) == 0, broker, url, NULL);
    EXPECT(imgbroker_store(broker, url, "text", 4, NULL, &error), IMGBROKER_ERROR_UNSUPPORTED_FORMAT);
    imgbroker_status status;
    OK(imgbroker_query(broker, url, NULL, &status, &error));
    CHECK(status.memory && status.fresh);
    uint64_t removed = 0, done = 0, failed = 0;
    OK(imgbroker_remove(broker, url, &removed, &error));
    CHECK(removed == 1);
    const char *urls[] = {arguments[1], "http://127.0.0.1:1/"};
    OK(imgbroker_prefetch(broker, urls, 2, NULL, &done, &failed, &error));
    CHECK(done == 1 && failed == 1);
}

// A file with `data:` URLs and what becomes of each: `image`, `empty`, `invalid`, or `other` bytes.
static void test_data_urls(imgbroker *broker) {
    json_t *cases = json_load_file(arguments[1], 0, NULL);
    CHECK(json_array_size(cases) > 20);
    for (size_t index = 0; index < json_array_size(cases); index++) {
        json_t *each = json_array_get(cases, index);
        const char *outcome = json_string_value(json_object_get(each, "outcome"));
        imgbroker_image *image;
        imgbroker_code code =
            imgbroker_get(broker, json_string_value(json_object_get(each, "url")), NULL, &image, &error);
        CHECK((code == IMGBROKER_OK) == (strcmp(outcome, "image") == 0));
        CHECK((code == IMGBROKER_ERROR_EMPTY_IMAGE) == (strcmp(outcome, "empty") == 0));
        CHECK((code == IMGBROKER_ERROR_INVALID_ARGUMENT) == (strcmp(outcome, "invalid") == 0));
        if (image != NULL) imgbroker_image_release(image);
    }
    json_decref(cases);
}

static void test_files(imgbroker *broker) {
    imgbroker_image *by_path, *by_descriptor;
    OK(imgbroker_get_path(broker, arguments[1], NULL, &by_path, &error));
    CHECK(by_path->url == NULL && by_path->source == IMGBROKER_FROM_FILE && by_path->width == 64);
    int descriptor = open(arguments[1], O_RDONLY | O_CLOEXEC);
    OK(imgbroker_get_fd(broker, descriptor, NULL, &by_descriptor, &error));
    CHECK(by_descriptor == by_path);
    imgbroker_image_release(by_descriptor);
    // Other options, so that it is no kept image.
    imgbroker_options options = {.total_timeout_ms = 50000};
    OK(imgbroker_get_fd(broker, descriptor, &options, &by_descriptor, &error));
    CHECK(fcntl(descriptor, F_GETFD) >= 0);
    // Its bytes, which are known by their digest.
    struct stat status;
    CHECK(fstat(descriptor, &status) == 0);
    char *bytes = malloc((size_t)status.st_size);
    CHECK(pread(descriptor, bytes, (size_t)status.st_size, 0) == status.st_size);
    imgbroker_image *of_bytes[2];
    for (int index = 0; index < 2; index++) {
        OK(imgbroker_get_bytes(broker, bytes, (size_t)status.st_size, &options, &of_bytes[index], &error));
        CHECK(of_bytes[index]->url == NULL && of_bytes[index]->width == 64);
    }
    CHECK(of_bytes[1] != of_bytes[0] && of_bytes[1]->source == IMGBROKER_FROM_MEMORY);
    for (int index = 0; index < 2; index++) imgbroker_image_release(of_bytes[index]);
    free(bytes);
    EXPECT(imgbroker_get_bytes(broker, "", 0, NULL, &of_bytes[0], &error), IMGBROKER_ERROR_EMPTY_IMAGE);
    EXPECT(imgbroker_get_bytes(broker, NULL, 0, NULL, &of_bytes[0], &error), IMGBROKER_ERROR_INVALID_ARGUMENT);
    // Requests own descriptors until they end.
    imgbroker_send(broker, &(imgbroker_request){.path = arguments[1]}, &error);
    imgbroker_send(broker, &(imgbroker_request){.descriptor = descriptor}, &error);
    imgbroker_send(broker, &(imgbroker_request){.kind = IMGBROKER_STORE, .url = "http://a/", .data = "a", .size = 1},
        &error);
    check_close_on_exec();
    for (int index = 0; index < 3; index++) {
        imgbroker_reply reply = next(broker);
        CHECK(reply.final);
        imgbroker_reply_clear(&reply);
    }
    check_close_on_exec();
    // The same buffer is mapped once.
    CHECK(by_descriptor->pixels == by_path->pixels && by_descriptor->source == IMGBROKER_FROM_MEMORY);
    close(descriptor);
    imgbroker_image_release(by_path);
    CHECK(by_descriptor->pixels[3] == 255);
    imgbroker_close(broker);
    CHECK(by_descriptor->pixels[3] == 255);
    imgbroker_image_release(by_descriptor);
}

static void test_leaks(imgbroker *broker) {
    int descriptors = 0, mappings = 0;
    for (uint32_t round = 0; round < 300; round++) {
        imgbroker_image *images[4];
        for (uint32_t index = 0; index < 4; index++) {
            // Images of which some are kept, some are the same, and some are new.
            imgbroker_options options = {.width = 1 + (round * 4 + index) % 50};
            if (index == 3) options.delivery = IMGBROKER_INLINE;
            images[index] = LOAD(broker, arguments[1], &options);
        }
        for (uint32_t index = 0; index < 4; index++) imgbroker_image_release(images[index]);
        if (round == 100) {
            descriptors = count_entries("/proc/self/fd");
            mappings = count_mappings();
        }
    }
    CHECK(count_entries("/proc/self/fd") == descriptors && count_mappings() <= mappings + 2);
    imgbroker_close(broker);
    CHECK(count_entries("/proc/self/fd") == descriptors - 4 && count_mappings() == 0);
}

// Leases end without a further request, by the descriptor alone.
static void test_releases(imgbroker *broker) {
    imgbroker *observer = open_connection(arguments[0]);
    for (int repeat = 0; repeat < 3; repeat++) {
        CHECK_LOADED(figure(observer, "leasedBytes") > 0, broker, arguments[1], NULL);
        while (figure(observer, "leasedBytes") > 0) step(broker);
    }
    imgbroker_close(observer);
}

static void test_kept(imgbroker *broker) {
    imgbroker_image *first, *other;
    imgbroker *observer = open_connection(arguments[0]);
    long long before = figure(observer, "mappedHits"), requests = figure(observer, "requests");
    // A slot is stated once the image comes from memory.
    imgbroker_image_release(LOAD(broker, arguments[1], NULL));
    first = LOAD(broker, arguments[1], NULL);
    // Until nothing is due, so that the uses alone make the descriptor readable, within about a second.
    struct pollfd poller = {.fd = imgbroker_fd(broker), .events = POLLIN};
    while (poll(&poller, 1, 300) == 1) imgbroker_process(broker);
    for (int index = 0; index < 1000; index++) {
        CHECK_LOADED(loaded == first, broker, arguments[1], NULL);
    }
    CHECK(figure(observer, "requests") <= requests + 2);
    while (figure(observer, "mappedHits") < before + 1000) step(broker);
    CHECK(imgbroker_get_kept(broker, arguments[1], &(imgbroker_options){.width = 9}) == NULL);
    // Through the pollable interface, too, with a reply that makes the descriptor readable.
    uint64_t number = imgbroker_send(broker, &(imgbroker_request){.url = arguments[1], .user = &first}, &error);
    CHECK(poll(&poller, 1, 300) == 1);
    imgbroker_reply reply;
    CHECK(imgbroker_next(broker, &reply) && reply.request == number && reply.image == first && reply.user == &first);
    imgbroker_reply_clear(&reply);
    while (figure(observer, "mappedHits") < before + 1001) step(broker);
    imgbroker_close(observer);
    // No more than four are kept: the least recently used ones go.
    for (uint32_t width = 1; width <= 8; width++) {
        for (int repeat = 0; repeat < 3; repeat++) {
            CHECK_LOADED(loaded->width == width,
                broker, arguments[1], &(imgbroker_options){.width = width, .steps = "invert"});
        }
    }
    int kept = 0;
    for (uint32_t width = 1; width <= 8; width++) {
        other = imgbroker_get_kept(broker, arguments[1], &(imgbroker_options){.width = width, .steps = "invert"});
        kept += other != NULL;
        imgbroker_image_release(other);
    }
    CHECK(kept >= 1 && kept <= 4);
    // A removal is visible at once.
    imgbroker_image_release(LOAD(broker, arguments[1], NULL));
    OK(imgbroker_remove(broker, arguments[1], NULL, &error));
    CHECK(imgbroker_get_kept(broker, arguments[1], NULL) == NULL);
    imgbroker_image_release(first);
}

static void test_upgrade(imgbroker *broker) {
    imgbroker_image *kept;
    for (int repeat = 0; repeat < 3; repeat++) {
        // An image has no slot before it comes from memory.
        for (int tries = 0; (kept = imgbroker_get_kept(broker, arguments[1], NULL)) == NULL; tries++) {
            CHECK(tries < 1000);
            CHECK_LOADED(repeat == 0 || loaded->source == IMGBROKER_FROM_MEMORY, broker, arguments[1], NULL);
        }
        imgbroker_image_release(kept);
        imgbroker_reply reply;
        OK(imgbroker_call(
            broker, &(imgbroker_request){.kind = IMGBROKER_OTHER, .json = "{\"type\":\"upgrade\"}"}, &reply));
        imgbroker_reply_clear(&reply);
        // The page has ended with the program that wrote it.
        CHECK(imgbroker_get_kept(broker, arguments[1], NULL) == NULL);
    }
}

static void test_reload(imgbroker *broker) {
    imgbroker_request request = {.kind = IMGBROKER_OTHER, .json = "{\"type\":\"reload\"}"};
    imgbroker_reply reply;
    ask("settings");
    OK(imgbroker_call(broker, &request, &reply));
    printf("%s\n", reply.json);
    imgbroker_reply_clear(&reply);
    ask("mistake");
    CHECK(imgbroker_call(broker, &request, &reply) == IMGBROKER_ERROR_BAD_REQUEST);
    printf("%s\n", reply.error.message);
    imgbroker_reply_clear(&reply);
}

static void test_trace(imgbroker *broker) {
    imgbroker_options options = {.width = 5, .trace = true};
    imgbroker_image *image = LOAD(broker, arguments[1], &options);
    CHECK(image->span_count > 1 && strcmp(image->spans[image->span_count - 1].name, "reply") == 0);
    for (size_t index = 0; index < image->span_count; index++) CHECK(image->spans[index].duration_us >= 0);
    imgbroker_image_release(image);
    // A hit has no other span, and is requested each time.
    for (int repeat = 0; repeat < 3; repeat++) {
        CHECK_LOADED(loaded->span_count == 1 && loaded->spans[0].start_us >= 0, broker, arguments[1], &options);
    }
    options.trace = false;
    // Also if the image is kept without a trace.
    for (int tries = 0; (image = imgbroker_get_kept(broker, arguments[1], &options)) == NULL; tries++) {
        CHECK(tries < 1000);
        CHECK_LOADED(loaded->spans == NULL && loaded->span_count == 0, broker, arguments[1], &options);
    }
    imgbroker_image_release(image);
    options.trace = true;
    CHECK(imgbroker_get_kept(broker, arguments[1], &options) == NULL);
}

// The placeholder of a gradient from black to white is one, too; text that is no hash is refused.
static void test_thumb_hash(imgbroker *broker) {
    imgbroker_image *image;
    uint8_t pixels[IMGBROKER_THUMB_HASH_BYTES];
    uint32_t width, height;
    image = LOAD(broker, arguments[1], NULL);
    CHECK(imgbroker_decode_thumb_hash(image->thumb_hash, pixels, &width, &height));
    CHECK(width == 32 && height >= 14 && height <= 18);
    for (uint32_t row = 0; row < height; row++) {
        const uint8_t *pixel = pixels + (size_t)row * width * 4 + width / 2 * 4;
        CHECK(abs(pixel[0] - (int)(255 * row / (height - 1))) < 48 && abs(pixel[2] - pixel[0]) < 12 && pixel[3] == 255);
    }
    // All beginnings of the hash, and all texts that differ by a character: decoded within the room, or refused.
    char text[100], base[100];
    snprintf(base, sizeof base, "%s", image->thumb_hash);
    for (size_t length = 0; length <= strlen(base); length++) {
        snprintf(text, length + 1, "%s", base);
        bool is_decoded = imgbroker_decode_thumb_hash(text, pixels, &width, &height);
        CHECK(length >= 20 || !is_decoded);
        for (int byte = 1; byte < 256 && length < strlen(base); byte++) {
            snprintf(text, sizeof text, "%s", base);
            text[length] = (char)byte;
            if (imgbroker_decode_thumb_hash(text, pixels, &width, &height)) CHECK(width <= 32 && height <= 32);
        }
    }
    memset(text, 'A', sizeof text - 1);
    text[sizeof text - 1] = 0;
    CHECK(!imgbroker_decode_thumb_hash(text, pixels, &width, &height));
    imgbroker_image_release(image);
}

// Plays an animation of 60 frames, of which a client keeps the first one.
static void test_animation(imgbroker *broker) {
    imgbroker_image *still = LOAD(broker, arguments[1], NULL);
    imgbroker_image *kept;
    while ((kept = imgbroker_get_kept(broker, arguments[1], NULL)) == NULL) {
        imgbroker_image_release(LOAD(broker, arguments[1], NULL));
    }
    imgbroker_image_release(kept);
    imgbroker_animation animation = {.url = arguments[1]};
    for (int round = 0; round < 2; round++) {
        uint64_t count = 0;
        for (;; count++) {
            OK(imgbroker_next_frame(broker, &animation, &error));
            if (animation.pixels == NULL) break;
            CHECK(animation.index == count && animation.delay_ms == 40);
            CHECK(animation.part->width == 320 && animation.pixels[1] == count * 4);
        }
        CHECK(count == 60);
        imgbroker_end_animation(&animation);
    }
    // A failure loses no place.
    OK(imgbroker_next_frame(broker, &animation, &error));
    animation.url = "http://127.0.0.1:1/";
    CHECK(imgbroker_next_frame(broker, &animation, &error) != IMGBROKER_OK && animation.pixels == NULL);
    animation.url = arguments[1];
    OK(imgbroker_next_frame(broker, &animation, &error));
    CHECK(animation.index == 1 && animation.pixels[1] == 4);
    imgbroker_end_animation(&animation);
    imgbroker_image_release(still);
}

// Leaves a request whose download goes on.
static void test_detach(imgbroker *broker) {
    uint64_t request = imgbroker_send(broker, &(imgbroker_request){.url = arguments[1]}, &error);
    while (figure(broker, "running") == 0) continue;
    imgbroker_update(broker, request, IMGBROKER_PRIORITY_HIGH, true);
    imgbroker_update(broker, 12345, IMGBROKER_PRIORITY_LOW, false);
    // The answer to this comes after those.
    figure(broker, "running");
}

static void test_detached(imgbroker *broker) {
    imgbroker_image *image = NULL;
    imgbroker_options options = {.cache = IMGBROKER_ONLY_IF_CACHED};
    while (imgbroker_get(broker, arguments[1], &options, &image, &error) == IMGBROKER_ERROR_NOT_CACHED) usleep(1000);
    CHECK(image != NULL && image->width == 64);
    imgbroker_image_release(image);
}

static void test_cancel(imgbroker *broker) {
    // The origin does not answer until the test says so.
    uint64_t first = imgbroker_send(broker, &(imgbroker_request){.url = arguments[1]}, &error);
    imgbroker_cancel(broker, first);
    imgbroker_reply reply = next(broker);
    CHECK(reply.request == first && reply.final && reply.error.code == IMGBROKER_ERROR_CANCELLED);
    uint64_t second = imgbroker_send(broker, &(imgbroker_request){.url = arguments[1], .user = &first}, &error);
    while (figure(broker, "running") == 0) continue;
    imgbroker_cancel(broker, second);
    imgbroker_cancel(broker, 12345);
    reply = next(broker);
    CHECK(reply.request == second && reply.final && reply.user == &first);
    CHECK(reply.error.code == IMGBROKER_ERROR_CANCELLED);
    // A blocking call leaves the replies to other requests alone.
    uint64_t third = imgbroker_send(broker, &(imgbroker_request){.url = arguments[2]}, &error);
    CHECK_LOADED(loaded->width == 7, broker, arguments[2], &(imgbroker_options){.width = 7});
    reply = next(broker);
    CHECK(reply.request == third && reply.type == IMGBROKER_REPLY_IMAGE && reply.image->width == 64);
    imgbroker_reply_clear(&reply);
    // Closing forgets pending requests and replies.
    imgbroker_send(broker, &(imgbroker_request){.url = arguments[1]}, &error);
    imgbroker_send(broker, &(imgbroker_request){.url = arguments[2]}, &error);
}

static void test_restart(imgbroker *broker) {
    imgbroker_image *image, *again;
    image = LOAD(broker, arguments[1], NULL);
    uint8_t first = image->pixels[0];
    // A child has the connection's descriptors, but is no part of it.
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    // A request in flight is sent again.
    uint64_t number = imgbroker_send(broker, &(imgbroker_request){.url = arguments[2]}, &error);
    int descriptor = imgbroker_fd(broker);
    ask("restart");
    imgbroker_reply reply = next(broker);
    error = reply.error;
    OK(reply.error.code);
    CHECK(reply.request == number && reply.image->width == 64 && imgbroker_fd(broker) == descriptor);
    imgbroker_reply_clear(&reply);
    // An idle connection, too; and images stay valid.
    ask("restart");
    again = LOAD(broker, arguments[1], NULL);
    CHECK(again->pixels[0] == first && image->pixels[0] == first);
    imgbroker_image_release(image);
    imgbroker_image_release(again);
    // The descriptor is readable only while something is due.
    struct pollfd poller = {.fd = descriptor, .events = POLLIN};
    for (int count = 0; poll(&poller, 1, 300) == 1; count++) {
        CHECK(count < 20);
        imgbroker_process(broker);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    // A broker that does not come back.
    imgbroker_close(broker);
    broker = imgbroker_open(&(imgbroker_settings){.socket = arguments[0], .reconnect_ms = 200}, &error);
    image = LOAD(broker, arguments[1], NULL);
    ask("stop");
    EXPECT(imgbroker_get(broker, arguments[1], &(imgbroker_options){.width = 3}, &again, &error),
        IMGBROKER_ERROR_NO_BROKER);
    CHECK(imgbroker_get_kept(broker, arguments[1], NULL) == NULL && image->pixels[0] == first);
    imgbroker_image_release(image);
    imgbroker_close(broker);
}

static void test_silence(imgbroker *broker) {
    char *json;
    OK(imgbroker_stats(broker, &json, &error));
    free(json);
    // A wait of more than twice `patience_ms` is no silence, because the broker answers the request for a sign of life.
    uint64_t number = imgbroker_send(broker, &(imgbroker_request){.url = arguments[1]}, &error);
    struct timespec pause = {.tv_nsec = 20000000};
    imgbroker_reply reply;
    for (int index = 0; index < 175; index++) {
        nanosleep(&pause, NULL);
        imgbroker_process(broker);
        CHECK(!imgbroker_next(broker, &reply));
    }
    ask("freeze");
    reply = next(broker);
    CHECK(reply.request == number && reply.error.code == IMGBROKER_ERROR_NOT_ANSWERING);
    ask("continue");
    OK(imgbroker_stats(broker, &json, &error));
    free(json);
    // A blocking call, too.
    ask("freeze");
    EXPECT(imgbroker_stats(broker, &json, &error), IMGBROKER_ERROR_NOT_ANSWERING);
    ask("continue");
}

static void test_subscription(imgbroker *broker) {
    imgbroker_request request = {
        .kind = IMGBROKER_OTHER, .json = "{\"type\":\"subscribe\",\"events\":[\"finished\"]}"};
    uint64_t number = imgbroker_send(broker, &request, &error);
    imgbroker_reply reply = next(broker);
    CHECK(reply.request == number && reply.type == IMGBROKER_REPLY_DONE && !reply.final);
    imgbroker_reply_clear(&reply);
    imgbroker_image_release(LOAD(broker, arguments[1], &(imgbroker_options){.cache = IMGBROKER_RELOAD}));
    reply = next(broker);
    CHECK(reply.request == number && reply.type == IMGBROKER_REPLY_EVENT && strstr(reply.json, arguments[1]) != NULL);
    imgbroker_reply_clear(&reply);
    imgbroker_cancel(broker, number);
    do {
        reply = next(broker);
        CHECK(reply.request == number && (reply.final || reply.type == IMGBROKER_REPLY_EVENT));
        imgbroker_reply_clear(&reply);
    } while (!reply.final);
    CHECK(reply.type == IMGBROKER_REPLY_ERROR && reply.error.code == IMGBROKER_ERROR_CANCELLED);
    imgbroker_image_release(LOAD(broker, arguments[1], NULL));
    CHECK(!imgbroker_next(broker, &reply));
}

// A lease of one session is not released in the next one, where the same number is another buffer.
static void test_sessions(imgbroker *broker) {
    imgbroker_image *images[3];
    for (size_t index = 0; index < 3; index++) {
        images[index] = LOAD(broker, "http://a/b", NULL);
        if (index == 1) imgbroker_image_release(images[0]);
    }
    imgbroker_close(broker);
    CHECK(images[1]->pixels[0] == 3 && images[2]->pixels == images[1]->pixels);
    imgbroker_image_release(images[1]);
    imgbroker_image_release(images[2]);
}

// The broker answers a request that was sent before a release as if the buffer were still here, or with the buffer
// again.
static void test_pipelined(imgbroker *broker) {
    for (int index = 0; index < 2; index++) imgbroker_send(broker, &(imgbroker_request){.url = "http://a/b"}, &error);
    for (int index = 0; index < 2; index++) {
        imgbroker_reply reply = next(broker);
        while (!reply.final) reply = next(broker);
        CHECK(reply.error.code == IMGBROKER_OK && reply.image->pixels[0] == atoi(arguments[1 + index]));
        imgbroker_reply_clear(&reply);
    }
    imgbroker_close(broker);
    CHECK(count_mappings() == 0);
}

// The room of kept images is for all requests that were sent before it was made.
static void test_refused_together(imgbroker *broker) {
    imgbroker_image_release(LOAD(broker, "http://a/b", NULL));
    const char *urls[] = {"http://a/c", "http://a/d"};
    for (int index = 0; index < 2; index++) CHECK(imgbroker_send(broker, &(imgbroker_request){.url = urls[index]}, &error));
    for (int index = 0; index < 2; index++) {
        imgbroker_reply reply = next(broker);
        while (!reply.final) reply = next(broker);
        CHECK(reply.error.code == IMGBROKER_OK && reply.image->pixels[0] == 3 + index);
        imgbroker_reply_clear(&reply);
    }
    imgbroker_close(broker);
}

// Three images in one segment, which ends.
static void test_segments(imgbroker *broker) {
    imgbroker_image *images[3];
    int descriptors = 0;
    for (size_t index = 0; index < 3; index++) {
        images[index] = LOAD(broker, "http://a/b", NULL);
        CHECK(images[index]->pixels == images[0]->pixels + 32 * index && images[index]->pixels[0] == 7);
        if (index == 0) descriptors = count_entries("/proc/self/fd");
        CHECK(count_entries("/proc/self/fd") == descriptors && count_mappings() == 1);
    }
    imgbroker_image_release(images[1]);
    // This reply comes after the end of the segment.
    imgbroker_image_release(LOAD(broker, "http://a/c", NULL));
    CHECK(images[2]->pixels[31] == 7 && count_mappings() == 1);
    imgbroker_image_release(images[0]);
    imgbroker_image_release(images[2]);
    while (count_mappings() > 0) step(broker);
}

// Images in segments stay valid after their connection was closed, and so do their leases.
static void test_outliving(imgbroker *broker) {
    imgbroker_image *image = LOAD(broker, "http://a/b", NULL);
    imgbroker_send(broker, &(imgbroker_request){.url = "http://a/c"}, &error);
    int descriptors = count_entries("/proc/self/fd");
    imgbroker_close(broker);
    // The epoll instance and a timer are closed; the socket and the timer of images are not.
    CHECK(count_entries("/proc/self/fd") == descriptors - 2);
    ask("closed");
    CHECK(image->pixels[0] == 7);
    imgbroker_image_release(image);
    CHECK(count_entries("/proc/self/fd") == descriptors - 4 && count_mappings() == 0);
    ask("released");
}

// Closing releases kept images and replies of which the caller has none, although an image keeps the connection open.
static void test_closing(imgbroker *broker) {
    imgbroker_image *image = LOAD(broker, "http://a/b", NULL);
    imgbroker_image_release(LOAD(broker, "http://a/c", NULL));
    // Its reply is not taken.
    imgbroker_send(broker, &(imgbroker_request){.url = "http://a/d"}, &error);
    imgbroker_image_release(LOAD(broker, "http://a/e", NULL));
    imgbroker_close(broker);
    ask("closed");
    CHECK(image->pixels[0] == 7);
    imgbroker_image_release(image);
}

// A session that is given up cancels its requests, although an image keeps the connection open.
static void test_given_up(imgbroker *broker) {
    imgbroker_image *image = LOAD(broker, "http://a/b", NULL);
    const char *urls[] = {"http://a/c", "http://a/d"};
    for (int index = 0; index < 2; index++) CHECK(imgbroker_send(broker, &(imgbroker_request){.url = urls[index]}, &error));
    for (int index = 0; index < 2; index++) {
        imgbroker_reply reply = next(broker);
        CHECK(reply.final && reply.error.code == IMGBROKER_ERROR_PROTOCOL_VIOLATION);
        imgbroker_reply_clear(&reply);
    }
    ask("lost");
    CHECK(image->pixels[0] == 7);
    imgbroker_image_release(image);
}

// A message of the broker without room for all of it ends with a whole character.
static void test_long_message(imgbroker *broker) {
    imgbroker_image *image;
    EXPECT(imgbroker_get(broker, "http://a/b", NULL, &image, &error), IMGBROKER_ERROR_INTERNAL);
    CHECK(is_utf8(error.message) && strlen(error.message) == sizeof error.message - 2);
}

// The descriptor of a segment does not arrive.
static void test_lost_segment(imgbroker *broker) {
    static int descriptors[64];
    imgbroker_image *image;
    int count = fill_table(broker, descriptors);
    EXPECT(imgbroker_get(broker, "http://a/b", NULL, &image, &error), IMGBROKER_ERROR_PROCESS_LIMIT);
    while (count > 0) close(descriptors[--count]);
    // The broker does not know yet.
    EXPECT(imgbroker_get(broker, "http://a/b", NULL, &image, &error), IMGBROKER_ERROR_PROCESS_LIMIT);
    CHECK_LOADED(loaded->pixels[0] == 7, broker, "http://a/b", NULL);
    imgbroker_close(broker);
    CHECK(count_mappings() == 0);
}

// A kept image does not keep a segment that has ended.
static void test_kept_in_segment(imgbroker *broker) {
    imgbroker_image *image;
    imgbroker_image_release(LOAD(broker, "http://a/b", NULL));
    image = imgbroker_get_kept(broker, "http://a/b", NULL);
    CHECK(image != NULL && image->pixels[0] == 7);
    imgbroker_image_release(image);
    imgbroker_image_release(LOAD(broker, "http://a/c", NULL));
    CHECK(imgbroker_get_kept(broker, "http://a/b", NULL) == NULL);
    while (count_mappings() > 1) step(broker);
}

// Images with metadata take the room of both as long as they are kept.
static void test_kept_metadata(imgbroker *broker) {
    for (uint32_t width = 1; width <= 8; width++) {
        imgbroker_options options = {.width = width, .metadata = IMGBROKER_EXIF};
        CHECK_LOADED(loaded->exif.size == 32, broker, "http://a/b", &options);
        imgbroker_image *image = imgbroker_get_kept(broker, "http://a/b", &options);
        CHECK(image != NULL);
        imgbroker_image_release(image);
    }
}

// Prints how many of 200 images are kept by default.
static void test_default_number(imgbroker *broker) {
    int kept = 0;
    for (uint32_t width = 1; width <= 200; width++) {
        imgbroker_image_release(LOAD(broker, "http://a/b", &(imgbroker_options){.width = width}));
    }
    for (uint32_t width = 1; width <= 200; width++) {
        imgbroker_image *image = imgbroker_get_kept(broker, "http://a/b", &(imgbroker_options){.width = width});
        kept += image != NULL;
        imgbroker_image_release(image);
    }
    printf("%d\n", kept);
}

#define ALLOW(call) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

// From here on, the process is killed by any system call but sending, receiving and its end.
static void forbid_other_calls(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), ALLOW(SYS_sendmsg),
        ALLOW(SYS_recvmsg), ALLOW(SYS_exit_group), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

// A hit in a segment takes no system call but those that send the request and receive the reply.
static void test_system_calls(imgbroker *broker) {
    static imgbroker_image *images[100];
    for (int round = 0; round < 2; round++) {
        if (round == 1) forbid_other_calls();
        for (size_t index = 0; index < 100; index++) {
            if (imgbroker_get(broker, "http://a/b", NULL, &images[index], &error) != IMGBROKER_OK) _exit(1);
            if (images[index]->pixels[0] != 7) _exit(1);
        }
        // The first round provides the memory for the second.
        for (size_t index = 0; round == 0 && index < 100; index++) imgbroker_image_release(images[index]);
    }
    _exit(0);
}

// Performs requests to a broker that answers with garbage, which test_client.py makes.
static void test_garbage(imgbroker *broker) {
    int count = atoi(arguments[1]);
    int descriptors = count_entries("/proc/self/fd"), images = 0;
    for (int index = 0; index < count; index++) {
        imgbroker_image *image = NULL;
        imgbroker_code code = imgbroker_get(broker, "http://a/b", NULL, &image, &error);
        CHECK((code == IMGBROKER_OK) == (image != NULL));
        CHECK(code != IMGBROKER_ERROR_NO_BROKER);
        if (image == NULL) continue;
        images++;
        unsigned sum = 0;
        for (size_t at = 0; at < image->size; at++) sum += image->pixels[at];
        CHECK(image->size == image->bytes || image->size == 0);
        for (size_t at = 0; image->stride > 0 && at < image->frame_count; at++) {
            CHECK(image->frames[at].offset + image->stride * image->height <= image->bytes);
        }
        CHECK(sum < UINT32_MAX);
        imgbroker_image_release(image);
        // The connection has one more.
        CHECK(count_entries("/proc/self/fd") <= descriptors + 1);
    }
    imgbroker_close(broker);
    CHECK(count_mappings() == 0);
    printf("%d images\n", images);
}

// Allocations fail after this number of them; negative: never. The linker replaces the library's calls by these.
static long allocations_left = -1;
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);

static bool may_allocate(void) {
    if (allocations_left < 0) return true;
    if (allocations_left == 0) return false;
    allocations_left--;
    return true;
}
void *__wrap_malloc(size_t size) {
    return may_allocate() ? __real_malloc(size) : NULL;
}
void *__wrap_calloc(size_t count, size_t size) {
    return may_allocate() ? __real_calloc(count, size) : NULL;
}
void *__wrap_realloc(void *block, size_t size) {
    return may_allocate() ? __real_realloc(block, size) : NULL;
}
char *__wrap_strdup(const char *text) {
    return may_allocate() ? __real_strdup(text) : NULL;
}
char *__wrap_strndup(const char *text, size_t size) {
    return may_allocate() ? __real_strndup(text, size) : NULL;
}

// Makes requests with `count` allocations. Returns whether that many were enough.
static bool use_memory(uint32_t width, long count) {
    imgbroker_options options = {
        .width = width, .steps = "invert blur:sigma=0.5", .background = "#102030", .frame = IMGBROKER_ALL_FRAMES};
    imgbroker_image *image = NULL;
    imgbroker_reply reply;
    char *json = NULL;
    allocations_left = count;
    imgbroker *broker = open_connection_or_null(arguments[0]);
    if (broker != NULL) {
        for (int repeat = 0; repeat < 3; repeat++) {
            imgbroker_code code = imgbroker_get(broker, arguments[1], &options, &image, &error);
            CHECK((code == IMGBROKER_OK) == (image != NULL));
            // A text that could not be written or read for lack of memory is reported as an invalid one.
            if (code != IMGBROKER_OK && code != IMGBROKER_ERROR_INVALID_ARGUMENT
                && code != IMGBROKER_ERROR_PROTOCOL_VIOLATION) {
                EXPECT(code, IMGBROKER_ERROR_NO_MEMORY);
            }
            imgbroker_image_release(image);
        }
        imgbroker_stats(broker, &json, &error);
        free(json);
        imgbroker_store(broker, arguments[1], "text", 4, "image/png", &error);
        uint64_t number = imgbroker_send(broker, &(imgbroker_request){.url = arguments[1]}, &error);
        if (number != 0) {
            reply = next(broker);
            CHECK(reply.request == number && reply.final);
            imgbroker_reply_clear(&reply);
        }
    }
    bool is_enough = allocations_left > 0;
    allocations_left = -1;
    imgbroker_close(broker);
    return is_enough;
}

static void test_memory(imgbroker *broker) {
    imgbroker_close(broker);
    json_set_alloc_funcs(__wrap_malloc, free);
    long count = 0;
    while (!use_memory(1 + (uint32_t)count % 60, count)) count++;
    CHECK(count > 100 && count < 10000);
    printf("%ld allocations\n", count);
}

// The next messages with a descriptor that are not sent, and their error.
static int failing_messages, message_error;
ssize_t __real_sendmsg(int socket, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int socket, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int socket, const struct msghdr *message, int flags) {
    if (failing_messages == 0 || message->msg_controllen == 0) return __real_sendmsg(socket, message, flags);
    failing_messages--;
    errno = message_error;
    return -1;
}

// A request that could not be sent is sent later, over another connection if the error stays.
static void test_unsent(imgbroker *broker) {
    static const int errors[] = {ETOOMANYREFS, ENOBUFS, ENOMEM, EACCES};
    for (size_t index = 0; index < 4; index++) {
        imgbroker_image *image;
        struct timespec before, after;
        message_error = errors[index];
        failing_messages = message_error == EACCES ? 1 : 5;
        clock_gettime(CLOCK_MONOTONIC, &before);
        OK(imgbroker_get_bytes(broker, "a", 1, NULL, &image, &error));
        clock_gettime(CLOCK_MONOTONIC, &after);
        CHECK(failing_messages == 0 && image->width == 4);
        // It waits before it tries again.
        double seconds = (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9;
        CHECK(message_error == EACCES || seconds > 0.02);
        imgbroker_image_release(image);
    }
}

struct share {
    _Atomic(imgbroker_image *) image;
    atomic_bool ends;
};

static void *release_images(void *argument) {
    struct share *share = argument;
    while (!atomic_load(&share->ends)) {
        imgbroker_image *image = atomic_exchange(&share->image, NULL);
        if (image == NULL) continue;
        CHECK(image->pixels[3] == 255);
        imgbroker_image_release(imgbroker_image_retain(image));
        imgbroker_image_release(image);
    }
    return NULL;
}

static void test_threads(imgbroker *broker) {
    struct share share = {.image = NULL};
    pthread_t threads[3];
    for (size_t index = 0; index < 3; index++) {
        CHECK(pthread_create(&threads[index], NULL, release_images, &share) == 0);
    }
    for (uint32_t index = 0; index < 2000; index++) {
        if (index == 1000) {
            imgbroker_close(broker);
            broker = open_connection(arguments[0]);
        }
        imgbroker_image *image = LOAD(broker, arguments[1], &(imgbroker_options){.width = 1 + index % 8});
        imgbroker_image_release(atomic_exchange(&share.image, image));
    }
    atomic_store(&share.ends, true);
    for (size_t index = 0; index < 3; index++) pthread_join(threads[index], NULL);
    imgbroker_close(broker);
    imgbroker_image_release(share.image);
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        void (*run)(imgbroker *broker);
        // Those of the test's connection.
        imgbroker_settings settings;
        // The test closes the connection itself.
        bool closes;
    } tests[] = {
        {"animation", test_animation, {0}, false}, {"arguments", test_arguments, {0}, false},
        {"cancel", test_cancel, {0}, false}, {"closing", test_closing, {0}, true},
        {"data-urls", test_data_urls, {0}, false}, {"default-number", test_default_number, {0}, false},
        {"detach", test_detach, {0}, false}, {"detached", test_detached, {0}, false}, {"files", test_files, {0}, true},
        {"fork", test_fork, {0}, false}, {"full-table", test_full_table, {0}, false},
        {"garbage", test_garbage, {.keep_images = 4, .reconnect_ms = 20000}, true},
        {"given-up", test_given_up, {0}, false},
        {"kept", test_kept, {.keep_images = 4}, false}, {"kept-in-segment", test_kept_in_segment, {0}, false},
        {"kept-metadata", test_kept_metadata, {.keep_bytes = 100}, false}, {"leaks", test_leaks, {0}, true},
        {"long-message", test_long_message, {0}, false},
        {"lost-segment", test_lost_segment, {.keep_images = -1}, true}, {"memory", test_memory, {0}, true},
        {"no-broker", test_no_broker, {0}, true}, {"outliving", test_outliving, {0}, true},
        {"pipelined", test_pipelined, {.keep_images = -1}, true},
        {"refused_together", test_refused_together, {.keep_images = 8}, true},
        {"releases", test_releases, {.keep_images = -1}, false}, {"reload", test_reload, {0}, false},
        {"restart", test_restart, {.reconnect_ms = 30000}, true},
        {"segments", test_segments, {.keep_images = -1}, false},
        {"sessions", test_sessions, {.keep_images = -1, .reconnect_ms = 20000}, true},
        {"silence", test_silence, {.patience_ms = 1500}, false}, {"store", test_store, {0}, false},
        {"subscription", test_subscription, {0}, false},
        {"system-calls", test_system_calls, {.keep_images = -1}, false},
        {"threads", test_threads, {.keep_images = 2}, true}, {"thumb-hash", test_thumb_hash, {0}, false},
        {"trace", test_trace, {0}, false}, {"unsent", test_unsent, {0}, false}, {"upgrade", test_upgrade, {0}, false},
    };
    for (size_t index = 0; count > 2 && index < sizeof tests / sizeof *tests; index++) {
        if (strcmp(words[1], tests[index].name) != 0) continue;
        arguments = words + 2;
        imgbroker_settings settings = tests[index].settings;
        settings.socket = arguments[0];
        imgbroker *broker = imgbroker_open(&settings, &error);
        CHECK(broker != NULL);
        tests[index].run(broker);
        if (!tests[index].closes) imgbroker_close(broker);
        return 0;
    }
    fprintf(stderr, "usage: client_tests TEST SOCKET [ARGUMENT]...\n");
    return 2;
}
