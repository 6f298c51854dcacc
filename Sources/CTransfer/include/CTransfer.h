// Functions of libcurl that Swift cannot import: one typed function for each option and piece of information that is
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

// Text options of a transfer. The text is copied; NULL means none.
CURLcode ctransfer_set_url(CURL *handle, const char *value);
/// What the request line asks for, if it is not what follows from the URL.
CURLcode ctransfer_set_request_target(CURL *handle, const char *value);
CURLcode ctransfer_set_protocols(CURL *handle, const char *value);
CURLcode ctransfer_set_redirect_protocols(CURL *handle, const char *value);
CURLcode ctransfer_set_proxy(CURL *handle, const char *value);
CURLcode ctransfer_set_no_proxy(CURL *handle, const char *value);
CURLcode ctransfer_set_cookie(CURL *handle, const char *value);
CURLcode ctransfer_set_cookie_file(CURL *handle, const char *value);
/// Adds a cookie. "ALL" and some other words are commands.
CURLcode ctransfer_set_cookie_list(CURL *handle, const char *value);
CURLcode ctransfer_set_accept_encoding(CURL *handle, const char *value);
CURLcode ctransfer_set_username(CURL *handle, const char *value);
CURLcode ctransfer_set_password(CURL *handle, const char *value);

/// The user name and the password for the proxy.
CURLcode ctransfer_set_proxy_username(CURL *handle, const char *value);
CURLcode ctransfer_set_proxy_password(CURL *handle, const char *value);

/// Root certificates (PEM) in place of those in the system's file, for origins and proxies. The bytes are not copied.
CURLcode ctransfer_set_roots(CURL *handle, const void *bytes, size_t count);
/// The system's file with all root certificates; NULL if libcurl has none.
const char *ctransfer_system_root_file(void);

// Number options of a transfer.
CURLcode ctransfer_set_no_signal(CURL *handle, long value);
CURLcode ctransfer_set_quick_exit(CURL *handle, long value);
CURLcode ctransfer_set_follow_location(CURL *handle, long value);
CURLcode ctransfer_set_suppress_connect_headers(CURL *handle, long value);
CURLcode ctransfer_set_http_version(CURL *handle, long value);
/// Whether to wait until it is known if a connection that is being made can be shared.
CURLcode ctransfer_set_pipe_wait(CURL *handle, long value);
CURLcode ctransfer_set_fresh_connect(CURL *handle, long value);
CURLcode ctransfer_set_http_authentication(CURL *handle, unsigned long value);
CURLcode ctransfer_set_verify_peer(CURL *handle, long value);
CURLcode ctransfer_set_verify_host(CURL *handle, long value);
CURLcode ctransfer_set_connect_timeout_ms(CURL *handle, long value);
CURLcode ctransfer_set_buffer_size(CURL *handle, long value);

// Pointer options of a transfer. The pointees are not copied.
CURLcode ctransfer_set_headers(CURL *handle, struct curl_slist *value);
CURLcode ctransfer_set_private(CURL *handle, void *value);
/// `value` has CURL_ERROR_SIZE bytes.
CURLcode ctransfer_set_error_buffer(CURL *handle, char *value);
CURLcode ctransfer_set_header_callback(CURL *handle, curl_write_callback callback, void *context);
CURLcode ctransfer_set_body_callback(CURL *handle, curl_write_callback callback, void *context);
CURLcode ctransfer_set_socket_callback(CURL *handle, curl_opensocket_callback callback, void *context);

/// The value that was passed to `ctransfer_set_private`.
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
CURLMcode ctransfer_multi_set_multiplexing(CURLM *multi);
CURLMcode ctransfer_multi_set_max_connections(CURLM *multi, long value);

/// The result in a message about a transfer's end.
CURLcode ctransfer_message_result(const CURLMsg *message);

/// Copies the address, 4 or 16 bytes, and returns the length; 0 when it is not an Internet address.
size_t ctransfer_address_bytes(const struct curl_sockaddr *address, unsigned char bytes[16]);
/// Opens a socket for the address, closed on exec; CURL_SOCKET_BAD on failure.
curl_socket_t ctransfer_open_socket(const struct curl_sockaddr *address);

#endif
