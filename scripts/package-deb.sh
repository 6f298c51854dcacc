#!/usr/bin/env bash
# package-deb.sh [DIR]: makes the Debian packages of the programs in $BUILT (.build/release) and of the clients, in DIR (.build/deb).
# Equal inputs give equal files: $SOURCE_DATE_EPOCH, or else the time of the last commit, is the time of all files.
# $DEBEMAIL is the address of their maintainer. $WITHOUT names clients whose packages are left out ("gtk qml thumbnailer"), as they also are if the
# machine lacks GTK's or Qt's development files. $COMPRESSION is that of the packages (xz; none is fast).
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022
export LC_ALL=C TZ=UTC

fail() {
    echo "error: $1" >&2
    exit 1
}

(($# <= 1)) || fail "usage: scripts/package-deb.sh [DIR]"
output=${1:-.build/deb}
version=$(sed -n 's/.*static let current = "\(.*\)"$/\1/p' Sources/IPCProtocol/ProductVersion.swift)
[[ "$version" =~ ^[0-9][0-9A-Za-z.+~]*$ ]] || fail "\"$version\" is not a version of Debian's form"

built=${BUILT:-.build/release}
[[ -x "$built/imgbroker" ]] || fail "$built/imgbroker is missing: run make build first"
for tool in patchelf dpkg-deb dpkg-shlibdeps dpkg-gencontrol dpkg-buildflags gcc strip pkg-config; do
    command -v "$tool" >/dev/null || fail "$tool is missing: run scripts/bootstrap.sh --for-deb"
done
pkg-config --exists jansson || fail "libjansson-dev is missing: run scripts/bootstrap.sh --for-deb"
if [[ -z "${SOURCE_DATE_EPOCH:-}" ]]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null) || fail "no commit: set SOURCE_DATE_EPOCH to the time of the files"
fi
export SOURCE_DATE_EPOCH

maintainer=${DEBEMAIL:-imgbroker@example.org}
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
libraries=/usr/lib/$multiarch
# Each prints a package that the build of a client needs and the machine lacks.
lacks_for_gtk() {
    pkg-config --exists "gtk4 >= 4.8" || { echo libgtk-4-dev; return; }
    command -v g-ir-scanner >/dev/null || echo gobject-introspection
}
lacks_for_thumbnailer() {
    pkg-config --exists gio-unix-2.0 || echo libglib2.0-dev
}
lacks_for_qml() {
    [[ -e $libraries/cmake/Qt6Quick/Qt6QuickConfig.cmake ]] || { echo qt6-declarative-dev; return; }
    command -v cmake >/dev/null || { echo cmake; return; }
    command -v g++ >/dev/null || echo g++
}
# includes CLIENT: whether the packages of a client are made.
includes() {
    [[ " ${WITHOUT:-} " != *" $1 "* ]] || return
    local lacks
    lacks=$("lacks_for_$1")
    [[ -z "$lacks" ]] || { echo "Without clients/$1: $lacks is missing (scripts/bootstrap.sh --for-deb)."; return 1; }
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Each package's files are in the folder of its name.
stage=$work/stage
debian=$work/debian
mkdir -p "$debian"

# What the tools of dpkg read.
{
    sed "s|@maintainer@|$maintainer|" packaging/debian/control
    # The families whose packages differ in the name of the format.
    for family in "avif AVIF" "heif HEIC" "jp2 JPEG 2000" "jxl JPEG XL" "tiff TIFF"; do
        sed "s|@family@|${family%% *}|; s|@format@|${family#* }|" packaging/debian/loader.control.in
    done
} >"$debian/control"
cat >"$debian/changelog" <<END
imgbroker ($version-1) unstable; urgency=medium

  * Version $version: see changelog.gz.

 -- The imgbroker authors <$maintainer>  $(date -R -d "@$SOURCE_DATE_EPOCH")
END
# The licence is the text below the line of the copyright.
awk -v copyright="$(sed -n 's/^Copyright (c) //p' LICENSE)" '
    FNR == NR { if (body) text = text (text == "" ? "" : "\n") ($0 == "" ? " ." : " " $0); if (/^Copyright/) { getline; body = 1 }; next }
    { sub(/@copyright@/, copyright); if ($0 == "@licence@") print text; else print }
' LICENSE packaging/debian/copyright.in >"$debian/copyright"

echo "Staging imgbroker $version."
make --no-print-directory -s install BUILT="$built" DESTDIR="$stage/imgbroker" PREFIX=/usr \
    ZSH_FUNCTIONS=/usr/share/zsh/vendor-completions
# The exporter needs the HTTP server's library.
for file in libexec/imgbroker/imgexporter lib/systemd/system/imgbroker-exporter.service share/imgbroker/monitoring; do
    install -d "$(dirname "$stage/imgbroker-exporter/usr/$file")"
    mv "$stage/imgbroker/usr/$file" "$stage/imgbroker-exporter/usr/$file"
done
rmdir "$stage/imgbroker/usr/share/imgbroker"
# Images over HTTP need that server's library, too.
for file in libexec/imgbroker/imghttp lib/systemd/system/imgbroker-http.service; do
    install -d "$(dirname "$stage/imgbroker-http/usr/$file")"
    mv "$stage/imgbroker/usr/$file" "$stage/imgbroker-http/usr/$file"
done
# Both also need parts of Swift's runtime that no worker needs. They come with the exporter.
install -d "$stage/imgbroker-exporter/usr/lib/imgbroker"
needed=$(ldd "$stage/imgbroker/usr/libexec/imgbroker/"* | awk '{ print $1 }')
for library in "$stage/imgbroker/usr/lib/imgbroker/"*; do
    grep -qxF "$(basename "$library")" <<<"$needed" || mv "$library" "$stage/imgbroker-exporter/usr/lib/imgbroker/"
done
# The process of the shared tier alone needs libmemcached.
install -d "$stage/imgbroker-tier/usr/libexec/imgbroker"
mv "$stage/imgbroker/usr/libexec/imgbroker/imgtier" "$stage/imgbroker-tier/usr/libexec/imgbroker/imgtier"
# Each family of codecs that was built, with its libraries.
loaders=()
for program in "$stage/imgbroker/usr/libexec/imgbroker/imgworker-"*; do
    [[ -e "$program" ]] || continue
    package=imgbroker-loader-${program##*/imgworker-}
    loaders+=("$package")
    install -d "$stage/$package/usr/libexec/imgbroker"
    mv "$program" "$stage/$package/usr/libexec/imgbroker/"
done
install -d "$stage/imgbroker/etc/imgbroker"
mv "$stage/imgbroker/usr/share/doc/imgbroker/examples/imgbroker.conf" "$stage/imgbroker/etc/imgbroker/"

cppflags=$(dpkg-buildflags --get CPPFLAGS)
cflags=$(dpkg-buildflags --get CFLAGS)
ldflags=$(DEB_BUILD_MAINT_OPTIONS=hardening=+bindnow dpkg-buildflags --get LDFLAGS)
# strip_libraries DIRECTORY
strip_libraries() {
    chmod 644 "$1"/*.so*
    strip --strip-unneeded --remove-section=.comment --remove-section=.note "$1"/*.so*
}
# install_client NAME DIRECTORY [VARIABLE=VALUE]...
install_client() {
    make --no-print-directory -s -C "clients/$1" install BUILD="$work/build" DESTDIR="$2" PREFIX=/usr LIBDIR="$libraries" \
        CPPFLAGS="$cppflags" CFLAGS="$cflags" LDFLAGS="$ldflags" "${@:3}"
}

install_client c "$work/client"
install -d "$stage/libimgbroker0$libraries" "$stage/libimgbroker-dev"
cp -a "$work/client$libraries"/libimgbroker.so.* "$stage/libimgbroker0$libraries/"
cp -a "$work/client/." "$stage/libimgbroker-dev/"
rm "$stage/libimgbroker-dev$libraries"/libimgbroker.so.*
strip_libraries "$stage/libimgbroker0$libraries"
strip --strip-debug --enable-deterministic-archives "$stage/libimgbroker-dev$libraries/libimgbroker.a"

widgets=()
if includes thumbnailer; then
    widgets+=(imgbroker-thumbnailer)
    install_client thumbnailer "$stage/imgbroker-thumbnailer" C_CLIENT=../c UNITDIR=/usr/lib/systemd/user \
        LIBEXECDIR=/usr/libexec/imgbroker
    strip --strip-unneeded --remove-section=.comment --remove-section=.note "$stage/imgbroker-thumbnailer/usr/libexec/imgbroker/"*
fi
if includes gtk; then
    widgets+=(libimgbroker-gtk-4-0 gir1.2-imgbrokergtk-4.0 libimgbroker-gtk-4-dev)
    development=$stage/libimgbroker-gtk-4-dev
    install_client gtk "$development" C_CLIENT=../c
    install -d "$stage/libimgbroker-gtk-4-0$libraries" "$stage/gir1.2-imgbrokergtk-4.0$libraries" \
        "$development/usr/share/doc/libimgbroker-gtk-4-dev/examples"
    mv "$development$libraries"/libimgbroker-gtk-4.so.* "$stage/libimgbroker-gtk-4-0$libraries/"
    strip_libraries "$stage/libimgbroker-gtk-4-0$libraries"
    mv "$development$libraries/girepository-1.0" "$stage/gir1.2-imgbrokergtk-4.0$libraries/"
    install -m 644 clients/gtk/examples/gallery.{c,py,js} "$development/usr/share/doc/libimgbroker-gtk-4-dev/examples/"
fi
if includes qml; then
    widgets+=(qml6-module-imgbroker)
    module=$stage/qml6-module-imgbroker
    # The plugin uses the library of libimgbroker0. No file contains paths of the build.
    {
        PKG_CONFIG_PATH="$work/client$libraries/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$work/client" \
            cmake -S clients/qml -B "$work/qml" -DIMGBROKER_C_SOURCE= -DIMGBROKER_QML_DIR="$libraries/qt6/qml" \
            -DCMAKE_BUILD_TYPE=None -DCMAKE_SKIP_RPATH=ON \
            -DCMAKE_CXX_FLAGS="$(dpkg-buildflags --get CXXFLAGS) $cppflags -g0 -ffile-prefix-map=$work=." \
            -DCMAKE_SHARED_LINKER_FLAGS="$ldflags" -DCMAKE_MODULE_LINKER_FLAGS="$ldflags" &&
            cmake --build "$work/qml" --parallel "$(nproc)" && DESTDIR=$module cmake --install "$work/qml"
    } >"$work/qml.log" 2>&1 || fail "the QML module is not built: $(tail -20 "$work/qml.log")"
    strip_libraries "$module$libraries/qt6/qml/Imgbroker"
    chmod 644 "$module$libraries/qt6/qml/Imgbroker"/*
    install -D -m 644 -t "$module/usr/share/doc/qml6-module-imgbroker/examples" clients/qml/examples/feed.qml
fi

modules=$stage/python3-imgbroker/usr/lib/python3/dist-packages
install -d "$modules/imgbroker" "$modules/imgbroker-$version.dist-info"
install -m 644 clients/python/src/imgbroker/*.py clients/python/src/imgbroker/py.typed "$modules/imgbroker/"
cat >"$modules/imgbroker-$version.dist-info/METADATA" <<END
Metadata-Version: 2.1
Name: imgbroker
Version: $version
Summary: $(sed -n 's/^description = "\(.*\)"$/\1/p' clients/python/pyproject.toml)
Requires-Python: $(sed -n 's/^requires-python = "\(.*\)"$/\1/p' clients/python/pyproject.toml)
License: MIT
END

find "$stage" -path '*/usr/share/man/*' -type f -exec gzip -9n {} +

# Prints the paths of a package's programs and shared libraries.
elf_files() {
    find "$stage/$1" -type f \( -path '*/bin/*' -o -path '*/libexec/*' -o -name '*.so' -o -name '*.so.*' \)
}

mkdir -p "$output"
rm -f "$output"/*.deb
output=$(realpath "$output")
for package in imgbroker imgbroker-exporter imgbroker-http imgbroker-tier "${loaders[@]}" libimgbroker0 libimgbroker-dev python3-imgbroker \
    "${widgets[@]}"; do
    tree=$stage/$package
    documents=$tree/usr/share/doc/$package
    install -d "$documents" "$tree/DEBIAN"
    install -m 644 "$debian/copyright" "$documents/"
    gzip -9n <CHANGELOG.md >"$documents/changelog.gz"
    gzip -9n <"$debian/changelog" >"$documents/changelog.Debian.gz"
    if [[ -e packaging/debian/$package.lintian-overrides ]]; then
        install -D -m 644 "packaging/debian/$package.lintian-overrides" "$tree/usr/share/lintian/overrides/$package"
    fi
    for script in postinst prerm postrm; do
        source=packaging/debian/$package.$script
        # Those of a service that is not enabled by the installation.
        if [[ ! -e $source && -e $tree/usr/lib/systemd/system/$package.service ]]; then
            source=packaging/debian/service.$script.in
        fi
        if [[ -e $source ]]; then
            sed "s|@package@|$package|" "$source" >"$tree/DEBIAN/$script"
            chmod 755 "$tree/DEBIAN/$script"
        fi
    done
    # The library of libNAME0 or libNAME-0.
    if [[ "$package" == lib*0 ]]; then
        name=${package%0}
        echo "${name%-} 0 $package (>= $version)" >"$tree/DEBIAN/shlibs"
        echo "activate-noawait ldconfig" >"$tree/DEBIAN/triggers"
    fi
    if [[ -d "$tree/etc" ]]; then (cd "$tree" && find etc -type f | sort | sed 's|^|/|') >"$tree/DEBIAN/conffiles"; fi

    substitutions=$debian/$package.substvars
    touch "$substitutions"
    mapfile -t programs < <(elf_files "$package")
    # The runtime of Swift is in these packages themselves.
    if ((${#programs[@]} > 0)); then
        (cd "$work" && dpkg-shlibdeps -T"$substitutions" -l"$stage/imgbroker/usr/lib/imgbroker" \
            -l"$stage/imgbroker-exporter/usr/lib/imgbroker" -l"$stage/libimgbroker0$libraries" -S"$stage/libimgbroker0" \
            --ignore-missing-info "${programs[@]}") 2>"$work/shlibdeps.log" ||
            fail "dpkg-shlibdeps failed: $(cat "$work/shlibdeps.log")"
    fi
    (cd "$work" && dpkg-gencontrol -p"$package" -P"$tree" -T"$substitutions" -f"$debian/files")
    (cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | grep -v '^etc/' | sort | xargs md5sum) \
        >"$tree/DEBIAN/md5sums"
    find "$tree" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
    # Several threads would compress to other bytes.
    DPKG_DEB_THREADS_MAX=1 dpkg-deb --root-owner-group -Z"${COMPRESSION:-xz}" --build "$tree" "$output" >/dev/null
done

for package in "$output"/*.deb; do
    echo "$(basename "$package"): $(stat -c %s "$package") bytes, $(dpkg-deb -f "$package" Installed-Size) KiB installed"
done
