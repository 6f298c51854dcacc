#!/usr/bin/env bash
# test-steps.sh: compares crop and steps of the release build, or the programs in $IMGBROKER_TEST_PRODUCTS, with Pillow, libvips and
# headless Chromium. The packages that this needs are installed by pip in .build/steps.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=$(scripts/python-for-comparisons.sh)
IMGBROKER_TEST_PRODUCTS=$(realpath "${IMGBROKER_TEST_PRODUCTS:-.build/release}")
export IMGBROKER_TEST_PRODUCTS
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=Tests/Browser timeout --foreground 15m "$environment/bin/python" Tests/Steps/compare.py
