// Measures a repeated hit through the validity page, and a hit with a message to the broker.
//
// usage: benchmark_hits SOCKET      for example of `imgbroker --socket /tmp/s.sock --workers 1`

#define _GNU_SOURCE 1

#include "imgbroker.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define URL "http://127.0.0.1/benchmark/a-picture-with-a-usual-name.jpg"
#define SIDE 256
#define RUNS 15

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *left, const void *right) {
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

static void check(imgbroker_code code, const imgbroker_error *error) {
    if (code == IMGBROKER_OK) return;
    fprintf(stderr, "%s: %s\n", imgbroker_code_name(code), error->message);
    exit(1);
}

// Prints the time of a `get` with its release, as the median and the least of some runs.
static void measure(imgbroker *broker, const char *name, int count) {
    double times[RUNS];
    unsigned sum = 0;
    for (int run = 0; run < RUNS; run++) {
        double start = now_ns();
        for (int index = 0; index < count; index++) {
            imgbroker_error error;
            imgbroker_image *image;
            check(imgbroker_get(broker, URL, &(imgbroker_options){.width = SIDE}, &image, &error), &error);
            sum += image->pixels[0];
            imgbroker_image_release(image);
        }
        times[run] = (now_ns() - start) / count;
    }
    qsort(times, RUNS, sizeof *times, compare);
    printf("%-9s median %8.0f ns, least %8.0f ns, of %d runs of %d (%u)\n", name, times[RUNS / 2], times[0], RUNS,
        count, sum & 1);
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "usage: benchmark_hits SOCKET\n");
        return 2;
    }
    imgbroker_error error;
    imgbroker *broker = imgbroker_open(&(imgbroker_settings){.socket = arguments[1]}, &error);
    if (broker == NULL) check(error.code, &error);
    static uint8_t rows[SIDE * SIDE * 4];
    imgbroker_pixels pixels = {.width = SIDE, .height = SIDE, .format = IMGBROKER_RGBA8};
    check(imgbroker_store_pixels(broker, URL, &pixels, rows, sizeof rows, IMGBROKER_STORAGE_MEMORY, &error), &error);
    imgbroker_options options = {.width = SIDE};
    // The broker states a slot once the image comes from memory.
    imgbroker_image *kept = NULL;
    for (int attempt = 0; attempt < 1000 && kept == NULL; attempt++) {
        imgbroker_image *image;
        check(imgbroker_get(broker, URL, &options, &image, &error), &error);
        imgbroker_image_release(image);
        kept = imgbroker_get_kept(broker, URL, &options);
    }
    if (kept == NULL) {
        fprintf(stderr, "the broker has no validity page, or states no slot\n");
        return 1;
    }
    imgbroker_image_release(kept);
    measure(broker, "page:", 1000000);
    imgbroker_close(broker);

    broker = imgbroker_open(&(imgbroker_settings){.socket = arguments[1], .keep_images = -1}, &error);
    if (broker == NULL) check(error.code, &error);
    measure(broker, "message:", 5000);
    imgbroker_close(broker);
    return 0;
}
