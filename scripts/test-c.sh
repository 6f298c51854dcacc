#!/usr/bin/env bash
# test-c.sh [OPTION]...: builds and tests the C client against the programs of the release build, or those in
# $IMGBROKER_TEST_PRODUCTS. Options go to pytest. The test programs are built with sanitizers in .build/c.
set -euo pipefail
cd "$(dirname "$0")/.."

# Not pytest's own directory, which it leaves.
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

IMGBROKER_TEST_PRODUCTS=$(realpath "${IMGBROKER_TEST_PRODUCTS:-.build/release}")
IMGBROKER_C_PROGRAMS=$PWD/.build/c/sanitized
export IMGBROKER_TEST_PRODUCTS IMGBROKER_C_PROGRAMS

build() { make --no-print-directory -s -C clients/c BUILD="$1" CFLAGS="-O1 -g -Werror $2" all tests; }
build "$IMGBROKER_C_PROGRAMS" "-fsanitize=address,undefined -fno-sanitize-recover=all"
build "$PWD/.build/c/threads" "-fsanitize=thread"
build "$PWD/.build/c/plain" ""
cd clients/c/tests
PYTHONDONTWRITEBYTECODE=1 timeout --foreground 15m /usr/bin/python3 -m pytest -q --basetemp "$temporary/pytest" -p no:cacheprovider "$@"
