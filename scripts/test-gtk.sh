#!/usr/bin/env bash
# test-gtk.sh [OPTION]...: builds the widgets for GTK 4 and tests them in a virtual display with the programs of the release build, or
# those in $IMGBROKER_TEST_PRODUCTS. Options go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

# Not pytest's own directory, which it leaves.
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

IMGBROKER_TEST_PRODUCTS=$(realpath "${IMGBROKER_TEST_PRODUCTS:-.build/release}")
IMGBROKER_GTK_BUILT=$PWD/.build/gtk
export IMGBROKER_TEST_PRODUCTS IMGBROKER_GTK_BUILT

make --no-print-directory -s -C clients/gtk BUILD="$IMGBROKER_GTK_BUILT" C_CLIENT=../c CFLAGS="-O2 -g -Werror" all gallery
cd clients/gtk/tests
PYTHONDONTWRITEBYTECODE=1 timeout --foreground 15m /usr/bin/python3 -m pytest -q --basetemp "$temporary/pytest" -p no:cacheprovider "$@"
