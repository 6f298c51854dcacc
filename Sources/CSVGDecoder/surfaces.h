// The limit on surfaces that librsvg makes.
#ifndef CODEC_SURFACES_H
#define CODEC_SURFACES_H

#include <stdint.h>

/// The pixels of surfaces that a rendering may make.
typedef struct {
    uint64_t pixels;
    int is_exceeded;
} codec_surface_budget;

/// Sets the budget of this thread; NULL for none.
void codec_surfaces_limit(codec_surface_budget *budget);

#endif
