#!/usr/bin/env bash
# python-for-comparisons.sh: installs the packages that comparisons with other programs need in .build/steps, unless they are there,
# and prints that folder.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=$PWD/.build/steps
if ! "$environment/bin/python" -c 'import numpy, PIL, pyvips' 2>/dev/null; then
    rm -rf "$environment"
    /usr/bin/python3 -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --retries 3 numpy Pillow pyvips pyvips-binary >&2
fi
echo "$environment"
