#!/usr/bin/env bash
# test-thumbnailer.sh [OPTION]...: builds the thumbnail service with the address and the undefined behaviour sanitizer, installs it into a
# temporary folder, and tests it on a session bus of its own with the programs of the release build, or those in
# $IMGBROKER_TEST_PRODUCTS. Options go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

# Not pytest's own directory, which it leaves.
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

IMGBROKER_TEST_PRODUCTS=$(realpath "${IMGBROKER_TEST_PRODUCTS:-.build/release}")
IMGBROKER_THUMBNAILER_INSTALLED=$temporary/installed
export IMGBROKER_TEST_PRODUCTS IMGBROKER_THUMBNAILER_INSTALLED

build() { make --no-print-directory -s -C clients/thumbnailer C_CLIENT=../c "$@"; }
build BUILD="$PWD/.build/thumbnailer" CFLAGS="-O2 -g -Werror"
build BUILD="$PWD/.build/thumbnailer-sanitized" CFLAGS="-O1 -g -Werror -fsanitize=address,undefined -fno-omit-frame-pointer" \
    PREFIX="$IMGBROKER_THUMBNAILER_INSTALLED" install
cd clients/thumbnailer/tests
PYTHONDONTWRITEBYTECODE=1 timeout --foreground 15m /usr/bin/python3 -m pytest -q --basetemp "$temporary/pytest" -p no:cacheprovider "$@"
