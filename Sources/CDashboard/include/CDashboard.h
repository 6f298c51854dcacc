// The files of the dashboard, as part of the program.
#ifndef CDASHBOARD_H
#define CDASHBOARD_H

#include <stddef.h>

/// A file's bytes, which are constant.
struct cdashboard_file {
    const unsigned char *bytes;
    size_t length;
};

struct cdashboard_file cdashboard_html(void);
struct cdashboard_file cdashboard_script(void);
struct cdashboard_file cdashboard_style(void);

#endif
