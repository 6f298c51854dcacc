// librsvg makes a surface for each group with opacity, mask, pattern and result of a filter, and has no limit on them: a file of
// a kilobyte can demand thousands. These functions take the place of cairo's in this program, because the loader finds a
// program's symbols before those of libraries.
#define _GNU_SOURCE
#include "surfaces.h"

#include <cairo.h>
#include <dlfcn.h>
#include <stddef.h>

static _Thread_local codec_surface_budget *limit;

void codec_surfaces_limit(codec_surface_budget *budget) { limit = budget; }

static int is_within_limit(int width, int height) {
    if (!limit || width <= 0 || height <= 0) return 1;
    uint64_t pixels = (uint64_t)width * (uint64_t)height;
    if (pixels > limit->pixels) {
        limit->is_exceeded = 1;
        limit->pixels = 0;
        return 0;
    }
    limit->pixels -= pixels;
    return 1;
}

typedef cairo_surface_t *create_image(cairo_format_t, int, int);
typedef cairo_surface_t *create_similar(cairo_surface_t *, cairo_content_t, int, int);

static create_image *real_create_image;
static create_similar *real_create_similar;

__attribute__((constructor)) static void find_functions(void) {
    real_create_image = (create_image *)dlsym(RTLD_NEXT, "cairo_image_surface_create");
    real_create_similar = (create_similar *)dlsym(RTLD_NEXT, "cairo_surface_create_similar");
}

cairo_surface_t *cairo_image_surface_create(cairo_format_t format, int width, int height) {
    // Of an invalid size, cairo makes a surface in an error state, which ends the rendering.
    if (!is_within_limit(width, height)) width = height = -1;
    return real_create_image(format, width, height);
}

cairo_surface_t *cairo_surface_create_similar(cairo_surface_t *other, cairo_content_t content, int width, int height) {
    if (!is_within_limit(width, height)) width = height = -1;
    return real_create_similar(other, content, width, height);
}
