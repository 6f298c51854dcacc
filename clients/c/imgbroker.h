/// The C client of imgbroker, a shared image cache for all processes of a Linux machine.
///
/// A program opens a connection with `imgbroker_open` and requests images: with `imgbroker_get`, which blocks, or with
/// `imgbroker_send`, `imgbroker_process` and `imgbroker_next`, which never block and fit into any event loop. Pixels
/// are read-only memory that all processes share which requested the same image. The fields of requests and replies
/// are those of the wire protocol (docs/protocol.md), which also states ranges and defaults.
///
/// Threads: at most one thread at a time uses a connection; another one may use another connection. Images may be
/// read, retained and released by any thread, also after their connection was closed. The library starts no thread,
/// installs no signal handler and keeps no global state. All descriptors are close-on-exec.
///
/// Forks: a connection belongs to the process that opened it. In a child, every call but `imgbroker_close` returns
/// IMGBROKER_ERROR_FORKED and leaves the parent's requests alone; the child opens a connection of its own. An image stays
/// valid in the child as long as the parent holds it.
///
/// Strings are UTF-8 and end with a zero byte. Arguments belong to the caller and are read only during the call.

#ifndef IMGBROKER_H
#define IMGBROKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IMGBROKER_VERSION "0.1.0"

#if defined(__GNUC__)
#define IMGBROKER_API __attribute__((visibility("default")))
#else
#define IMGBROKER_API
#endif

// Errors

/// The reason of a failure. The values up to IMGBROKER_ERROR_INTERNAL are the protocol's closed set of error codes; the
/// others are errors of this process.
typedef enum imgbroker_code {
    IMGBROKER_OK = 0,
    IMGBROKER_ERROR_BAD_FRAME,
    IMGBROKER_ERROR_BAD_REQUEST,
    IMGBROKER_ERROR_UNSUPPORTED_VERSION,
    IMGBROKER_ERROR_UNSUPPORTED_SCHEME,
    IMGBROKER_ERROR_FORBIDDEN_ADDRESS,
    IMGBROKER_ERROR_FORBIDDEN,
    IMGBROKER_ERROR_NOT_CACHED,
    /// The protocol's `blacklisted`: the URL failed recently; `cause` is the first failure's code.
    IMGBROKER_ERROR_RECENTLY_FAILED,
    IMGBROKER_ERROR_CANCELLED,
    IMGBROKER_ERROR_SHUTTING_DOWN,
    IMGBROKER_ERROR_OVERLOADED,
    IMGBROKER_ERROR_QUOTA_EXCEEDED,
    IMGBROKER_ERROR_HOST_UNAVAILABLE,
    IMGBROKER_ERROR_DNS_FAILED,
    IMGBROKER_ERROR_CONNECT_FAILED,
    IMGBROKER_ERROR_TLS_FAILED,
    IMGBROKER_ERROR_TIMEOUT,
    IMGBROKER_ERROR_TOO_MANY_REDIRECTS,
    /// The origin's status is an error: `http_status`.
    IMGBROKER_ERROR_HTTP_STATUS,
    IMGBROKER_ERROR_TRANSFER_FAILED,
    IMGBROKER_ERROR_TOO_LARGE,
    IMGBROKER_ERROR_UNSUPPORTED_FORMAT,
    IMGBROKER_ERROR_TRUNCATED,
    IMGBROKER_ERROR_DECODE_FAILED,
    IMGBROKER_ERROR_TOO_MANY_PIXELS,
    IMGBROKER_ERROR_EMPTY_IMAGE,
    IMGBROKER_ERROR_DECODER_CRASHED,
    IMGBROKER_ERROR_DECODER_UNAVAILABLE,
    IMGBROKER_ERROR_OUT_OF_MEMORY,
    IMGBROKER_ERROR_DISK_FAILED,
    IMGBROKER_ERROR_INTERNAL,

    /// No broker listens at the socket's path.
    IMGBROKER_ERROR_NO_BROKER,
    /// The connection ended before the reply, and so did the one over which the request was sent again.
    IMGBROKER_ERROR_CONNECTION_LOST,
    /// The broker has been silent for twice `patience_ms`: it is stopped, or hangs.
    IMGBROKER_ERROR_NOT_ANSWERING,
    /// A reply does not follow the protocol. The connection was closed; the next request opens another.
    IMGBROKER_ERROR_PROTOCOL_VIOLATION,
    /// This process may open no more descriptors or map no more memory. Only this request is affected.
    IMGBROKER_ERROR_PROCESS_LIMIT,
    /// The broker lacks an addition to the protocol that the request needs; nothing was sent.
    IMGBROKER_ERROR_FEATURE_MISSING,
    /// An argument is invalid, for example text that is not UTF-8, or a request is too long for a frame.
    IMGBROKER_ERROR_INVALID_ARGUMENT,
    /// A local file cannot be opened; `message` has the reason.
    IMGBROKER_ERROR_FILE,
    /// The connection belongs to the parent process.
    IMGBROKER_ERROR_FORKED,
    /// This process has no memory for the request.
    IMGBROKER_ERROR_NO_MEMORY
} imgbroker_code;

