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

# What the options need besides: for which of them, a check of whether it is there, and the packages that may contain it. A check
# is a program's name, or the kind of something else with its name: see `has`.
also=(
    # Scaling is compared with Pillow's, and the clients' tests and the load of monitoring are pictures.
    "tests,c,gtk,qml,thumbnailer,exporter,top python:PIL python3-pil"
    # Servers of the shared tier, which tests start and stop.
    "tests,exporter memcached memcached"
    # A server with TLS and HTTP/2, its certificates, and the check that it answers.
    "nginx file:/usr/sbin/nginx nginx-light nginx"
    "nginx openssl openssl"
    "nginx curl curl"
    # pip: see scripts/test-python.sh.
    "python,steps,families python:ensurepip,venv python3-venv"
    # The library of C and pytest; for its sanitized build, see scripts/test-client.sh.
    "c,gtk,qml,thumbnailer,deb,benchmarks library:jansson libjansson-dev"
    "c,gtk,qml,thumbnailer,deb gcc gcc"
    "c,gtk,qml,thumbnailer,deb g++ g++"
    "c,gtk,qml,thumbnailer python:pytest python3-pytest"
    "c valgrind valgrind"
    # What builds the widgets for GTK 4, and the QML module.
    "gtk,docs,deb,benchmarks library:gtk4 libgtk-4-dev"
    "gtk,docs,deb g-ir-scanner gobject-introspection"
    "docs gi-docgen gi-docgen"
    "qml,deb package:qt6-declarative-dev qt6-declarative-dev"
    "qml,deb cmake cmake"
    # A display for their windows, a pointer and fonts; languages that use the widgets; modules that the tests and the lists of
    # images in Benchmarks/view import.
    "gtk,qml,benchmarks Xvfb xvfb"
    "gtk,qml xdotool xdotool"
    "gtk,qml,benchmarks file:/usr/share/fonts/truetype/*/*.ttf fonts-dejavu-core"
    "gtk package:gir1.2-gtk-4.0 gir1.2-gtk-4.0"
    "gtk,thumbnailer,benchmarks python:gi python3-gi"
    "gtk gjs gjs"
    "qml,benchmarks package:qml6-module-qtquick qml6-module-qtquick"
    "qml package:qml6-module-qtquick-window qml6-module-qtquick-window"
    "qml,benchmarks package:qml6-module-qtqml-workerscript qml6-module-qtqml-workerscript"
    "benchmarks library:Qt6Quick qt6-declarative-dev"
    # The thumbnail service, and a session bus for it.
    "thumbnailer,deb,benchmarks library:gio-unix-2.0 libglib2.0-dev"
    "thumbnailer dbus-daemon dbus-daemon dbus"
    "thumbnailer,benchmarks dbus-run-session dbus-daemon dbus"
    "thumbnailer gdbus libglib2.0-bin"
    # A reader of PNG files besides Pillow, and encoders of the formats that Pillow does not write.
    "thumbnailer pngcheck pngcheck"
    "thumbnailer heif-enc libheif-examples"
    "thumbnailer,families cjxl libjxl-tools"
    # A browser computes the CSS functions, draws SVG, or shows the dashboard.
    "steps,families,exporter chromium chromium"
    # Decoders of rarer files, and libplacebo with a renderer: see scripts/test-families.sh.
    "families ffmpeg ffmpeg"
    "families file:/usr/bin/convert imagemagick"
    "families package:mesa-vulkan-drivers mesa-vulkan-drivers"
    "families file:/usr/share/fonts/truetype/dejavu/*.ttf fonts-dejavu-core"
    # A terminal for the live view.
    "top tmux tmux"
    # Debian packages of the broker and its clients, and their test in a clean root.
    "deb dpkg-shlibdeps dpkg-dev"
    "deb lintian lintian"
    "deb file:/usr/sbin/debootstrap debootstrap"
    # The libraries of the programs that the broker is compared with: see scripts/benchmark-peers.sh.
    "benchmarks package:python3-venv python3-venv"
    "benchmarks file:/usr/lib/*/tumbler-1/tumblerd tumbler"
)
for library in libgd3 libevent-2.1-7 libatomic1 libjemalloc2 liblzf1 libsasl2-2 libpcre2-8-0; do
    also+=("benchmarks package:$library $library")
done

is_installed() {
    [[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

# has CHECK: whether a program, a library, a file, a Debian package or modules of Python are there.
has() {
    local name=${1#*:}
    case $1 in
    library:*.h) [[ -e "/usr/include/$name" ]] ;;
    library:*) command -v pkg-config >/dev/null && pkg-config --exists "$name" ;;
    file:*) compgen -G "$name" >/dev/null ;;
    package:*) is_installed "$name" ;;
    python:*) /usr/bin/python3 -c "import $name" 2>/dev/null ;;
    *) command -v "$name" >/dev/null ;;
    esac
}

missing=()
for line in "${needed[@]}"; do
    read -r library packages <<<"$line"
    has "library:$library" || missing+=("$packages")
done
has pkg-config || missing+=("pkg-config")
# For `make install`.
has patchelf || missing+=("patchelf")
for line in "${also[@]}"; do
    read -r options check packages <<<"$line"
    for option in ${options//,/ }; do
        if [[ " $* " == *" --for-$option "* ]] && ! has "$check"; then
            missing+=("$packages")
            break
        fi
    done
done
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
