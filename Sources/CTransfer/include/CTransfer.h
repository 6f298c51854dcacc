// Functions of libcurl that Swift cannot import: one function for each type of option and for each piece of information that is
// used of its variadic functions, and the addresses in its socket callback. They contain no decisions.
#ifndef CTRANSFER_H
#define CTRANSFER_H

#include <curl/curl.h>
#include <stddef.h>

/// Initialises libcurl. Must be called first, and once. CURLE_OK or an error.
CURLcode ctransfer_global_init(void);
/// Loads the libraries that the C library would load later: the resolver modules that /etc/nsswitch.conf names, and the
/// library that ends threads. In the sandbox no library can be loaded.
void ctransfer_load_libraries(void);

/// Sets an option of a transfer to a text, which is copied; NULL means none.
static inline CURLcode ctransfer_set_text(CURL *handle, CURLoption option, const char *value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode ctransfer_set_number(CURL *handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}
/// Sets an option of a transfer to a pointer, whose pointee is not copied.
static inline CURLcode ctransfer_set_pointer(CURL *handle, CURLoption option, void *value) {
    return curl_easy_setopt(handle, option, value);
}

/// Root certificates (PEM) in place of those in the system's file, for origins and proxies. The bytes are not copied.
CURLcode ctransfer_set_roots(CURL *handle, const void *bytes, size_t count);
/// The system's file with all root certificates; NULL if libcurl has none.
const char *ctransfer_system_root_file(void);

#define CTRANSFER_CALLBACK_SETTER(name, type, function_option, data_option) \
    static inline CURLcode ctransfer_set_##name(CURL *handle, type callback, void *context) { \
        CURLcode code = curl_easy_setopt(handle, function_option, callback); \
        return code == CURLE_OK ? curl_easy_setopt(handle, data_option, context) : code; \
    }

CTRANSFER_CALLBACK_SETTER(header_callback, curl_write_callback, CURLOPT_HEADERFUNCTION, CURLOPT_HEADERDATA)
CTRANSFER_CALLBACK_SETTER(body_callback, curl_write_callback, CURLOPT_WRITEFUNCTION, CURLOPT_WRITEDATA)
CTRANSFER_CALLBACK_SETTER(socket_callback, curl_opensocket_callback, CURLOPT_OPENSOCKETFUNCTION, CURLOPT_OPENSOCKETDATA)

/// The transfer's CURLOPT_PRIVATE.
void *ctransfer_private(CURL *handle);
/// The numeric address of the last connection, empty before; valid as long as the handle.
const char *ctransfer_remote_address(CURL *handle);
/// Times in microseconds since the start of the last request: when the name was known, when the connection and its TLS session
/// existed, when the first byte arrived, and when it ended. 0 for what has not taken place.
struct ctransfer_times {
    long long lookup, connect, tls, first_byte, total;
};
void ctransfer_times(CURL *handle, struct ctransfer_times *times);
/// The present cookies, a line each in Netscape's format; the caller frees the list.
struct curl_slist *ctransfer_cookie_list(CURL *handle);

// Options of the set of transfers.
CURLMcode ctransfer_multi_set_socket_callback(CURLM *multi, curl_socket_callback callback, void *context);
CURLMcode ctransfer_multi_set_timer_callback(CURLM *multi, curl_multi_timer_callback callback, void *context);
static inline CURLMcode ctransfer_multi_set_number(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}

/// Copies the address, 4 or 16 bytes, and returns the length; 0 when it is not an Internet address.
size_t ctransfer_address_bytes(const struct curl_sockaddr *address, unsigned char bytes[16]);

#endif
