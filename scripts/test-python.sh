#!/usr/bin/env bash
# test-python.sh [--torch] [OPTION]...: checks and tests the Python client against the programs of the release build, or those in
# $IMGBROKER_TEST_PRODUCTS; with --torch, its datasets for PyTorch. Options go to pytest. The packages that this needs are
# installed by pip in .build/python or .build/torch.
set -euo pipefail
cd "$(dirname "$0")/.."

# Not pytest's own directory, which it leaves.
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
# Where PyTorch keeps compiled code, otherwise in a directory of TMPDIR that it leaves.
export TORCHINDUCTOR_CACHE_DIR=$temporary/inductor

environment=$PWD/.build/python
packages=(mypy numpy Pillow pytest)
tests=()
if [[ "${1:-}" == --torch ]]; then
    shift
    environment=$PWD/.build/torch
    # Of one version, pip prefers a build without CUDA (+cpu, 0.2 GB) if its indexes and links have one. PyPI has only that
    # with CUDA for x86, 3 GB with its libraries. torchvision of PyPI lacks its own operators beside another; tests need none.
    packages+=("torch==2.13.*" torchvision timm)
    tests=(tests/test_torch.py tests/test_loader.py tests/test_crop.py tests/test_training.py)
fi
IMGBROKER_TEST_PRODUCTS=$(realpath "${IMGBROKER_TEST_PRODUCTS:-.build/release}")
export IMGBROKER_TEST_PRODUCTS
python="${PYTHON:-/usr/bin/python3}"

if [[ ! -x "$environment/bin/pytest" ]]; then
    rm -rf "$environment"
    "$python" -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --retries 3 "${packages[@]}"
fi
# As a user installs it: the tests do not use the sources.
"$environment/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps ./clients/python
rm -rf clients/python/build clients/python/src/imgbroker.egg-info

cd clients/python
"$environment/bin/mypy" --strict --cache-dir "$environment/mypy"
PYTHONDONTWRITEBYTECODE=1 timeout --foreground 15m "$environment/bin/python" -m pytest --basetemp "$temporary/pytest" "${tests[@]}" "$@"
