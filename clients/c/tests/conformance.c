// Performs the calls of clients/conformance: reads one `request` a line from standard input, and prints its result as
// one line of JSON. See test_conformance.py.
//
// usage: conformance SOCKET KEEP_IMAGES blocking|pollable

#define _GNU_SOURCE 1

#include "imgbroker.h"

#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The images that stay in use until the end.
static imgbroker_image *held[64];
static size_t held_count;

static void die(const char *message) {
    fprintf(stderr, "conformance: %s\n", message);
    exit(2);
}

static unsigned index_of(const json_t *fields, const char *name, const char *const *names) {
    const char *text = json_string_value(json_object_get(fields, name));
    if (text == NULL) return 0;
    for (unsigned index = 0; names[index] != NULL; index++) {
        if (strcmp(names[index], text) == 0) return index;
    }
    die(name);
    return 0;
}

// The place of a field's value among others, from 0, which an absent one has.
#define CHOICE(fields, name, ...) index_of(fields, name, (const char *const[]){__VA_ARGS__, NULL})

static uint32_t number_of(const json_t *fields, const char *name) {
    return (uint32_t)json_integer_value(json_object_get(fields, name));
}

static bool flag_of(const json_t *fields, const char *name) {
    return json_is_true(json_object_get(fields, name));
}

static const char *text_of(const json_t *fields, const char *name) {
    return json_string_value(json_object_get(fields, name));
}

// Writes steps in the syntax of the command line.
static void write_steps(const json_t *steps, char *text, size_t size) {
    size_t index, length = 0;
    json_t *step, *value;
    const char *name;
    json_array_foreach(steps, index, step) {
        length += (size_t)snprintf(text + length, size - length, "%s%s", index == 0 ? "" : " ", text_of(step, "op"));
        char separator = ':';
        json_object_foreach(step, name, value) {
            if (strcmp(name, "op") == 0) continue;
            char *plain = json_is_string(value) ? strdup(json_string_value(value)) : json_dumps(value, JSON_ENCODE_ANY);
            length += (size_t)snprintf(text + length, size - length, "%c%s=%s", separator, name, plain);
            separator = ',';
            free(plain);
        }
    }
}

// Returns the bits of the metadata that a request has.
static unsigned metadata_of(const json_t *fields) {
    unsigned bits = 0;
    size_t index;
    json_t *kind;
    json_array_foreach(json_object_get(fields, "metadata"), index, kind) {
        const char *name = json_string_value(kind);
        bits |= strcmp(name, "exif") == 0 ? IMGBROKER_EXIF : strcmp(name, "xmp") == 0 ? IMGBROKER_XMP : IMGBROKER_ICC;
    }
    return bits;
}

