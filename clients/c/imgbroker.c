// The client of imgbroker: see imgbroker.h for its interface and docs/protocol.md for the protocol.
//
// A connection is a state machine that advances in `advance`: it connects, exchanges `hello`, sends the requests that
// wait, receives, and ends. All descriptors of it are in one epoll instance, which is what a caller waits for.

#define _GNU_SOURCE 1

#include "imgbroker.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

// The protocol's limits.
#define HEADER_BYTES 4
#define MAXIMUM_FRAME (1 << 20)
#define MAXIMUM_INTEGER ((INT64_C(1) << 53) - 1)
#define MAXIMUM_SIDE 65535
#define MAXIMUM_INLINE_BYTES (INT64_C(64) << 20)
// The most bytes of a metadata block that is delivered.
#define MAXIMUM_BLOCK (INT64_C(1) << 20)
#define MAXIMUM_HITS 1000000000

// The maximum of numbers in one `release`, `touch` or `forgetSegments`; the protocol's is 16,384.
#define NUMBERS_IN_ONE_FRAME 10000
// The maximum number of descriptors in one message of a Unix socket.
#define MOST_DESCRIPTORS 253
// The maximum number of messages with descriptors that no complete frame has taken, and room for one more.
#define MOST_ARRIVALS 2
#define BUCKETS 256
#define RECEIVE_BYTES (16 << 10)
// The maximum of messages that `imgbroker_process` receives at once, and of replies that wait for `imgbroker_next`
// before it stops receiving.
#define MESSAGES_AT_ONCE 64
#define MOST_WAITING_REPLIES 1024
// How often a request is sent, if its connection is lost.
#define MOST_ATTEMPTS 2
// The default maxima of kept images, with and without segments: outside of a segment, each takes a mapping here and a descriptor of the
// broker.
#define KEPT_IN_SEGMENTS 4096
#define KEPT_IN_BUFFERS 128

// Milliseconds.
#define CONNECT_PAUSE 50
#define SEND_PAUSE 10
#define RELEASE_DELAY 100
#define REPORT_INTERVAL 1000

#define NEVER INT64_MAX

#define IMAGE_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
// Of the validity page and of segments, which only the broker writes.
#define LIVE_SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)

// Names on the wire, in the order of the enumerations.
static const char *const format_names[] = {"rgba8", "bgra8", "rgb8", "gray8"};
static const unsigned channels[] = {4, 4, 3, 1};
static const char *const alpha_names[] = {"premultiplied", "straight", "none"};
static const char *const source_names[] = {"memory", "disk", "network", "file", "shared"};
static const char *const fit_names[] = {"inside", "contain", "cover", "fill"};
static const char *const representation_names[] = {"pixels", "original", "png", "jpeg", "webp"};
static const char *const delivery_names[] = {"fd", "inline", "none", "header"};
static const char *const metadata_names[] = {"exif", "xmp", "icc"};
static const char *const cache_names[] = {
    "default", "no-cache", "reload", "force-cache", "only-if-cached", "no-store"};
static const char *const storage_names[] = {"both", "memory", "disk", "none"};
static const char *const priority_names[] = {"", "low", "normal", "high"};
static const char *const code_names[] = {
    "ok", "bad-frame", "bad-request", "unsupported-version", "unsupported-scheme", "forbidden-address", "forbidden",
    "not-cached", "blacklisted", "cancelled", "shutting-down", "overloaded", "quota-exceeded", "host-unavailable",
    "dns-failed", "connect-failed", "tls-failed", "timeout", "too-many-redirects", "http-status", "transfer-failed",
    "too-large", "unsupported-format", "truncated", "decode-failed", "too-many-pixels", "empty-image",
    "decoder-crashed", "decoder-unavailable", "out-of-memory", "disk-failed", "internal",
    "no-broker", "connection-lost", "not-answering", "protocol-violation", "process-limit", "feature-missing",
    "invalid-argument", "file", "forked", "no-memory"};
_Static_assert(sizeof code_names / sizeof *code_names == IMGBROKER_ERROR_NO_MEMORY + 1, "a name for each code");

// The additions to the protocol that the library uses, as bits in this order.
static const char *const feature_names[] = {
    "files", "steps", "damaged", "rgb8", "gray8", "store-pixels", "presets", "segments",
    "position", "update", "max-age", "retries", "alternatives", "frame-range", "header", "metadata", "embedded"};
enum {
    FILES = 1, STEPS = 2, DAMAGED = 4, RGB8 = 8, GRAY8 = 16, STORE_PIXELS = 32, PRESETS = 64, SEGMENTS = 128,
    POSITION = 256, UPDATE = 512, MAX_AGE = 1024, RETRIES = 2048, ALTERNATIVES = 4096,
    FRAME_RANGE = 8192, HEADER = 16384, METADATA = 32768, EMBEDDED = 65536
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

// Errors

const char *imgbroker_code_name(imgbroker_code code) {
    return (unsigned)code < COUNT(code_names) ? code_names[code] : "unknown";
}

static bool is_retryable(imgbroker_code code, int status) {
    switch (code) {
    case IMGBROKER_ERROR_HTTP_STATUS:
        return status == 408 || status == 425 || status == 429
            || (status >= 500 && status <= 599 && status != 501 && status != 505);
    case IMGBROKER_ERROR_SHUTTING_DOWN:
    case IMGBROKER_ERROR_OVERLOADED:
    case IMGBROKER_ERROR_QUOTA_EXCEEDED:
    case IMGBROKER_ERROR_HOST_UNAVAILABLE:
    case IMGBROKER_ERROR_DNS_FAILED:
    case IMGBROKER_ERROR_CONNECT_FAILED:
    case IMGBROKER_ERROR_TIMEOUT:
    case IMGBROKER_ERROR_TRANSFER_FAILED:
    case IMGBROKER_ERROR_DECODER_UNAVAILABLE:
    case IMGBROKER_ERROR_OUT_OF_MEMORY:
    case IMGBROKER_ERROR_DISK_FAILED:
    case IMGBROKER_ERROR_INTERNAL:
    case IMGBROKER_ERROR_NO_BROKER:
    case IMGBROKER_ERROR_CONNECTION_LOST:
    case IMGBROKER_ERROR_NOT_ANSWERING:
    case IMGBROKER_ERROR_PROCESS_LIMIT:
    case IMGBROKER_ERROR_NO_MEMORY:
        return true;
    default:
        return false;
    }
}

// Removes the character at the end of a text in UTF-8 of which only a part had room, if the text, which had `length` bytes, was cut.
static void end_at_character(char *text, size_t size, int length) {
    if (length < 0 || (size_t)length < size) return;
    size_t start = size - 2;
    while (start > 0 && ((uint8_t)text[start] & 0xC0) == 0x80) start--;
    uint8_t first = (uint8_t)text[start];
    size_t needed = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (start + needed > size - 1) text[start] = '\0';
}

// Fills in an error unless it is NULL, and returns the code.
__attribute__((format(printf, 3, 4))) static imgbroker_code fail(
    imgbroker_error *error, imgbroker_code code, const char *format, ...) {
    if (error == NULL) return code;
    *error = (imgbroker_error){.code = code, .retryable = is_retryable(code, 0), .retry_after_ms = -1};
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    end_at_character(error->message, sizeof error->message, length);
    return code;
}

static imgbroker_code fail_no_memory(imgbroker_error *error) {
    return fail(error, IMGBROKER_ERROR_NO_MEMORY, "this process has no memory for the request");
}

// Fills in an error for a number of `errno`.
static imgbroker_code fail_system(imgbroker_error *error, imgbroker_code code, const char *action, int number) {
    char text[128];
    const char *reason = strerror_r(number, text, sizeof text);
    if (number == EMFILE || number == ENFILE) code = IMGBROKER_ERROR_PROCESS_LIMIT;
    if (number == ENOMEM) code = IMGBROKER_ERROR_NO_MEMORY;
    return fail(error, code, "%s (%s)", action, reason);
}

// Types

// Images, their buffers and leases

// The socket of a session. Leases end with it, so it stays open while an image in a segment is in use: the broker writes other
// images to the places of those that have no lease.
struct link {
    // One of the connection during the session, and one of each segment.
    atomic_size_t references;
    int socket;
};

// Memory of the broker that this process has mapped: the buffer of one image, or a segment. The connection has a reference while it
// holds the memory, and each image in it has one.
struct buffer {
    atomic_size_t references;
    void *map;
    size_t size;
    // Of a segment.
    struct link *link;
    // The members below belong to the connection.
    uint64_t number;
    // The number of leases that were granted and not released.
    uint64_t leases;
    // The last request that was sent before the last lease was released: until its reply, the broker may assume that
    // this process still has the buffer.
    uint64_t needed_until;
    // The descriptor did not arrive or could not be mapped, which the broker does not know.
    bool is_lost;
    // Of a segment: no further image will be in it.
    bool has_ended;
    // Whether it is in one of the lists of idle memory.
    bool is_idle;
    struct buffer *next;
    struct buffer *next_idle;
};

struct image {
    imgbroker_image image;
    atomic_size_t references;
    struct buffer *buffer;
    void *payload;
    // The bytes of the image and of the metadata blocks that follow it.
    size_t total;
    imgbroker_description description;
    // The lease: the buffer's number, the segment's or 0, and the session that granted it; 0 for no lease.
    uint64_t number;
    uint64_t segment;
    uint64_t session;
    struct shared *shared;
    struct image *next;
    // The frames, the spans and the strings follow.
};

// The part of a connection that images use when they are released, by any thread.
struct shared {
    // One of the connection, and one of each image with a lease.
    atomic_size_t references;
    // A stack of the released images whose leases are to be released; `closed` when the connection is closed.
    _Atomic(struct image *) returned;
    // Makes the connection release leases that no message has taken along.
    int timer;
    atomic_bool is_timer_set;
    // A page that is 1 in the process that opened the connection, and 0 in its children.
    atomic_int *mark;
};

static struct image closed;

static bool is_forked(const struct shared *shared) {
    return atomic_load_explicit(shared->mark, memory_order_relaxed) == 0;
}

// Requests

enum message { MESSAGE_HELLO, MESSAGE_GET, MESSAGE_STATS, MESSAGE_PREFETCH, MESSAGE_SUBSCRIBE, MESSAGE_OTHER };

struct node {
    struct node *next;
    imgbroker_reply reply;
};

struct request {
    struct request *previous, *next;
    struct request *next_in_bucket;
    uint64_t number;
    // The place among the requests that were sent.
    uint64_t sequence;
    // It is not sent again.
    bool is_cancelled;
    int64_t sent_at;
    int attempts;
    enum message message;
    unsigned features;
    // `hello`, `cancel` and the sign of life, which have no reply for the caller.
    bool is_internal;
    // Of the `cancel` of a subscription: the number of that; otherwise 0.
    uint64_t subscription;
    // The message's JSON after `{"id":N,`.
    char *body;
    size_t length;
    // A descriptor that the request owns; -1 for none.
    int descriptor;
    void *user;
    // The place of the final reply: that of a blocking call, or a node.
    imgbroker_reply *sink;
    struct node *last;
    uint64_t done, failed, total;
    // The key under which its image is kept: a URL, or the identity of a file; NULL for no keeping. Owns the strings in
    // `options`.
    char *url;
    imgbroker_options options;
};

struct list {
    struct request *first, *last;
};

// Kept images

struct kept {
    uint64_t hash;
    // That of the URL.
    size_t length;
    imgbroker_image *image;
    uint64_t number;
    uint32_t slot, generation;
    // The index plus 1 of the next entry in the same bucket; 0 for none.
    uint32_t next;
    // Whether it was used since the hand last passed, and since the last report to the broker.
    bool is_used, is_unreported;
    char *url;
    imgbroker_options options;
};

// Connections

// Descriptors that came with received bytes.
struct arrival {
    // The position in the stream after the message that carried them.
    uint64_t end;
    // The kernel dropped some of them, because this process may open no more; then none is used.
    bool is_incomplete;
    int count, taken;
    int descriptors[MOST_DESCRIPTORS];
};

// A descriptor that goes with the byte at a position of the outgoing bytes.
struct attachment {
    size_t position;
    int descriptor;
};

enum state { DISCONNECTED, GREETING, READY };

struct imgbroker {
    char *path;
    char *client;
    int64_t reconnect, patience;
    struct shared *shared;
    int epoll, timer;
    // The deadline for which the timer is set, or NEVER.
    int64_t timer_at;

    enum state state;
    bool was_connected;
    // Whether a connection is being made, until when that is tried, and when next.
    bool is_connecting;
    int64_t connect_since, connect_until, connect_at;
    uint64_t last_number, last_sequence;
    // The newest sending of a request when room was last made for refused ones.
    uint64_t room_made_at;
    // The newest request that was answered.
    uint64_t newest_answered;
    // Requests that wait for a connection; that were sent, in this order; that a broker refused which shuts down.
    struct list waiting, pending, deferred;
    struct request *buckets[BUCKETS];
    // Replies for `imgbroker_next`.
    struct node *first_reply, *last_reply;
    size_t reply_count;

    // The session: everything from here to `page` ends with the connection to the broker.
    int socket;
    // Owns the socket once it is connected.
    struct link *link;
    uint64_t session;
    bool wants_to_write;
    // Whether sending failed, although the broker has not closed the connection.
    bool is_damaged;
    int64_t heard_at;
    struct request *sign_of_life;
    unsigned features;
    char *outgoing;
    size_t outgoing_sent, outgoing_length, outgoing_capacity;
    struct attachment *attachments;
    size_t attachment_count, attachment_capacity;
    char *incoming;
    size_t incoming_begin, incoming_end, incoming_capacity;
    // The position in the stream of the first byte in `incoming`.
    uint64_t position;
    struct arrival arrivals[MOST_ARRIVALS + 1];
    int arrival_count;
    // An inline image whose payload is being received, and its request.
    struct image *inline_image;
    size_t inline_received;
    bool inline_is_final;
    struct request *inline_request;
    struct buffer *buffers[BUCKETS];
    struct buffer *segments[BUCKETS];
    // Buffers without leases; segments without leases that have ended or are lost.
    struct buffer *idle, *idle_segments;
    // Buffers whose leases are to be released although no image has them.
    uint64_t *unused;
    size_t unused_count, unused_capacity;
    imgbroker_error failure;

    // The validity page; NULL without one that can be used.
    const uint8_t *page;
    size_t page_size;
    uint32_t slots, owner;

