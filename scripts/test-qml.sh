#!/usr/bin/env bash
# test-qml.sh [OPTION]...: builds the QML module, and tests it in a virtual display with the programs of the release build, or those in
# $IMGBROKER_TEST_PRODUCTS. Options go to pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

# Not pytest's own directory, which it leaves.
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

IMGBROKER_TEST_PRODUCTS=$(realpath "${IMGBROKER_TEST_PRODUCTS:-.build/release}")
IMGBROKER_QML_BUILD=$PWD/.build/qml
export IMGBROKER_TEST_PRODUCTS IMGBROKER_QML_BUILD

cmake -S clients/qml -B "$IMGBROKER_QML_BUILD" -DIMGBROKER_QML_TESTS=ON -DCMAKE_CXX_FLAGS=-Werror -DCMAKE_C_FLAGS=-Werror \
    > "$temporary/cmake" || { cat "$temporary/cmake"; exit 1; }
cmake --build "$IMGBROKER_QML_BUILD" --parallel "$(nproc)" > "$temporary/cmake" || { cat "$temporary/cmake"; exit 1; }
cd clients/qml/tests
PYTHONDONTWRITEBYTECODE=1 timeout --foreground 15m /usr/bin/python3 -m pytest -q --basetemp "$temporary/pytest" -p no:cacheprovider test_qml.py "$@"
