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

#define CTRANSFER_SETTER(name, type, option) \
    static inline CURLcode ctransfer_set_##name(CURL *handle, type value) { \
        return curl_easy_setopt(handle, option, value); \
    }

// Text options of a transfer. The text is copied; NULL means none.
CTRANSFER_SETTER(url, const char *, CURLOPT_URL)
/// What the request line asks for, if it is not what follows from the URL.
CTRANSFER_SETTER(request_target, const char *, CURLOPT_REQUEST_TARGET)
CTRANSFER_SETTER(protocols, const char *, CURLOPT_PROTOCOLS_STR)
CTRANSFER_SETTER(redirect_protocols, const char *, CURLOPT_REDIR_PROTOCOLS_STR)
CTRANSFER_SETTER(proxy, const char *, CURLOPT_PROXY)
CTRANSFER_SETTER(no_proxy, const char *, CURLOPT_NOPROXY)
CTRANSFER_SETTER(cookie, const char *, CURLOPT_COOKIE)
CTRANSFER_SETTER(cookie_file, const char *, CURLOPT_COOKIEFILE)
/// Adds a cookie. "ALL" and some other words are commands.
CTRANSFER_SETTER(cookie_list, const char *, CURLOPT_COOKIELIST)
CTRANSFER_SETTER(accept_encoding, const char *, CURLOPT_ACCEPT_ENCODING)
CTRANSFER_SETTER(username, const char *, CURLOPT_USERNAME)
CTRANSFER_SETTER(password, const char *, CURLOPT_PASSWORD)

/// The user name and the password for the proxy.
CTRANSFER_SETTER(proxy_username, const char *, CURLOPT_PROXYUSERNAME)
CTRANSFER_SETTER(proxy_password, const char *, CURLOPT_PROXYPASSWORD)

/// Root certificates (PEM) in place of those in the system's file, for origins and proxies. The bytes are not copied.
CURLcode ctransfer_set_roots(CURL *handle, const void *bytes, size_t count);
/// The system's file with all root certificates; NULL if libcurl has none.
const char *ctransfer_system_root_file(void);

// Number options of a transfer.
CTRANSFER_SETTER(no_signal, long, CURLOPT_NOSIGNAL)
CTRANSFER_SETTER(quick_exit, long, CURLOPT_QUICK_EXIT)
CTRANSFER_SETTER(follow_location, long, CURLOPT_FOLLOWLOCATION)
CTRANSFER_SETTER(suppress_connect_headers, long, CURLOPT_SUPPRESS_CONNECT_HEADERS)
CTRANSFER_SETTER(http_version, long, CURLOPT_HTTP_VERSION)
/// Whether to wait until it is known if a connection that is being made can be shared.
CTRANSFER_SETTER(pipe_wait, long, CURLOPT_PIPEWAIT)
CTRANSFER_SETTER(fresh_connect, long, CURLOPT_FRESH_CONNECT)
CTRANSFER_SETTER(http_authentication, unsigned long, CURLOPT_HTTPAUTH)
CTRANSFER_SETTER(verify_peer, long, CURLOPT_SSL_VERIFYPEER)
CTRANSFER_SETTER(verify_host, long, CURLOPT_SSL_VERIFYHOST)
CTRANSFER_SETTER(connect_timeout_ms, long, CURLOPT_CONNECTTIMEOUT_MS)
CTRANSFER_SETTER(buffer_size, long, CURLOPT_BUFFERSIZE)

// Pointer options of a transfer. The pointees are not copied.
CTRANSFER_SETTER(headers, struct curl_slist *, CURLOPT_HTTPHEADER)
CTRANSFER_SETTER(private, void *, CURLOPT_PRIVATE)
/// `value` has CURL_ERROR_SIZE bytes.
CTRANSFER_SETTER(error_buffer, char *, CURLOPT_ERRORBUFFER)

#define CTRANSFER_CALLBACK_SETTER(name, type, function_option, data_option) \
    static inline CURLcode ctransfer_set_##name(CURL *handle, type callback, void *context) { \
        CURLcode code = curl_easy_setopt(handle, function_option, callback); \
        return code == CURLE_OK ? curl_easy_setopt(handle, data_option, context) : code; \
    }

CTRANSFER_CALLBACK_SETTER(header_callback, curl_write_callback, CURLOPT_HEADERFUNCTION, CURLOPT_HEADERDATA)
CTRANSFER_CALLBACK_SETTER(body_callback, curl_write_callback, CURLOPT_WRITEFUNCTION, CURLOPT_WRITEDATA)
CTRANSFER_CALLBACK_SETTER(socket_callback, curl_opensocket_callback, CURLOPT_OPENSOCKETFUNCTION, CURLOPT_OPENSOCKETDATA)

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
