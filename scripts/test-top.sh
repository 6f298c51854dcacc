#!/usr/bin/env bash
# test-top.sh: tests `imgbroker ctl top` of the release build, or of the programs in $IMGBROKER_TEST_PRODUCTS, in a terminal of tmux.
set -euo pipefail
cd "$(dirname "$0")/.."

IMGBROKER_TEST_PRODUCTS=$(realpath "${IMGBROKER_TEST_PRODUCTS:-.build/release}")
export IMGBROKER_TEST_PRODUCTS
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=Tests/Families timeout --foreground 15m /usr/bin/python3 Tests/Top/terminal.py
echo "The live view is as expected."
