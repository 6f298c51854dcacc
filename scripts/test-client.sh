#!/usr/bin/env bash
# test-client.sh c|gtk|qml|thumbnailer [OPTION]...: builds a client, and tests it with the programs of the release build, or
# those in $IMGBROKER_TEST_PRODUCTS. Options go to pytest. The widgets of gtk and qml are shown in a virtual display. The thumbnail
# service is installed into a temporary folder, and runs on a session bus of its own. It and the test programs of the C client
# (in .build/c) have sanitizers.
set -euo pipefail
cd "$(dirname "$0")/.."

# Not pytest's own directory, which it leaves.
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

client=$1
shift
export IMGBROKER_TEST_PRODUCTS
IMGBROKER_TEST_PRODUCTS=$(realpath "${IMGBROKER_TEST_PRODUCTS:-.build/release}")
build() { make --no-print-directory -s -C "clients/$client" "$@"; }
tests=()
case $client in
c)
    export IMGBROKER_C_PROGRAMS=$PWD/.build/c/sanitized
    programs() { build BUILD="$1" CFLAGS="-O1 -g -Werror $2" all tests; }
    programs "$IMGBROKER_C_PROGRAMS" "-fsanitize=address,undefined -fno-sanitize-recover=all"
    programs "$PWD/.build/c/threads" "-fsanitize=thread"
    programs "$PWD/.build/c/plain" ""
    ;;
gtk)
    export IMGBROKER_GTK_BUILT=$PWD/.build/gtk
    build BUILD="$IMGBROKER_GTK_BUILT" C_CLIENT=../c CFLAGS="-O2 -g -Werror" all gallery
    ;;
qml)
    export IMGBROKER_QML_BUILD=$PWD/.build/qml
    { cmake -S clients/qml -B "$IMGBROKER_QML_BUILD" -DIMGBROKER_QML_TESTS=ON -DCMAKE_CXX_FLAGS=-Werror -DCMAKE_C_FLAGS=-Werror \
        && cmake --build "$IMGBROKER_QML_BUILD" --parallel "$(nproc)"; } > "$temporary/cmake" || { cat "$temporary/cmake"; exit 1; }
    tests=(test_qml.py)
    ;;
thumbnailer)
    export IMGBROKER_THUMBNAILER_INSTALLED=$temporary/installed
    build C_CLIENT=../c BUILD="$PWD/.build/thumbnailer" CFLAGS="-O2 -g -Werror"
    build C_CLIENT=../c BUILD="$PWD/.build/thumbnailer-sanitized" PREFIX="$IMGBROKER_THUMBNAILER_INSTALLED" \
        CFLAGS="-O1 -g -Werror -fsanitize=address,undefined -fno-omit-frame-pointer" install
    ;;
*)
    echo "test-client.sh: there is no client $client" >&2
    exit 2
    ;;
esac
cd "clients/$client/tests"
PYTHONDONTWRITEBYTECODE=1 timeout --foreground 15m /usr/bin/python3 -m pytest -q --basetemp "$temporary/pytest" -p no:cacheprovider "${tests[@]}" "$@"