    // Images that are kept mapped, in the order of the eviction algorithm (CLOCK).
    struct kept *kept;
    uint32_t *kept_table;
    uint32_t kept_count, kept_capacity, kept_buckets, hand;
    // At most `kept_capacity`; less by default, if the broker has no segments.
    uint32_t kept_maximum;
    bool keeps_default;
    uint64_t kept_bytes, kept_maximum_bytes;
    uint64_t unreported_hits;
    uint32_t reported_at;
};

// Returns the text of a JSON value; NULL without memory. It is freed by `free`, even if the program has given another
// allocator to Jansson.
static char *text_of(const json_t *json) {
    size_t size = json == NULL ? 0 : json_dumpb(json, NULL, 0, JSON_COMPACT);
    char *text = size == 0 ? NULL : malloc(size + 1);
    if (text == NULL) return NULL;
    text[json_dumpb(json, text, size, JSON_COMPACT)] = '\0';
    return text;
}

static int64_t now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

// Sets a timer to a time of the monotonic clock in milliseconds.
static void set_timer(int timer, int64_t at) {
    struct itimerspec setting = {.it_value = {.tv_sec = at / 1000, .tv_nsec = at % 1000 * 1000000 + 1}};
    (void)timerfd_settime(timer, TFD_TIMER_ABSTIME, &setting, NULL);
}

static void close_descriptor(int *descriptor) {
    if (*descriptor >= 0) close(*descriptor);
    *descriptor = -1;
}

// Returns an array with room for at least `count` elements in place of `array`; NULL, and leaves it, without memory.
static void *grow(void *array, size_t *capacity, size_t count, size_t element) {
    if (count <= *capacity) return array;
    size_t larger = *capacity < 16 ? 16 : *capacity;
    while (larger < count) {
        if (larger > SIZE_MAX / 2 / element) return NULL;
        larger *= 2;
    }
    void *grown = realloc(array, larger * element);
    if (grown != NULL) *capacity = larger;
    return grown;
}

// Releasing images

static void shared_release(struct shared *shared) {
    if (atomic_fetch_sub_explicit(&shared->references, 1, memory_order_acq_rel) != 1) return;
    close(shared->timer);
    munmap((void *)shared->mark, sizeof *shared->mark);
    free(shared);
}

static void link_release(struct link *link) {
    if (link == NULL || atomic_fetch_sub_explicit(&link->references, 1, memory_order_acq_rel) != 1) return;
    close(link->socket);
    free(link);
}

static void buffer_release(struct buffer *buffer) {
    if (atomic_fetch_sub_explicit(&buffer->references, 1, memory_order_acq_rel) != 1) return;
    if (buffer->map != NULL) munmap(buffer->map, buffer->size);
    link_release(buffer->link);
    free(buffer);
}

// Frees an image whose lease has ended.
static void image_free(struct image *image) {
    if (image->shared != NULL) shared_release(image->shared);
    free(image);
}

imgbroker_image *imgbroker_image_retain(imgbroker_image *image) {
    atomic_fetch_add_explicit(&((struct image *)image)->references, 1, memory_order_relaxed);
    return image;
}

void imgbroker_image_release(imgbroker_image *public_image) {
    struct image *image = (struct image *)public_image;
    if (image == NULL || atomic_fetch_sub_explicit(&image->references, 1, memory_order_acq_rel) != 1) return;
    free(image->payload);
    if (image->buffer != NULL) buffer_release(image->buffer);
    struct shared *shared = image->shared;
    if (shared == NULL) {
        image_free(image);
        return;
    }
    // Once the image is on the stack, the connection may free it, and be closed.
    atomic_fetch_add_explicit(&shared->references, 1, memory_order_relaxed);
    struct image *top = atomic_load_explicit(&shared->returned, memory_order_relaxed);
    do {
        image->next = top;
    } while (top != &closed
        && !atomic_compare_exchange_weak_explicit(
            &shared->returned, &top, image, memory_order_seq_cst, memory_order_relaxed));
    if (top == &closed) {
        image_free(image);
    } else if (!atomic_exchange_explicit(&shared->is_timer_set, true, memory_order_seq_cst)) {
        set_timer(shared->timer, now_ms() + RELEASE_DELAY);
    }
    shared_release(shared);
}

void imgbroker_reply_clear(imgbroker_reply *reply) {
    if (reply == NULL) return;
    imgbroker_image_release(reply->image);
    free(reply->json);
    reply->image = NULL;
    reply->json = NULL;
}

// Options and keys

static bool has_same_text(const char *left, const char *right) {
    return left == right || (left != NULL && right != NULL && strcmp(left, right) == 0);
}

static const imgbroker_options default_options;

// Whether images of requests with these options may be kept.
static bool may_keep(const imgbroker_options *options) {
    return options->header_count == 0 && options->username == NULL && options->password == NULL
        && options->delivery == IMGBROKER_SHARED && !options->stale_first && !options->trace && !options->has_max_age
        && options->alternative_count == 0 && options->frame_count == 0;
}

// Whether requests with these options, which may be kept, get the same final image.
static bool are_same(const imgbroker_options *left, const imgbroker_options *right) {
    return left->width == right->width && left->height == right->height && left->fit == right->fit
        && left->format == right->format && left->alpha == right->alpha && left->frame == right->frame
        && left->crop.x == right->crop.x && left->crop.y == right->crop.y && left->crop.width == right->crop.width
        && left->crop.height == right->crop.height && left->as == right->as && left->quality == right->quality
        && left->cache == right->cache && left->storage == right->storage
        && left->timeout_ms == right->timeout_ms && left->total_timeout_ms == right->total_timeout_ms
        && left->scale_down == right->scale_down && left->linear == right->linear
        && left->metadata == right->metadata && left->prefer_embedded == right->prefer_embedded
        && left->accept_damage == right->accept_damage
        && left->cookies == right->cookies
        && left->allow_invalid_certificates == right->allow_invalid_certificates
        && has_same_text(left->steps, right->steps) && has_same_text(left->background, right->background)
        && has_same_text(left->cache_key, right->cache_key) && has_same_text(left->preset, right->preset)
        && has_same_text(left->position, right->position) && left->has_retries == right->has_retries
        && left->retries == right->retries;
}

// Duplicates a string that may be NULL. Sets `*failed` without memory.
static char *duplicate(const char *text, bool *failed) {
    if (text == NULL) return NULL;
    char *copy = strdup(text);
    if (copy == NULL) *failed = true;
    return copy;
}

static void free_key(char *url, const imgbroker_options *options) {
    free(url);
    free((char *)options->steps);
    free((char *)options->background);
    free((char *)options->cache_key);
    free((char *)options->preset);
    free((char *)options->position);
}

// Copies the options that `are_same` compares. Returns false without memory; the copy is to be freed in any case.
static bool copy_options(imgbroker_options *copy, const imgbroker_options *options) {
    bool failed = false;
    *copy = *options;
    copy->headers = NULL;
    copy->username = copy->password = copy->name = NULL;
    copy->steps = duplicate(options->steps, &failed);
    copy->background = duplicate(options->background, &failed);
    copy->cache_key = duplicate(options->cache_key, &failed);
    copy->preset = duplicate(options->preset, &failed);
    copy->position = duplicate(options->position, &failed);
    copy->alternatives = NULL;
    return !failed;
}

// A hash that takes a few nanoseconds, because it multiplies 8 bytes at a time. A process that provokes collisions
// slows only itself.
static uint64_t hash_of(const char *text, size_t length) {
    uint64_t hash = length, word = 0;
    // The size of each copy is constant, so that it is one instruction.
    for (; length >= sizeof word; text += sizeof word, length -= sizeof word) {
        memcpy(&word, text, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    for (word = 0; length > 0; length--) word = word << 8 | (uint8_t)*text++;
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

// Kept images

// The layout of the validity page.
#define PAGE_HEADER 64
#define PAGE_MAGIC UINT64_C(0x3164696c61766269)
#define PAGE_VERSION 1
#define PAGE_VERSION_AT 8
#define PAGE_OWNER_AT 16
#define OWNER_DIED 0x40000000u
#define MAXIMUM_SLOTS (1 << 24)

static uint32_t page_number(const uint8_t *page, size_t at) {
    return atomic_load_explicit((const _Atomic(uint32_t) *)(const void *)(page + at), memory_order_acquire);
}

// The monotonic clock in tenths of a second. The broker rounds the times of slots down by more than it may lag.
static uint32_t now_tenths(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (uint32_t)(time.tv_sec * 10 + time.tv_nsec / 100000000);
}

// Whether the broker that has made the page writes it.
static bool has_owner(const imgbroker *connection) {
    return page_number(connection->page, PAGE_OWNER_AT) == connection->owner;
}

static bool is_valid(const imgbroker *connection, const struct kept *kept, uint32_t now) {
    const uint8_t *at = connection->page + PAGE_HEADER + (size_t)8 * kept->slot;
    uint64_t word = atomic_load_explicit((const _Atomic(uint64_t) *)(const void *)at, memory_order_acquire);
    return word >> 32 == kept->generation && now < (uint32_t)word && has_owner(connection);
}

static uint32_t *kept_bucket(const imgbroker *connection, uint64_t hash) {
    return &connection->kept_table[hash & (connection->kept_buckets - 1)];
}

// Returns the kept image of a request, which may be invalid; NULL if no image of it is kept.
static struct kept *find_kept(
    const imgbroker *connection, const char *url, size_t length, uint64_t hash, const imgbroker_options *options) {
    for (uint32_t link = *kept_bucket(connection, hash); link != 0; link = connection->kept[link - 1].next) {
        struct kept *kept = &connection->kept[link - 1];
        if (kept->hash == hash && kept->length == length && memcmp(kept->url, url, length) == 0
            && are_same(&kept->options, options)) {
            return kept;
        }
    }
    return NULL;
}

// Replaces the link to an entry.
static void relink(imgbroker *connection, const struct kept *kept, uint32_t link) {
    uint32_t own = (uint32_t)(kept - connection->kept) + 1;
    uint32_t *place = kept_bucket(connection, kept->hash);
    while (*place != own) place = &connection->kept[*place - 1].next;
    *place = link;
}

// Removes an entry; the last entry moves to its place.
static void remove_kept(imgbroker *connection, struct kept *kept) {
    relink(connection, kept, kept->next);
    connection->kept_bytes -= ((struct image *)kept->image)->total;
    imgbroker_image_release(kept->image);
    free_key(kept->url, &kept->options);
    struct kept *last = &connection->kept[--connection->kept_count];
    if (kept == last) return;
    relink(connection, last, (uint32_t)(kept - connection->kept) + 1);
    *kept = *last;
}

// Removes the first entry that was not used since the hand last passed.
static void evict_one(imgbroker *connection) {
    while (true) {
        if (connection->hand >= connection->kept_count) connection->hand = 0;
        struct kept *kept = &connection->kept[connection->hand];
        if (!kept->is_used) {
            remove_kept(connection, kept);
            return;
        }
        kept->is_used = false;
        connection->hand++;
    }
}

// Returns whether there is more room than when a request was refused for want of it: removes half of the kept images,
// unless that was done since.
static bool has_room(imgbroker *connection, const struct request *request) {
    if (request->sequence <= connection->room_made_at) return true;
    uint32_t count = (connection->kept_count + 1) / 2;
    for (uint32_t removed = 0; removed < count; removed++) evict_one(connection);
    if (count > 0) connection->room_made_at = connection->last_sequence;
    return count > 0;
}

// Unmaps the validity page, if there is one, and releases the kept images.
static void drop_page(imgbroker *connection) {
    while (connection->kept_count > 0) remove_kept(connection, &connection->kept[connection->kept_count - 1]);
    if (connection->page != NULL) munmap((void *)connection->page, connection->page_size);
    connection->page = NULL;
    connection->unreported_hits = 0;
}

// Keeps the image of a request if it has a slot, instead of an earlier image of the same request. Takes the request's
// key.
static void keep(
    imgbroker *connection, struct request *request, struct image *image, int64_t slot, uint32_t generation) {
    if (request->url == NULL || connection->page == NULL) return;
    size_t length = strlen(request->url);
    uint64_t hash = hash_of(request->url, length);
    struct kept *before = find_kept(connection, request->url, length, hash, &request->options);
    if (before != NULL) remove_kept(connection, before);
    uint64_t size = image->total;
    if (slot < 0 || slot >= connection->slots || image->number == 0 || size > connection->kept_maximum_bytes) return;
    while (connection->kept_count >= connection->kept_maximum
        || connection->kept_bytes > connection->kept_maximum_bytes - size) {
        evict_one(connection);
    }
    uint32_t *bucket = kept_bucket(connection, hash);
    connection->kept[connection->kept_count++] = (struct kept){
        .hash = hash, .length = length, .image = imgbroker_image_retain(&image->image), .number = image->number,
        .slot = (uint32_t)slot, .generation = generation, .next = *bucket, .url = request->url,
        .options = request->options};
    *bucket = connection->kept_count;
    connection->kept_bytes += size;
    request->url = NULL;
    request->options = default_options;
}

// Sending

// Appends bytes to the outgoing ones. Returns false without memory.
static bool append(imgbroker *connection, const void *data, size_t size) {
    if (size > SIZE_MAX - connection->outgoing_length) return false;
    char *outgoing =
        grow(connection->outgoing, &connection->outgoing_capacity, connection->outgoing_length + size, 1);
    if (outgoing == NULL) return false;
    connection->outgoing = outgoing;
    memcpy(connection->outgoing + connection->outgoing_length, data, size);
    connection->outgoing_length += size;
    return true;
}

// Appends a frame: `prefix` and `text` together. Returns false, and appends nothing, without memory.
static bool append_frame(imgbroker *connection, const char *prefix, const char *text, size_t length) {
    size_t before = connection->outgoing_length, first = strlen(prefix);
    uint32_t size = (uint32_t)(first + length);
    uint8_t header[HEADER_BYTES] = {
        (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size};
    if (append(connection, header, sizeof header) && append(connection, prefix, first)
        && append(connection, text, length)) {
        return true;
    }
    connection->outgoing_length = before;
    return false;
}

// Appends a message that ends with a list of numbers. Without memory, leases end with the connection.
static void append_numbers(imgbroker *connection, const char *prefix, const uint64_t *numbers, size_t count) {
    size_t capacity = 24 + 17 * count, length = 0;
    char *text = malloc(capacity);
    if (text == NULL) return;
    for (size_t index = 0; index < count; index++) {
        length += (size_t)snprintf(text + length, capacity - length, "%s%llu", index == 0 ? "" : ",",
            (unsigned long long)numbers[index]);
    }
    length += (size_t)snprintf(text + length, capacity - length, "]}");
    (void)append_frame(connection, prefix, text, length);
    free(text);
}

// Returns the place of a link in `buffers` or `segments`: that to the memory with a number, or the end of its bucket.
static struct buffer **find_place(struct buffer **table, uint64_t number) {
    struct buffer **place = &table[number % BUCKETS];
    while (*place != NULL && (*place)->number != number) place = &(*place)->next;
    return place;
}

// Returns the segment, or the buffer if `segment` is 0; NULL for one that is not held.
static struct buffer *find_memory(imgbroker *connection, uint64_t buffer, uint64_t segment) {
    return segment != 0 ? *find_place(connection->segments, segment) : *find_place(connection->buffers, buffer);
}

// Whether the broker is to be told that this process does not have a segment. Images may still arrive in one that is lost, and
// repeat that.
static bool is_to_be_forgotten(const struct buffer *segment) {
    return segment->leases == 0 && (segment->has_ended || segment->is_lost);
}

static void note_idle_segment(imgbroker *connection, struct buffer *segment) {
    if (segment->is_idle || !is_to_be_forgotten(segment)) return;
    segment->is_idle = true;
    segment->next_idle = connection->idle_segments;
    connection->idle_segments = segment;
}

// Notes that the release of a lease is to be sent. Without memory, the lease ends with the connection.
static void release_lease(imgbroker *connection, uint64_t number, uint64_t segment) {
    struct buffer *buffer = find_memory(connection, number, segment);
    uint64_t *unused = grow(
        connection->unused, &connection->unused_capacity, connection->unused_count + 1, sizeof *connection->unused);
    if (unused != NULL) connection->unused = unused;
    if (buffer == NULL || unused == NULL) return;
    unused[connection->unused_count++] = number;
    buffer->leases--;
    if (segment != 0) {
        note_idle_segment(connection, buffer);
        return;
    }
    buffer->needed_until = connection->last_sequence;
    if (buffer->leases > 0 || buffer->is_idle) return;
    buffer->is_idle = true;
    buffer->next_idle = connection->idle;
    connection->idle = buffer;
}

// Unmaps the segments that have ended and have no lease left, and appends the report of that.
static void append_forgotten_segments(imgbroker *connection) {
    uint64_t numbers[64];
    size_t count = 0;
    while (connection->idle_segments != NULL) {
        struct buffer *segment = connection->idle_segments;
        connection->idle_segments = segment->next_idle;
        segment->is_idle = false;
        if (is_to_be_forgotten(segment)) numbers[count++] = segment->number;
        if (is_to_be_forgotten(segment) && segment->has_ended) {
            *find_place(connection->segments, segment->number) = segment->next;
            buffer_release(segment);
        }
        if (count == 0 || (count < COUNT(numbers) && connection->idle_segments != NULL)) continue;
        append_numbers(connection, "{\"type\":\"forgetSegments\",\"segments\":[", numbers, count);
        count = 0;
    }
}

// Takes the images that were released, and appends the releases of their leases.
static void append_releases(imgbroker *connection) {
    struct image *image = atomic_exchange_explicit(&connection->shared->returned, NULL, memory_order_seq_cst);
    while (image != NULL) {
        struct image *next = image->next;
        if (image->session == connection->session) release_lease(connection, image->number, image->segment);
        image_free(image);
        image = next;
    }
    for (size_t start = 0; start < connection->unused_count; start += NUMBERS_IN_ONE_FRAME) {
        size_t rest = connection->unused_count - start;
        append_numbers(connection, "{\"type\":\"release\",\"buffers\":[", connection->unused + start,
            rest < NUMBERS_IN_ONE_FRAME ? rest : NUMBERS_IN_ONE_FRAME);
    }
    connection->unused_count = 0;
    append_forgotten_segments(connection);
}

// Appends the report of uses that the broker did not see, unless the last one was within a second. Also removes the
// kept images that are no longer valid.
static void append_report(imgbroker *connection) {
    if (connection->page == NULL) return;
    uint32_t now = now_tenths();
    if (now - connection->reported_at < REPORT_INTERVAL / 100) return;
    connection->reported_at = now;
    for (uint32_t index = connection->kept_count; index > 0; index--) {
        if (!is_valid(connection, &connection->kept[index - 1], now)) {
            remove_kept(connection, &connection->kept[index - 1]);
        }
    }
    if (connection->unreported_hits == 0) return;
    uint64_t hits = connection->unreported_hits < MAXIMUM_HITS ? connection->unreported_hits : MAXIMUM_HITS;
    connection->unreported_hits = 0;
    uint64_t *numbers = malloc((connection->kept_count + 1) * sizeof *numbers);
    size_t count = 0;
    if (numbers == NULL) return;
    for (uint32_t index = 0; index < connection->kept_count && count < NUMBERS_IN_ONE_FRAME; index++) {
        if (!connection->kept[index].is_unreported) continue;
        connection->kept[index].is_unreported = false;
        numbers[count++] = connection->kept[index].number;
    }
    char prefix[64];
    (void)snprintf(prefix, sizeof prefix, "{\"type\":\"touch\",\"hits\":%llu,\"buffers\":[", (unsigned long long)hits);
    append_numbers(connection, prefix, numbers, count);
    free(numbers);
}

static void arm_timer(imgbroker *connection, int64_t at);

// Sends what the socket accepts now. A closed connection is left to the receiving side.
static void flush(imgbroker *connection) {
    bool is_stalled = connection->is_damaged;
    while (connection->outgoing_sent < connection->outgoing_length && !is_stalled) {
        size_t end = connection->outgoing_length, next = 0;
        int descriptor = -1;
        if (connection->attachment_count > 0 && connection->attachments[0].position == connection->outgoing_sent) {
            descriptor = connection->attachments[0].descriptor;
            next = 1;
        }
        if (connection->attachment_count > next) end = connection->attachments[next].position;
        struct iovec vector = {connection->outgoing + connection->outgoing_sent, end - connection->outgoing_sent};
        union {
            struct cmsghdr header;
            char bytes[CMSG_SPACE(sizeof(int))];
        } control;
        struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
        if (descriptor >= 0) {
            memset(&control, 0, sizeof control);
            message.msg_control = &control;
            message.msg_controllen = sizeof control.bytes;
            control.header.cmsg_level = SOL_SOCKET;
            control.header.cmsg_type = SCM_RIGHTS;
            control.header.cmsg_len = CMSG_LEN(sizeof descriptor);
            memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
        }
        ssize_t sent = sendmsg(connection->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK) break;
            if (errno == EPIPE || errno == ECONNRESET) {
                connection->outgoing_sent = connection->outgoing_length;
                connection->attachment_count = 0;
                break;
            }
            // Too many descriptors of the user are in flight, or the kernel lacks memory. The socket is writable meanwhile.
            is_stalled = errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM;
            connection->is_damaged = !is_stalled;
            arm_timer(connection, now_ms() + (is_stalled ? SEND_PAUSE : 0));
            break;
        }
        connection->outgoing_sent += (size_t)sent;
        if (next == 1) {
            connection->attachment_count--;
            memmove(connection->attachments, connection->attachments + 1,
                connection->attachment_count * sizeof *connection->attachments);
        }
    }
    bool has_rest = connection->outgoing_sent < connection->outgoing_length;
    if (!has_rest) connection->outgoing_sent = connection->outgoing_length = 0;
    bool wants_to_write = has_rest && !is_stalled && !connection->is_damaged;
    if (wants_to_write == connection->wants_to_write) return;
    struct epoll_event event = {
        .events = EPOLLIN | (wants_to_write ? (uint32_t)EPOLLOUT : 0), .data.fd = connection->socket};
    if (epoll_ctl(connection->epoll, EPOLL_CTL_MOD, connection->socket, &event) == 0) {
        connection->wants_to_write = wants_to_write;
    }
}

// Sends reports and releases that are due, and the bytes that the socket did not accept before.
static void flush_all(imgbroker *connection) {
    append_report(connection);
    append_releases(connection);
    flush(connection);
}

// Requests

static void list_append(struct list *list, struct request *request) {
    request->previous = list->last;
    request->next = NULL;
    *(list->last != NULL ? &list->last->next : &list->first) = request;
    list->last = request;
}

static void list_remove(struct list *list, struct request *request) {
    *(request->previous != NULL ? &request->previous->next : &list->first) = request->next;
    *(request->next != NULL ? &request->next->previous : &list->last) = request->previous;
}

// Moves all requests of `other` to the end of `list`.
static void list_move(struct list *list, struct list *other) {
    while (other->first != NULL) {
        struct request *request = other->first;
        list_remove(other, request);
        list_append(list, request);
    }
}

static void request_free(struct request *request) {
    if (request == NULL) return;
    close_descriptor(&request->descriptor);
    free(request->body);
    free(request->last);
    free_key(request->url, &request->options);
    free(request);
}

static void queue_reply(imgbroker *connection, struct node *node) {
    node->next = NULL;
    *(connection->last_reply != NULL ? &connection->last_reply->next : &connection->first_reply) = node;
    connection->last_reply = node;
    connection->reply_count++;
}

// Gives the caller a reply that is not the last one, and takes over its image and text.
static void report(imgbroker *connection, struct request *request, imgbroker_reply *reply) {
    struct node *node = NULL;
    if (request->sink == NULL && !request->is_internal) node = malloc(sizeof *node);
    if (node == NULL) {
        imgbroker_reply_clear(reply);
        return;
    }
    node->reply = *reply;
    node->reply.request = request->number;
    node->reply.user = request->user;
    queue_reply(connection, node);
}

// Ends a request that is in no list, and takes over the reply's image and text.
static void finish(imgbroker *connection, struct request *request, imgbroker_reply *reply) {
    reply->final = true;
    reply->request = request->number;
    reply->user = request->user;
    if (request->sink != NULL) {
        *request->sink = *reply;
    } else if (request->is_internal) {
        imgbroker_reply_clear(reply);
    } else {
        request->last->reply = *reply;
        queue_reply(connection, request->last);
        request->last = NULL;
    }
    request_free(request);
}

static void finish_with_error(imgbroker *connection, struct request *request, const imgbroker_error *error) {
    imgbroker_reply reply = {.type = IMGBROKER_REPLY_ERROR, .error = *error};
    finish(connection, request, &reply);
}

static void finish_cancelled(imgbroker *connection, struct request *request) {
    imgbroker_error error;
    fail(&error, IMGBROKER_ERROR_CANCELLED, "the request was cancelled");
    finish_with_error(connection, request, &error);
}

static void finish_all(imgbroker *connection, struct list *list, const imgbroker_error *error) {
    while (list->first != NULL) {
        struct request *request = list->first;
        list_remove(list, request);
        finish_with_error(connection, request, error);
    }
}

static struct request *find_pending(const imgbroker *connection, uint64_t number) {
    struct request *request = connection->buckets[number % BUCKETS];
    while (request != NULL && request->number != number) request = request->next_in_bucket;
    return request;
}

// Whether a request is sent again if its connection is lost: once.
static bool may_repeat(const struct request *request) {
    return request->attempts < MOST_ATTEMPTS && !request->is_cancelled && !request->is_internal
        && request->message != MESSAGE_SUBSCRIBE;
}

static void remove_pending(imgbroker *connection, struct request *request) {
    if (connection->newest_answered < request->sequence) connection->newest_answered = request->sequence;
    struct request **place = &connection->buckets[request->number % BUCKETS];
    while (*place != request) place = &(*place)->next_in_bucket;
    *place = request->next_in_bucket;
    list_remove(&connection->pending, request);
    if (connection->sign_of_life == request) connection->sign_of_life = NULL;
}

static struct request *send_internal(imgbroker *connection, enum message message, char *text);

// Requests the next validity page if the present one has ended although the connection goes on: another program has
// taken the broker's place. Without an answer that has a page, no further one is requested.
static void renew_page(imgbroker *connection) {
    if (connection->page == NULL || has_owner(connection)) return;
    drop_page(connection);
    (void)send_internal(
        connection, MESSAGE_HELLO, strdup("{\"type\":\"hello\",\"protocol\":1,\"validity\":true,\"segments\":true}"));
}

// Sends a request that is in no list, or ends it.
static void send_request(imgbroker *connection, struct request *request) {
    imgbroker_error error;
    unsigned missing = request->features & ~connection->features;
    if (missing != 0) {
        unsigned index = 0;
        while ((missing >> index & 1) == 0) index++;
        fail(&error, IMGBROKER_ERROR_FEATURE_MISSING, "the broker does not have %s among its features",
            feature_names[index]);
        finish_with_error(connection, request, &error);
        return;
    }
    renew_page(connection);
    append_report(connection);
    append_releases(connection);
    size_t position = connection->outgoing_length;
    char prefix[40];
    (void)snprintf(prefix, sizeof prefix, "{\"id\":%llu,", (unsigned long long)request->number);
    struct attachment *attachments = grow(connection->attachments, &connection->attachment_capacity,
        connection->attachment_count + 1, sizeof *connection->attachments);
    if (attachments != NULL) connection->attachments = attachments;
    if (attachments == NULL || !append_frame(connection, prefix, request->body, request->length)) {
        fail_no_memory(&error);
        finish_with_error(connection, request, &error);
        return;
    }
    if (request->descriptor >= 0) {
        attachments[connection->attachment_count++] =
            (struct attachment){.position = position, .descriptor = request->descriptor};
    }
    request->attempts++;
    request->sequence = ++connection->last_sequence;
    request->sent_at = now_ms();
    list_append(&connection->pending, request);
    struct request **bucket = &connection->buckets[request->number % BUCKETS];
    request->next_in_bucket = *bucket;
    *bucket = request;
    flush(connection);
}

// Whether a request can be sent now. Before the reply to `hello`, one that needs an addition to the protocol waits for the list of the
// broker's additions, and one that is sent only once waits, too.
static bool can_send(const imgbroker *connection, const struct request *request) {
    return connection->state == READY
        || (connection->state == GREETING && request->features == 0 && request->message != MESSAGE_SUBSCRIBE);
}

static void send_waiting(imgbroker *connection) {
    struct list waiting = connection->waiting;
    connection->waiting = (struct list){NULL, NULL};
    while (waiting.first != NULL) {
        struct request *request = waiting.first;
        list_remove(&waiting, request);
        if (can_send(connection, request)) {
            send_request(connection, request);
        } else {
            list_append(&connection->waiting, request);
        }
    }
}

// Creates a request with the text of a JSON object, which it owns. Returns NULL without memory.
static struct request *request_new(imgbroker *connection, enum message message, char *text) {
    struct request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        free(text);
        return NULL;
    }
    request->message = message;
    request->descriptor = -1;
    request->number = ++connection->last_number;
    request->body = text;
    request->length = strlen(text) - 1;
    // The prefix has the brace.
    memmove(text, text + 1, request->length + 1);
    return request;
}

// Sends a message that has no reply for the caller. Returns NULL without memory.
static struct request *send_internal(imgbroker *connection, enum message message, char *text) {
    struct request *request = text == NULL ? NULL : request_new(connection, message, text);
    if (request == NULL) return NULL;
    request->is_internal = true;
    uint64_t number = request->number;
    send_request(connection, request);
    return find_pending(connection, number);
}

// Sessions

static void close_arrival(struct arrival *arrival) {
    while (arrival->taken < arrival->count) close(arrival->descriptors[arrival->taken++]);
}

static void remove_first_arrival(imgbroker *connection) {
    close_arrival(&connection->arrivals[0]);
    connection->arrival_count--;
    memmove(&connection->arrivals[0], &connection->arrivals[1],
        (size_t)connection->arrival_count * sizeof connection->arrivals[0]);
}

static void release_all(struct buffer **bucket) {
    while (*bucket != NULL) {
        struct buffer *buffer = *bucket;
        *bucket = buffer->next;
        buffer_release(buffer);
    }
}

// Appends a `cancel` for each request that was sent and not answered, and for each subscription.
static void append_cancellations(imgbroker *connection) {
    for (const struct request *request = connection->pending.first; request != NULL; request = request->next) {
        if (request->is_internal) continue;
        char text[100];
        int length = snprintf(text, sizeof text, "{\"id\":%llu,\"type\":\"cancel\",\"request\":%llu}",
            (unsigned long long)++connection->last_number, (unsigned long long)request->number);
        (void)append_frame(connection, "", text, (size_t)length);
    }
}

// Ends the session, if there is one: forgets its buffers and segments, and closes its descriptors; the socket when no image in a
// segment is left. The requests stay in their lists.
static void close_session(imgbroker *connection) {
    drop_page(connection);
    if (connection->socket >= 0 && !is_forked(connection->shared)) {
        // An image in a segment keeps the connection open, and with it all leases and requests that are not ended now.
        append_releases(connection);
        append_cancellations(connection);
        flush(connection);
        // A child of this process may have the socket, which would then stay in the epoll instance.
        (void)epoll_ctl(connection->epoll, EPOLL_CTL_DEL, connection->socket, NULL);
    }
    link_release(connection->link);
    connection->link = NULL;
    connection->socket = -1;
    connection->state = DISCONNECTED;
    connection->session++;
    connection->wants_to_write = connection->is_damaged = false;
    connection->sign_of_life = NULL;
    connection->features = 0;
    connection->outgoing_sent = connection->outgoing_length = 0;
    connection->attachment_count = 0;
    connection->incoming_begin = connection->incoming_end = 0;
    connection->position = 0;
    while (connection->arrival_count > 0) remove_first_arrival(connection);
    if (connection->inline_image != NULL) imgbroker_image_release(&connection->inline_image->image);
    connection->inline_image = NULL;
    for (size_t index = 0; index < BUCKETS; index++) {
        release_all(&connection->buffers[index]);
        release_all(&connection->segments[index]);
        connection->buckets[index] = NULL;
    }
    connection->idle = connection->idle_segments = NULL;
    connection->unused_count = 0;
}

// Ends the session because of `connection->failure`. Requests whose connection was lost wait for the next one, if they
// were sent once; all others end.
static void end_session(imgbroker *connection) {
    imgbroker_error failure = connection->failure;
    bool was_greeting = connection->state == GREETING;
    struct list sent = {NULL, NULL}, ended = {NULL, NULL}, repeated = {NULL, NULL};
    close_session(connection);
    list_move(&sent, &connection->deferred);
    list_move(&sent, &connection->pending);
    bool is_lost = failure.code == IMGBROKER_ERROR_CONNECTION_LOST;
    while (sent.first != NULL) {
        struct request *request = sent.first;
        list_remove(&sent, request);
        // A broker that has not answered `hello` has handled nothing.
        if (was_greeting) request->attempts--;
        list_append(is_lost && may_repeat(request) ? &repeated : &ended, request);
    }
    if (is_lost) {
        list_move(&repeated, &connection->waiting);
        connection->waiting = repeated;
        int64_t now = now_ms();
        if (!was_greeting) {
            connection->is_connecting = connection->waiting.first != NULL;
            connection->connect_since = connection->connect_at = now;
            connection->connect_until = now + connection->reconnect;
        } else if (now < connection->connect_until) {
            // A broker that exits may accept a connection that it does not serve.
            connection->connect_at = now + CONNECT_PAUSE;
        } else {
            list_move(&ended, &connection->waiting);
            connection->is_connecting = false;
        }
    } else {
        list_move(&ended, &connection->waiting);
        connection->is_connecting = false;
    }
    finish_all(connection, &ended, &failure);
}

static void lose(imgbroker *connection) {
    fail(&connection->failure, IMGBROKER_ERROR_CONNECTION_LOST, "the broker closed the connection");
}

// Notes a violation of the protocol, and returns false.
__attribute__((format(printf, 2, 3))) static bool violation(imgbroker *connection, const char *format, ...) {
    char problem[160];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(problem, sizeof problem, format, arguments);
    va_end(arguments);
    fail(&connection->failure, IMGBROKER_ERROR_PROTOCOL_VIOLATION, "the broker does not follow the protocol: %s",
        problem);
    return false;
}

static bool no_memory(imgbroker *connection) {
    fail_no_memory(&connection->failure);
    return false;
}

// Writes the default path of the socket. Returns false if it is too long.
static bool default_path(char *path, size_t size) {
    const char *name = getenv("IMGBROKER_SOCKET");
    if (name != NULL && name[0] != '\0') return (size_t)snprintf(path, size, "%s", name) < size;
    const char *directory = getenv("XDG_RUNTIME_DIR");
    if (directory != NULL && directory[0] != '\0') {
        if ((size_t)snprintf(path, size, "%s/imgbroker.sock", directory) < size && access(path, F_OK) == 0) return true;
    }
    return (size_t)snprintf(path, size, "/run/imgbroker.sock") < size;
}

// Lets `recvmsg` without MSG_DONTWAIT wait, for as long as the broker may be silent.
static void let_receive_wait(const imgbroker *connection) {
    struct timeval patience = {0};
    if (connection->patience != NEVER) {
        patience.tv_sec = connection->patience / 1000;
        patience.tv_usec = connection->patience % 1000 * 1000;
    }
    (void)setsockopt(connection->socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)fcntl(connection->socket, F_SETFL, 0);
}

// Opens a socket and connects it. Returns IMGBROKER_OK, or the error, in `connection->failure`, too. EAGAIN, a queue of
// connections that is full, is IMGBROKER_ERROR_OVERLOADED.
static imgbroker_code connect_socket(imgbroker *connection) {
    imgbroker_error *failure = &connection->failure;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (connection->path != NULL
            ? (size_t)snprintf(address.sun_path, sizeof address.sun_path, "%s", connection->path)
                >= sizeof address.sun_path
            : !default_path(address.sun_path, sizeof address.sun_path)) {
        return fail(failure, IMGBROKER_ERROR_NO_BROKER, "the path of the socket is too long");
    }
    connection->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connection->socket < 0) {
        return fail_system(failure, IMGBROKER_ERROR_PROCESS_LIMIT, "this process cannot open a socket", errno);
    }
    imgbroker_code code = IMGBROKER_OK;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = connection->socket};
    if (connect(connection->socket, (struct sockaddr *)&address, sizeof address) != 0) {
        int number = errno;
        char action[160];
        (void)snprintf(action, sizeof action, "no broker answers at %s", address.sun_path);
        code = fail_system(failure, IMGBROKER_ERROR_NO_BROKER, action, number);
        if (number == EAGAIN) code = IMGBROKER_ERROR_OVERLOADED;
    } else if (epoll_ctl(connection->epoll, EPOLL_CTL_ADD, connection->socket, &event) != 0) {
        code = fail_system(failure, IMGBROKER_ERROR_PROCESS_LIMIT, "this process cannot wait for the socket", errno);
    }
    connection->link = code == IMGBROKER_OK ? malloc(sizeof *connection->link) : NULL;
    if (code == IMGBROKER_OK && connection->link == NULL) code = fail_no_memory(failure);
    if (code != IMGBROKER_OK) {
        close_descriptor(&connection->socket);
        return code;
    }
    atomic_init(&connection->link->references, 1);
    connection->link->socket = connection->socket;
    let_receive_wait(connection);
    return code;
}

// Connects if requests wait for a connection and the time has come.
static void connect_if_due(imgbroker *connection) {
    if (connection->waiting.first == NULL) connection->is_connecting = false;
    if (connection->state != DISCONNECTED || connection->waiting.first == NULL) return;
    int64_t now = now_ms();
    if (!connection->is_connecting) {
        connection->is_connecting = true;
        connection->connect_since = connection->connect_at = now;
        connection->connect_until = now + (connection->was_connected ? connection->reconnect : 0);
    }
    if (now < connection->connect_at) return;
    imgbroker_code code = connect_socket(connection);
    if (code == IMGBROKER_OK) {
        connection->state = GREETING;
        connection->heard_at = now;
        json_t *hello = json_pack("{s:s,s:i,s:s,s:b}", "type", "hello", "protocol", 1, "client", connection->client,
            "segments", true);
        if (hello != NULL && connection->kept_maximum > 0) json_object_set_new(hello, "validity", json_true());
        char *text = text_of(hello);
        json_decref(hello);
        if (send_internal(connection, MESSAGE_HELLO, text) == NULL) {
            no_memory(connection);
            end_session(connection);
        } else {
            send_waiting(connection);
        }
        return;
    }
    bool is_full = code == IMGBROKER_ERROR_OVERLOADED
        && (connection->patience == NEVER || now < connection->connect_since + connection->patience);
    if (is_full || (code != IMGBROKER_ERROR_PROCESS_LIMIT && now < connection->connect_until)) {
        connection->connect_at = now + CONNECT_PAUSE;
        return;
    }
    connection->is_connecting = false;
    imgbroker_error failure = connection->failure;
    finish_all(connection, &connection->waiting, &failure);
}

// Reading messages. A field of a wrong type or out of its range is a violation.

// Reads an integer; `*value` stays as it is if the field is missing or null.
static bool read_integer(
    imgbroker *connection, const json_t *fields, const char *name, int64_t least, int64_t most, int64_t *value) {
    const json_t *field = json_object_get(fields, name);
    if (field == NULL || json_is_null(field)) return true;
    if (!json_is_integer(field) || json_integer_value(field) < least || json_integer_value(field) > most) {
        return violation(connection, "%s is not an integer from %lld to %lld", name, (long long)least, (long long)most);
    }
    *value = json_integer_value(field);
    return true;
}

static bool require_integer(
    imgbroker *connection, const json_t *fields, const char *name, int64_t least, int64_t most, int64_t *value) {
    const json_t *field = json_object_get(fields, name);
    if (field == NULL || json_is_null(field)) return violation(connection, "%s is missing", name);
    return read_integer(connection, fields, name, least, most, value);
}

// Reads a string of the message, which lives as long as the message; `*value` stays as it is if it is missing or null.
static bool read_string(imgbroker *connection, const json_t *fields, const char *name, const char **value) {
    const json_t *field = json_object_get(fields, name);
    if (field == NULL || json_is_null(field)) return true;
    if (!json_is_string(field)) return violation(connection, "%s is not a string", name);
    *value = json_string_value(field);
    return true;
}

static bool read_bool(imgbroker *connection, const json_t *fields, const char *name, bool *value) {
    const json_t *field = json_object_get(fields, name);
    if (field == NULL) return true;
    if (!json_is_boolean(field)) return violation(connection, "%s is not a bool", name);
    *value = json_is_true(field);
    return true;
}

// Reads a required string out of `names`, as its index.
static bool read_choice(
    imgbroker *connection, const json_t *fields, const char *name, const char *const *names, size_t count,
    unsigned *value) {
    const char *text = NULL;
    if (!read_string(connection, fields, name, &text)) return false;
    for (unsigned index = 0; text != NULL && index < count; index++) {
        if (strcmp(text, names[index]) == 0) {
            *value = index;
            return true;
        }
    }
    return violation(connection, "%s has an unknown value", name);
}

static bool read_code(imgbroker *connection, const json_t *fields, const char *name, imgbroker_code *code) {
    unsigned value = 0;
    // Without "ok".
    if (!read_choice(connection, fields, name, code_names + 1, IMGBROKER_ERROR_INTERNAL, &value)) return false;
    *code = (imgbroker_code)(value + 1);
    return true;
}

static bool read_error(imgbroker *connection, const json_t *fields, imgbroker_error *error) {
    imgbroker_code code = IMGBROKER_OK, cause = IMGBROKER_OK;
    const char *message = "";
    int64_t status = 0, retry_after = -1;
    bool recently_failed = false;
    const json_t *field = json_object_get(fields, "cause");
    if (!read_code(connection, fields, "code", &code) || !read_string(connection, fields, "message", &message)
        || !read_integer(connection, fields, "httpStatus", 0, 999, &status)
        || !read_integer(connection, fields, "retryAfterMs", 0, MAXIMUM_INTEGER, &retry_after)
        || (field != NULL && !json_is_null(field) && !read_code(connection, fields, "cause", &cause))
        || !read_bool(connection, fields, "blacklisted", &recently_failed)) {
        return false;
    }
    fail(error, code, "%s", message);
    error->http_status = (int)status;
    error->retryable = is_retryable(code, error->http_status);
    error->retry_after_ms = retry_after;
    error->cause = cause;
    error->recently_failed = recently_failed;
    return true;
}

// The fields of an `image` that are not part of the image.
struct delivery {
    bool is_final;
    size_t offset;
    uint64_t buffer, segment;
    size_t segment_bytes;
    int64_t slot;
    uint32_t generation;
    bool has_descriptor;
    size_t payload;
};

// Copies a string behind an image, and moves `*end` behind the copy. NULL stays NULL.
static const char *place(char **end, const char *text) {
    if (text == NULL) return NULL;
    char *copy = *end;
    size_t size = strlen(text) + 1;
    memcpy(copy, text, size);
    *end += size;
    return copy;
}

// Reads the frames of an animation, whose offsets count from where that of the image counts, and checks that `rows` bytes
// of each lie within the image.
static bool read_frames(
    imgbroker *connection, const json_t *list, imgbroker_frame *frames, int64_t offset, int64_t rows, int64_t size) {
    for (size_t index = 0; index < json_array_size(list); index++) {
        const json_t *frame = json_array_get(list, index);
        int64_t at = 0, delay = 0;
        if (!json_is_object(frame)) return violation(connection, "frames is not a list of objects");
        if (!require_integer(connection, frame, "offset", 0, MAXIMUM_INTEGER, &at)
            || !require_integer(connection, frame, "delayMs", 0, MAXIMUM_INTEGER, &delay)) {
            return false;
        }
        if (at < offset || at - offset > size || rows > size - (at - offset)) {
            return violation(connection, "a frame beyond its image");
        }
        frames[index] = (imgbroker_frame){.offset = (size_t)(at - offset), .delay_ms = (uint64_t)delay};
    }
    return true;
}

// Reads the spans of a trace, whose names stay those of the message.
static bool read_spans(imgbroker *connection, const json_t *list, imgbroker_span *spans) {
    for (size_t index = 0; index < json_array_size(list); index++) {
        const json_t *fields = json_array_get(list, index);
        if (!json_is_object(fields)) return violation(connection, "spans is not a list of objects");
        imgbroker_span span = {.name = NULL};
        if (!read_string(connection, fields, "name", &span.name)
            || !require_integer(connection, fields, "startMicroseconds", -MAXIMUM_INTEGER, MAXIMUM_INTEGER, &span.start_us)
            || !require_integer(connection, fields, "microseconds", 0, MAXIMUM_INTEGER, &span.duration_us)) {
            return false;
        }
        if (span.name == NULL) return violation(connection, "name is missing");
        spans[index] = span;
    }
    return true;
}

// Reads the metadata blocks. Those with an offset follow the image and one another; their bytes are added to `*total`.
static bool read_blocks(
    imgbroker *connection, const json_t *fields, imgbroker_image *image, int64_t offset, int64_t *total) {
    const json_t *list = json_object_get(fields, "metadata");
    if (list == NULL) return true;
    if (!json_is_object(list)) return violation(connection, "metadata is not an object");
    imgbroker_block *const blocks[] = {&image->exif, &image->xmp, &image->icc};
    for (size_t index = 0; index < COUNT(blocks); index++) {
        const json_t *block = json_object_get(list, metadata_names[index]);
        if (block == NULL) continue;
        int64_t length = 0, at = -1;
        if (!json_is_object(block)) return violation(connection, "a metadata block is not an object");
        if (!require_integer(connection, block, "bytes", 0, MAXIMUM_INTEGER, &length)
            || !read_integer(connection, block, "offset", 0, MAXIMUM_INTEGER, &at)) {
            return false;
        }
        blocks[index]->length = (uint64_t)length;
        if (at < 0) continue;
        if (length > MAXIMUM_BLOCK || at != offset + *total) return violation(connection, "a metadata block elsewhere");
        blocks[index]->size = (size_t)length;
        *total += length;
    }
    return true;
}

// Finds the metadata blocks behind an image that begins at `begin`.
static void place_blocks(struct image *image, const uint8_t *begin) {
    imgbroker_block *const blocks[] = {&image->image.exif, &image->image.xmp, &image->image.icc};
    const uint8_t *place = begin + image->image.bytes;
    for (size_t index = 0; index < COUNT(blocks); index++) {
        if (blocks[index]->size == 0) continue;
        blocks[index]->data = place;
        place += blocks[index]->size;
    }
}

// Reads the description by a header, whose strings stay those of the message. `*is_there` tells whether there is one.
static bool read_description(
    imgbroker *connection, const json_t *fields, imgbroker_description *description, bool *is_there) {
    *description = (imgbroker_description){.orientation = 1, .length = -1};
    *is_there = json_object_get(fields, "format") != NULL;
    if (!*is_there) return true;
    const json_t *density = json_object_get(fields, "density");
    int64_t orientation = 1, x = 0, y = 0, depth = 0, status = 0;
    if (density != NULL && !json_is_object(density)) return violation(connection, "density is not an object");
    if (!read_string(connection, fields, "format", &description->format)
        || !read_integer(connection, fields, "orientation", 1, 8, &orientation)
        || (density != NULL
            && (!require_integer(connection, density, "x", 1, INT32_MAX, &x)
                || !require_integer(connection, density, "y", 1, INT32_MAX, &y)))
        || !read_string(connection, fields, "profile", &description->profile)
        || !read_integer(connection, fields, "bitDepth", 1, 64, &depth)
        || !read_bool(connection, fields, "hasAlpha", &description->has_alpha)
        || !read_integer(connection, fields, "status", 0, 999, &status)
        || !read_string(connection, fields, "lastModified", &description->last_modified)
        || !read_integer(connection, fields, "length", 0, MAXIMUM_INTEGER, &description->length)) {
        return false;
    }
    description->orientation = (uint32_t)orientation;
    description->density_x = (uint32_t)x;
    description->density_y = (uint32_t)y;
    description->bit_depth = (uint32_t)depth;
    description->status = (uint32_t)status;
    return true;
}

// Reads an `image`, and checks that its pixels lie within its bytes. The image has no bytes yet.
static bool read_image(
    imgbroker *connection, const json_t *fields, struct image **result, struct delivery *delivery) {
    imgbroker_image image = {.format = IMGBROKER_ENCODED, .alpha = IMGBROKER_NO_ALPHA};
    int64_t width = 0, height = 0, bytes = 0, offset = 0, stride = 0, buffer = 0, fds = 0, payload = 0;
    int64_t slot = -1, generation = 0, frame_count = 1, segment = 0, segment_bytes = 0;
    image.loops = image.expires = -1;
    *delivery = (struct delivery){.is_final = true};
    unsigned format = IMGBROKER_ENCODED, alpha = IMGBROKER_NO_ALPHA, source = 0;
    if (!require_integer(connection, fields, "width", 0, MAXIMUM_SIDE, &width)
        || !require_integer(connection, fields, "height", 0, MAXIMUM_SIDE, &height)
        || !require_integer(connection, fields, "bytes", 0, MAXIMUM_INTEGER, &bytes)
        || !read_integer(connection, fields, "offset", 0, MAXIMUM_INTEGER, &offset)
        || !read_integer(connection, fields, "stride", 0, MAXIMUM_INTEGER, &stride)
        || !read_integer(connection, fields, "buffer", 1, MAXIMUM_INTEGER, &buffer)
        || !read_integer(connection, fields, "segment", 1, MAXIMUM_INTEGER, &segment)
        || !read_integer(connection, fields, "segmentBytes", 1, MAXIMUM_INTEGER, &segment_bytes)
        || !read_integer(connection, fields, "fds", 0, 1, &fds)
        || !read_integer(connection, fields, "payload", 0, MAXIMUM_INTEGER, &payload)
        || !read_integer(connection, fields, "slot", 0, MAXIMUM_INTEGER, &slot)
        || !read_integer(connection, fields, "generation", 0, UINT32_MAX, &generation)
        || !read_integer(connection, fields, "frameCount", 0, MAXIMUM_INTEGER, &frame_count)
        || !read_integer(connection, fields, "loops", 0, MAXIMUM_INTEGER, &image.loops)
        || !read_integer(connection, fields, "expires", 0, MAXIMUM_INTEGER, &image.expires)
        || !read_choice(connection, fields, "source", source_names, COUNT(source_names), &source)
        || !read_bool(connection, fields, "final", &delivery->is_final)
        || !read_bool(connection, fields, "stale", &image.stale)
        || !read_bool(connection, fields, "damaged", &image.damaged)
        || !read_bool(connection, fields, "embedded", &image.embedded)
        || !read_string(connection, fields, "url", &image.url)
        || !read_string(connection, fields, "contentType", &image.content_type)
        || !read_string(connection, fields, "averageColor", &image.average_color)
        || !read_string(connection, fields, "thumbHash", &image.thumb_hash)
        || !read_string(connection, fields, "etag", &image.etag)
        || !read_string(connection, fields, "damage", &image.damage)) {
        return false;
    }
    int64_t original_width = width, original_height = height;
    if (!read_integer(connection, fields, "originalWidth", 0, MAXIMUM_INTEGER, &original_width)
        || !read_integer(connection, fields, "originalHeight", 0, MAXIMUM_INTEGER, &original_height)) {
        return false;
    }
    if (original_width > UINT32_MAX || original_height > UINT32_MAX || offset + bytes > MAXIMUM_INTEGER) {
        return violation(connection, "the sizes are invalid");
    }
    imgbroker_description description;
    bool is_described = false;
    int64_t total = bytes;
    if (!read_blocks(connection, fields, &image, offset, &total)
        || !read_description(connection, fields, &description, &is_described)) {
        return false;
    }
    if ((uint64_t)(offset + total) > SIZE_MAX) return violation(connection, "an image beyond the address space");
    const json_t *frames = json_object_get(fields, "frames");
    if (frames != NULL && !json_is_array(frames)) return violation(connection, "frames is not a list of objects");
    const json_t *spans = json_object_get(fields, "spans");
    if (spans != NULL && !json_is_array(spans)) return violation(connection, "spans is not a list of objects");
    int64_t rows = 0;
    if (stride > 0) {
        if (!read_choice(connection, fields, "pixelFormat", format_names, COUNT(format_names), &format)
            || !read_choice(connection, fields, "alpha", alpha_names, COUNT(alpha_names), &alpha)) {
            return false;
        }
        if (stride < width * (int64_t)channels[format]) return violation(connection, "a stride shorter than a row");
        if (height > 0 && stride > bytes / height) return violation(connection, "rows beyond the image");
        rows = stride * height;
    }
    if (payload > 0 && (buffer != 0 || fds != 0 || offset != 0 || payload != total || payload > MAXIMUM_INLINE_BYTES)) {
        return violation(connection, "an invalid payload");
    }
    if ((fds != 0 || segment != 0) && buffer == 0) {
        return violation(connection, "a descriptor or segment without a buffer");
    }
    if ((segment_bytes != 0) != (segment != 0 && fds != 0)) {
        return violation(connection, "segmentBytes without a segment's descriptor, or a descriptor without it");
    }
    if ((uint64_t)segment_bytes > SIZE_MAX) return violation(connection, "a segment beyond the address space");

    size_t count = json_array_size(frames), span_count = json_array_size(spans);
    size_t size = sizeof(struct image) + count * sizeof(imgbroker_frame) + span_count * sizeof(imgbroker_span);
    const char *const texts[] = {
        image.url, image.content_type, image.average_color, image.thumb_hash, image.etag, image.damage,
        description.format, description.profile, description.last_modified};
    for (size_t index = 0; index < COUNT(texts); index++) {
        if (texts[index] != NULL) size += strlen(texts[index]) + 1;
    }
    for (size_t index = 0; index < span_count; index++) {
        // Anything but a string is refused below.
        size += json_string_length(json_object_get(json_array_get(spans, index), "name")) + 1;
    }
    struct image *made = calloc(1, size);
    if (made == NULL) return no_memory(connection);
    imgbroker_frame *made_frames = (imgbroker_frame *)(void *)(made + 1);
    imgbroker_span *made_spans = (imgbroker_span *)(void *)(made_frames + count);
    if (!read_frames(connection, frames, made_frames, offset, rows, bytes)
        || !read_spans(connection, spans, made_spans)) {
        free(made);
        return false;
    }
    char *end = (char *)(made_spans + span_count);
    for (size_t index = 0; index < span_count; index++) made_spans[index].name = place(&end, made_spans[index].name);
    image.spans = span_count > 0 ? made_spans : NULL;
    image.span_count = span_count;
    image.frames = count > 0 ? made_frames : NULL;
    image.frame_count = count;
    image.url = place(&end, image.url);
    image.content_type = place(&end, image.content_type);
    image.average_color = place(&end, image.average_color);
    image.thumb_hash = place(&end, image.thumb_hash);
    image.etag = place(&end, image.etag);
    image.damage = place(&end, image.damage);
    image.bytes = (uint64_t)bytes;
    image.width = (uint32_t)width;
    image.height = (uint32_t)height;
    image.stride = (size_t)stride;
    image.format = (imgbroker_format)format;
    image.alpha = (imgbroker_alpha)alpha;
    image.source = (imgbroker_source)source;
    image.original_width = (uint32_t)original_width;
    image.original_height = (uint32_t)original_height;
    image.original_frames = (uint64_t)frame_count;
    description.format = place(&end, description.format);
    description.profile = place(&end, description.profile);
    description.last_modified = place(&end, description.last_modified);
    made->description = description;
    image.description = is_described ? &made->description : NULL;
    made->image = image;
    made->total = (size_t)total;
    atomic_init(&made->references, 1);
    delivery->offset = (size_t)offset;
    delivery->buffer = (uint64_t)buffer;
    delivery->segment = (uint64_t)segment;
    delivery->segment_bytes = (size_t)segment_bytes;
    delivery->slot = slot;
    delivery->generation = (uint32_t)generation;
    delivery->has_descriptor = fds != 0;
    delivery->payload = (size_t)payload;
    *result = made;
    return true;
}

// Buffers

// Takes the descriptor that came with the current frame. `*descriptor` is -1 if the kernel dropped it.
static bool take_descriptor(imgbroker *connection, int *descriptor) {
    if (connection->arrival_count == 0) return violation(connection, "a descriptor is missing");
    struct arrival *arrival = &connection->arrivals[0];
    *descriptor = arrival->is_incomplete ? -1 : arrival->descriptors[arrival->taken++];
    if (arrival->taken >= arrival->count) remove_first_arrival(connection);
    return true;
}

// Verifies that a descriptor is a memfd with `seals` and from `least` to `most` bytes, and reads its size. All seals are
// required, because a file on a tmpfs and an unsealable memfd have a seal, too.
static bool verify_sealed(
    imgbroker *connection, int descriptor, int seals, uint64_t least, uint64_t most, size_t *size) {
    int present = fcntl(descriptor, F_GET_SEALS);
    struct stat status;
    if (present < 0 || fstat(descriptor, &status) != 0) return violation(connection, "a descriptor is not a memfd");
    if ((present & seals) != seals) return violation(connection, "a memfd has the seals %#x", (unsigned)present);
    if (status.st_size < 0 || (uint64_t)status.st_size < least || (uint64_t)status.st_size > most) {
        return violation(connection, "a memfd of %lld bytes", (long long)status.st_size);
    }
    *size = (size_t)status.st_size;
    return true;
}

// Maps the memory whose descriptor came with the current frame, with the flags of `mmap`. If the descriptor did not arrive or cannot be
// mapped, the memory is lost.
static bool receive_map(
    imgbroker *connection, struct buffer *buffer, int seals, int flags, uint64_t least, uint64_t most) {
    int descriptor = -1;
    if (!take_descriptor(connection, &descriptor)) return false;
    buffer->is_lost = descriptor < 0;
    if (buffer->is_lost) return true;
    if (!verify_sealed(connection, descriptor, seals, least, most, &buffer->size)) {
        close(descriptor);
        return false;
    }
    if (buffer->size > 0) buffer->map = mmap(NULL, buffer->size, PROT_READ, flags, descriptor, 0);
    close(descriptor);
    buffer->is_lost = buffer->map == MAP_FAILED;
    if (buffer->is_lost) buffer->map = NULL;
    return true;
}

// Receives the buffer of an image that ends at `end`.
static bool receive_buffer(imgbroker *connection, uint64_t number, uint64_t end) {
    struct buffer *buffer = calloc(1, sizeof *buffer), **place = find_place(connection->buffers, number);
    if (buffer == NULL) return no_memory(connection);
    // Private, because kernels before about 6.7 refuse a shared mapping; the pages are shared in either case.
    if (!receive_map(connection, buffer, IMAGE_SEALS, MAP_PRIVATE, end, SIZE_MAX)) {
        free(buffer);
        return false;
    }
    struct buffer *before = *place;
    atomic_init(&buffer->references, 1);
    buffer->number = number;
    if (before != NULL) {
        buffer->leases = before->leases;
        buffer->needed_until = before->needed_until;
        buffer->next = before->next;
        // It takes the place of the old one among the idle buffers, too.
        buffer->is_idle = before->is_idle;
        buffer->next_idle = before->next_idle;
        struct buffer **idle = &connection->idle;
        while (before->is_idle && *idle != before) idle = &(*idle)->next_idle;
        if (before->is_idle) *idle = buffer;
        buffer_release(before);
    }
    *place = buffer;
    return true;
}

// Receives a segment. One that is mapped already stays as it is.
static bool receive_segment(imgbroker *connection, uint64_t number, size_t size) {
    struct buffer **place = find_place(connection->segments, number), *segment = *place;
    if (segment != NULL && !segment->is_lost) {
        int descriptor = -1;
        if (!take_descriptor(connection, &descriptor)) return false;
        close_descriptor(&descriptor);
        return true;
    }
    if (segment == NULL) {
        segment = calloc(1, sizeof *segment);
        if (segment == NULL) return no_memory(connection);
        atomic_init(&segment->references, 1);
        segment->number = number;
        segment->link = connection->link;
        atomic_fetch_add_explicit(&connection->link->references, 1, memory_order_relaxed);
        *place = segment;
    }
    return receive_map(connection, segment, LIVE_SEALS, MAP_SHARED, size, size);
}

// Forgets the buffers without leases that the broker no longer assumes to be here. It reads messages in their order: once it has
// answered a request that was sent after the release, no reply refers to the buffer without its descriptor.
static void forget_idle(imgbroker *connection) {
    uint64_t oldest = connection->pending.first != NULL ? connection->pending.first->sequence : UINT64_MAX;
    if (oldest < connection->newest_answered) oldest = connection->newest_answered;
    struct buffer **idle = &connection->idle;
    while (*idle != NULL) {
        struct buffer *buffer = *idle;
        if (buffer->leases == 0 && buffer->needed_until >= oldest) {
            idle = &buffer->next_idle;
            continue;
        }
        buffer->is_idle = false;
        *idle = buffer->next_idle;
        if (buffer->leases > 0) continue;
        *find_place(connection->buffers, buffer->number) = buffer->next;
        buffer_release(buffer);
    }
}

// Gives an image the bytes of its buffer or segment. `*is_lost` tells that this process cannot have them.
static bool attach_buffer(
    imgbroker *connection, struct image *image, const struct delivery *delivery, bool *is_lost) {
    uint64_t end = delivery->offset + image->total;
    if (delivery->has_descriptor
        && !(delivery->segment != 0 ? receive_segment(connection, delivery->segment, delivery->segment_bytes)
                                    : receive_buffer(connection, delivery->buffer, end))) {
        return false;
    }
    struct buffer *buffer = find_memory(connection, delivery->buffer, delivery->segment);
    if (buffer == NULL) return violation(connection, "a buffer %llu that was not sent",
        (unsigned long long)delivery->buffer);
    buffer->leases++;
    if (buffer->is_lost) {
        *is_lost = true;
        release_lease(connection, delivery->buffer, delivery->segment);
        return true;
    }
    if (buffer->size < end) return violation(connection, "an image beyond its buffer");
    atomic_fetch_add_explicit(&buffer->references, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&connection->shared->references, 1, memory_order_relaxed);
    image->buffer = buffer;
    image->shared = connection->shared;
    image->number = delivery->buffer;
    image->segment = delivery->segment;
    image->session = connection->session;
    image->image.size = (size_t)image->image.bytes;
    if (image->image.size > 0) image->image.pixels = (const uint8_t *)buffer->map + delivery->offset;
    if (image->total > image->image.size) place_blocks(image, (const uint8_t *)buffer->map + delivery->offset);
    return true;
}

// Replies

static void deliver_image(imgbroker *connection, struct request *request, struct image *image, bool is_final) {
    imgbroker_reply reply = {.type = IMGBROKER_REPLY_IMAGE, .image = &image->image};
    if (!is_final) {
        report(connection, request, &reply);
        return;
    }
    remove_pending(connection, request);
    finish(connection, request, &reply);
}

static bool handle_image(imgbroker *connection, struct request *request, const json_t *fields) {
    struct image *image = NULL;
    struct delivery delivery;
    bool is_lost = false;
    if (!read_image(connection, fields, &image, &delivery)) return false;
    if (delivery.payload > 0) {
        image->payload = malloc(delivery.payload);
        image->image.size = (size_t)image->image.bytes;
        if (image->image.size > 0) image->image.pixels = image->payload;
        if (image->payload != NULL) place_blocks(image, image->payload);
        connection->inline_image = image;
        connection->inline_received = 0;
        connection->inline_is_final = delivery.is_final;
        connection->inline_request = request;
        return image->payload != NULL || no_memory(connection);
    }
    if (delivery.buffer != 0 && !attach_buffer(connection, image, &delivery, &is_lost)) {
        imgbroker_image_release(&image->image);
        return false;
    }
    if (is_lost) {
        imgbroker_image_release(&image->image);
        if (!delivery.is_final) return true;
        imgbroker_error error;
        fail(&error, IMGBROKER_ERROR_PROCESS_LIMIT, "this process may open no more descriptors, or map no more memory");
        remove_pending(connection, request);
        finish_with_error(connection, request, &error);
        return true;
    }
    if (delivery.is_final) keep(connection, request, image, delivery.slot, delivery.generation);
    deliver_image(connection, request, image, delivery.is_final);
    return true;
}

// Receives the validity page. It is optional: a process without free descriptors or memory keeps no images.
static bool receive_page(imgbroker *connection, const json_t *fields) {
    int64_t slots = 0;
    size_t size = 0;
    int descriptor = -1;
    if (!take_descriptor(connection, &descriptor)) return false;
    if (descriptor < 0) return true;
    if (!require_integer(connection, fields, "slots", 1, MAXIMUM_SLOTS, &slots)
        || !verify_sealed(connection, descriptor, LIVE_SEALS, PAGE_HEADER + 8 * (uint64_t)slots, SIZE_MAX, &size)) {
        close(descriptor);
        return false;
    }
    size = PAGE_HEADER + 8 * (size_t)slots;
    uint8_t *page = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (page == MAP_FAILED) return true;
    uint64_t magic;
    memcpy(&magic, page, sizeof magic);
    uint32_t owner = page_number(page, PAGE_OWNER_AT);
    bool is_usable = page_number(page, PAGE_VERSION_AT) == PAGE_VERSION && owner != 0 && (owner & OWNER_DIED) == 0;
    if (magic != PAGE_MAGIC || !is_usable) {
        munmap(page, size);
        return magic == PAGE_MAGIC || violation(connection, "the validity page is invalid");
    }
    connection->page = page;
    connection->page_size = size;
    connection->slots = (uint32_t)slots;
    connection->owner = owner;
    connection->reported_at = now_tenths();
    return true;
}

// Handles the reply to a `hello` of the library: the first one of a session, or one for the next validity page.
static bool handle_greeting(imgbroker *connection, const json_t *fields) {
    int64_t protocol = 0, fds = 0;
    const json_t *features = json_object_get(fields, "features");
    if (!require_integer(connection, fields, "protocol", 1, 1, &protocol)
        || !read_integer(connection, fields, "fds", 0, 1, &fds)) {
        return false;
    }
    if (features != NULL && !json_is_array(features)) return violation(connection, "features is not a list");
    connection->features = 0;
    for (size_t index = 0; index < json_array_size(features); index++) {
        const char *name = json_string_value(json_array_get(features, index));
        for (unsigned bit = 0; name != NULL && bit < COUNT(feature_names); bit++) {
            if (strcmp(name, feature_names[bit]) == 0) connection->features |= 1u << bit;
        }
    }
    connection->kept_maximum = connection->kept_capacity;
    if (connection->keeps_default && (connection->features & SEGMENTS) == 0) connection->kept_maximum = KEPT_IN_BUFFERS;
    if (fds != 0 && !receive_page(connection, fields)) return false;
    connection->state = READY;
    connection->was_connected = true;
    connection->is_connecting = false;
    send_waiting(connection);
    return true;
}

static bool handle_error(imgbroker *connection, struct request *request, const json_t *fields) {
    imgbroker_error error;
    if (!read_error(connection, fields, &error)) return false;
    remove_pending(connection, request);
    if (request->message == MESSAGE_HELLO && request->is_internal && connection->state == READY) {
        // There is no next page.
        request_free(request);
        return true;
    }
    if (request->message == MESSAGE_HELLO && request->is_internal) {
        connection->failure = error;
        if (error.code == IMGBROKER_ERROR_SHUTTING_DOWN) lose(connection);
        request_free(request);
        return false;
    }
    if (error.code == IMGBROKER_ERROR_SHUTTING_DOWN && may_repeat(request)) {
        list_append(&connection->deferred, request);
        return true;
    }
    bool is_full = error.code == IMGBROKER_ERROR_QUOTA_EXCEEDED || error.code == IMGBROKER_ERROR_OVERLOADED;
    if (is_full && request->message == MESSAGE_GET && !request->is_cancelled && has_room(connection, request)) {
        // Requested images take precedence over kept ones.
        request->attempts--;
        send_request(connection, request);
        return true;
    }
    finish_with_error(connection, request, &error);
    return true;
}

static bool handle_progress(imgbroker *connection, struct request *request, const json_t *fields) {
    int64_t received = 0, expected = -1, done = 0, failed = 0, total = 0;
    if (!read_integer(connection, fields, "received", 0, MAXIMUM_INTEGER, &received)
        || !read_integer(connection, fields, "expected", 0, MAXIMUM_INTEGER, &expected)
        || !read_integer(connection, fields, "done", 0, MAXIMUM_INTEGER, &done)
        || !read_integer(connection, fields, "failed", 0, MAXIMUM_INTEGER, &failed)
        || !read_integer(connection, fields, "total", 0, MAXIMUM_INTEGER, &total)) {
        return false;
    }
    request->done = (uint64_t)done;
    request->failed = (uint64_t)failed;
    request->total = (uint64_t)total;
    imgbroker_reply reply = {
        .type = IMGBROKER_REPLY_PROGRESS, .received = (uint64_t)received, .expected = (uint64_t)expected,
        .done = request->done, .failed = request->failed, .total = request->total};
    report(connection, request, &reply);
    return true;
}

// Ends a request that has no image.
static bool handle_done(imgbroker *connection, struct request *request, const json_t *fields) {
    imgbroker_reply reply = {
        .type = IMGBROKER_REPLY_DONE, .done = request->done, .failed = request->failed, .total = request->total};
    int64_t removed = 0;
    if (!read_bool(connection, fields, "memory", &reply.status.memory)
        || !read_bool(connection, fields, "disk", &reply.status.disk)
        || !read_bool(connection, fields, "fresh", &reply.status.fresh)
        || !read_integer(connection, fields, "removed", 0, MAXIMUM_INTEGER, &removed)) {
        return false;
    }
    const json_t *text = request->message == MESSAGE_STATS ? json_object_get(fields, "stats") : fields;
    if (!json_is_object(text)) return violation(connection, "stats is not an object");
    reply.removed = (uint64_t)removed;
    if (!request->is_internal) {
        reply.json = text_of(text);
        if (reply.json == NULL) return no_memory(connection);
    }
    if (request->message == MESSAGE_SUBSCRIBE) {
        report(connection, request, &reply);
        return true;
    }
    // Without an error of its own, a subscription ends with the reply to its `cancel`.
    struct request *ended = request->subscription == 0 ? NULL : find_pending(connection, request->subscription);
    remove_pending(connection, request);
    finish(connection, request, &reply);
    if (ended != NULL) {
        remove_pending(connection, ended);
        finish_cancelled(connection, ended);
    }
    return true;
}

// Handles the end of a segment. Kept images in it are released, so that the broker can use its memory for others.
static bool handle_segment_end(imgbroker *connection, const json_t *fields) {
    int64_t number = 0;
    if (!require_integer(connection, fields, "segment", 1, MAXIMUM_INTEGER, &number)) return false;
    struct buffer *segment = *find_place(connection->segments, (uint64_t)number);
    if (segment == NULL) return true;
    segment->has_ended = true;
    for (uint32_t index = connection->kept_count; index > 0; index--) {
        struct kept *kept = &connection->kept[index - 1];
        if (((struct image *)kept->image)->segment == (uint64_t)number) remove_kept(connection, kept);
    }
    note_idle_segment(connection, segment);
    return true;
}

static bool handle_event(imgbroker *connection, struct request *request, const json_t *fields) {
    imgbroker_reply reply = {.type = IMGBROKER_REPLY_EVENT, .json = text_of(fields)};
    if (reply.json == NULL) return no_memory(connection);
    report(connection, request, &reply);
    return true;
}

// Handles a message. Returns false if it ends the session.
static bool handle(imgbroker *connection, const json_t *fields) {
    const char *type = NULL;
    int64_t number = 0;
    if (!json_is_object(fields)) return violation(connection, "a frame is not a JSON object");
    if (!read_string(connection, fields, "type", &type)) return false;
    if (type == NULL) return violation(connection, "type is missing");
    bool is_error = strcmp(type, "error") == 0;
    const json_t *id = json_object_get(fields, "id");
    if (is_error && (id == NULL || json_is_null(id))) {
        imgbroker_error error;
        if (!read_error(connection, fields, &error)) return false;
        connection->failure = error;
        if (error.code == IMGBROKER_ERROR_SHUTTING_DOWN && connection->state == READY) lose(connection);
        return false;
    }
    if (strcmp(type, "segmentEnded") == 0) return handle_segment_end(connection, fields);
    if (!require_integer(connection, fields, "id", 0, MAXIMUM_INTEGER, &number)) return false;
    struct request *request = find_pending(connection, (uint64_t)number);
    // Events may follow the end of a subscription.
    if (request == NULL && strcmp(type, "event") == 0 && (uint64_t)number <= connection->last_number) return true;
    if (request == NULL) return violation(connection, "a reply to a request that is not pending");
    enum message message = request->message;
    if (is_error) return handle_error(connection, request, fields);
    if (strcmp(type, "image") == 0 && message == MESSAGE_GET) return handle_image(connection, request, fields);
    if (strcmp(type, "progress") == 0 && (message == MESSAGE_GET || message == MESSAGE_PREFETCH)) {
        return handle_progress(connection, request, fields);
    }
    if (strcmp(type, "event") == 0 && message == MESSAGE_SUBSCRIBE) return handle_event(connection, request, fields);
    if (strcmp(type, "hello") == 0 && message == MESSAGE_HELLO) {
        bool is_greeting = request->is_internal;
        return handle_done(connection, request, fields) && (!is_greeting || handle_greeting(connection, fields));
    }
    if (strcmp(type, "stats") == 0 ? message == MESSAGE_STATS
                                   : strcmp(type, "ok") == 0
                && (message == MESSAGE_OTHER || message == MESSAGE_PREFETCH || message == MESSAGE_SUBSCRIBE)) {
        return handle_done(connection, request, fields);
    }
    return violation(connection, "a reply of the wrong type");
}

// Receiving

// Closes the descriptors of messages that end at or before a position, which no frame expected.
static void discard_arrivals(imgbroker *connection, uint64_t position) {
    while (connection->arrival_count > 0 && connection->arrivals[0].end <= position) remove_first_arrival(connection);
}

static void consume(imgbroker *connection, size_t count) {
    connection->incoming_begin += count;
    connection->position += count;
}

// Handles the complete frames that were received. Returns false if one of them ends the session.
static bool dispatch(imgbroker *connection) {
    while (true) {
        size_t available = connection->incoming_end - connection->incoming_begin;
        const uint8_t *data = (const uint8_t *)connection->incoming + connection->incoming_begin;
        struct image *image = connection->inline_image;
        if (image != NULL) {
            size_t rest = image->total - connection->inline_received;
            size_t part = available < rest ? available : rest;
            memcpy((char *)image->payload + connection->inline_received, data, part);
            connection->inline_received += part;
            consume(connection, part);
            if (part < rest) break;
            connection->inline_image = NULL;
            deliver_image(connection, connection->inline_request, image, connection->inline_is_final);
            continue;
        }
        if (available < HEADER_BYTES) break;
        size_t length = (size_t)data[0] << 24 | (size_t)data[1] << 16 | (size_t)data[2] << 8 | data[3];
        if (length < 1 || length > MAXIMUM_FRAME) return violation(connection, "a frame of %zu bytes", length);
        if (available < HEADER_BYTES + length) break;
        discard_arrivals(connection, connection->position);
        json_t *fields = json_loadb((const char *)data + HEADER_BYTES, length, JSON_ALLOW_NUL, NULL);
        // Jansson does not tell a lack of memory from an error of the text.
        if (fields == NULL) return violation(connection, "a frame is not JSON");
        consume(connection, HEADER_BYTES + length);
        bool continues = handle(connection, fields);
        json_decref(fields);
        if (!continues) return false;
    }
    discard_arrivals(connection, connection->position);
    // Those of the frame that is not complete came with its first byte, in one message.
    if (connection->arrival_count > MOST_ARRIVALS) return violation(connection, "descriptors within a frame");
    forget_idle(connection);
    return true;
}

// Takes the descriptors of a received message.
static void take_arrival(imgbroker *connection, struct msghdr *message, uint64_t end) {
    struct arrival *arrival = &connection->arrivals[connection->arrival_count];
    arrival->count = arrival->taken = 0;
    arrival->end = end;
    arrival->is_incomplete = (message->msg_flags & MSG_CTRUNC) != 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL; header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t index = 0; index < count; index++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(header) + index * sizeof descriptor, sizeof descriptor);
            if (arrival->count < MOST_DESCRIPTORS) {
                arrival->descriptors[arrival->count++] = descriptor;
            } else {
                close(descriptor);
            }
        }
    }
    if (arrival->is_incomplete) {
        // It is unknown which ones are missing, so none is used.
        close_arrival(arrival);
        arrival->count = arrival->taken = 0;
    }
    if (arrival->count > 0 || arrival->is_incomplete) connection->arrival_count++;
}