/// A failure. All functions that take a pointer to an error accept NULL, and write nothing on success.
typedef struct imgbroker_error {
    imgbroker_code code;
    /// The same request may succeed later, unchanged.
    bool retryable;
    /// The broker has recorded this failure as a recent failure of the URL.
    bool recently_failed;
    /// The origin's status; with IMGBROKER_ERROR_HTTP_STATUS, otherwise 0.
    int http_status;
    /// The first failure's code; with IMGBROKER_ERROR_RECENTLY_FAILED, otherwise IMGBROKER_OK.
    imgbroker_code cause;
    /// The delay before a retry in milliseconds; -1 if it is unknown.
    int64_t retry_after_ms;
    /// One sentence for a person, possibly cut.
    char message[256];
} imgbroker_error;

/// Returns the name of a code as in the protocol, for example "http-status". A static string, never NULL.
IMGBROKER_API const char *imgbroker_code_name(imgbroker_code code);

// Connections

/// A connection to the broker: opened at the first request, and again after the broker was restarted.
typedef struct imgbroker imgbroker;

/// How a connection behaves. Zero-initialised: the defaults.
typedef struct imgbroker_settings {
    /// The path of the socket. NULL: $IMGBROKER_SOCKET, else $XDG_RUNTIME_DIR/imgbroker.sock if it exists, else
    /// /run/imgbroker.sock.
    const char *socket;
    /// The name and version of the program, for the broker's log, at most 255 bytes. NULL: the library's.
    const char *client;
    /// The maximum number of images that are kept mapped, so that a further `get` of one takes no message to the
    /// broker. 0: 4,096, or 128 if the broker has no segments; negative: none.
    int32_t keep_images;
    /// The maximum of their bytes. 0: 64 MiB.
    uint64_t keep_bytes;
    /// The time in milliseconds for which requests wait for a broker that was connected before and restarts. 0: 5,000;
    /// negative: no time.
    int32_t reconnect_ms;
    /// The time of silence in milliseconds after which the broker is asked for a sign of life; after as long again,
    /// requests end with IMGBROKER_ERROR_NOT_ANSWERING. 0: 30,000; negative: never.
    int32_t patience_ms;
} imgbroker_settings;

/// Creates a connection. It opens with the first request, so a missing broker is an error of that request. It takes
/// four descriptors; images take none. Small images lie side by side in segments of shared memory, each of which is one
/// mapping; any other image is a mapping of its own.
///
/// Returns NULL, and an IMGBROKER_ERROR_PROCESS_LIMIT or IMGBROKER_ERROR_NO_MEMORY, if this process lacks descriptors
/// or memory. `settings` may be NULL.
IMGBROKER_API imgbroker *imgbroker_open(const imgbroker_settings *settings, imgbroker_error *error);

/// Closes a connection and forgets its requests, which get no reply. Images stay valid: an image in a segment keeps its
/// lease, and with it the socket, until the last image of the connection in a segment is released. NULL is ignored.
IMGBROKER_API void imgbroker_close(imgbroker *connection);

// Images

typedef enum imgbroker_format {
    /// Four bytes a pixel: red, green, blue, alpha.
    IMGBROKER_RGBA8 = 0,
    /// Four bytes a pixel: blue, green, red, alpha.
    IMGBROKER_BGRA8,
    /// Three bytes a pixel: red, green, blue.
    IMGBROKER_RGB8,
    /// One byte a pixel: the luma.
    IMGBROKER_GRAY8,
    /// Only in images: the bytes are an encoded file.
    IMGBROKER_ENCODED
} imgbroker_format;

