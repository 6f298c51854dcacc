#include <stddef.h>
#include <stdio.h>
#include <nettle/hmac.h>
#include <nettle/sha2.h>