// Returns the options for the fields of a request.
static imgbroker_options options_of(const json_t *fields, imgbroker_header *headers, char *steps, size_t steps_size) {
    const json_t *variant = json_object_get(fields, "variant");
    imgbroker_options options = {
        .width = number_of(variant, "width"),
        .height = number_of(variant, "height"),
        .fit = (imgbroker_fit)CHOICE(variant, "fit", "inside", "contain", "cover", "fill"),
        .format = (imgbroker_format)CHOICE(variant, "pixelFormat", "rgba8", "bgra8", "rgb8", "gray8"),
        .alpha = (imgbroker_alpha)CHOICE(variant, "alpha", "premultiplied", "straight"),
        .frame = json_is_string(json_object_get(variant, "frame")) ? IMGBROKER_ALL_FRAMES
                                                                   : (int32_t)number_of(variant, "frame"),
        .first_frame = number_of(json_object_get(variant, "frames"), "first"),
        .frame_count = number_of(json_object_get(variant, "frames"), "count"),
        .scale_down = flag_of(variant, "scaleDown"),
        .linear = flag_of(variant, "linear"),
        .as = (imgbroker_representation)CHOICE(fields, "as", "pixels", "original", "png", "jpeg", "webp"),
        .quality = number_of(fields, "quality"),
        .delivery = (imgbroker_delivery)CHOICE(fields, "delivery", "fd", "inline", "none", "header"),
        .cache = (imgbroker_cache)CHOICE(
            fields, "cache", "default", "no-cache", "reload", "force-cache", "only-if-cached", "no-store"),
        .storage = (imgbroker_storage)CHOICE(fields, "storage", "both", "memory", "disk", "none"),
        .priority = (imgbroker_priority)CHOICE(fields, "priority", "", "low", "normal", "high"),
        .timeout_ms = number_of(fields, "timeoutMs"),
        .total_timeout_ms = number_of(fields, "totalTimeoutMs"),
        .retry_failed = flag_of(fields, "retryFailed"),
        .cookies = flag_of(fields, "cookies"),
        .allow_invalid_certificates = flag_of(fields, "allowInvalidCertificates"),
        .progress = flag_of(fields, "progress"),
        .stale_first = flag_of(fields, "staleFirst"),
        .trace = flag_of(fields, "trace"),
        .metadata = metadata_of(fields),
        .prefer_embedded = CHOICE(fields, "embedded", "off", "fast") == 1,
        .headers = headers,
        .username = text_of(json_object_get(fields, "credentials"), "username"),
        .password = text_of(json_object_get(fields, "credentials"), "password"),
        .cache_key = text_of(fields, "cacheKey"),
        .preset = text_of(fields, "preset"),
        .has_max_age = json_object_get(fields, "maxAgeSeconds") != NULL,
        .max_age_seconds = number_of(fields, "maxAgeSeconds"),
        .has_retries = json_object_get(fields, "retries") != NULL,
        .retries = number_of(fields, "retries"),
    };
    static const char *alternatives[8];
    size_t index;
    json_t *alternative;
    json_array_foreach(json_object_get(fields, "alternatives"), index, alternative) {
        alternatives[options.alternative_count++] = json_string_value(alternative);
    }
    options.alternatives = alternatives;
    json_t *position = json_object_get(variant, "position");
    if (json_is_object(position)) {
        static char point[64];
        snprintf(point, sizeof point, "%.17g,%.17g", json_number_value(json_object_get(position, "x")),
            json_number_value(json_object_get(position, "y")));
        options.position = point;
    } else if (position != NULL) {
        options.position = json_string_value(position);
    }
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(fields, "headers"), name, value) {
        headers[options.header_count++] = (imgbroker_header){name, json_string_value(value)};
    }
    if (json_object_get(variant, "steps") != NULL) {
        write_steps(json_object_get(variant, "steps"), steps, steps_size);
        options.steps = steps;
    }
    return options;
}

static json_t *hexadecimal(const uint8_t *data, size_t size) {
    char *hex = malloc(2 * size + 1);
    for (size_t index = 0; index < size; index++) snprintf(hex + 2 * index, 3, "%02x", data[index]);
    hex[2 * size] = '\0';
    json_t *text = json_string(hex);
    free(hex);
    return text;
}

// Adds what the header says, and the metadata blocks.
static void describe_header(json_t *fields, const imgbroker_image *image) {
    const imgbroker_block *const blocks[] = {&image->exif, &image->xmp, &image->icc};
    static const char *const names[] = {"exif", "xmp", "icc"};
    json_t *lengths = json_object(), *bytes = json_object();
    uint64_t place = image->bytes;
    for (size_t index = 0; index < 3; index++) {
        if (blocks[index]->length == 0) continue;
        json_t *block = json_pack("{s:I}", "bytes", (json_int_t)blocks[index]->length);
        json_object_set_new(lengths, names[index], block);
        if (blocks[index]->data == NULL) continue;
        json_object_set_new(block, "offset", json_integer((json_int_t)place));
        json_object_set_new(bytes, names[index], hexadecimal(blocks[index]->data, blocks[index]->size));
        place += blocks[index]->size;
    }
    json_object_set_new(fields, "metadata", lengths);
    json_object_set_new(fields, "blocks", bytes);
    json_object_set_new(fields, "embedded", json_boolean(image->embedded));
    const imgbroker_description *header = image->description;
    if (header == NULL) return;
    json_t *more = json_pack("{s:s,s:i,s:s?,s:i,s:b,s:i,s:s?,s:I}", "format", header->format, "orientation",
        header->orientation, "profile", header->profile, "bitDepth", header->bit_depth, "hasAlpha", header->has_alpha,
        "status", header->status, "lastModified", header->last_modified, "length", (json_int_t)header->length);
    if (header->density_x > 0) {
        json_object_set_new(more, "density", json_pack("{s:i,s:i}", "x", header->density_x, "y", header->density_y));
    }
    json_object_update(fields, more);
    json_decref(more);
}