typedef enum imgbroker_alpha {
    IMGBROKER_PREMULTIPLIED = 0,
    IMGBROKER_STRAIGHT,
    /// Only in images and stored pixels: IMGBROKER_RGB8, IMGBROKER_GRAY8 and IMGBROKER_ENCODED.
    IMGBROKER_NO_ALPHA
} imgbroker_alpha;

typedef enum imgbroker_source {
    IMGBROKER_FROM_MEMORY = 0,
    IMGBROKER_FROM_DISK,
    IMGBROKER_FROM_NETWORK,
    IMGBROKER_FROM_FILE,
    /// Reserved by the protocol.
    IMGBROKER_FROM_SHARED
} imgbroker_source;

/// A frame of an animation.
typedef struct imgbroker_frame {
    /// The position of its first row, in bytes from `pixels`.
    size_t offset;
    /// The time for which it is shown, in milliseconds.
    uint64_t delay_ms;
} imgbroker_frame;

/// A part of the time between a request's arrival at the broker and its reply.
typedef struct imgbroker_span {
    /// What took the time, such as "download" or "decode"; docs/protocol.md has the names.
    const char *name;
    /// Its start, in microseconds after the arrival; negative for work that another request had begun before.
    int64_t start_us;
    /// Its duration, in microseconds.
    int64_t duration_us;
} imgbroker_span;

/// A metadata block of a file.
typedef struct imgbroker_block {
    /// Its bytes; NULL if it was not requested, does not exist or is longer than 1 MiB. They belong to the image.
    const uint8_t *data;
    /// The number of bytes at `data`.
    size_t size;
    /// Its length in the file, as far as the reply states it; 0 if it does not exist.
    uint64_t length;
} imgbroker_block;

/// The description of an image by its header and, if an origin has sent it, by the response.
typedef struct imgbroker_description {
    /// The format of the original, such as "jpeg".
    const char *format;
    /// The value of EXIF's tag Orientation that was applied to the size: 1 … 8.
    uint32_t orientation;
    /// The dots per inch in a row and in a column; 0 if the file states none.
    uint32_t density_x, density_y;
    /// The name of the ICC profile; may be NULL.
    const char *profile;
    /// The bits of a channel; 0 if unknown.
    uint32_t bit_depth;
    /// The file has an alpha channel, or a transparent colour.
    bool has_alpha;
    /// The status of the response; 0 without one.
    uint32_t status;
    /// `Last-Modified` of the response; may be NULL.
    const char *last_modified;
    /// The number of bytes of the original; -1 if unknown.
    int64_t length;
} imgbroker_description;

/// An image. Created by the library, read-only, and valid until the last reference to it is released.
typedef struct imgbroker_image {
    /// `height` rows from the top, `stride` bytes apart, in sRGB with the orientation of the file applied; the frames
    /// of an animation one after another; or an encoded file. Read-only memory, shared with every process that
    /// requested the same; it stays valid after the broker has evicted the image or has exited. NULL if `size` is 0.
    const uint8_t *pixels;
    /// The number of bytes at `pixels`; 0 with IMGBROKER_DESCRIPTION_ONLY.
    size_t size;
    /// The number of bytes that the broker states, also of an image that was not delivered.
    uint64_t bytes;
    /// The size of the image, or of one frame, in pixels: 0 … 65,535.
    uint32_t width, height;
    /// The bytes from one row to the next; 0 for an encoded file.
    size_t stride;
    imgbroker_format format;
    imgbroker_alpha alpha;
    imgbroker_source source;
    /// The size of the original as shown, in pixels.
    uint32_t original_width, original_height;
    /// The number of frames of the original.
    uint64_t original_frames;
    /// The frames in `pixels`, if IMGBROKER_ALL_FRAMES or a part of an animation were requested; otherwise NULL and 0.
    const imgbroker_frame *frames;
    size_t frame_count;
    /// The repetitions of the animation, 0 for endless; -1 without `frames`.
    int64_t loops;
    /// The time at which it becomes or became stale, in Unix seconds; -1 if it has none.
    int64_t expires;
    /// It is not fresh.
    bool stale;
    /// Parts of it could not be decoded (`accept_damage`).
    bool damaged;
    /// One sentence about that; NULL unless damaged.
    const char *damage;
    /// The URL in canonical spelling; NULL for a local file.
    const char *url;
    /// The media type of the original, or of the encoding; may be NULL.
    const char *content_type;
    /// The mean of all pixels, "#rrggbb" or "#rrggbbaa"; may be NULL.
    const char *average_color;
    /// The ThumbHash in Base64; may be NULL.
    const char *thumb_hash;
    /// The entity tag of the original; may be NULL.
    const char *etag;
    /// Where the time of the request went, of a final image with `trace`; otherwise NULL and 0.
    const imgbroker_span *spans;
    size_t span_count;
    /// A preview in the file was decoded instead of the image (`prefer_embedded`).
    bool embedded;
    /// What the header says; NULL unless requested with IMGBROKER_HEADER_ONLY.
    const imgbroker_description *description;
    /// The metadata blocks. `exif` is a TIFF structure without a prefix.
    imgbroker_block exif, xmp, icc;
} imgbroker_image;

