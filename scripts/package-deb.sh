#!/usr/bin/env bash
# package-deb.sh [DIR]: makes the Debian packages of the programs in $BUILT (.build/release) and of the clients, in DIR (.build/deb).
# Equal inputs give equal files: $SOURCE_DATE_EPOCH, or else the time of the last commit, is the time of all files.
# $DEBEMAIL is the address of their maintainer.
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
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Each package's files are in the folder of its name.
stage=$work/stage
debian=$work/debian
mkdir -p "$debian"

# What the tools of dpkg read.
sed "s|@maintainer@|$maintainer|" packaging/debian/control >"$debian/control"
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
# The exporter alone needs the HTTP server's library.
for file in libexec/imgbroker/imgexporter lib/systemd/system/imgbroker-exporter.service share/imgbroker/monitoring; do
    install -d "$(dirname "$stage/imgbroker-exporter/usr/$file")"
    mv "$stage/imgbroker/usr/$file" "$stage/imgbroker-exporter/usr/$file"
done
rmdir "$stage/imgbroker/usr/share/imgbroker"
# It also needs parts of Swift's runtime that no worker needs.
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
find "$stage/imgbroker/usr/share/man" -type f -exec gzip -9n {} +
install -d "$stage/imgbroker/etc/imgbroker"
mv "$stage/imgbroker/usr/share/doc/imgbroker/examples/imgbroker.conf" "$stage/imgbroker/etc/imgbroker/"

make --no-print-directory -s -C clients/c install BUILD="$work/c" DESTDIR="$work/client" PREFIX=/usr LIBDIR="$libraries" \
    CPPFLAGS="$(dpkg-buildflags --get CPPFLAGS)" CFLAGS="$(dpkg-buildflags --get CFLAGS)" \
    LDFLAGS="$(DEB_BUILD_MAINT_OPTIONS=hardening=+bindnow dpkg-buildflags --get LDFLAGS)"
install -d "$stage/libimgbroker0$libraries" "$stage/libimgbroker-dev/usr/share/doc/libimgbroker-dev/examples"
mv "$work/client$libraries"/libimgbroker.so.* "$stage/libimgbroker0$libraries/"
cp -a "$work/client/." "$stage/libimgbroker-dev/"
install -m 644 clients/c/examples/gallery.c "$stage/libimgbroker-dev/usr/share/doc/libimgbroker-dev/examples/"
chmod 644 "$stage/libimgbroker0$libraries"/*
strip --strip-unneeded --remove-section=.comment --remove-section=.note "$stage/libimgbroker0$libraries"/*
strip --strip-debug --enable-deterministic-archives "$stage/libimgbroker-dev$libraries/libimgbroker.a"

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

# Prints the paths of a package's programs and shared libraries.
elf_files() {
    find "$stage/$1" -type f \( -path '*/bin/*' -o -path '*/libexec/*' -o -name '*.so' -o -name '*.so.*' \)
}

mkdir -p "$output"
rm -f "$output"/*.deb
output=$(realpath "$output")
for package in imgbroker imgbroker-exporter imgbroker-tier "${loaders[@]}" libimgbroker0 libimgbroker-dev python3-imgbroker; do
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
        if [[ -e packaging/debian/$package.$script ]]; then
            install -m 755 "packaging/debian/$package.$script" "$tree/DEBIAN/$script"
        fi
    done
    if [[ -e packaging/debian/$package.triggers ]]; then
        install -m 644 "packaging/debian/$package.triggers" "$tree/DEBIAN/triggers"
    fi
    if [[ "$package" == libimgbroker0 ]]; then echo "libimgbroker 0 $package (>= $version)" >"$tree/DEBIAN/shlibs"; fi
    if [[ -d "$tree/etc" ]]; then (cd "$tree" && find etc -type f | sort | sed 's|^|/|') >"$tree/DEBIAN/conffiles"; fi

    substitutions=$debian/$package.substvars
    touch "$substitutions"
    mapfile -t programs < <(elf_files "$package")
    # The runtime of Swift is in these packages themselves.
    if ((${#programs[@]} > 0)); then
        (cd "$work" && dpkg-shlibdeps -T"$substitutions" -l"$stage/imgbroker/usr/lib/imgbroker" \
            -l"$stage/imgbroker-exporter/usr/lib/imgbroker" \
            --ignore-missing-info "${programs[@]}") 2>"$work/shlibdeps.log" ||
            fail "dpkg-shlibdeps failed: $(cat "$work/shlibdeps.log")"
    fi
    (cd "$work" && dpkg-gencontrol -p"$package" -P"$tree" -T"$substitutions" -f"$debian/files")
    (cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | grep -v '^etc/' | sort | xargs md5sum) \
        >"$tree/DEBIAN/md5sums"
    find "$tree" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
    # Several threads would compress to other bytes.
    DPKG_DEB_THREADS_MAX=1 dpkg-deb --root-owner-group -Zxz --build "$tree" "$output" >/dev/null
done

for package in "$output"/*.deb; do
    echo "$(basename "$package"): $(stat -c %s "$package") bytes, $(dpkg-deb -f "$package" Installed-Size) KiB installed"
done