static json_t *described(const imgbroker_image *image) {
    static const char *const formats[] = {"rgba8", "bgra8", "rgb8", "gray8", NULL};
    static const char *const alphas[] = {"premultiplied", "straight", "none"};
    static const char *const sources[] = {"memory", "disk", "network", "file", "shared"};
    json_t *frames = json_array();
    for (size_t index = 0; index < image->frame_count; index++) {
        json_array_append_new(frames, json_pack("{s:I,s:I}", "offset", (json_int_t)image->frames[index].offset,
            "delayMs", (json_int_t)image->frames[index].delay_ms));
    }
    json_t *fields = json_pack("{s:i,s:i,s:I,s:I,s:s,s:s?,s:s?,s:i,s:i,s:I,s:o,s:s?,s:s?,s:b,s:b,s:s?,s:o}",
        "width", image->width, "height", image->height, "stride", (json_int_t)image->stride,
        "bytes", (json_int_t)image->bytes, "source", sources[image->source], "url", image->url,
        "contentType", image->content_type, "originalWidth", image->original_width,
        "originalHeight", image->original_height, "frameCount", (json_int_t)image->original_frames, "frames", frames,
        "averageColor", image->average_color, "etag", image->etag, "stale", image->stale, "damaged", image->damaged,
        "damage", image->damage, "hex", hexadecimal(image->pixels, image->size));
    describe_header(fields, image);
    for (size_t index = 0; index < image->span_count; index++) {
        const imgbroker_span *span = &image->spans[index];
        if (index == 0) json_object_set_new(fields, "spans", json_array());
        json_array_append_new(json_object_get(fields, "spans"), json_pack("{s:s,s:I,s:I}", "name", span->name,
            "startMicroseconds", (json_int_t)span->start_us, "microseconds", (json_int_t)span->duration_us));
    }
    json_object_set_new(fields, "loops", image->loops < 0 ? json_null() : json_integer(image->loops));
    json_object_set_new(fields, "expires", image->expires < 0 ? json_null() : json_integer(image->expires));
    if (image->stride > 0) {
        json_object_set_new(fields, "pixelFormat", json_string(formats[image->format]));
        json_object_set_new(fields, "alpha", json_string(alphas[image->alpha]));
    }
    return fields;
}

static json_t *described_error(const imgbroker_error *error) {
    json_t *fields = json_pack("{s:s,s:b,s:s,s:b}", "code", imgbroker_code_name(error->code), "retryable",
        error->retryable, "message", error->message, "blacklisted", error->recently_failed);
    if (error->http_status != 0) json_object_set_new(fields, "httpStatus", json_integer(error->http_status));
    if (error->retry_after_ms >= 0) json_object_set_new(fields, "retryAfterMs", json_integer(error->retry_after_ms));
    if (error->cause != IMGBROKER_OK) {
        json_object_set_new(fields, "cause", json_string(imgbroker_code_name(error->cause)));
    }
    return fields;
}

// Sends a request and takes its replies without blocking calls. Appends progress and images that are not final.
static void perform_pollable(
    imgbroker *broker, const imgbroker_request *request, imgbroker_reply *reply, json_t *progress, json_t *before) {
    *reply = (imgbroker_reply){.type = IMGBROKER_REPLY_ERROR};
    uint64_t number = imgbroker_send(broker, request, &reply->error);
    while (number != 0) {
        while (imgbroker_next(broker, reply)) {
            if (reply->request != number) die("a reply to another request");
            if (reply->final) return;
            if (reply->type == IMGBROKER_REPLY_PROGRESS) {
                json_array_append_new(progress, json_pack("[I,o]", (json_int_t)reply->received,
                    reply->expected == UINT64_MAX ? json_null() : json_integer((json_int_t)reply->expected)));
            }
            if (reply->image != NULL) json_array_append_new(before, described(reply->image));
            imgbroker_reply_clear(reply);
        }
        struct pollfd poller = {.fd = imgbroker_fd(broker), .events = POLLIN};
        poll(&poller, 1, -1);
        imgbroker_process(broker);
    }
}

