#define _GNU_SOURCE
#include "CTransfer.h"

#include <dlfcn.h>
#include <malloc.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

CURLcode ctransfer_global_init(void) {
    // The memory of a transfer is freed at its end, and the next one begins at once: the heap must not be returned to the
    // kernel and grown again for each.
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 2 << 20);
    return curl_global_init(CURL_GLOBAL_DEFAULT);
}

void ctransfer_load_libraries(void) {
    char line[1024], library[128];
    (void)dlopen("libgcc_s.so.1", RTLD_NOW);
    FILE *file = fopen("/etc/nsswitch.conf", "re");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "hosts:", 6) != 0) continue;
        char *rest = NULL;
        for (char *word = strtok_r(line + 6, " \t\n", &rest); word; word = strtok_r(NULL, " \t\n", &rest)) {
            // Skips actions such as "[NOTFOUND=return]". The modules files and dns may be part of the C library.
            if (*word == '#') break;
            if (*word == '[' || strchr(word, '=') || strchr(word, '/')) continue;
            if (snprintf(library, sizeof library, "libnss_%s.so.2", word) < (int)sizeof library)
                (void)dlopen(library, RTLD_NOW);
        }
    }
    fclose(file);
}

CURLcode ctransfer_set_roots(CURL *handle, const void *bytes, size_t count) {
    struct curl_blob blob = {.data = (void *)bytes, .len = count, .flags = CURL_BLOB_NOCOPY};
    CURLcode code = curl_easy_setopt(handle, CURLOPT_CAINFO_BLOB, &blob);
    return code == CURLE_OK ? curl_easy_setopt(handle, CURLOPT_PROXY_CAINFO_BLOB, &blob) : code;
}

const char *ctransfer_system_root_file(void) { return curl_version_info(CURLVERSION_NOW)->cainfo; }

void *ctransfer_private(CURL *handle) {
    char *value = NULL;
    curl_easy_getinfo(handle, CURLINFO_PRIVATE, &value);
    return value;
}

const char *ctransfer_remote_address(CURL *handle) {
    char *value = NULL;
    curl_easy_getinfo(handle, CURLINFO_PRIMARY_IP, &value);
    return value ? value : "";
}

void ctransfer_times(CURL *handle, struct ctransfer_times *times) {
    curl_off_t lookup = 0, connect = 0, tls = 0, first = 0, total = 0;
    curl_easy_getinfo(handle, CURLINFO_NAMELOOKUP_TIME_T, &lookup);
    curl_easy_getinfo(handle, CURLINFO_CONNECT_TIME_T, &connect);
    curl_easy_getinfo(handle, CURLINFO_APPCONNECT_TIME_T, &tls);
    curl_easy_getinfo(handle, CURLINFO_STARTTRANSFER_TIME_T, &first);
    curl_easy_getinfo(handle, CURLINFO_TOTAL_TIME_T, &total);
    *times = (struct ctransfer_times){lookup, connect, tls, first, total};
}

struct curl_slist *ctransfer_cookie_list(CURL *handle) {
    struct curl_slist *value = NULL;
    curl_easy_getinfo(handle, CURLINFO_COOKIELIST, &value);
    return value;
}

CURLMcode ctransfer_multi_set_socket_callback(CURLM *multi, curl_socket_callback callback, void *context) {
    CURLMcode code = curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, callback);
    return code == CURLM_OK ? curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, context) : code;
}

CURLMcode ctransfer_multi_set_timer_callback(CURLM *multi, curl_multi_timer_callback callback, void *context) {
    CURLMcode code = curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, callback);
    return code == CURLM_OK ? curl_multi_setopt(multi, CURLMOPT_TIMERDATA, context) : code;
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
