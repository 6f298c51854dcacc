#!/usr/bin/env bash
# test-gtk.sh [OPTION]...: builds the gallery, an example of the C client, and tests it in a virtual display with the
# programs of the release build, or those in $IMGBROKER_TEST_PRODUCTS. Options go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

# Not pytest's own directory, which it leaves.
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

IMGBROKER_TEST_PRODUCTS=$(realpath "${IMGBROKER_TEST_PRODUCTS:-.build/release}")
IMGBROKER_C_PROGRAMS=$PWD/.build/c/release
export IMGBROKER_TEST_PRODUCTS IMGBROKER_C_PROGRAMS IMGBROKER_C_GALLERY="$IMGBROKER_C_PROGRAMS/gallery"

make --no-print-directory -s -C clients/c BUILD="$IMGBROKER_C_PROGRAMS" CFLAGS="-O2 -g -Werror" gallery
cd clients/c/tests
PYTHONDONTWRITEBYTECODE=1 timeout --foreground 15m /usr/bin/python3 -m pytest -q --basetemp "$temporary/pytest" -p no:cacheprovider test_gallery.py "$@"