/// Adds a reference to an image and returns it. Any thread may call it.
IMGBROKER_API imgbroker_image *imgbroker_image_retain(imgbroker_image *image);

/// Releases a reference to an image. With the last one, `pixels` become invalid and the broker's lease ends: with the
/// next message of the connection, or when the connection is next processed. The memory of an image in a segment may
/// then show another image. Any thread may call it. NULL is ignored.
IMGBROKER_API void imgbroker_image_release(imgbroker_image *image);

// Options

typedef enum imgbroker_fit {
    /// Within the box; a vector image fills it, any other is never enlarged.
    IMGBROKER_INSIDE = 0,
    /// Within the box, possibly enlarged.
    IMGBROKER_CONTAIN,
    /// Fills the box, cropped at the centre.
    IMGBROKER_COVER,
    /// Fills the box, distorted if necessary.
    IMGBROKER_FILL
} imgbroker_fit;

/// The protocol's `as`.
typedef enum imgbroker_representation {
    IMGBROKER_AS_PIXELS = 0,
    /// The bytes as received.
    IMGBROKER_AS_ORIGINAL,
    IMGBROKER_AS_PNG,
    IMGBROKER_AS_JPEG,
    IMGBROKER_AS_WEBP
} imgbroker_representation;

typedef enum imgbroker_delivery {
    /// Shared memory.
    IMGBROKER_SHARED = 0,
    /// A copy in this process's memory.
    IMGBROKER_INLINE,
    /// Only the description; the result is in the cache. The protocol's `none`.
    IMGBROKER_DESCRIPTION_ONLY,
    /// The description by the header, without decoding the image: `description`. Needs the addition `header`.
    IMGBROKER_HEADER_ONLY
} imgbroker_delivery;

/// Bits of `metadata`: the blocks to deliver with the image.
enum { IMGBROKER_EXIF = 1, IMGBROKER_XMP = 2, IMGBROKER_ICC = 4 };

/// The request cache mode of the Fetch standard.
typedef enum imgbroker_cache {
    IMGBROKER_CACHE_DEFAULT = 0,
    IMGBROKER_NO_CACHE,
    IMGBROKER_RELOAD,
    IMGBROKER_FORCE_CACHE,
    IMGBROKER_ONLY_IF_CACHED,
    IMGBROKER_NO_STORE
} imgbroker_cache;

/// The tiers that a result may enter.
typedef enum imgbroker_storage {
    /// Both; of stored pixels, memory.
    IMGBROKER_STORAGE_DEFAULT = 0,
    IMGBROKER_STORAGE_MEMORY,
    IMGBROKER_STORAGE_DISK,
    IMGBROKER_STORAGE_NONE
} imgbroker_storage;

typedef enum imgbroker_priority {
    /// Normal; low for a prefetch.
    IMGBROKER_PRIORITY_DEFAULT = 0,
    IMGBROKER_PRIORITY_LOW,
    IMGBROKER_PRIORITY_NORMAL,
    IMGBROKER_PRIORITY_HIGH
} imgbroker_priority;

