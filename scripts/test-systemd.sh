#!/usr/bin/env bash
# test-systemd.sh: installs the Debian packages of the programs in $BUILT (.build/release) into a clean root of the running distribution,
# runs systemd in it as process 1 of namespaces of its own, and tests the units (scripts/test-systemd-inside.sh). Needs root, cgroup2,
# and apt's mirror. ROOT=DIR keeps the root without the packages, and takes it again.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    echo "error: $1" >&2
    exit 1
}
((EUID == 0)) || fail "systemd is run by root: run this as root or with sudo"
groups=$(findmnt -nt cgroup2 -o TARGET | head -1)
[[ -n "$groups" ]] || fail "cgroup2 is not mounted"

work=$PWD/.build/systemd-test
root=${ROOT:-$work/root}
rm -rf --one-file-system "$work"
mkdir -p "$work"
WITHOUT="gtk qml" COMPRESSION=none scripts/package-deb.sh "$work/packages" >/dev/null
# The same packages with a lower version, to upgrade from.
mkdir "$work/previous"
for package in "$work/packages"/*.deb; do
    version=$(dpkg-deb -f "$package" Version)
    dpkg-deb --raw-extract "$package" "$work/tree"
    sed -i "s/\b$version\b/0.0.1-1/" "$work/tree/DEBIAN/control"
    dpkg-deb --root-owner-group -Znone --build "$work/tree" "$work/previous" >/dev/null
    rm -r "$work/tree"
done

codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $codename" | sort -u | head -1)
[[ -n "$mirror" ]] || fail "apt has no source of $codename: run apt-get update"
if [[ ! -x "$root/lib/systemd/systemd" ]]; then
    debootstrap --variant=minbase --include=systemd,systemd-sysv,libpam-systemd,dbus,procps "$codename" "$root" "$mirror" \
        >"$work/debootstrap.log" || fail "debootstrap failed: see $work/debootstrap.log"
fi
if [[ ! -e "$root/srv/has-dependencies" ]]; then
    dependencies=$(for package in "$work/packages"/{imgbroker_,imgbroker-exporter_,python3-imgbroker_}*.deb; do
        dpkg-deb -f "$package" Depends; done | tr ',' '\n' | grep -vE 'imgbroker \(' | paste -sd,)
    chroot "$root" env DEBIAN_FRONTEND=noninteractive sh -c 'apt-get -qq update && apt-get -qq satisfy --no-install-recommends "$1"' \
        sh "$dependencies" >"$work/apt.log" 2>&1 || fail "$(tail -5 "$work/apt.log")"
    touch "$root/srv/has-dependencies"
fi
rm -rf "$root/srv/packages" "$root/srv/previous"
cp -r "$work/packages" "$work/previous" "$root/srv/"
install -m 755 scripts/test-systemd-inside.sh scripts/test-load.py "$root/srv/"

# What the test starts is in this group and these namespaces, and ends with them.
group=$groups/imgbroker-test-$$
mkdir "$group"
bash -c 'echo $$ >"$1/cgroup.procs" && exec unshare --mount --pid --uts --ipc --cgroup --fork --kill-child --propagation private \
    bash -c '\''
set -euo pipefail
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for directory in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs "$directory"; done
chmod 1777 tmp
for device in null zero full random urandom tty; do touch "dev/$device" && mount --bind "/dev/$device" "dev/$device"; done
ln -s /proc/self/fd dev/fd
mkdir dev/shm dev/pts && mount -t tmpfs tmpfs dev/shm && mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mkdir -p .host && pivot_root . .host && umount -l .host
exec env -i container=imgbroker-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=multi-user.target
'\'' systemd "$2"' group "$group" "$root" >"$work/systemd.log" 2>&1 &
namespaces=$!
finish() {
    kill -KILL "$namespaces" 2>/dev/null || true
    wait "$namespaces" 2>/dev/null || true
    for ((try = 0; try < 50; try++)); do
        find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
        [[ -d "$group" ]] || break
        sleep 0.1
    done
}
trap finish EXIT

inside() { nsenter --target "$manager" --mount --pid --uts --ipc --cgroup --root --wd env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
for ((try = 0; try < 300; try++)); do
    manager=$(pgrep --parent "$namespaces" || true)
    # Before it has a root of its own, systemctl would ask the systemd of this machine.
    program=$([[ -n "$manager" ]] && cat "/proc/$manager/comm" 2>/dev/null || true)
    state=$([[ "$program" == systemd ]] && inside systemctl is-system-running 2>/dev/null || true)
    if [[ "$state" == running || "$state" == degraded ]]; then break; fi
    kill -0 "$namespaces" 2>/dev/null || fail "systemd does not run here: $(tail -3 "$work/systemd.log")"
    sleep 0.2
done
[[ "$state" == running || "$state" == degraded ]] || fail "systemd is not ready: $state"
timeout --foreground 15m nsenter --target "$manager" --mount --pid --uts --ipc --cgroup --root --wd \
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C /srv/test-systemd-inside.sh
# Processes that still run write files below $work.
finish
trap - EXIT
[[ -n "${ROOT:-}" ]] || rm -rf --one-file-system "$work"
