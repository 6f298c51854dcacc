#include "CDashboard.h"

// Part of C23, and of clang in earlier modes. The bytes are constants of the program, which needs no files beside it.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const unsigned char html[] = {
#embed "Pages/dashboard.html"
};
static const unsigned char script[] = {
#embed "Pages/dashboard.js"
};
static const unsigned char style[] = {
#embed "Pages/dashboard.css"
};

struct cdashboard_file cdashboard_html(void) { return (struct cdashboard_file){html, sizeof html}; }
struct cdashboard_file cdashboard_script(void) { return (struct cdashboard_file){script, sizeof script}; }
struct cdashboard_file cdashboard_style(void) { return (struct cdashboard_file){style, sizeof style}; }