// Makes room for the rest of the frame that is being received. Returns false without memory.
static bool make_room(imgbroker *connection) {
    size_t available = connection->incoming_end - connection->incoming_begin, needed = RECEIVE_BYTES;
    if (connection->incoming_begin > 0 && available > 0) {
        memmove(connection->incoming, connection->incoming + connection->incoming_begin, available);
    }
    connection->incoming_begin = 0;
    connection->incoming_end = available;
    if (available >= HEADER_BYTES) {
        const uint8_t *data = (const uint8_t *)connection->incoming;
        size_t frame = HEADER_BYTES + ((size_t)data[0] << 24 | (size_t)data[1] << 16 | (size_t)data[2] << 8 | data[3]);
        if (frame > needed) needed = frame;
    }
    char *incoming = grow(connection->incoming, &connection->incoming_capacity, needed, 1);
    if (incoming != NULL) connection->incoming = incoming;
    return incoming != NULL;
}

enum received { RECEIVED, NOTHING, ENDED };

// Receives one message, for which it waits if `waits`, and handles its frames. ENDED, with `connection->failure`, if that ends the
// session.
static enum received receive(imgbroker *connection, bool waits) {
    if (!make_room(connection)) {
        no_memory(connection);
        return ENDED;
    }
    struct image *image = connection->inline_image;
    struct iovec vector = {connection->incoming + connection->incoming_end,
        connection->incoming_capacity - connection->incoming_end};
    if (image != NULL) {
        // The rest of a payload is received without a further copy.
        vector.iov_base = (char *)image->payload + connection->inline_received;
        vector.iov_len = image->total - connection->inline_received;
    }
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes};
    ssize_t count = recvmsg(connection->socket, &message, MSG_CMSG_CLOEXEC | (waits ? 0 : MSG_DONTWAIT));
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return NOTHING;
    if (count <= 0) {
        if (count == 0 && message.msg_controllen > 0) take_arrival(connection, &message, connection->position);
        lose(connection);
        return ENDED;
    }
    connection->heard_at = now_ms();
    if (image != NULL) {
        connection->inline_received += (size_t)count;
        connection->position += (size_t)count;
    } else {
        connection->incoming_end += (size_t)count;
    }
    uint64_t end = connection->position + (connection->incoming_end - connection->incoming_begin);
    take_arrival(connection, &message, end);
    return dispatch(connection) ? RECEIVED : ENDED;
}

