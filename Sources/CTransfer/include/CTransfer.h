// Functions of libcurl that Swift cannot import: one for each type of option and of information that its variadic
// functions have, and the addresses in its socket callback. They contain no decisions.
#ifndef CTRANSFER_H
#define CTRANSFER_H

#include <curl/curl.h>
#include <stddef.h>

/// Initialises libcurl. Must be called first, and once. CURLE_OK or an error.
CURLcode ctransfer_global_init(void);

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

#define CTRANSFER_CALLBACK_SETTER(name, result, set, type, function_option, data_option) \
    static inline result ctransfer_##name(void *handle, type callback, void *context) { \
        result code = set(handle, function_option, callback); \
        return code ? code : set(handle, data_option, context); \
    }

CTRANSFER_CALLBACK_SETTER(
    set_header_callback, CURLcode, curl_easy_setopt, curl_write_callback, CURLOPT_HEADERFUNCTION, CURLOPT_HEADERDATA)
CTRANSFER_CALLBACK_SETTER(
    set_body_callback, CURLcode, curl_easy_setopt, curl_write_callback, CURLOPT_WRITEFUNCTION, CURLOPT_WRITEDATA)
CTRANSFER_CALLBACK_SETTER(
    set_socket_callback, CURLcode, curl_easy_setopt, curl_opensocket_callback, CURLOPT_OPENSOCKETFUNCTION,
    CURLOPT_OPENSOCKETDATA)
CTRANSFER_CALLBACK_SETTER(
    multi_set_socket_callback, CURLMcode, curl_multi_setopt, curl_socket_callback, CURLMOPT_SOCKETFUNCTION,
    CURLMOPT_SOCKETDATA)
CTRANSFER_CALLBACK_SETTER(
    multi_set_timer_callback, CURLMcode, curl_multi_setopt, curl_multi_timer_callback, CURLMOPT_TIMERFUNCTION,
    CURLMOPT_TIMERDATA)

/// A piece of information about a transfer; NULL, or 0, for none.
static inline void *ctransfer_pointer(CURL *handle, CURLINFO info) {
    void *value = NULL;
    curl_easy_getinfo(handle, info, &value);
    return value;
}
static inline curl_off_t ctransfer_number(CURL *handle, CURLINFO info) {
    curl_off_t value = 0;
    curl_easy_getinfo(handle, info, &value);
    return value;
}

static inline CURLMcode ctransfer_multi_set_number(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}

/// Copies the address, 4 or 16 bytes, and returns the length; 0 when it is not an Internet address.
size_t ctransfer_address_bytes(const struct curl_sockaddr *address, unsigned char bytes[16]);

#endif
