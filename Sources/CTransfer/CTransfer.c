#define _GNU_SOURCE
#include "CTransfer.h"

#include <malloc.h>
#include <netinet/in.h>
#include <string.h>

CURLcode ctransfer_global_init(void) {
    // The memory of a transfer is freed at its end, and the next one begins at once: the heap must not be returned to the
    // kernel and grown again for each.
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 2 << 20);
    return curl_global_init(CURL_GLOBAL_DEFAULT);
}

size_t ctransfer_address_bytes(const struct curl_sockaddr *address, unsigned char bytes[16]) {
    // Copied, because the address within libcurl's structure may not be aligned for its type.
    if (address->family == AF_INET && address->addrlen >= sizeof(struct sockaddr_in)) {
        struct sockaddr_in name;
        memcpy(&name, &address->addr, sizeof name);
        memcpy(bytes, &name.sin_addr, 4);
        return 4;
    }
    if (address->family == AF_INET6 && address->addrlen >= sizeof(struct sockaddr_in6)) {
        struct sockaddr_in6 name;
        // Longer than the declared `struct sockaddr`: libcurl reserves room for the longest address after it.
        const unsigned char *start = (const unsigned char *)address + offsetof(struct curl_sockaddr, addr);
        memcpy(&name, start, sizeof name);
        memcpy(bytes, &name.sin6_addr, 16);
        return 16;
    }
    return 0;
}
