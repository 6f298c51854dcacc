#!/usr/bin/env bash
# bootstrap.sh [--for-tests] [--for-nginx] [--for-python] [--for-c] [--for-gtk] [--for-qml] [--for-thumbnailer] [--for-steps] [--for-families] [--for-exporter]
# [--for-top] [--for-docs] [--for-deb] [--for-benchmarks]: installs missing packages for the build (and the tests, those with nginx, those
# of the Python or the C client, of the widgets for GTK 4 or the QML module, of monitoring, the documentation of the widgets, the Debian
# packages, or the benchmarks).
# Does nothing, and needs no rights, if none is missing. Debian and Ubuntu; elsewhere it only lists the missing packages.
set -euo pipefail

# Each library by its name in pkg-config, or by its header if it has none, and the packages that may contain it: the first
# one that the archive has is installed.
needed=(
    "libcurl     libcurl4-openssl-dev"
    "libpng      libpng-dev"
    "libjpeg     libjpeg62-turbo-dev libjpeg-turbo8-dev"
    "libwebp     libwebp-dev"
    "gif_lib.h   libgif-dev"
    "lcms2       liblcms2-dev"
    "zlib        zlib1g-dev"
    "nettle      nettle-dev"
    "inih        libinih-dev"
    "libmicrohttpd libmicrohttpd-dev"
    "libmemcached libmemcached-dev"
    "sqlite3     libsqlite3-dev"
    "libseccomp  libseccomp-dev"
)
# The same for families of codecs, after the family's name. Those that the build leaves out (see docs/formats.md) need no library.
families=(
    "avif libavif     libavif-dev"
    "heif libheif     libheif-dev"
    "heif libde265    libde265-dev"
    "jp2  libopenjp2  libopenjp2-7-dev"
    "jxl  libjxl      libjxl-dev"
    "svg  librsvg-2.0 librsvg2-dev"
    "tiff libtiff-4   libtiff-dev"
)
for line in "${families[@]}"; do
    read -r family library <<<"$line"
    if [[ " ${IMGBROKER_WITHOUT:-} " != *" $family "* ]]; then needed+=("$library"); fi
done

if ! command -v swift >/dev/null; then
    echo "error: no swift in PATH. imgbroker needs a Swift toolchain, 6.2 or newer: https://www.swift.org/install/linux/" >&2
    exit 1
fi

options=" $* "
asked() { [[ "$options" == *" --for-$1 "* ]]; }

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
    if ! has_library "$module"; then missing+=("$packages"); fi
done
command -v pkg-config >/dev/null || missing+=("pkg-config")
# For `make install`.
command -v patchelf >/dev/null || missing+=("patchelf")
# Scaling is compared with Pillow's.
if asked tests && ! /usr/bin/python3 -c 'import PIL' 2>/dev/null; then missing+=("python3-pil"); fi
# Servers of the shared tier, which tests start and stop.
if asked tests && ! command -v memcached >/dev/null; then missing+=("memcached"); fi
# A server with TLS and HTTP/2, its certificates, and the check that it answers.
if asked nginx; then
    [[ -x /usr/sbin/nginx ]] || missing+=("nginx-light nginx")
    command -v openssl >/dev/null || missing+=("openssl")
    command -v curl >/dev/null || missing+=("curl")
fi
# pip for the tests of the Python client: see scripts/test-python.sh.
if asked python; then
    /usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=("python3-venv")
fi
# The library and pytest; for its sanitized build, see scripts/test-c.sh.
if asked c || asked gtk || asked qml || asked thumbnailer; then
    has_library jansson || missing+=("libjansson-dev")
    command -v gcc >/dev/null || missing+=("gcc")
    command -v g++ >/dev/null || missing+=("g++")
    /usr/bin/python3 -c 'import pytest' 2>/dev/null || missing+=("python3-pytest")
    /usr/bin/python3 -c 'import PIL' 2>/dev/null || missing+=("python3-pil")
fi
if asked c && ! command -v valgrind >/dev/null; then missing+=("valgrind"); fi
# What builds the widgets for GTK 4, and the QML module.
if asked gtk || asked docs || asked deb; then
    has_library gtk4 || missing+=("libgtk-4-dev")
    command -v g-ir-scanner >/dev/null || missing+=("gobject-introspection")
fi
if asked qml || asked deb; then
    is_installed qt6-declarative-dev || missing+=("qt6-declarative-dev")
    command -v cmake >/dev/null || missing+=("cmake")
    command -v g++ >/dev/null || missing+=("g++")
fi
# A display for their windows, a pointer and fonts; languages that use the widgets; modules that the tests import: see
# scripts/test-gtk.sh and scripts/test-qml.sh.
if asked gtk || asked qml; then
    command -v Xvfb >/dev/null || missing+=("xvfb")
    command -v xdotool >/dev/null || missing+=("xdotool")
    compgen -G "/usr/share/fonts/truetype/*/*.ttf" >/dev/null || missing+=("fonts-dejavu-core")
fi
if asked gtk; then
    is_installed gir1.2-gtk-4.0 || missing+=("gir1.2-gtk-4.0")
    /usr/bin/python3 -c 'import gi' 2>/dev/null || missing+=("python3-gi")
    command -v gjs >/dev/null || missing+=("gjs")
