#include <stddef.h>
#include <stdio.h>
#include <curl/curl.h>