// The state machine

// The time at which silence of the broker makes something due; NEVER without requests.
static int64_t patience_ends(const imgbroker *connection) {
    const struct request *oldest =
        connection->sign_of_life != NULL ? connection->sign_of_life : connection->pending.first;
    while (oldest != NULL && oldest->message == MESSAGE_SUBSCRIBE) oldest = oldest->next;
    if (oldest == NULL || connection->patience == NEVER) return NEVER;
    int64_t since = connection->heard_at > oldest->sent_at ? connection->heard_at : oldest->sent_at;
    return since + connection->patience;
}

// Asks a silent broker for a sign of life, or gives it up.
static void check_patience(imgbroker *connection) {
    if (now_ms() < patience_ends(connection)) return;
    if (connection->sign_of_life == NULL) {
        connection->sign_of_life = send_internal(connection, MESSAGE_STATS, strdup("{\"type\":\"stats\"}"));
        if (connection->sign_of_life != NULL) return;
    }
    fail(&connection->failure, IMGBROKER_ERROR_NOT_ANSWERING, "the broker does not answer: it is stopped, or hangs");
    end_session(connection);
}

static void arm_timer(imgbroker *connection, int64_t at) {
    if (at >= connection->timer_at) return;
    connection->timer_at = at;
    set_timer(connection->timer, at);
}

