#include <stdio.h>
#include <ini.h>
