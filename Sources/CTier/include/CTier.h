// Commands of libmemcached: the places of keys on a ring of servers, and connections to one server each. Time and size are
// bounded; no decisions are made here.
#ifndef CTIER_H
#define CTIER_H

#include <stddef.h>
#include <stdint.h>

enum ctier_status {
    CTIER_DONE = 0,
    CTIER_MISSING = 1,
    /// The server works and has refused the command: the item exists, has changed, or is too large.
    CTIER_REFUSED = 2,
    /// There is no connection, or the server has not answered as it must.
    CTIER_FAILED = 3,
    /// The server has not answered in time.
    CTIER_LATE = 4,
};

/// The ring of servers (ketama, weighted), which determines the server of a key. It never connects.
struct ctier_ring;

/// Makes an empty ring; NULL when memory is short.
struct ctier_ring *ctier_ring_create(void);
/// Adds a server by its name as all brokers have it. 0, or -1.
int ctier_ring_add(struct ctier_ring *ring, const char *name, uint16_t port);
/// The index of a key's server, in the order of `ctier_ring_add`.
uint32_t ctier_ring_server(const struct ctier_ring *ring, const char *key, size_t length);
void ctier_ring_free(struct ctier_ring *ring);

/// A connection to one server, which is made with the first command and after each failure.
struct ctier_connection;

/// Makes a connection to a numeric address. A connection is waited for `connect_ms`, and each further wait for the server ends
/// after `wait_ms`. No item of more than `largest` bytes is received. NULL when memory is short.
struct ctier_connection *ctier_connection_create(
    const char *address, uint16_t port, int connect_ms, int wait_ms, size_t largest);
void ctier_connection_free(struct ctier_connection *connection);

/// An item that was received. The memory is valid until the next command of its connection.
struct ctier_item {
    const char *key;
    size_t key_length;
    const void *value;
    size_t length;
    /// The item's version, for `ctier_replace`.
    uint64_t version;
};

/// Closes the connection, and with it the answers that were not received; the next command opens it again.
void ctier_close(struct ctier_connection *connection);

/// Asks for several items with one message, whose keys lie one after the other; `ctier_next` receives them.
enum ctier_status ctier_ask(struct ctier_connection *connection, const char *keys, const size_t *lengths, size_t count);
/// Receives the next item that exists. CTIER_MISSING after the last one.
enum ctier_status ctier_next(struct ctier_connection *connection, struct ctier_item *item);

/// Writes an item that expires after `seconds`, at most 30 days.
enum ctier_status ctier_set(
    struct ctier_connection *connection, const char *key, size_t key_length, const void *value, size_t length,
    uint32_t seconds);
/// Writes an item unless one exists, without waiting for an answer: the next `ctier_ask` shows what exists.
enum ctier_status ctier_claim(
    struct ctier_connection *connection, const char *key, size_t key_length, const void *value, size_t length,
    uint32_t seconds);
/// Writes an item if it still has this version, without waiting for an answer. With 0 seconds it expires at once.
enum ctier_status ctier_replace(
    struct ctier_connection *connection, const char *key, size_t key_length, const void *value, size_t length,
    uint32_t seconds, uint64_t version);
enum ctier_status ctier_delete(struct ctier_connection *connection, const char *key, size_t key_length);

/// Resolves a name to a numeric address, IPv4 before IPv6. 0, or -1 for a name without an address.
int ctier_resolve(const char *name, char *address, size_t length);

#endif
