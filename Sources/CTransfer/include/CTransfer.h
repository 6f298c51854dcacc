// What Swift cannot import from libcurl: its variadic functions, as one typed function for each option and each piece
// of information that is used, and the addresses within its socket callback. Nothing here decides anything.
#ifndef CTRANSFER_H
#define CTRANSFER_H

#include <curl/curl.h>
#include <stddef.h>

/// Initialises libcurl, before anything else and once; CURLE_OK or why not.
CURLcode ctransfer_global_init(void);
/// Loads what the C library would load when it is needed: the modules of the resolver that /etc/nsswitch.conf names, and
/// what ends threads. Later no library can be.
void ctransfer_load_libraries(void);

// Options of a transfer that are text (copied), "none" being NULL.
CURLcode ctransfer_set_url(CURL *handle, const char *value);
CURLcode ctransfer_set_protocols(CURL *handle, const char *value);
CURLcode ctransfer_set_redirect_protocols(CURL *handle, const char *value);
CURLcode ctransfer_set_proxy(CURL *handle, const char *value);
CURLcode ctransfer_set_no_proxy(CURL *handle, const char *value);
CURLcode ctransfer_set_cookie(CURL *handle, const char *value);
CURLcode ctransfer_set_cookie_file(CURL *handle, const char *value);
/// Adds one cookie to those that are there; "ALL" and other words are commands.
CURLcode ctransfer_set_cookie_list(CURL *handle, const char *value);
CURLcode ctransfer_set_accept_encoding(CURL *handle, const char *value);
CURLcode ctransfer_set_username(CURL *handle, const char *value);
CURLcode ctransfer_set_password(CURL *handle, const char *value);

// Options of a transfer that are numbers.
CURLcode ctransfer_set_no_signal(CURL *handle, long value);
CURLcode ctransfer_set_quick_exit(CURL *handle, long value);
CURLcode ctransfer_set_follow_location(CURL *handle, long value);
CURLcode ctransfer_set_suppress_connect_headers(CURL *handle, long value);
CURLcode ctransfer_set_http_version(CURL *handle, long value);
CURLcode ctransfer_set_http_authentication(CURL *handle, unsigned long value);
CURLcode ctransfer_set_verify_peer(CURL *handle, long value);
CURLcode ctransfer_set_verify_host(CURL *handle, long value);
CURLcode ctransfer_set_connect_timeout_ms(CURL *handle, long value);
CURLcode ctransfer_set_buffer_size(CURL *handle, long value);

// Options of a transfer that are pointers, none of them copied.
CURLcode ctransfer_set_headers(CURL *handle, struct curl_slist *value);
CURLcode ctransfer_set_private(CURL *handle, void *value);
/// `value` has CURL_ERROR_SIZE bytes.
CURLcode ctransfer_set_error_buffer(CURL *handle, char *value);
CURLcode ctransfer_set_header_callback(CURL *handle, curl_write_callback callback, void *context);
CURLcode ctransfer_set_body_callback(CURL *handle, curl_write_callback callback, void *context);
CURLcode ctransfer_set_socket_callback(CURL *handle, curl_opensocket_callback callback, void *context);

/// What was given to `ctransfer_set_private`.
void *ctransfer_private(CURL *handle);
/// The numeric address of the latest connection, empty when there was none; valid as long as the handle.
const char *ctransfer_remote_address(CURL *handle);
/// The cookies that are there, one in each line of Netscape's format; the caller frees the list.
struct curl_slist *ctransfer_cookie_list(CURL *handle);

// Options of the set of transfers.
CURLMcode ctransfer_multi_set_socket_callback(CURLM *multi, curl_socket_callback callback, void *context);
CURLMcode ctransfer_multi_set_timer_callback(CURLM *multi, curl_multi_timer_callback callback, void *context);
CURLMcode ctransfer_multi_set_multiplexing(CURLM *multi);
CURLMcode ctransfer_multi_set_max_connections(CURLM *multi, long value);

/// The result in a message that says that a transfer has ended.
CURLcode ctransfer_message_result(const CURLMsg *message);

/// Copies the address, 4 bytes or 16, and returns their number; 0 when it is not one of the Internet.
size_t ctransfer_address_bytes(const struct curl_sockaddr *address, unsigned char bytes[16]);
/// Opens a socket for the address, closed on exec; CURL_SOCKET_BAD when that fails.
curl_socket_t ctransfer_open_socket(const struct curl_sockaddr *address);

#endif