fi
if asked qml; then
    for module in qtquick qtquick-window qtqml-workerscript; do
        is_installed "qml6-module-$module" || missing+=("qml6-module-$module")
    done
fi
# The thumbnail service, and a session bus for it.
if asked thumbnailer || asked deb; then
    has_library gio-unix-2.0 || missing+=("libglib2.0-dev")
fi
if asked thumbnailer; then
    command -v dbus-daemon >/dev/null || missing+=("dbus-daemon dbus")
    command -v dbus-run-session >/dev/null || missing+=("dbus-daemon dbus")
    command -v gdbus >/dev/null || missing+=("libglib2.0-bin")
    /usr/bin/python3 -c 'import gi' 2>/dev/null || missing+=("python3-gi")
    # A reader of PNG files besides Pillow, and encoders of the formats that Pillow does not write.
    command -v pngcheck >/dev/null || missing+=("pngcheck")
    command -v heif-enc >/dev/null || missing+=("libheif-examples")
    command -v cjxl >/dev/null || missing+=("libjxl-tools")
fi
if asked docs && ! command -v gi-docgen >/dev/null; then missing+=("gi-docgen"); fi
# A browser computes the CSS functions: see scripts/test-steps.sh.
if asked steps; then
    /usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=("python3-venv")
    command -v chromium >/dev/null || missing+=("chromium")
fi
# An encoder and a decoder of JPEG XL, decoders of rarer files, libplacebo with a renderer, and a browser: see scripts/test-families.sh.
if asked families; then
    /usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=("python3-venv")
    command -v chromium >/dev/null || missing+=("chromium")
    command -v cjxl >/dev/null || missing+=("libjxl-tools")
    command -v ffmpeg >/dev/null || missing+=("ffmpeg")
    [[ -x /usr/bin/convert ]] || missing+=("imagemagick")
    is_installed mesa-vulkan-drivers || missing+=("mesa-vulkan-drivers")
    compgen -G "/usr/share/fonts/truetype/dejavu/*.ttf" >/dev/null || missing+=("fonts-dejavu-core")
fi
# A browser shows the dashboard, and pictures are drawn for it: see scripts/test-exporter.sh.
if asked exporter; then
    command -v chromium >/dev/null || missing+=("chromium")
    command -v memcached >/dev/null || missing+=("memcached")
    /usr/bin/python3 -c 'import PIL' 2>/dev/null || missing+=("python3-pil")
fi
# A terminal for the live view, and pictures for its load: see scripts/test-top.sh.
if asked top; then
    command -v tmux >/dev/null || missing+=("tmux")
    /usr/bin/python3 -c 'import PIL' 2>/dev/null || missing+=("python3-pil")
fi
# Debian packages of the broker and its clients, and their test in a clean root: see scripts/package-deb.sh, scripts/test-deb.sh.
if asked deb; then
    has_library jansson || missing+=("libjansson-dev")
    command -v gcc >/dev/null || missing+=("gcc")
    command -v dpkg-shlibdeps >/dev/null || missing+=("dpkg-dev")
    command -v lintian >/dev/null || missing+=("lintian")
    [[ -x /usr/sbin/debootstrap ]] || missing+=("debootstrap")
fi
# The libraries of the programs that the broker is compared with: see scripts/benchmark-peers.sh.
if asked benchmarks; then
    is_installed python3-venv || missing+=("python3-venv")
    has_library jansson || missing+=("libjansson-dev")
    for library in libgd3 libevent-2.1-7 libatomic1 libjemalloc2 liblzf1 libsasl2-2 libpcre2-8-0; do
        is_installed "$library" || missing+=("$library")
    done
    # A thumbnail service, ours, and a client of both on a session bus.
    compgen -G "/usr/lib/*/tumbler-1/tumblerd" >/dev/null || missing+=("tumbler")
    has_library gio-unix-2.0 || missing+=("libglib2.0-dev")
    command -v dbus-run-session >/dev/null || missing+=("dbus-daemon dbus")
    /usr/bin/python3 -c 'import gi' 2>/dev/null || missing+=("python3-gi")
    # The lists of images in windows, and a display for them: Benchmarks/view.
    has_library gtk4 || missing+=("libgtk-4-dev")
    has_library Qt6Quick || missing+=("qt6-declarative-dev")
    for module in qtquick qtqml-workerscript; do
        is_installed "qml6-module-$module" || missing+=("qml6-module-$module")
    done
    command -v Xvfb >/dev/null || missing+=("xvfb")
    compgen -G "/usr/share/fonts/truetype/*/*.ttf" >/dev/null || missing+=("fonts-dejavu-core")
fi
if ((${#missing[@]} == 0)); then exit 0; fi

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    echo "error: packages are missing (Debian's names), and apt is not available:" >&2
    printf '  %s\n' "${missing[@]/ / or }" >&2
    exit 1
fi

as_root=()
if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
        echo "error: packages are missing, and installing them requires root or sudo:" >&2
        printf '  %s\n' "${missing[@]/ / or }" >&2
        exit 1
    fi
    as_root=(sudo)
fi
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 "$@"
}

echo "Installing missing packages."
# An installation that was interrupted, for example by a power failure, makes each later one fail.
if compgen -G "/var/lib/dpkg/updates/*" >/dev/null; then
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive dpkg --configure -a
fi
apt update || echo "warning: apt-get update failed; continuing with the existing package lists" >&2

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