/// A part of an image, in whole pixels of the source as shown.
typedef struct imgbroker_rectangle {
    uint32_t x, y, width, height;
} imgbroker_rectangle;

/// A request header.
typedef struct imgbroker_header {
    const char *name, *value;
} imgbroker_header;

/// The value of `frame` for all frames in one buffer.
#define IMGBROKER_ALL_FRAMES (-1)

/// How to load an image: the fields of the protocol's `get` and of its variant object. Zero-initialised: the
/// protocol's defaults. A value out of its range is an IMGBROKER_ERROR_BAD_REQUEST of the broker.
typedef struct imgbroker_options {
    /// The box in pixels, 1 … 65,535; 0 for a side that follows from the aspect ratio.
    uint32_t width, height;
    imgbroker_fit fit;
    imgbroker_format format;
    imgbroker_alpha alpha;
    /// The index of a frame, or IMGBROKER_ALL_FRAMES.
    int32_t frame;
    /// The part of the source to use; none if all four are 0.
    imgbroker_rectangle crop;
    /// At most 16 steps that follow scaling, in order, with spaces between them: a name, and after a colon its fields
    /// with commas between them, as on the command line: "blur:sigma=4 round:circle". NULL: none.
    const char *steps;
    /// "#rrggbb" under IMGBROKER_RGB8 and IMGBROKER_GRAY8; NULL: white.
    const char *background;
    /// The name of a variant in the broker's configuration, in place of all fields above; NULL: none.
    const char *preset;
    imgbroker_representation as;
    /// Of IMGBROKER_AS_JPEG and lossy IMGBROKER_AS_WEBP, 1 … 100; 0: 85.
    uint32_t quality;
    imgbroker_delivery delivery;
    imgbroker_cache cache;
    imgbroker_storage storage;
    imgbroker_priority priority;
    /// Milliseconds without a byte; 0: 15,000.
    uint32_t timeout_ms;
    /// Milliseconds for the whole request; 0: 60,000.
    uint32_t total_timeout_ms;
    /// Also reduces a result over the broker's scale-down limit to that limit.
    bool scale_down;
    /// Scales linear light instead of sRGB values.
    bool linear;
    /// Decodes as much of a damaged image as possible.
    bool accept_damage;
    /// Loads the URL even if it failed recently.
    bool retry_failed;
    /// Uses the user's cookies.
    bool cookies;
    bool allow_invalid_certificates;
    /// For `imgbroker_send`: replies of type IMGBROKER_REPLY_PROGRESS.
    bool progress;
    /// For `imgbroker_send`: partial images, not `final`, while the image is downloaded.
    bool progressive;
    /// For `imgbroker_send` with IMGBROKER_NO_CACHE: first the cached image, not `final`, then the confirmed or new
    /// one.
    bool stale_first;
    /// Additional request headers. Images of requests with headers or credentials are not kept for repeated requests.
    const imgbroker_header *headers;
    size_t header_count;
    /// HTTP Basic; NULL: none.
    const char *username, *password;
    /// A name for the original instead of its URL; NULL: none.
    const char *cache_key;
    /// The name of a local file in events; NULL: none.
    const char *name;
    /// States where the time of the request went: `spans` of the image. It is not kept for repeated requests.
    bool trace;
    /// A part of an animation, in place of `frame`: the index of its first frame, 0 … 65,534, and the number of frames, 1 … 10,000; 0
    /// for none. Fewer come at the end.
    uint32_t first_frame, frame_count;
    /// The part that IMGBROKER_COVER keeps, and the place on the canvas of a step `pad`: "top-left" and so on, "entropy",
    /// "attention", or the shares of a focal point as "0.25,0.75". NULL: the middle.
    const char *position;
    /// Whether `max_age_seconds` and `retries` are stated.
    bool has_max_age, has_retries;
    /// The age that a cached response may have at most. The image is not kept for repeated requests.
    uint32_t max_age_seconds;
    /// The retries of a failed transfer, at most those of the broker.
    uint32_t retries;
    /// At most 4 URLs that are loaded instead, each when the one before fails. The image is not kept for repeated requests.
    const char *const *alternatives;
    size_t alternative_count;
    /// The metadata blocks to deliver: IMGBROKER_EXIF, IMGBROKER_XMP and IMGBROKER_ICC. Needs the addition `metadata`.
    unsigned metadata;
    /// Decodes a preview in the file that is at least as large as the result instead of the image. Needs the addition `embedded`.
    bool prefer_embedded;
} imgbroker_options;

