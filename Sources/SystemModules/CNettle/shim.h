#include <stddef.h>
#include <stdio.h>
#include <nettle/sha2.h>