// Does all that is due. `is_ready`: the socket is readable, writable or closed. Receives at most
// `most_messages`, and none while `most_replies` wait for the caller. With `waits`, it waits for the first message.
static void advance(imgbroker *connection, bool is_ready, bool waits, int most_messages, size_t most_replies) {
    for (int count = 0; is_ready && connection->socket >= 0 && count < most_messages; count++) {
        if (connection->reply_count >= most_replies) break;
        enum received received = receive(connection, waits && count == 0);
        if (received == NOTHING) break;
        if (received == ENDED) end_session(connection);
    }
    if (connection->is_damaged) {
        lose(connection);
        end_session(connection);
    }
    connect_if_due(connection);
    if (connection->socket >= 0) {
        flush_all(connection);
        check_patience(connection);
    }
    if (connection->socket >= 0) {
        arm_timer(connection, patience_ends(connection));
        if (connection->unreported_hits > 0) arm_timer(connection, now_ms() + REPORT_INTERVAL);
    } else {
        append_releases(connection);
        if (connection->is_connecting) arm_timer(connection, connection->connect_at);
    }
}

// Waits for events, for at most `timeout` milliseconds (-1: without a limit), and handles them.
static void wait_and_advance(imgbroker *connection, int timeout, int most_messages, size_t most_replies) {
    struct epoll_event events[3];
    int count = epoll_wait(connection->epoll, events, COUNT(events), timeout);
    bool is_ready = false;
    for (int index = 0; index < count; index++) {
        int descriptor = events[index].data.fd;
        if (descriptor == connection->socket) {
            is_ready = true;
            continue;
        }
        uint64_t expirations;
        (void)!read(descriptor, &expirations, sizeof expirations);
        if (descriptor == connection->timer) {
            connection->timer_at = NEVER;
        } else {
            // Before the images are taken, so that later releases set it again. Like the stack's operations, in one
            // order for all threads: a release that finds it set is seen by the connection.
            atomic_store_explicit(&connection->shared->is_timer_set, false, memory_order_seq_cst);
        }
    }
    advance(connection, is_ready, false, most_messages, most_replies);
}