// Blocking requests
//
// Each waits for its reply and returns IMGBROKER_OK or the code that is also in `error`. Replies to requests that
// were sent with `imgbroker_send` meanwhile stay available to `imgbroker_next`.

/// Gets an image by its URL; the bytes of a `data:` URL are decoded here. `options` may be NULL.
///
/// On success `*image` is a reference that the caller releases with `imgbroker_image_release`; otherwise NULL. An image
/// that is kept and still valid is returned without a message to the broker.
IMGBROKER_API imgbroker_code imgbroker_get(
    imgbroker *connection, const char *url, const imgbroker_options *options, imgbroker_image **image,
    imgbroker_error *error);

/// Gets an image from a local file, which is opened by this process.
IMGBROKER_API imgbroker_code imgbroker_get_path(
    imgbroker *connection, const char *path, const imgbroker_options *options, imgbroker_image **image,
    imgbroker_error *error);

/// Gets an image from the regular file behind a descriptor that is open for reading. The caller keeps the descriptor. An
/// image that is kept, and whose file is unchanged, is returned without a message to the broker.
IMGBROKER_API imgbroker_code imgbroker_get_fd(
    imgbroker *connection, int descriptor, const imgbroker_options *options, imgbroker_image **image,
    imgbroker_error *error);

/// Gets an image from `size` encoded bytes, which are copied once. All clients that present the same bytes share the image.
IMGBROKER_API imgbroker_code imgbroker_get_bytes(
    imgbroker *connection, const void *data, size_t size, const imgbroker_options *options, imgbroker_image **image,
    imgbroker_error *error);

/// Returns the image that a `get` would return, without a message to the broker: a reference that the caller releases.
/// NULL if it is not kept, or the broker must be asked. Takes about 50 ns.
IMGBROKER_API imgbroker_image *imgbroker_get_kept(
    imgbroker *connection, const char *url, const imgbroker_options *options);

/// An animation that is played in parts of at most 8 MiB, or of one frame: a long one takes no more memory than a short one.
typedef struct imgbroker_animation {
    /// The part that `imgbroker_next_frame` has shown last, of which the caller may retain a reference; NULL at first.
    imgbroker_image *part;
    /// The frame that was shown last: its index in the animation, and its place in the part.
    uint64_t index;
    const uint8_t *pixels;
    uint64_t delay_ms;
    /// The indices of the part's first frame and of the next one to show.
    uint64_t first, next;
    /// Where it comes from: set one of them, and `options` if they are not the defaults. All must stay valid.
    const char *url, *path;
    const imgbroker_options *options;
} imgbroker_animation;

/// Shows the next frame of an animation, which begins zero-initialised apart from its source and its options. `pixels` is NULL after
/// the last frame, and at a failure, after which the next call requests the same frame again. The part before is released before the
/// next one is requested.
IMGBROKER_API imgbroker_code imgbroker_next_frame(
    imgbroker *connection, imgbroker_animation *animation, imgbroker_error *error);

/// Releases what an animation holds. It may be played again.
IMGBROKER_API void imgbroker_end_animation(imgbroker_animation *animation);

/// The longest side of a decoded ThumbHash in pixels, and the room for its pixels.
#define IMGBROKER_THUMB_HASH_SIDE 32
#define IMGBROKER_THUMB_HASH_BYTES (IMGBROKER_THUMB_HASH_SIDE * IMGBROKER_THUMB_HASH_SIDE * 4)

/// Decodes a ThumbHash in Base64 (`thumb_hash` of an image): a placeholder of about the image's aspect ratio. Writes `*height` rows of
/// `*width` pixels of IMGBROKER_BGRA8, premultiplied, without padding. Returns false, and writes nothing, if it is none.
IMGBROKER_API bool imgbroker_decode_thumb_hash(
    const char *hash, uint8_t pixels[IMGBROKER_THUMB_HASH_BYTES], uint32_t *width, uint32_t *height);

