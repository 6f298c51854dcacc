// delayrelay PORT MILLISECONDS: relays TCP connections on loopback to PORT, each byte half of MILLISECONDS later in both
// directions, and the first one MILLISECONDS later still, as a connection's handshake would. Bandwidth is not limited.
// Prints the port at which it listens, and runs until the end of its input.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { most_connections = 256, chunk_bytes = 16 << 10, most_chunks = 256 };

/// Bytes that were received, and the time at which they are sent on. No bytes: the end of the stream.
typedef struct {
    long due;
    size_t length, sent;
    char bytes[chunk_bytes];
} chunk;

/// One direction of a connection: a ring of chunks.
typedef struct {
    int from, to;
    chunk *chunks[most_chunks];
    unsigned first, count;
    int has_ended, is_finished;
} stream;

typedef struct {
    int is_used;
    long opened;
    stream streams[2];
} connection;

static connection connections[most_connections];
static long delay;

static long nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static int fail(const char *what) {
    perror(what);
    exit(1);
}

static struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void prepare(int socket) {
    int yes = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    fcntl(socket, F_SETFL, O_NONBLOCK);
}

static void open_connection(int listener, int port) {
    int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC), server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(port);
    if (client < 0 || server < 0 || connect(server, (struct sockaddr *)&address, sizeof address) < 0) {
        if (client >= 0) close(client);
        if (server >= 0) close(server);
        return;
    }
    prepare(client), prepare(server);
    for (connection *one = connections; one < connections + most_connections; one++) {
        if (one->is_used) continue;
        *one = (connection){.is_used = 1, .opened = nanoseconds(), .streams = {{.from = client, .to = server},
                                                                             {.from = server, .to = client}}};
        return;
    }
    close(client), close(server);
}

static void close_connection(connection *one) {
    for (int i = 0; i < 2; i++) {
        stream *way = &one->streams[i];
        close(way->from);
        for (; way->count > 0; way->count--, way->first = (way->first + 1) % most_chunks) free(way->chunks[way->first]);
    }
    one->is_used = 0;
}

/// Receives what there is. 0, or -1 when the connection is broken.
static int take(stream *way, long earliest) {
    while (!way->has_ended && way->count < most_chunks) {
        chunk *next = malloc(sizeof *next);
        if (!next) return -1;
        ssize_t length = recv(way->from, next->bytes, chunk_bytes, 0);
        if (length < 0) {
            free(next);
            return errno == EAGAIN ? 0 : -1;
        }
        long now = nanoseconds();
        next->due = (now > earliest ? now : earliest) + delay / 2;
        next->length = (size_t)length;
        next->sent = 0;
        way->has_ended = length == 0;
        way->chunks[(way->first + way->count++) % most_chunks] = next;
    }
    return 0;
}

/// Sends what is due. 0, or -1 when the connection is broken.
static int pass_on(stream *way, long now) {
    while (way->count > 0 && way->chunks[way->first]->due <= now) {
        chunk *next = way->chunks[way->first];
        if (next->length == 0) {
            shutdown(way->to, SHUT_WR);
            way->is_finished = 1;
        }
        while (next->sent < next->length) {
            ssize_t sent = send(way->to, next->bytes + next->sent, next->length - next->sent, MSG_NOSIGNAL);
            if (sent < 0) return errno == EAGAIN ? 0 : -1;
            next->sent += (size_t)sent;
        }
        free(next);
        way->first = (way->first + 1) % most_chunks;
        way->count--;
    }
    return 0;
}

/// Moves bytes of a connection, and adds its sockets to `polled`. Returns the nanoseconds until its next chunk is due.
static long move(connection *one, struct pollfd *polled) {
    long now = nanoseconds(), wait = 1000000000L;
    for (int i = 0; i < 2; i++) {
        stream *way = &one->streams[i];
        if (take(way, one->opened + delay) < 0 || pass_on(way, now) < 0) {
            close_connection(one);
            return wait;
        }
    }
    if (one->streams[0].is_finished && one->streams[1].is_finished) {
        close_connection(one);
        return wait;
    }
    for (int i = 0; i < 2; i++) {
        stream *way = &one->streams[i];
        polled[i] = (struct pollfd){.fd = way->from, .events = 0};
        if (!way->has_ended && way->count < most_chunks) polled[i].events |= POLLIN;
    }
    for (int i = 0; i < 2; i++) {
        stream *way = &one->streams[i];
        if (way->count == 0) continue;
        long left = way->chunks[way->first]->due - now;
        if (left <= 0) polled[1 - i].events |= POLLOUT;
        else if (left < wait) wait = left;
    }
    // An end that was received stays readable.
    for (int i = 0; i < 2; i++) if (polled[i].events == 0) polled[i].fd = -1;
    return wait;
}

int main(int words, char **word) {
    int port = words == 3 ? atoi(word[1]) : 0;
    if (port == 0) return fprintf(stderr, "usage: delayrelay PORT MILLISECONDS\n"), 2;
    delay = atol(word[2]) * 1000000L;
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) < 0 || listen(listener, 128) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) < 0) fail("delayrelay");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        struct pollfd polled[2 + 2 * most_connections] = {
            {.fd = STDIN_FILENO, .events = POLLIN}, {.fd = listener, .events = POLLIN}};
        nfds_t count = 2;
        long wait = 1000000000L;
        for (connection *one = connections; one < connections + most_connections; one++) {
            if (!one->is_used) continue;
            long left = move(one, polled + count);
            if (left < wait) wait = left;
            if (one->is_used) count += 2;
        }
        struct timespec timeout = {wait / 1000000000L, wait % 1000000000L};
        if (ppoll(polled, count, &timeout, NULL) < 0 && errno != EINTR) fail("ppoll");
        if (polled[0].revents) return 0;
        if (polled[1].revents) open_connection(listener, port);
    }
}
