#!/usr/bin/env bash
# test-families.sh: compares AVIF, HEIC, JPEG XL, JPEG 2000, SVG, TIFF, BMP, icons, PNM, QOI and TGA as decoded by the release build, or the programs in
# $IMGBROKER_TEST_PRODUCTS, with libavif, ffmpeg, libplacebo, pillow-heif, djxl, headless Chromium, tifffile, ImageMagick and Little CMS, tries
# bombs of each, and draws all results into $OUTPUT (.build/families/sheet.png). The packages that this needs are installed by pip in
# .build/families/python.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=$PWD/.build/families/python
if ! "$environment/bin/python" -c 'import imagecodecs, numpy, PIL, pillow_heif, tifffile' 2>/dev/null; then
    rm -rf "$environment"
    /usr/bin/python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --retries 3 \
        imagecodecs numpy Pillow pillow-heif tifffile >&2
fi
IMGBROKER_TEST_PRODUCTS=$(realpath "${IMGBROKER_TEST_PRODUCTS:-.build/release}")
export IMGBROKER_TEST_PRODUCTS OUTPUT="${OUTPUT:-.build/families/sheet.png}"
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=Tests/Browser:Tests/Steps timeout --foreground 15m "$environment/bin/python" Tests/Families/compare.py