// Performs a call, and returns its result.
static json_t *perform(imgbroker *broker, const json_t *call, bool blocks) {
    static const char *const types[] = {"get", "query", "remove", "prefetch", "store", "stats", "hello", NULL};
    const json_t *fields = json_object_get(call, "request"), *urls = json_object_get(fields, "urls");
    imgbroker_header headers[16];
    char steps[512];
    const char *list[16];
    imgbroker_options options = {.width = 0};
    imgbroker_request request = {.kind = IMGBROKER_OTHER};
    char *text = json_dumps(fields, JSON_COMPACT);
    // Other types, and values that mean the default in `imgbroker_options`, are sent as JSON.
    bool is_plain = !flag_of(call, "raw");
    for (unsigned kind = 0; is_plain && types[kind] != NULL; kind++) {
        if (strcmp(types[kind], text_of(fields, "type")) == 0) request.kind = (imgbroker_kind)kind;
    }
    if (request.kind == IMGBROKER_OTHER) {
        request.json = text;
    } else {
        options = options_of(fields, headers, steps, sizeof steps);
        request.options = &options;
        request.url = text_of(fields, "url");
        request.path = text_of(fields, "file");
        request.urls = list;
        for (; request.url_count < json_array_size(urls); request.url_count++) {
            list[request.url_count] = json_string_value(json_array_get(urls, request.url_count));
        }
    }
    json_t *result = json_object(), *progress = json_array(), *before = json_array();
    imgbroker_reply reply;
    if (options.progress || options.stale_first || !blocks) {
        perform_pollable(broker, &request, &reply, progress, before);
    } else if (request.kind == IMGBROKER_GET && request.url != NULL) {
        reply = (imgbroker_reply){.type = IMGBROKER_REPLY_IMAGE};
        imgbroker_code code = imgbroker_get(broker, request.url, &options, &reply.image, &reply.error);
        if (code != reply.error.code) die("the code of an error differs");
    } else {
        imgbroker_call(broker, &request, &reply);
    }
    if (reply.error.code != IMGBROKER_OK) {
        json_object_set_new(result, "error", described_error(&reply.error));
    } else if (reply.image != NULL) {
        json_object_set_new(result, "image", described(reply.image));
    } else {
        json_t *answer = json_loads(reply.json, 0, NULL);
        if (request.kind == IMGBROKER_PREFETCH) {
            json_object_set_new(answer, "done", json_integer((json_int_t)reply.done));
            json_object_set_new(answer, "failed", json_integer((json_int_t)reply.failed));
        }
        if (request.kind == IMGBROKER_QUERY) {
            json_object_set_new(answer, "memory", json_boolean(reply.status.memory));
            json_object_set_new(answer, "disk", json_boolean(reply.status.disk));
            json_object_set_new(answer, "fresh", json_boolean(reply.status.fresh));
        }
        if (request.kind == IMGBROKER_REMOVE) {
            json_object_set_new(answer, "removed", json_integer((json_int_t)reply.removed));
        }
        json_object_set_new(result, "reply", answer);
    }
    json_object_set_new(result, "progress", progress);
    json_object_set_new(result, "before", before);
    if (flag_of(call, "keep") && reply.image != NULL) held[held_count++] = imgbroker_image_retain(reply.image);
    imgbroker_reply_clear(&reply);
    free(text);
    return result;
}

int main(int count, char **arguments) {
    if (count != 4) die("usage: conformance SOCKET KEEP_IMAGES blocking|pollable");
    imgbroker_error error;
    imgbroker *broker = imgbroker_open(
        &(imgbroker_settings){.socket = arguments[1], .keep_images = atoi(arguments[2]), .reconnect_ms = 10000},
        &error);
    if (broker == NULL) die(error.message);
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 0) {
        json_t *call = json_loads(line, 0, NULL);
        if (call == NULL) die("a call is not JSON");
        json_t *result = perform(broker, call, strcmp(arguments[3], "blocking") == 0);
        json_dumpf(result, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(result);
        json_decref(call);
    }
    free(line);
    imgbroker_close(broker);
    // Images outlive their connection.
    while (held_count > 0) imgbroker_image_release(held[--held_count]);
    return 0;
}