static imgbroker_code fail_forked(imgbroker_error *error) {
    return fail(error, IMGBROKER_ERROR_FORKED, "the connection belongs to the parent process");
}

// Messages of requests

struct builder {
    json_t *object;
    // A value has no JSON form: text that is not UTF-8, or a value outside of its enumeration; or memory is lacking.
    bool failed;
};

static void add(struct builder *builder, const char *name, json_t *value) {
    if (json_object_set_new(builder->object, name, value) != 0) builder->failed = true;
}

static void add_text(struct builder *builder, const char *name, const char *text) {
    if (text != NULL) add(builder, name, json_string(text));
}

// Adds the name of a value of an enumeration, unless it is the default.
static void add_choice(
    struct builder *builder, const char *name, unsigned value, const char *const *names, size_t count) {
    if (value >= count) builder->failed = true;
    if (value > 0 && value < count) add(builder, name, json_string(names[value]));
}

static void add_number(struct builder *builder, const char *name, int64_t number) {
    if (number != 0) add(builder, name, json_integer(number));
}

static void add_texts(struct builder *builder, const char *name, const char *const *texts, size_t count) {
    json_t *list = json_array();
    for (size_t index = 0; index < count; index++) {
        if (json_array_append_new(list, json_string(texts[index])) != 0) builder->failed = true;
    }
    add(builder, name, list);
}

static void add_flag(struct builder *builder, const char *name, bool flag) {
    if (flag) add(builder, name, json_true());
}

// Returns the value of a step's field: a number, a bool or a string.
static json_t *step_value(const char *text, size_t length) {
    json_t *value = json_loadb(text, length, JSON_DECODE_ANY, NULL);
    if (json_is_number(value) || json_is_boolean(value)) return value;
    json_decref(value);
    return json_stringn(text, length);
}

// Returns the list of steps for their text; the broker checks names and values.
static json_t *steps_of(const char *text) {
    static const char spaces[] = " \t\n";
    json_t *steps = json_array();
    bool failed = steps == NULL;
    for (text += strspn(text, spaces); *text != '\0' && !failed; text += strspn(text, spaces)) {
        struct builder step = {.object = json_object()};
        size_t length = strcspn(text, ": \t\n");
        add(&step, "op", json_stringn(text, length));
        text += length;
        while (*text == ':' || *text == ',') {
            text++;
            size_t name_length = strcspn(text, "=, \t\n");
            json_t *value = NULL;
            char *name = strndup(text, name_length);
            text += name_length;
            if (*text == '=') {
                length = strcspn(++text, ", \t\n");
                value = step_value(text, length);
                text += length;
            } else {
                value = json_true();
            }
            if (name == NULL) {
                json_decref(value);
                step.failed = true;
            } else {
                add(&step, name, value);
            }
            free(name);
        }
        failed = step.failed || json_array_append(steps, step.object) != 0;
        json_decref(step.object);
    }
    if (!failed) return steps;
    json_decref(steps);
    return NULL;
}

// Returns a position for its text; the broker checks names and values.
static json_t *position_of(const char *text) {
    const char *comma = strchr(text, ',');
    if (comma == NULL) return json_string(text);
    json_t *x = step_value(text, (size_t)(comma - text));
    json_t *y = step_value(comma + 1, strlen(comma + 1));
    return json_pack("{s:o,s:o}", "x", x, "y", y);
}

static json_t *variant_of(const imgbroker_options *options, bool *failed) {
    struct builder variant = {.object = json_object()};
    add_number(&variant, "width", options->width);
    add_number(&variant, "height", options->height);
    add_choice(&variant, "fit", options->fit, fit_names, COUNT(fit_names));
    add_flag(&variant, "scaleDown", options->scale_down);
    add_flag(&variant, "linear", options->linear);
    add_choice(&variant, "pixelFormat", options->format, format_names, COUNT(format_names));
    add_choice(&variant, "alpha", options->alpha, alpha_names, IMGBROKER_NO_ALPHA);
    add_text(&variant, "background", options->background);
    if (options->frame == IMGBROKER_ALL_FRAMES) {
        add(&variant, "frame", json_string("all"));
    } else {
        add_number(&variant, "frame", options->frame);
    }
    if (options->frame_count > 0) {
        add(&variant, "frames", json_pack("{s:I,s:I}", "first", (json_int_t)options->first_frame,
            "count", (json_int_t)options->frame_count));
    }
    const imgbroker_rectangle *crop = &options->crop;
    if ((crop->x | crop->y | crop->width | crop->height) != 0) {
        add(&variant, "crop", json_pack("{s:I,s:I,s:I,s:I}", "x", (json_int_t)crop->x, "y", (json_int_t)crop->y,
            "width", (json_int_t)crop->width, "height", (json_int_t)crop->height));
    }
    if (options->steps != NULL) add(&variant, "steps", steps_of(options->steps));
    if (options->position != NULL) add(&variant, "position", position_of(options->position));
    *failed = *failed || variant.failed;
    return variant.object;
}

// Adds the fields of options, and returns the additions to the protocol that they need. A broker without one would
// ignore the fields and return another image, so such a request is not sent to it.
static unsigned add_options(struct builder *message, const imgbroker_options *options) {
    json_t *variant = variant_of(options, &message->failed);
    bool is_edited = json_object_get(variant, "crop") != NULL || options->steps != NULL;
    if (json_object_size(variant) > 0) {
        add(message, "variant", variant);
    } else {
        json_decref(variant);
    }
    add_text(message, "preset", options->preset);
    add_choice(message, "as", options->as, representation_names, COUNT(representation_names));
    add_number(message, "quality", options->quality);
    add_choice(message, "delivery", options->delivery, delivery_names, COUNT(delivery_names));
    add_choice(message, "cache", options->cache, cache_names, COUNT(cache_names));
    add_choice(message, "storage", options->storage, storage_names, COUNT(storage_names));
    add_choice(message, "priority", options->priority, priority_names, COUNT(priority_names));
    add_number(message, "timeoutMs", options->timeout_ms);
    add_number(message, "totalTimeoutMs", options->total_timeout_ms);
    add_flag(message, "retryFailed", options->retry_failed);
    add_flag(message, "cookies", options->cookies);
    add_flag(message, "allowInvalidCertificates", options->allow_invalid_certificates);
    add_flag(message, "progress", options->progress);
    add_flag(message, "progressive", options->progressive);
    add_flag(message, "staleFirst", options->stale_first);
    add_flag(message, "trace", options->trace);
    if (options->accept_damage) add(message, "damaged", json_string("accept"));
    if (options->prefer_embedded) add(message, "embedded", json_string("fast"));
    if (options->metadata != 0) {
        const char *names[COUNT(metadata_names)];
        size_t count = 0;
        for (size_t index = 0; index < COUNT(metadata_names); index++) {
            if ((options->metadata >> index & 1) != 0) names[count++] = metadata_names[index];
        }
        add_texts(message, "metadata", names, count);
    }
    if (options->header_count > 0) {
        struct builder headers = {.object = json_object()};
        for (size_t index = 0; index < options->header_count; index++) {
            add(&headers, options->headers[index].name, json_string(options->headers[index].value));
        }
        message->failed = message->failed || headers.failed;
        add(message, "headers", headers.object);
    }
    if (options->username != NULL || options->password != NULL) {
        add(message, "credentials", json_pack("{s:s,s:s}",
            "username", options->username != NULL ? options->username : "",
            "password", options->password != NULL ? options->password : ""));
    }
    if (options->has_max_age) add(message, "maxAgeSeconds", json_integer(options->max_age_seconds));
    if (options->has_retries) add(message, "retries", json_integer(options->retries));
    if (options->alternative_count > 0) {
        add_texts(message, "alternatives", options->alternatives, options->alternative_count);
    }
    add_text(message, "cacheKey", options->cache_key);
    add_text(message, "name", options->name);
    unsigned features = options->accept_damage ? DAMAGED : 0;
    if (options->format == IMGBROKER_RGB8) features |= RGB8;
    if (options->format == IMGBROKER_GRAY8) features |= GRAY8;
    if (is_edited) features |= STEPS;
    if (options->preset != NULL) features |= PRESETS;
    if (options->frame_count > 0) features |= FRAME_RANGE;
    if (options->position != NULL) features |= POSITION;
    if (options->has_max_age) features |= MAX_AGE;
    if (options->has_retries) features |= RETRIES;
    if (options->alternative_count > 0) features |= ALTERNATIVES;
    if (options->delivery == IMGBROKER_HEADER_ONLY) features |= HEADER;
    if (options->metadata != 0) features |= METADATA;
    if (options->prefer_embedded) features |= EMBEDDED;
    return features;
}

static void add_pixels(struct builder *message, const imgbroker_pixels *pixels) {
    if ((unsigned)pixels->format >= COUNT(format_names) || (unsigned)pixels->alpha >= COUNT(alpha_names)) {
        message->failed = true;
        return;
    }
    size_t stride = pixels->stride != 0 ? pixels->stride : (size_t)pixels->width * channels[pixels->format];
    add(message, "pixels", json_pack("{s:I,s:I,s:I,s:I,s:s,s:s}", "width", (json_int_t)pixels->width,
        "height", (json_int_t)pixels->height, "stride", (json_int_t)stride, "offset", (json_int_t)pixels->offset,
        "pixelFormat", format_names[pixels->format], "alpha", alpha_names[pixels->alpha]));
}