/// The state of a cached image.
typedef struct imgbroker_status {
    /// The variant is in memory.
    bool memory;
    /// The original is on disk.
    bool disk;
    /// A `get` would not contact the origin.
    bool fresh;
} imgbroker_status;

/// Reports the state of a cached image, by its URL. `options` may be NULL.
IMGBROKER_API imgbroker_code imgbroker_query(
    imgbroker *connection, const char *url, const imgbroker_options *options, imgbroker_status *status,
    imgbroker_error *error);

/// Removes the original of a URL and all its variants from the cache. `removed` gets their number and may be NULL.
IMGBROKER_API imgbroker_code imgbroker_remove(
    imgbroker *connection, const char *url, uint64_t *removed, imgbroker_error *error);

/// Loads at most 1,000 URLs into the cache. `done` and `failed` get the numbers of URLs and may be NULL; a URL that
/// fails does not fail the prefetch. `options` may be NULL.
IMGBROKER_API imgbroker_code imgbroker_prefetch(
    imgbroker *connection, const char *const *urls, size_t count, const imgbroker_options *options, uint64_t *done,
    uint64_t *failed, imgbroker_error *error);

/// Puts an encoded image into the cache as if it had been loaded from `url`. `content_type` may be NULL.
IMGBROKER_API imgbroker_code imgbroker_store(
    imgbroker *connection, const char *url, const void *data, size_t size, const char *content_type,
    imgbroker_error *error);

/// The layout of pixels to be stored.
typedef struct imgbroker_pixels {
    /// 1 … 65,535 pixels.
    uint32_t width, height;
    /// The bytes from one row to the next; 0: no padding.
    size_t stride;
    /// The position of the first row, in bytes.
    size_t offset;
    imgbroker_format format;
    /// IMGBROKER_NO_ALPHA for IMGBROKER_RGB8 and IMGBROKER_GRAY8.
    imgbroker_alpha alpha;
} imgbroker_pixels;

/// Puts rows of pixels into the cache: `size` bytes at `data`, which are copied once, into memory that all later
/// requests share. `storage` is IMGBROKER_STORAGE_MEMORY or IMGBROKER_STORAGE_DISK. To share pixels without a copy,
/// send a request with the descriptor of a memfd that has all four seals.
IMGBROKER_API imgbroker_code imgbroker_store_pixels(
    imgbroker *connection, const char *url, const imgbroker_pixels *pixels, const void *data, size_t size,
    imgbroker_storage storage, imgbroker_error *error);

/// Gets the broker's counters and gauges. `*json` gets an object that the caller frees with `free`; NULL on failure.
IMGBROKER_API imgbroker_code imgbroker_stats(imgbroker *connection, char **json, imgbroker_error *error);

/// Gets the broker's version, formats, features and limits, as `imgbroker_stats` does.
IMGBROKER_API imgbroker_code imgbroker_hello(imgbroker *connection, char **json, imgbroker_error *error);

// Requests that do not block

/// The type of a request.
typedef enum imgbroker_kind {
    IMGBROKER_GET = 0,
    IMGBROKER_QUERY,
    IMGBROKER_REMOVE,
    IMGBROKER_PREFETCH,
    IMGBROKER_STORE,
    IMGBROKER_STATS,
    IMGBROKER_HELLO,
    /// Any other request of the protocol, such as `subscribe`, `clear`, `reload` or `upgrade`: its fields without `id`
    /// are `json`, and its reply is the `json` of the reply.
    IMGBROKER_OTHER
} imgbroker_kind;

/// A request. Everything in it is copied, except that descriptors are duplicated.
typedef struct imgbroker_request {
    imgbroker_kind kind;
    /// The URL, or:
    const char *url;
    /// the path of a local file (IMGBROKER_GET, IMGBROKER_QUERY, IMGBROKER_REMOVE), or:
    const char *path;
    /// if both are NULL, a descriptor of one. Of IMGBROKER_STORE: a descriptor of the bytes, if `data` is NULL; a
    /// memfd with all four seals is used without a copy.
    int descriptor;
    /// Of IMGBROKER_GET, IMGBROKER_QUERY and IMGBROKER_PREFETCH; of IMGBROKER_STORE, `storage` alone. May be NULL.
    const imgbroker_options *options;
    /// Of IMGBROKER_PREFETCH.
    const char *const *urls;
    size_t url_count;
    /// Of IMGBROKER_STORE: the encoded bytes, or the pixels. Of IMGBROKER_GET, IMGBROKER_QUERY and IMGBROKER_REMOVE, if `url` and
    /// `path` are NULL: the encoded bytes.
    const void *data;
    size_t size;
    /// Of IMGBROKER_STORE: the layout of pixels; NULL for encoded bytes.
    const imgbroker_pixels *pixels;
    /// Of IMGBROKER_STORE; may be NULL.
    const char *content_type;
    /// Of IMGBROKER_OTHER: a JSON object.
    const char *json;
    /// Returned with each reply.
    void *user;
} imgbroker_request;

