// ctier IMGTIER PORT COUNT BYTES: starts the program of the shared tier as the broker does, and has it write COUNT records with
// BYTES bytes each to a memcached on loopback. Prints `ready`. Then each line of input is a number of lookups: all records are looked
// up, that many together, and the program's processor time for each is printed in microseconds.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int channel;
static pid_t program;

static void fail(const char *reason) {
    fprintf(stderr, "ctier: %s\n", reason);
    exit(1);
}

static void send_all(const void *bytes, size_t count) {
    for (size_t sent = 0; sent < count;) {
        ssize_t step = send(channel, (const char *)bytes + sent, count - sent, MSG_NOSIGNAL);
        if (step <= 0) fail("imgtier takes no orders");
        sent += (size_t)step;
    }
}

/// Receives the next frame, and returns its text; the bytes after its zero are skipped.
static const char *receive_frame(void) {
    static char frame[2 << 20];
    static size_t start, end;
    for (;;) {
        uint32_t length = 0;
        if (end - start >= sizeof length) {
            memcpy(&length, frame + start, sizeof length);
            length = ntohl(length);
            if (length > sizeof frame / 2) fail("a frame is too long");
            if (end - start >= sizeof length + length) {
                char *text = frame + start + sizeof length;
                start += sizeof length + length;
                // The next frame's length begins with a zero, as no frame has 16 MiB.
                if (start == end) frame[end] = 0;
                return text;
            }
        }
        if (start > 0) {
            memmove(frame, frame + start, end - start);
            end -= start;
            start = 0;
        }
        // As the broker waits: a reader that waits in recv is also woken when the other end has read.
        struct pollfd readable = {.fd = channel, .events = POLLIN};
        if (poll(&readable, 1, -1) < 1) fail("poll");
        ssize_t count = recv(channel, frame + end, sizeof frame - 1 - end, 0);
        if (count <= 0) fail("imgtier has exited");
        end += (size_t)count;
    }
}

/// Receives reports until one has this type, and others than of figures end the program.
static void expect(const char *type) {
    for (;;) {
        // The first message is text; in the others, the value of `type` comes after the two lengths.
        const char *frame = receive_frame(), *found = frame + (frame[2] == 't' ? 9 : 15);
        if (!strncmp(found, type, strlen(type))) return;
        if (strncmp(found, "servers", 7)) fail(found);
    }
}

/// Writes JSON of objects, strings and integers in the packed form (`JSONForm`). Returns its length.
static size_t pack(char *packed, const char *text) {
    char *place = packed;
    while (*text) {
        if (*text == '"') {
            char *start = place + 5;
            *place = '"';
            place = start;
            for (text++; *text != '"'; text++) {
                if (*text == '\\') text++;
                *place++ = *text;
            }
            text++;
            uint32_t length = htole32((uint32_t)(place - start));
            memcpy(start - 4, &length, sizeof length);
        } else if (*text >= '0' && *text <= '9') {
            char *end;
            uint64_t number = htole64(strtoull(text, &end, 10));
            *place++ = '#';
            memcpy(place, &number, sizeof number);
            place += sizeof number;
            text = end;
        } else if (*text == ':' || *text == ',') {
            text++;
        } else {
            *place++ = *text++;
        }
    }
    return (size_t)(place - packed);
}

/// Writes the frame of an order, whose text may be followed by a zero and `bytes`. Returns its length.
static size_t order(char *frame, const char *text, const char *bytes, size_t count) {
    size_t length = pack(frame + 4, text);
    if (bytes) {
        frame[4 + length++] = 0;
        memcpy(frame + 4 + length, bytes, count);
        length += count;
    }
    uint32_t header = htonl((uint32_t)length);
    memcpy(frame, &header, sizeof header);
    return 4 + length;
}

static double used_microseconds(void) {
    char path[64];
    unsigned long long nanoseconds = 0;
    snprintf(path, sizeof path, "/proc/%d/schedstat", program);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%llu", &nanoseconds) != 1) fail("the processor time is not known");
    fclose(file);
    return (double)nanoseconds / 1e3;
}

static void start(const char *path, const char *port) {
    char server[32];
    snprintf(server, sizeof server, "127.0.0.1:%s", port);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) fail("no sockets");
    program = fork();
    if (program == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        // The control socket of a worker; a duplicate is not closed by the exec.
        if (ends[1] == 3) fcntl(3, F_SETFD, 0);
        else dup2(ends[1], 3);
        execl(path, path, "--server", server, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    channel = ends[0];
    expect("ready");
}

static void key_text(char text[65], int number) { snprintf(text, 65, "%064x", number); }

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    int count = atoi(argv[3]);
    size_t bytes = (size_t)atol(argv[4]);
    char *body = calloc(1, bytes), *frames = malloc(bytes + (1 << 20)), key[65], text[1024], line[32];
    if (!body || !frames || bytes > 64 << 10) return 1;
    start(argv[1], argv[2]);
    long long now = (long long)time(NULL) * 1000;
    // The digest that a record states is compared by the broker.
    for (int i = 0; i < count; i++) {
        key_text(key, i);
        snprintf(text, sizeof text,
                 "{\"type\":\"keep\",\"job\":%d,\"record\":{\"key\":\"%s\",\"expires\":%lld,\"digest\":\"%s\",\"bytes\":%zu,"
                 "\"response\":{\"status\":200,\"requestedAt\":%lld,\"receivedAt\":%lld,\"date\":\"Wed, 25 Nov 2026 15:00:00 GMT\","
                 "\"cacheControl\":\"max-age=3600\",\"etag\":\"\\\"6742c1f0-1fd8\\\"\",\"lastModified\":\"Wed, 25 Nov 2026 14:00:00 GMT\","
                 "\"contentType\":\"image/jpeg\"}}}",
                 i, key, now + 3600000, key, bytes, now, now);
        send_all(frames, order(frames, text, body, bytes));
        expect("kept\"");
    }
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int together = atoi(line);
        if (together < 1 || together > 256) return 2;
        double before = used_microseconds();
        for (int first = 0; first < count; first += together) {
            int last = first + together < count ? first + together : count;
            size_t length = 0;
            for (int i = first; i < last; i++) {
                key_text(key, i);
                snprintf(text, sizeof text, "{\"type\":\"find\",\"job\":%d,\"key\":\"%s\",\"token\":\"%032x-%d\"}", i, key, 7, i);
                length += order(frames + length, text, NULL, 0);
            }
            send_all(frames, length);
            for (int i = first; i < last; i++) expect("found");
        }
        printf("%f\n", (used_microseconds() - before) / count);
        fflush(stdout);
    }
    return 0;
}