// Copies bytes to a memfd with all seals. Returns its descriptor, or -1 and `errno`.
static int sealed_copy(const void *data, size_t size) {
    int descriptor = memfd_create("imgbroker-client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    for (size_t written = 0; descriptor >= 0 && written < size;) {
        ssize_t count = write(descriptor, (const char *)data + written, size - written);
        if (count >= 0) {
            written += (size_t)count;
        } else if (errno != EINTR) {
            break;
        }
    }
    struct stat status;
    if (descriptor < 0) return -1;
    if (fstat(descriptor, &status) == 0 && (uint64_t)status.st_size == size
        && fcntl(descriptor, F_ADD_SEALS, IMAGE_SEALS) == 0) {
        return descriptor;
    }
    int number = errno;
    close(descriptor);
    errno = number;
    return -1;
}

// Opens, copies or duplicates the descriptor that goes with a request.
static imgbroker_code open_descriptor(const imgbroker_request *request, int *descriptor, imgbroker_error *error) {
    const char *action = "the descriptor cannot be duplicated";
    imgbroker_code code = IMGBROKER_ERROR_INVALID_ARGUMENT;
    char text[200];
    if (request->data != NULL && (request->kind == IMGBROKER_STORE || request->path == NULL)) {
        action = "the bytes cannot be copied";
        code = IMGBROKER_ERROR_NO_MEMORY;
        *descriptor = sealed_copy(request->data, request->size);
    } else if (request->path != NULL) {
        // Of a long path, the end is cut.
        int length = snprintf(text, sizeof text, "this process cannot open %s", request->path);
        end_at_character(text, sizeof text, length);
        action = text;
        code = IMGBROKER_ERROR_FILE;
        // Without waiting for the writer of a pipe, which the broker refuses.
        *descriptor = open(request->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } else {
        *descriptor = fcntl(request->descriptor, F_DUPFD_CLOEXEC, 0);
    }
    return *descriptor >= 0 ? IMGBROKER_OK : fail_system(error, code, action, errno);
}

static const char *const kind_names[] = {"get", "query", "remove", "prefetch", "store", "stats", "hello"};

// Returns the fields of a request, except its `id` and `fds`, and the additions to the protocol that it needs.
static struct builder message_of(const imgbroker *connection, const imgbroker_request *request, unsigned *features) {
    struct builder message = {.object = NULL};
    const imgbroker_options *options = request->options != NULL ? request->options : &default_options;
    *features = 0;
    if (request->kind == IMGBROKER_OTHER) {
        message.object = request->json == NULL ? NULL : json_loads(request->json, JSON_REJECT_DUPLICATES, NULL);
        message.failed = !json_is_string(json_object_get(message.object, "type"));
        (void)json_object_del(message.object, "id");
        (void)json_object_del(message.object, "fds");
        (void)json_object_del(message.object, "payload");
        const char *type = json_string_value(json_object_get(message.object, "type"));
        // These have no reply.
        if (type != NULL
            && (strcmp(type, "release") == 0 || strcmp(type, "touch") == 0 || strcmp(type, "forgetSegments") == 0)) {
            message.failed = true;
        }
        return message;
    }
    message.object = json_object();
    message.failed = message.object == NULL || (unsigned)request->kind >= COUNT(kind_names);
    if (message.failed) return message;
    add_text(&message, "type", kind_names[request->kind]);
    switch (request->kind) {
    case IMGBROKER_GET:
    case IMGBROKER_QUERY:
        *features = add_options(&message, options);
        add_text(&message, "url", request->url);
        break;
    case IMGBROKER_REMOVE:
        add_text(&message, "url", request->url);
        break;
    case IMGBROKER_PREFETCH:
        *features = add_options(&message, options);
        add_texts(&message, "urls", request->urls, request->url_count);
        break;
    case IMGBROKER_STORE:
        if (request->url == NULL) message.failed = true;
        add_text(&message, "url", request->url);
        add_text(&message, "contentType", request->content_type);
        if (request->pixels != NULL) {
            *features = STORE_PIXELS;
            add_pixels(&message, request->pixels);
        }
        add_choice(&message, "storage", options->storage, storage_names, COUNT(storage_names));
        break;
    case IMGBROKER_HELLO:
        add(&message, "protocol", json_integer(1));
        add_text(&message, "client", connection->client);
        add(&message, "segments", json_true());
        break;
    default:
        break;
    }
    return message;
}

static enum message type_of(const json_t *message) {
    static const struct {
        const char *name;
        enum message message;
    } types[] = {{"hello", MESSAGE_HELLO}, {"get", MESSAGE_GET}, {"stats", MESSAGE_STATS},
        {"prefetch", MESSAGE_PREFETCH}, {"subscribe", MESSAGE_SUBSCRIBE}};
    const char *name = json_string_value(json_object_get(message, "type"));
    for (size_t index = 0; index < COUNT(types); index++) {
        if (strcmp(name, types[index].name) == 0) return types[index].message;
    }
    return MESSAGE_OTHER;
}

// Whether a request is for a local file, by its path or descriptor.
static bool is_for_file(const imgbroker_request *request) {
    return request->url == NULL
        && (request->kind == IMGBROKER_GET || request->kind == IMGBROKER_QUERY || request->kind == IMGBROKER_REMOVE);
}

#define IDENTITY_SIZE 192

// Writes the identity of a file and of its contents, which is kept in place of a URL. Does not ask a server or another
// process: the broker gives slots only to files whose changes the kernel knows. Returns false for other files than
// regular ones that are open for reading.
static bool identify(int descriptor, char *text) {
    struct statx status;
    int flags = fcntl(descriptor, F_GETFL);
    if (flags < 0 || (flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_WRONLY) return false;
    if (statx(descriptor, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &status) != 0) return false;
    if (!S_ISREG(status.stx_mode)) return false;
    (void)snprintf(text, IDENTITY_SIZE, "file:%u.%u.%llu.%llu.%lld.%u.%lld.%u", status.stx_dev_major,
        status.stx_dev_minor, (unsigned long long)status.stx_ino, (unsigned long long)status.stx_size,
        (long long)status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec, (long long)status.stx_ctime.tv_sec,
        status.stx_ctime.tv_nsec);
    return true;
}

// The value of a hexadecimal digit; -1 for another character.
static int hexadecimal(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    int letter = digit | 0x20;
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

// The value of a digit of base64; -1 for another character.
static int sextet(unsigned char digit) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = digit == 0 ? NULL : strchr(digits, digit);
    return found == NULL ? -1 : (int)(found - digits);
}

// Replaces base64 text by its bytes: without white space, and with or without padding (the forgiving decoding of the WHATWG Infra
// Standard). Returns whether it is valid.
static bool decode_base64(unsigned char *text, size_t *size) {
    size_t length = 0;
    for (size_t index = 0; index < *size; index++) {
        if (strchr(" \t\n\f\r", text[index]) == NULL || text[index] == 0) text[length++] = text[index];
    }
    for (int padding = 0; padding < 2 && length > 0 && (length + (size_t)padding) % 4 == 0; padding++) {
        if (text[length - 1] != '=') break;
        length--;
    }
    if (length % 4 == 1) return false;
    unsigned bits = 0;
    *size = 0;
    for (size_t index = 0; index < length; index++) {
        int value = sextet(text[index]);
        if (value < 0) return false;
        bits = (bits << 6 | (unsigned)value) & 0xFFFFFF;
        if (index % 4 > 0) text[(*size)++] = (unsigned char)(bits >> (6 - 2 * (index % 4)));
    }
    return true;
}

// Evan Wallace's ThumbHash: see https://evanw.github.io/thumbhash/ for the order of its bits.

enum { THUMB_HASH_MAX = 64, WAVES = 7 };

// The coefficients of a channel in the triangle of low frequencies, without the constant: at most `across` in a row.
typedef struct {
    int across, down;
    double values[WAVES * WAVES];
} spectrum;

// Reads the coefficients of a channel, half a byte each, from a position in half bytes. Returns the next position, or 0 at the end.
static size_t read_spectrum(
    spectrum *channel, int across, int down, double scale, const unsigned char *bytes, size_t size, size_t at) {
    channel->across = across;
    channel->down = down;
    size_t count = 0;
    for (int y = 0; y < down && at != 0; y++) {
        for (int x = y == 0 ? 1 : 0; x * down < across * (down - y); x++, at++) {
            if (at / 2 >= size) return 0;
            channel->values[count++] = ((bytes[at / 2] >> (at % 2 * 4) & 15) / 7.5 - 1) * scale;
        }
    }
    return at;
}

// Returns the value of a channel, without its constant, at a place of which the cosines are given.
static double value_at(const spectrum *channel, const double *horizontal, const double *vertical) {
    double sum = 0;
    size_t index = 0;
    for (int y = 0; y < channel->down; y++) {
        for (int x = y == 0 ? 1 : 0; x * channel->down < channel->across * (channel->down - y); x++) {
            sum += channel->values[index++] * horizontal[x] * vertical[y] * 2;
        }
    }
    return sum;
}

// For each place along a side, the cosines of the lowest frequencies: of the first one by its series, of the others by Chebyshev's
// recurrence. Users who link the library statically need no mathematical library.
static void fill_waves(double waves[][WAVES], uint32_t length) {
    for (uint32_t place = 0; place < length; place++) {
        double angle = 3.14159265358979323846 / length * (place + 0.5), term = 1, sum = 1;
        for (int power = 2; power <= 24; power += 2) sum += term *= -angle * angle / (power * (power - 1));
        waves[place][0] = 1;
        waves[place][1] = sum;
        for (int wave = 2; wave < WAVES; wave++) waves[place][wave] = 2 * sum * waves[place][wave - 1] - waves[place][wave - 2];
    }
}

static uint8_t byte_of(double share) {
    return (uint8_t)(share <= 0 ? 0 : share >= 1 ? 255 : share * 255 + 0.5);
}

bool imgbroker_decode_thumb_hash(
    const char *hash, uint8_t pixels[IMGBROKER_THUMB_HASH_BYTES], uint32_t *width, uint32_t *height) {
    unsigned char bytes[THUMB_HASH_MAX + 1];
    size_t size = strlen(hash);
    if (size > THUMB_HASH_MAX) return false;
    memcpy(bytes, hash, size + 1);
    if (!decode_base64(bytes, &size) || size < 5) return false;
    unsigned first = bytes[0] | (unsigned)bytes[1] << 8 | (unsigned)bytes[2] << 16;
    unsigned second = bytes[3] | (unsigned)bytes[4] << 8;
    bool has_alpha = first >> 23 != 0, is_landscape = second >> 15 != 0;
    if (has_alpha && size < 6) return false;
    int longer = has_alpha ? 5 : 7, shorter = (int)(second & 7);
    if (shorter == 0 || shorter > longer) return false;
    double ratio = is_landscape ? (double)longer / shorter : (double)shorter / longer;
    int across = is_landscape ? longer : shorter, down = is_landscape ? shorter : longer;

    spectrum luminance, yellow, red, alpha;
    size_t at = read_spectrum(&luminance, across < 3 ? 3 : across, down < 3 ? 3 : down, (first >> 18 & 31) / 31.0, bytes,
        size, has_alpha ? 12 : 10);
    // The encoder's quantisation makes colours pale.
    if (at != 0) at = read_spectrum(&yellow, 3, 3, (second >> 3 & 63) / 63.0 * 1.25, bytes, size, at);
    if (at != 0) at = read_spectrum(&red, 3, 3, (second >> 9 & 63) / 63.0 * 1.25, bytes, size, at);
    if (at != 0 && has_alpha) at = read_spectrum(&alpha, 5, 5, (bytes[5] >> 4) / 15.0, bytes, size, at);
    if (at == 0) return false;

    *width = ratio >= 1 ? IMGBROKER_THUMB_HASH_SIDE : (uint32_t)(IMGBROKER_THUMB_HASH_SIDE * ratio + 0.5);
    *height = ratio >= 1 ? (uint32_t)(IMGBROKER_THUMB_HASH_SIDE / ratio + 0.5) : IMGBROKER_THUMB_HASH_SIDE;
    double horizontal[IMGBROKER_THUMB_HASH_SIDE][WAVES], vertical[IMGBROKER_THUMB_HASH_SIDE][WAVES];
    fill_waves(horizontal, *width);
    fill_waves(vertical, *height);
    for (uint32_t y = 0; y < *height; y++) {
        for (uint32_t x = 0; x < *width; x++, pixels += 4) {
            const double *columns = horizontal[x], *rows = vertical[y];
            double l = (first & 63) / 63.0 + value_at(&luminance, columns, rows);
            double p = (first >> 6 & 63) / 31.5 - 1 + value_at(&yellow, columns, rows);
            double q = (first >> 12 & 63) / 31.5 - 1 + value_at(&red, columns, rows);
            double a = has_alpha ? (bytes[5] & 15) / 15.0 + value_at(&alpha, columns, rows) : 1;
            double blue = l - 2.0 / 3 * p, r = (3 * l - blue + q) / 2, green = r - q;
            a = a < 0 ? 0 : a > 1 ? 1 : a;
            pixels[0] = byte_of((blue < 1 ? blue : 1) * a);
            pixels[1] = byte_of((green < 1 ? green : 1) * a);
            pixels[2] = byte_of((r < 1 ? r : 1) * a);
            pixels[3] = byte_of(a);
        }
    }
    return true;
}

// Reads a `data:` URL (RFC 2397), whose media type is ignored. Returns its bytes, which the caller frees; NULL and an error for one
// without valid data.
static unsigned char *data_of_url(const char *url, size_t *size, imgbroker_error *error) {
    const char *start = url + strlen("data:"), *comma = strchr(start, ',');
    if (comma == NULL) {
        fail(error, IMGBROKER_ERROR_INVALID_ARGUMENT, "a data: URL needs a comma before its data");
        return NULL;
    }
    size_t length = (size_t)(comma - start);
    while (length > 0 && start[length - 1] == ' ') length--;
    bool is_base64 = length > 6 && strncasecmp(start + length - 6, "base64", 6) == 0;
    if (is_base64) {
        for (length -= 6; length > 0 && start[length - 1] == ' ';) length--;
        is_base64 = length > 0 && start[length - 1] == ';';
    }
    unsigned char *data = malloc(strlen(comma));
    if (data == NULL) {
        fail_no_memory(error);
        return NULL;
    }
    *size = 0;
    for (const char *next = comma + 1; *next != 0 && *next != '#'; next++) {
        int high = *next == '%' ? hexadecimal(next[1]) : -1, low = high >= 0 ? hexadecimal(next[2]) : -1;
        data[(*size)++] = (unsigned char)(low >= 0 ? high << 4 | low : *next);
        if (low >= 0) next += 2;
    }
    if (!is_base64 || decode_base64(data, size)) return data;
    free(data);
    fail(error, IMGBROKER_ERROR_INVALID_ARGUMENT, "the base64 text of a data: URL is damaged");
    return NULL;
}

// Creates the request that the caller describes. Returns NULL and an error.
static struct request *request_of(imgbroker *connection, const imgbroker_request *described, imgbroker_error *error) {
    bool is_of_image = described->kind == IMGBROKER_GET || described->kind == IMGBROKER_QUERY
        || described->kind == IMGBROKER_REMOVE;
    if (is_of_image && described->url != NULL && strncasecmp(described->url, "data:", 5) == 0) {
        imgbroker_request decoded = *described;
        unsigned char *data = data_of_url(described->url, &decoded.size, error);
        if (data == NULL) return NULL;
        decoded.url = decoded.path = NULL;
        decoded.data = data;
        struct request *request = request_of(connection, &decoded, error);
        free(data);
        return request;
    }
    int descriptor = -1;
    bool is_file = is_for_file(described);
    if ((is_file || described->kind == IMGBROKER_STORE)
        && open_descriptor(described, &descriptor, error) != IMGBROKER_OK) {
        return NULL;
    }
    unsigned features = 0;
    struct builder message = message_of(connection, described, &features);
    if (descriptor >= 0) add(&message, "fds", json_integer(1));
    char *text = message.failed ? NULL : text_of(message.object);
    struct request *request = NULL;
    // The limit holds for the frame with its `id`.
    if (text == NULL || strlen(text) > MAXIMUM_FRAME - 40) {
        fail(error, IMGBROKER_ERROR_INVALID_ARGUMENT, "the request %s",
            text != NULL ? "is too long for a frame"
                         : "has a value without a JSON form, such as text that is not UTF-8");
        free(text);
    } else {
        request = request_new(connection, type_of(message.object), text);
        if (request == NULL) fail_no_memory(error);
    }
    json_decref(message.object);
    if (request == NULL) {
        close_descriptor(&descriptor);
        return NULL;
    }
    request->descriptor = descriptor;
    request->features = features | (is_file ? FILES : 0u);
    request->user = described->user;
    const imgbroker_options *options = described->options != NULL ? described->options : &default_options;
    // If the file is changed before the broker sees it, this identity never comes back.
    char identity[IDENTITY_SIZE];
    // Each copy of bytes has another one.
    const char *key = !is_file ? described->url : described->data == NULL && identify(descriptor, identity) ? identity : NULL;
    if (described->kind == IMGBROKER_GET && key != NULL && connection->kept_maximum > 0 && may_keep(options)) {
        bool failed = false;
        request->url = duplicate(key, &failed);
        if (!copy_options(&request->options, options) || failed) {
            fail_no_memory(error);
            request_free(request);
            return NULL;
        }
    }
    return request;
}

// Sends a request, now or when there is a connection.
static void submit(imgbroker *connection, struct request *request) {
    if (can_send(connection, request)) {
        send_request(connection, request);
        arm_timer(connection, patience_ends(connection));
        return;
    }
    list_append(&connection->waiting, request);
    advance(connection, false, false, 0, 0);
}

// The interface

// Returns the value of a setting for which 0 means the default and a negative number none.
static int64_t setting(int32_t value, int64_t standard, int64_t none) {
    return value == 0 ? standard : value < 0 ? none : value;
}

imgbroker *imgbroker_open(const imgbroker_settings *settings, imgbroker_error *error) {
    static const imgbroker_settings defaults;
    if (settings == NULL) settings = &defaults;
    imgbroker *connection = calloc(1, sizeof *connection);
    struct shared *shared = calloc(1, sizeof *shared);
    bool failed = connection == NULL || shared == NULL;
    if (failed) {
        free(connection);
        free(shared);
        fail_no_memory(error);
        return NULL;
    }
    connection->shared = shared;
    connection->socket = connection->epoll = connection->timer = shared->timer = -1;
    connection->timer_at = NEVER;
    connection->session = 1;
    connection->reconnect = setting(settings->reconnect_ms, 5000, 0);
    connection->patience = setting(settings->patience_ms, 30000, NEVER);
    connection->kept_capacity = (uint32_t)setting(settings->keep_images, KEPT_IN_SEGMENTS, 0);
    connection->kept_maximum = connection->kept_capacity;
    connection->keeps_default = settings->keep_images == 0;
    connection->kept_maximum_bytes = settings->keep_bytes == 0 ? UINT64_C(64) << 20 : settings->keep_bytes;
    connection->kept_buckets = 64;
    while (connection->kept_buckets / 2 < connection->kept_capacity && connection->kept_buckets < 1u << 21) {
        connection->kept_buckets *= 2;
    }
    atomic_init(&shared->references, 1);
    shared->mark = mmap(NULL, sizeof *shared->mark, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    connection->path = duplicate(settings->socket, &failed);
    connection->client =
        duplicate(settings->client != NULL ? settings->client : "imgbroker-c/" IMGBROKER_VERSION, &failed);
    connection->kept = calloc(connection->kept_capacity > 0 ? connection->kept_capacity : 1, sizeof *connection->kept);
    connection->kept_table = calloc(connection->kept_buckets, sizeof *connection->kept_table);
    if (failed || connection->kept == NULL || connection->kept_table == NULL || shared->mark == MAP_FAILED
        || madvise((void *)shared->mark, sizeof *shared->mark, MADV_WIPEONFORK) != 0) {
        fail_no_memory(error);
        imgbroker_close(connection);
        return NULL;
    }
    atomic_init(shared->mark, 1);
    connection->epoll = epoll_create1(EPOLL_CLOEXEC);
    connection->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    shared->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event own = {.events = EPOLLIN, .data.fd = connection->timer};
    struct epoll_event of_images = {.events = EPOLLIN, .data.fd = shared->timer};
    if (connection->epoll < 0 || connection->timer < 0 || shared->timer < 0
        || epoll_ctl(connection->epoll, EPOLL_CTL_ADD, connection->timer, &own) != 0
        || epoll_ctl(connection->epoll, EPOLL_CTL_ADD, shared->timer, &of_images) != 0) {
        fail_system(error, IMGBROKER_ERROR_PROCESS_LIMIT, "this process cannot open the connection", errno);
        imgbroker_close(connection);
        return NULL;
    }
    return connection;
}

void imgbroker_close(imgbroker *connection) {
    if (connection == NULL) return;
    while (connection->first_reply != NULL) {
        struct node *node = connection->first_reply;
        connection->first_reply = node->next;
        imgbroker_reply_clear(&node->reply);
        free(node);
    }
    struct shared *shared = connection->shared;
    if (shared->mark != MAP_FAILED) close_session(connection);
    struct list requests = {NULL, NULL};
    list_move(&requests, &connection->waiting);
    list_move(&requests, &connection->deferred);
    list_move(&requests, &connection->pending);
    while (requests.first != NULL) {
        struct request *request = requests.first;
        list_remove(&requests, request);
        request_free(request);
    }
    struct image *image = atomic_exchange_explicit(&shared->returned, &closed, memory_order_acquire);
    while (image != NULL) {
        struct image *next = image->next;
        image_free(image);
        image = next;
    }
    close_descriptor(&connection->epoll);
    close_descriptor(&connection->timer);
    shared_release(shared);
    free(connection->path);
    free(connection->client);
    free(connection->outgoing);
    free(connection->attachments);
    free(connection->incoming);
    free(connection->unused);
    free(connection->kept);
    free(connection->kept_table);
    free(connection);
}

int imgbroker_fd(const imgbroker *connection) {
    return connection->epoll;
}

imgbroker_image *imgbroker_get_kept(imgbroker *connection, const char *url, const imgbroker_options *options) {
    if (connection->kept_count == 0 || is_forked(connection->shared)) return NULL;
    if (options == NULL) options = &default_options;
    if (!may_keep(options)) return NULL;
    size_t length = strlen(url);
    struct kept *kept = find_kept(connection, url, length, hash_of(url, length), options);
    if (kept == NULL) return NULL;
    uint32_t now = now_tenths();
    if (!is_valid(connection, kept, now)) return NULL;
    kept->is_used = true;
    kept->is_unreported = true;
    imgbroker_image *image = imgbroker_image_retain(kept->image);
    // After that, the entry may have moved.
    if (connection->unreported_hits++ == 0) arm_timer(connection, now_ms() + REPORT_INTERVAL);
    if (now - connection->reported_at >= REPORT_INTERVAL / 100) flush_all(connection);
    return image;
}

// Answers a request with a kept image, or sends it.
static void answer_or_submit(imgbroker *connection, struct request *request) {
    imgbroker_image *kept =
        request->url == NULL ? NULL : imgbroker_get_kept(connection, request->url, &request->options);
    if (kept == NULL) {
        submit(connection, request);
        return;
    }
    imgbroker_reply reply = {.type = IMGBROKER_REPLY_IMAGE, .image = kept};
    finish(connection, request, &reply);
}

uint64_t imgbroker_send(imgbroker *connection, const imgbroker_request *described, imgbroker_error *error) {
    if (is_forked(connection->shared)) {
        fail_forked(error);
        return 0;
    }
    struct request *request = request_of(connection, described, error);
    struct node *node = request == NULL ? NULL : calloc(1, sizeof *node);
    if (node == NULL) {
        if (request != NULL) fail_no_memory(error);
        request_free(request);
        return 0;
    }
    request->last = node;
    uint64_t number = request->number;
    answer_or_submit(connection, request);
    // Replies that are there already make the descriptor readable.
    if (connection->first_reply != NULL) arm_timer(connection, now_ms());
    return number;
}

void imgbroker_cancel(imgbroker *connection, uint64_t number) {
    if (is_forked(connection->shared)) return;
    struct list *lists[] = {&connection->waiting, &connection->deferred};
    for (size_t index = 0; index < COUNT(lists); index++) {
        struct request *request = lists[index]->first;
        while (request != NULL && request->number != number) request = request->next;
        if (request == NULL) continue;
        list_remove(lists[index], request);
        finish_cancelled(connection, request);
        arm_timer(connection, now_ms());
        return;
    }
    struct request *pending = find_pending(connection, number);
    if (pending == NULL) return;
    pending->is_cancelled = true;
    char text[80];
    (void)snprintf(text, sizeof text, "{\"type\":\"cancel\",\"request\":%llu}", (unsigned long long)number);
    struct request *cancel = send_internal(connection, MESSAGE_OTHER, strdup(text));
    if (cancel != NULL && pending->message == MESSAGE_SUBSCRIBE) cancel->subscription = number;
}

void imgbroker_update(imgbroker *connection, uint64_t number, imgbroker_priority priority, bool detach) {
    if (is_forked(connection->shared) || find_pending(connection, number) == NULL) return;
    bool has_priority = priority > 0 && (unsigned)priority < COUNT(priority_names);
    if ((connection->features & UPDATE) == 0 || (!has_priority && !detach)) return;
    char text[128];
    (void)snprintf(text, sizeof text, "{\"type\":\"update\",\"request\":%llu%s%s%s%s}", (unsigned long long)number,
        has_priority ? ",\"priority\":\"" : "", has_priority ? priority_names[priority] : "", has_priority ? "\"" : "",
        detach ? ",\"detach\":true" : "");
    (void)send_internal(connection, MESSAGE_OTHER, strdup(text));
}

void imgbroker_process(imgbroker *connection) {
    if (!is_forked(connection->shared)) wait_and_advance(connection, 0, MESSAGES_AT_ONCE, MOST_WAITING_REPLIES);
}

bool imgbroker_next(imgbroker *connection, imgbroker_reply *reply) {
    struct node *node = connection->first_reply;
    if (node == NULL || is_forked(connection->shared)) return false;
    connection->first_reply = node->next;
    if (node->next == NULL) connection->last_reply = NULL;
    connection->reply_count--;
    *reply = node->reply;
    free(node);
    return true;
}

imgbroker_code imgbroker_call(imgbroker *connection, const imgbroker_request *described, imgbroker_reply *reply) {
    *reply = (imgbroker_reply){.type = IMGBROKER_REPLY_ERROR};
    if (is_forked(connection->shared)) return fail_forked(&reply->error);
    // Replies that are not final would be dropped.
    imgbroker_request asked = *described;
    imgbroker_options options = described->options != NULL ? *described->options : default_options;
    options.progress = options.progressive = options.stale_first = false;
    asked.options = &options;
    struct request *request = request_of(connection, &asked, &reply->error);
    if (request == NULL) return reply->error.code;
    if (request->message == MESSAGE_SUBSCRIBE) {
        request_free(request);
        return fail(&reply->error, IMGBROKER_ERROR_INVALID_ARGUMENT, "a subscription has no final reply");
    }
    request->sink = reply;
    answer_or_submit(connection, request);
    while (!reply->final) {
        // One message at once, because the first one is often the reply.
        if (connection->state == READY && connection->outgoing_length == 0) {
            advance(connection, true, true, 1, SIZE_MAX);
        } else {
            wait_and_advance(connection, -1, 1, SIZE_MAX);
        }
    }
    // Replies to other requests make the descriptor readable.
    if (connection->first_reply != NULL) arm_timer(connection, now_ms());
    return reply->error.code;
}

// Performs a call whose result is in the reply, which the caller clears on success. Copies the error.
static imgbroker_code call(
    imgbroker *connection, const imgbroker_request *request, imgbroker_reply *reply, imgbroker_error *error) {
    imgbroker_code code = imgbroker_call(connection, request, reply);
    if (code != IMGBROKER_OK && error != NULL) *error = reply->error;
    return code;
}

// Performs a `get`, and takes its image.
static imgbroker_code get(
    imgbroker *connection, const imgbroker_request *request, imgbroker_image **image, imgbroker_error *error) {
    imgbroker_reply reply;
    imgbroker_code code = call(connection, request, &reply, error);
    *image = reply.image;
    return code;
}

static imgbroker_code fail_null(imgbroker_error *error) {
    return fail(error, IMGBROKER_ERROR_INVALID_ARGUMENT, "an argument is NULL");
}

imgbroker_code imgbroker_get(
    imgbroker *connection, const char *url, const imgbroker_options *options, imgbroker_image **image,
    imgbroker_error *error) {
    *image = NULL;
    if (url == NULL) return fail_null(error);
    *image = imgbroker_get_kept(connection, url, options);
    if (*image != NULL) return IMGBROKER_OK;
    return get(connection, &(imgbroker_request){.url = url, .options = options}, image, error);
}

imgbroker_code imgbroker_get_bytes(
    imgbroker *connection, const void *data, size_t size, const imgbroker_options *options, imgbroker_image **image,
    imgbroker_error *error) {
    *image = NULL;
    if (data == NULL) return fail_null(error);
    return get(connection, &(imgbroker_request){.data = data, .size = size, .options = options}, image, error);
}

imgbroker_code imgbroker_get_path(
    imgbroker *connection, const char *path, const imgbroker_options *options, imgbroker_image **image,
    imgbroker_error *error) {
    *image = NULL;
    if (path == NULL) return fail_null(error);
    int descriptor = -1;
    imgbroker_code code = open_descriptor(&(imgbroker_request){.path = path}, &descriptor, error);
    if (code != IMGBROKER_OK) return code;
    code = imgbroker_get_fd(connection, descriptor, options, image, error);
    close_descriptor(&descriptor);
    return code;
}

imgbroker_code imgbroker_get_fd(
    imgbroker *connection, int descriptor, const imgbroker_options *options, imgbroker_image **image,
    imgbroker_error *error) {
    char identity[IDENTITY_SIZE];
    *image = NULL;
    if (connection->kept_count > 0 && identify(descriptor, identity)) {
        *image = imgbroker_get_kept(connection, identity, options);
        if (*image != NULL) return IMGBROKER_OK;
    }
    return get(connection, &(imgbroker_request){.descriptor = descriptor, .options = options}, image, error);
}

// The most bytes of a part of an animation with several frames.
static const uint64_t part_bytes = 8 << 20;

imgbroker_code imgbroker_next_frame(imgbroker *connection, imgbroker_animation *animation, imgbroker_error *error) {
    const imgbroker_image *part = animation->part;
    size_t frames = part == NULL ? 0 : part->frame_count;
    uint64_t next = animation->next;
    animation->pixels = NULL;
    if (part != NULL && next >= part->original_frames) return IMGBROKER_OK;
    if (part == NULL || next >= animation->first + frames) {
        uint64_t frame_bytes = part == NULL ? part_bytes : part->bytes / frames;
        uint64_t fitting = part_bytes / (frame_bytes > 0 ? frame_bytes : 1);
        imgbroker_options options = {.width = 0};
        if (animation->options != NULL) options = *animation->options;
        options.frame = 0;
        options.first_frame = (uint32_t)next;
        options.frame_count = fitting < 1 ? 1 : fitting < 10000 ? (uint32_t)fitting : 10000;
        imgbroker_end_animation(animation);
        animation->next = next;
        imgbroker_image *loaded = NULL;
        imgbroker_code code = animation->path != NULL
            ? imgbroker_get_path(connection, animation->path, &options, &loaded, error)
            : imgbroker_get(connection, animation->url, &options, &loaded, error);
        if (code != IMGBROKER_OK) return code;
        if (loaded->frame_count == 0) {
            imgbroker_image_release(loaded);
            return fail(error, IMGBROKER_ERROR_PROTOCOL_VIOLATION, "a part of an animation without frames");
        }
        animation->part = loaded;
        animation->first = next;
    }
    const imgbroker_frame *frame = &animation->part->frames[next - animation->first];
    animation->index = next;
    animation->next = next + 1;
    animation->delay_ms = frame->delay_ms;
    animation->pixels = animation->part->pixels == NULL ? NULL : animation->part->pixels + frame->offset;
    return IMGBROKER_OK;
}

void imgbroker_end_animation(imgbroker_animation *animation) {
    imgbroker_image_release(animation->part);
    animation->part = NULL;
    animation->pixels = NULL;
    animation->next = 0;
}

imgbroker_code imgbroker_query(
    imgbroker *connection, const char *url, const imgbroker_options *options, imgbroker_status *status,
    imgbroker_error *error) {
    imgbroker_reply reply;
    if (url == NULL) return fail_null(error);
    imgbroker_code code =
        call(connection, &(imgbroker_request){.kind = IMGBROKER_QUERY, .url = url, .options = options}, &reply, error);
    *status = reply.status;
    imgbroker_reply_clear(&reply);
    return code;
}

imgbroker_code imgbroker_remove(imgbroker *connection, const char *url, uint64_t *removed, imgbroker_error *error) {
    imgbroker_reply reply;
    if (url == NULL) return fail_null(error);
    imgbroker_code code =
        call(connection, &(imgbroker_request){.kind = IMGBROKER_REMOVE, .url = url}, &reply, error);
    if (removed != NULL) *removed = reply.removed;
    imgbroker_reply_clear(&reply);
    return code;
}

imgbroker_code imgbroker_prefetch(
    imgbroker *connection, const char *const *urls, size_t count, const imgbroker_options *options, uint64_t *done,
    uint64_t *failed, imgbroker_error *error) {
    imgbroker_reply reply;
    imgbroker_code code = call(connection,
        &(imgbroker_request){.kind = IMGBROKER_PREFETCH, .urls = urls, .url_count = count, .options = options},
        &reply, error);
    if (done != NULL) *done = reply.done;
    if (failed != NULL) *failed = reply.failed;
    imgbroker_reply_clear(&reply);
    return code;
}

// Performs a `store`.
static imgbroker_code store(imgbroker *connection, imgbroker_request *request, imgbroker_error *error) {
    imgbroker_reply reply;
    if (request->data == NULL) return fail_null(error);
    request->kind = IMGBROKER_STORE;
    imgbroker_code code = call(connection, request, &reply, error);
    imgbroker_reply_clear(&reply);
    return code;
}

imgbroker_code imgbroker_store(
    imgbroker *connection, const char *url, const void *data, size_t size, const char *content_type,
    imgbroker_error *error) {
    return store(connection,
        &(imgbroker_request){.url = url, .data = data, .size = size, .content_type = content_type}, error);
}

imgbroker_code imgbroker_store_pixels(
    imgbroker *connection, const char *url, const imgbroker_pixels *pixels, const void *data, size_t size,
    imgbroker_storage storage, imgbroker_error *error) {
    imgbroker_options options = {.storage = storage};
    if (pixels == NULL) return fail_null(error);
    return store(connection,
        &(imgbroker_request){.url = url, .options = &options, .data = data, .size = size, .pixels = pixels}, error);
}

// Performs a request whose result is the text of the reply.
static imgbroker_code get_text(imgbroker *connection, imgbroker_kind kind, char **json, imgbroker_error *error) {
    imgbroker_reply reply;
    imgbroker_code code = call(connection, &(imgbroker_request){.kind = kind}, &reply, error);
    *json = reply.json;
    return code;
}

imgbroker_code imgbroker_stats(imgbroker *connection, char **json, imgbroker_error *error) {
    return get_text(connection, IMGBROKER_STATS, json, error);
}

imgbroker_code imgbroker_hello(imgbroker *connection, char **json, imgbroker_error *error) {
    return get_text(connection, IMGBROKER_HELLO, json, error);
}
