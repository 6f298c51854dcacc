#!/usr/bin/env bash
# test-c.sh [OPTION]...: builds and tests the C client against the programs of the release build, or those in
# $IMGBROKER_TEST_PRODUCTS. Options go to pytest. The test programs are built with sanitizers in .build/c.
set -euo pipefail
cd "$(dirname "$0")/.."

IMGBROKER_TEST_PRODUCTS=$(realpath "${IMGBROKER_TEST_PRODUCTS:-.build/release}")
IMGBROKER_C_PROGRAMS=$PWD/.build/c/sanitized
export IMGBROKER_TEST_PRODUCTS IMGBROKER_C_PROGRAMS

make --no-print-directory -C clients/c BUILD="$IMGBROKER_C_PROGRAMS" tests \
    CFLAGS="-O1 -g -Werror -fsanitize=address,undefined -fno-sanitize-recover=all"
cd clients/c/tests
PYTHONDONTWRITEBYTECODE=1 timeout --foreground 2m /usr/bin/python3 -m pytest -q -p no:cacheprovider "$@"
