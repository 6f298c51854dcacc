#define _GNU_SOURCE
#include "CTier.h"

#include <libmemcached/memcached.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct ctier_ring {
    memcached_st *servers;
};

struct ctier_connection {
    memcached_st *server;
    /// Inside of this structure, because the library frees an allocated one at the end of a list.
    memcached_result_st result;
    int has_result;
    /// The most bytes of one allocation.
    size_t largest;
};

// The ring

struct ctier_ring *ctier_ring_create(void) {
    struct ctier_ring *ring = calloc(1, sizeof *ring);
    if (!ring) return NULL;
    ring->servers = memcached_create(NULL);
    if (!ring->servers ||
        memcached_behavior_set(ring->servers, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1) != MEMCACHED_SUCCESS) {
        ctier_ring_free(ring);
        return NULL;
    }
    return ring;
}

int ctier_ring_add(struct ctier_ring *ring, const char *name, uint16_t port) {
    return memcached_server_add(ring->servers, name, port) == MEMCACHED_SUCCESS ? 0 : -1;
}

uint32_t ctier_ring_server(const struct ctier_ring *ring, const char *key, size_t length) {
    return memcached_generate_hash(ring->servers, key, length);
}

void ctier_ring_free(struct ctier_ring *ring) {
    if (ring && ring->servers) memcached_free(ring->servers);
    free(ring);
}

// Memory. A server states the length of an item before it sends it, and the library allocates what it states.

static void *limited_malloc(const memcached_st *server, const size_t size, void *context) {
    (void)server;
    return size > ((struct ctier_connection *)context)->largest ? NULL : malloc(size);
}

static void limited_free(const memcached_st *server, void *memory, void *context) {
    (void)server;
    (void)context;
    free(memory);
}

static void *limited_realloc(const memcached_st *server, void *memory, const size_t size, void *context) {
    (void)server;
    return size > ((struct ctier_connection *)context)->largest ? NULL : realloc(memory, size);
}

static void *limited_calloc(const memcached_st *server, size_t count, const size_t size, void *context) {
    (void)server;
    size_t largest = ((struct ctier_connection *)context)->largest;
    return size && count > largest / size ? NULL : calloc(count, size);
}

// Connections

