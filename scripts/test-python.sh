#!/usr/bin/env bash
# test-python.sh [OPTION]...: checks and tests the Python client against the programs of the release build, or those in
# $IMGBROKER_TEST_PRODUCTS. Options go to pytest. The packages that this needs are installed by pip in .build/python.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=$PWD/.build/python
IMGBROKER_TEST_PRODUCTS=$(realpath "${IMGBROKER_TEST_PRODUCTS:-.build/release}")
export IMGBROKER_TEST_PRODUCTS
python="${PYTHON:-/usr/bin/python3}"

if [[ ! -x "$environment/bin/pytest" ]]; then
    rm -rf "$environment"
    "$python" -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --retries 3 mypy numpy Pillow pytest
fi
# As a user installs it: the tests do not use the sources.
"$environment/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps ./clients/python
rm -rf clients/python/build clients/python/src/imgbroker.egg-info

cd clients/python
"$environment/bin/mypy" --strict --cache-dir "$environment/mypy"
PYTHONDONTWRITEBYTECODE=1 timeout --foreground 2m "$environment/bin/python" -m pytest "$@"