typedef enum imgbroker_reply_type {
    /// `image`.
    IMGBROKER_REPLY_IMAGE = 0,
    /// `error`.
    IMGBROKER_REPLY_ERROR,
    /// `received` and `expected`; of a prefetch `done`, `failed` and `total`. Never final.
    IMGBROKER_REPLY_PROGRESS,
    /// The end of a request that has no image: `status`, `removed`, the figures of a prefetch, `json`.
    IMGBROKER_REPLY_DONE,
    /// An event of a subscription: `json`. Never final.
    IMGBROKER_REPLY_EVENT
} imgbroker_reply_type;

/// A reply. The caller owns it and clears it with `imgbroker_reply_clear`, or takes `image` or `json` out of it by
/// setting the member to NULL.
typedef struct imgbroker_reply {
    imgbroker_reply_type type;
    /// No further reply to this request follows.
    bool final;
    /// The number of the request, and its `user`.
    uint64_t request;
    void *user;
    /// A reference, or NULL.
    imgbroker_image *image;
    imgbroker_error error;
    /// Bytes; UINT64_MAX while the size is unknown.
    uint64_t received, expected;
    /// URLs.
    uint64_t done, failed, total;
    imgbroker_status status;
    uint64_t removed;
    /// The message of the broker as JSON; of IMGBROKER_STATS the object of figures. To be freed with `free`, or NULL.
    char *json;
} imgbroker_reply;

/// Sends a request, and never blocks. Returns its number, 1 or more; or 0 and an error.
///
/// Exactly one final reply follows, unless the connection is closed. A request whose connection is lost is sent once
/// more, over a new connection; a subscription ends instead.
IMGBROKER_API uint64_t imgbroker_send(
    imgbroker *connection, const imgbroker_request *request, imgbroker_error *error);

/// Cancels a request. It still ends with a final reply: IMGBROKER_ERROR_CANCELLED, or its result if that was on its
/// way. A number without a pending request is ignored.
IMGBROKER_API void imgbroker_cancel(imgbroker *connection, uint64_t request);

/// Changes a request that the broker has not answered: its priority, unless that is IMGBROKER_PRIORITY_DEFAULT, or with
/// `detach` that its downloads go on for the cache although it is cancelled or the connection is closed. A number without a
/// pending request is ignored, and so is all by a broker without the addition `update`.
IMGBROKER_API void imgbroker_update(
    imgbroker *connection, uint64_t request, imgbroker_priority priority, bool detach);

/// Returns a descriptor that is readable when `imgbroker_process` has something to do: the same one until the
/// connection is closed, also while the broker restarts. Wait for it with poll, epoll or a main loop; do not read it.
IMGBROKER_API int imgbroker_fd(const imgbroker *connection);

/// Receives, sends and reconnects, as far as that is possible without blocking. Call it when the descriptor is
/// readable, and take all replies with `imgbroker_next` afterwards. Errors are replies to the requests that they end.
IMGBROKER_API void imgbroker_process(imgbroker *connection);

/// Takes the next reply. Returns false if no reply waits.
IMGBROKER_API bool imgbroker_next(imgbroker *connection, imgbroker_reply *reply);

/// Sends a request and waits for its final reply, which the caller clears. Returns IMGBROKER_OK or `reply->error.code`.
IMGBROKER_API imgbroker_code imgbroker_call(
    imgbroker *connection, const imgbroker_request *request, imgbroker_reply *reply);

/// Releases the image and the text of a reply.
IMGBROKER_API void imgbroker_reply_clear(imgbroker_reply *reply);

#ifdef __cplusplus
}
#endif

#endif
