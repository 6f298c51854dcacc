#!/usr/bin/env bash
# test-damaged.sh: compares damaged images as decoded by the release build, or the programs in $IMGBROKER_TEST_PRODUCTS, with headless
# Chromium, and draws both into $OUTPUT (.build/damaged/sheet.png). The corrupt files of the folder $IMAGES are drawn, too. The packages
# that this needs are installed by pip in .build/steps.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=$(scripts/python-for-comparisons.sh)
IMGBROKER_TEST_PRODUCTS=$(realpath "${IMGBROKER_TEST_PRODUCTS:-.build/release}")
export IMGBROKER_TEST_PRODUCTS
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=Tests/Browser:Tests/Steps timeout --foreground 15m "$environment/bin/python" Tests/Damaged/compare.py
