#!/usr/bin/env bash
# test-deb.sh: makes the Debian packages of the programs in $BUILT (.build/release) twice, compares the results, checks them with
# lintian, and tests them in a clean root of the running distribution (scripts/test-deb-installed.sh). Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "error: $1" >&2
    exit 1
}
((EUID == 0)) || fail "a clean root is made by root: run this as root or with sudo"

work=$PWD/.build/deb-test
root=$work/root
rm -rf --one-file-system "$work"
mkdir -p "$work"

scripts/package-deb.sh "$work/current"
# Without compression, which takes most of the time. One thread of xz makes equal files of equal bytes.
COMPRESSION=none scripts/package-deb.sh "$work/again" >/dev/null
for package in "$work/current"/*.deb; do
    for part in --ctrl-tarfile --fsys-tarfile; do
        cmp <(dpkg-deb "$part" "$package") <(dpkg-deb "$part" "$work/again/$(basename "$package")") ||
            fail "two builds of $(basename "$package") differ"
    done
done
rm -r "$work/again"
# The packages of the widgets, which need many others and are installed last.
mkdir "$work/widgets"
find "$work/current" \( -name '*imgbroker*gtk*' -o -name 'qml6-*' \) -exec mv -t "$work/widgets" {} +
shopt -s nullglob
widgets=("$work/widgets"/*.deb)
shopt -u nullglob
# The same packages with a lower version, to upgrade from.
mkdir "$work/previous"
for package in "$work/current"/*.deb; do
    version=$(dpkg-deb -f "$package" Version)
    dpkg-deb --raw-extract "$package" "$work/tree"
    sed -i "s/\b$version\b/0.0.1-1/g" "$work/tree/DEBIAN/control"
    dpkg-deb --root-owner-group -Znone --build "$work/tree" "$work/previous" >/dev/null
    rm -r "$work/tree"
done

size=$(dpkg-deb -f "$work/current"/imgbroker_*.deb Installed-Size)
((size < 28 * 1024)) || fail "the programs take $size KiB"

# The packages are not for Debian's archive, whose first uploads close a bug. Lintian leaves temporary files.
mkdir "$work/lintian"
TMPDIR=$work/lintian lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs --allow-root \
    "$work/current"/*.deb "${widgets[@]}"
for package in "${widgets[@]}"; do
    dpkg-deb -f "$package" Depends | grep -q libimgbroker || fail "$(basename "$package") does not use the packaged client"
done

# Programs with the widgets are compiled here, because GTK's development files are large.
library=$(find "$work/widgets" -name 'libimgbroker-gtk-4-dev_*')
if [[ -n "$library" ]]; then
    for package in "$work/current"/libimgbroker*.deb "$work/widgets"/libimgbroker*.deb; do dpkg-deb --extract "$package" "$work/tree"; done
    libraries=$work/tree/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
    # shellcheck disable=SC2046
    gcc -Wall -Werror -o "$work/gallery" "$work/tree/usr/share/doc/libimgbroker-gtk-4-dev/examples/gallery.c" \
        -isystem "$work/tree/usr/include" -L"$libraries" -Wl,-rpath-link,"$libraries" \
        $(PKG_CONFIG_PATH=$libraries/pkgconfig pkg-config --cflags --libs imgbroker-gtk-4)
    rm -r "$work/tree"
fi

# The mirror, the suites and their components are those of apt on this machine.
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
sources() { apt-get indextargets --format "$1" 'Created-By: Packages' "${@:2}" | sort -u; }
origin=$(sources '$(ORIGIN)' "Codename: $codename" | head -1)
mirror=$(sources '$(SITE)' "Codename: $codename" "Origin: $origin" | head -1)
components=$(sources '$(COMPONENT)' "Codename: $codename" "Origin: $origin" | paste -sd,)
[[ -n "$mirror" ]] || fail "apt has no source of $codename: run apt-get update"
debootstrap --variant=minbase --components="$components" "$codename" "$root" "$mirror" >"$work/debootstrap.log" ||
    fail "debootstrap failed: see $work/debootstrap.log"
sources 'deb $(SITE) $(RELEASE) $(COMPONENT)' "Origin: $origin" >"$root/etc/apt/sources.list"

# The root is thrown away, so nothing waits for the disk.
echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
cp -r "$work/current" "$work/previous" "$work/widgets" "$root/srv/"
[[ -z "$library" ]] || cp "$work/gallery" "$root/srv/"
install -m 755 scripts/test-deb-installed.sh scripts/test-load.py "$root/srv/"
# An image of each family of codecs.
mkdir "$root/srv/families"
PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 Tests/Families/samples.py "$root/srv/families"
# The first example of the C client's page.
awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' clients/c/README.md >"$root/srv/example.c"
# What the test mounts and starts ends with it.
timeout --foreground 15m unshare --mount --pid --fork --kill-child bash -c \
    'mount -t proc proc "$1/proc" && exec chroot "$1" env --unset TMPDIR /srv/test-deb-installed.sh' test-deb "$root"
rm -rf --one-file-system "$work"
