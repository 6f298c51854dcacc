// A process that has an image from the broker again and again, through the shipped C client.
//
// usage: ckept SOCKET URL ROUNDS       prints "ready" once the client keeps the image; then, for each line of its input, the
// processor time of a `get` with its release, in nanoseconds, as the mean of ROUNDS

#include "../../clients/c/imgbroker.c"

#include <stdio.h>

static double processor_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static imgbroker_image *image_of(imgbroker *broker, const char *url) {
    imgbroker_error error;
    imgbroker_image *image;
    if (imgbroker_get(broker, url, &(imgbroker_options){0}, &image, &error) != IMGBROKER_OK) {
        fprintf(stderr, "%s: %s\n", imgbroker_code_name(error.code), error.message);
        exit(1);
    }
    return image;
}

int main(int count, char **arguments) {
    imgbroker_error error;
    if (count != 4) return 2;
    const char *url = arguments[2];
    int rounds = atoi(arguments[3]);
    imgbroker *broker = imgbroker_open(&(imgbroker_settings){.socket = arguments[1]}, &error);
    if (broker == NULL) return 1;
    imgbroker_image *kept = NULL;
    for (int attempt = 0; attempt < 1000 && kept == NULL; attempt++) {
        imgbroker_image_release(image_of(broker, url));
        kept = imgbroker_get_kept(broker, url, &(imgbroker_options){0});
    }
    if (kept == NULL) return 1;
    puts("ready");
    fflush(stdout);
    while (getchar() == '\n') {
        double begun = processor_ns();
        for (int round = 0; round < rounds; round++) {
            imgbroker_image *image = image_of(broker, url);
            if (image->pixels != kept->pixels) return 1;
            imgbroker_image_release(image);
        }
        printf("%.1f\n", (processor_ns() - begun) / rounds);
        fflush(stdout);
    }
    imgbroker_image_release(kept);
    imgbroker_close(broker);
    return 0;
}