struct ctier_connection *ctier_connection_create(
    const char *address, uint16_t port, int connect_ms, int wait_ms, size_t largest) {
    struct ctier_connection *connection = calloc(1, sizeof *connection);
    if (!connection) return NULL;
    // A string grows in blocks, and a line of the protocol precedes the value.
    connection->largest = largest + (64 << 10);
    memcached_st *server = connection->server = memcached_create(NULL);
    if (!server) goto failed;
    if (memcached_set_memory_allocators(
            server, limited_malloc, limited_free, limited_realloc, limited_calloc, connection) != MEMCACHED_SUCCESS) {
        goto failed;
    }
    memcached_behavior_set(server, MEMCACHED_BEHAVIOR_NO_BLOCK, 1);
    memcached_behavior_set(server, MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
    memcached_behavior_set(server, MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT, (uint64_t)connect_ms);
    memcached_behavior_set(server, MEMCACHED_BEHAVIOR_POLL_TIMEOUT, (uint64_t)wait_ms);
    memcached_behavior_set(server, MEMCACHED_BEHAVIOR_SUPPORT_CAS, 1);
    // The caller decides when a server is tried again.
    memcached_behavior_set(server, MEMCACHED_BEHAVIOR_RETRY_TIMEOUT, 1);
    if (memcached_server_add(server, address, port) != MEMCACHED_SUCCESS) goto failed;
    if (!memcached_result_create(server, &connection->result)) goto failed;
    connection->has_result = 1;
    return connection;
failed:
    ctier_connection_free(connection);
    return NULL;
}

void ctier_connection_free(struct ctier_connection *connection) {
    if (!connection) return;
    if (connection->has_result) memcached_result_free(&connection->result);
    if (connection->server) memcached_free(connection->server);
    free(connection);
}

/// Names an outcome, and closes the connection after a failure, because unread bytes may be left in it.
static enum ctier_status named(struct ctier_connection *connection, memcached_return_t outcome) {
    switch (outcome) {
    case MEMCACHED_SUCCESS:
    case MEMCACHED_STORED:
    case MEMCACHED_DELETED:
    case MEMCACHED_BUFFERED: return CTIER_DONE;
    case MEMCACHED_NOTFOUND:
    case MEMCACHED_END: return CTIER_MISSING;
    case MEMCACHED_NOTSTORED:
    case MEMCACHED_DATA_EXISTS: return CTIER_REFUSED;
    case MEMCACHED_E2BIG:
    case MEMCACHED_SERVER_ERROR:
    case MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE:
    case MEMCACHED_MEMORY_ALLOCATION_FAILURE:
        // It works, but what it has sent or still sends is of no use.
        memcached_quit(connection->server);
        return CTIER_REFUSED;
    case MEMCACHED_TIMEOUT: memcached_quit(connection->server); return CTIER_LATE;
    default: memcached_quit(connection->server); return CTIER_FAILED;
    }
}

void ctier_close(struct ctier_connection *connection) { memcached_quit(connection->server); }

enum ctier_status ctier_ask(
    struct ctier_connection *connection, const char *keys, const size_t *lengths, size_t count) {
    const char **starts = calloc(count, sizeof *starts);
    if (!starts) return CTIER_REFUSED;
    for (size_t i = 0; i < count; keys += lengths[i++]) starts[i] = keys;
    memcached_return_t outcome = memcached_mget(connection->server, starts, lengths, count);
    free(starts);
    return named(connection, outcome);
}

enum ctier_status ctier_next(struct ctier_connection *connection, struct ctier_item *item) {
    memcached_return_t outcome = MEMCACHED_FAILURE;
    if (!memcached_fetch_result(connection->server, &connection->result, &outcome)) {
        // The library reports the end of a list so, after items or without any.
        return outcome == MEMCACHED_SUCCESS ? CTIER_MISSING : named(connection, outcome);
    }
    item->key = memcached_result_key_value(&connection->result);
    item->key_length = memcached_result_key_length(&connection->result);
    item->value = memcached_result_value(&connection->result);
    item->length = memcached_result_length(&connection->result);
    item->version = memcached_result_cas(&connection->result);
    return CTIER_DONE;
}

enum ctier_status ctier_set(
    struct ctier_connection *connection, const char *key, size_t key_length, const void *value, size_t length,
    uint32_t seconds) {
    return named(connection, memcached_set(connection->server, key, key_length, value, length, (time_t)seconds, 0));
}

/// Lets the next commands wait for answers or not.
static void reply(struct ctier_connection *connection, int is_expected) {
    memcached_behavior_set(connection->server, MEMCACHED_BEHAVIOR_NOREPLY, !is_expected);
}

enum ctier_status ctier_claim(
    struct ctier_connection *connection, const char *key, size_t key_length, const void *value, size_t length,
    uint32_t seconds) {
    reply(connection, 0);
    memcached_return_t outcome = memcached_add(connection->server, key, key_length, value, length, (time_t)seconds, 0);
    reply(connection, 1);
    return named(connection, outcome);
}

/// An expiry in the past: times above 30 days are seconds since 1970.
static const time_t long_ago = 30 * 86400 + 1;

enum ctier_status ctier_replace(
    struct ctier_connection *connection, const char *key, size_t key_length, const void *value, size_t length,
    uint32_t seconds, uint64_t version) {
    time_t expiry = seconds ? (time_t)seconds : long_ago;
    reply(connection, 0);
    memcached_return_t outcome = memcached_cas(connection->server, key, key_length, value, length, expiry, 0, version);
    reply(connection, 1);
    return named(connection, outcome);
}

enum ctier_status ctier_delete(struct ctier_connection *connection, const char *key, size_t key_length) {
    return named(connection, memcached_delete(connection->server, key, key_length, 0));
}

// Names

int ctier_resolve(const char *name, char *address, size_t length) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    if (getaddrinfo(name, NULL, &hints, &found) != 0 || !found) return -1;
    const struct addrinfo *chosen = found;
    for (const struct addrinfo *each = found; each; each = each->ai_next) {
        if (each->ai_family == AF_INET) {
            chosen = each;
            break;
        }
    }
    int status = getnameinfo(chosen->ai_addr, chosen->ai_addrlen, address, (socklen_t)length, NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(found);
    return status == 0 ? 0 : -1;
}
