#!/usr/bin/env bash
# bootstrap.sh [--for-tests | --for-benchmarks]: installs the packages that the build (and the tests, or the benchmarks)
# need and this machine lacks. Does nothing, and needs no rights, when all are there. Debian and Ubuntu; elsewhere it
# only says what is missing.
set -euo pipefail

# Each library as pkg-config knows it, or its header where that does not know it, and the packages that may bring it: the
# first that the archive has is taken.
needed=(
    "libcurl     libcurl4-openssl-dev"
    "libpng      libpng-dev"
    "libjpeg     libjpeg62-turbo-dev libjpeg-turbo8-dev"
    "libwebp     libwebp-dev"
    "libavif     libavif-dev"
    "gif_lib.h   libgif-dev"
    "lcms2       liblcms2-dev"
    "zlib        zlib1g-dev"
    "nettle      nettle-dev"
    "sqlite3     libsqlite3-dev"
    "libseccomp  libseccomp-dev"
)

if ! command -v swift >/dev/null; then
    echo "error: no swift in PATH. imgbroker needs a Swift toolchain, 6.2 or newer: https://www.swift.org/install/linux/" >&2
    exit 1
fi

is_installed() {
    [[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

has_library() {
    if [[ "$1" == *.h ]]; then
        [[ -e "/usr/include/$1" ]]
        return
    fi
    command -v pkg-config >/dev/null && pkg-config --exists "$1"
}

missing=()
for line in "${needed[@]}"; do
    read -r module packages <<<"$line"
    # What the build leaves out (see docs/formats.md) is not needed.
    if [[ " ${IMGBROKER_WITHOUT:-} " == *" ${module#lib} "* ]]; then continue; fi
    if ! has_library "$module"; then missing+=("$packages"); fi
done
command -v pkg-config >/dev/null || missing+=("pkg-config")
# Scaling is compared with Pillow's.
if [[ "${1:-}" == --for-tests ]] && ! /usr/bin/python3 -c 'import PIL' 2>/dev/null; then missing+=("python3-pil"); fi
# What the broker is compared with: see scripts/benchmark-peers.sh.
if [[ "${1:-}" == --for-benchmarks ]]; then
    is_installed python3-venv || missing+=("python3-venv")
    for library in libgd3 libevent-2.1-7 libatomic1 libjemalloc2 liblzf1 libsasl2-2 libpcre2-8-0; do
        is_installed "$library" || missing+=("$library")
    done
fi
if ((${#missing[@]} == 0)); then exit 0; fi

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "error: these are missing (Debian's names), and there is no apt to install them with:" >&2
    printf '  %s\n' "${missing[@]/ / or }" >&2
    exit 1
fi

as_root=()
if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
        echo "error: packages are missing, and installing them takes root or sudo:" >&2
        printf '  %s\n' "${missing[@]/ / or }" >&2
        exit 1
    fi
    as_root=(sudo)
fi
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 "$@"
}

echo "Installing what is needed and missing."
apt update || echo "warning: apt-get update failed; going on with the package lists that are here" >&2

to_install=()
for candidates in "${missing[@]}"; do
    chosen=""
    for package in $candidates; do
        if is_installed "$package" || apt-cache show "$package" >/dev/null 2>&1; then
            chosen="$package"
            break
        fi
    done
    if [[ -z "$chosen" ]]; then
        echo "error: no package source offers ${candidates/ / or }" >&2
        exit 1
    fi
    to_install+=("$chosen")
done
apt install -y --no-install-recommends "${to_install[@]}"
