#!/usr/bin/env bash
# test-deb-installed.sh: tests the packages in /srv/previous and /srv/current, in a root that contains nothing else: installation,
# use by the members of the group, upgrade and purge; then those in /srv/widgets, if any. Called by scripts/test-deb.sh.
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
cd /srv

step() { echo "test-deb: $1"; }
fail() {
    echo "error: $1" >&2
    if [[ -e broker.log ]]; then tail -20 broker.log >&2; fi
    exit 1
}
# equal WHAT ACTUAL EXPECTED: fails unless both are equal.
equal() { [[ "$2" == "$3" ]] || fail "$1 is \"$2\" instead of \"$3\""; }
# as USER COMMAND...: runs a command with the groups of the user and nothing of this environment.
as() { setpriv --reuid "$1" --regid "$1" --init-groups env -i PATH=/usr/bin:/bin HOME="/home/$1" "${@:2}"; }

# Prints all files with their modes and owners, and the contents of the lists of users, but for what dpkg itself keeps.
residue() {
    find / -xdev \( -path /proc -o -path /srv -o -path /tmp -o -path /var/lib/dpkg -o -path /var/log -o -path /var/cache/apt \) \
        -prune -o -printf '%p %y %m %u %g\n' | sort
    sort /etc/passwd /etc/group /etc/shadow /etc/gshadow
}

start_broker() {
    imgbroker --user imgbroker --socket-group imgbroker --stats-group imgbroker-stats 2>>broker.log &
    broker=$!
    until imgbroker ctl stats >/dev/null 2>&1; do
        kill -0 "$broker" 2>/dev/null || fail "the broker has ended"
        sleep 0.1
    done
}
stop_broker() {
    kill "$broker"
    wait "$broker" || true
    # Its helpers exit after it, and the user cannot be removed before.
    local user
    user=$(id -u imgbroker)
    for ((try = 0; try < 200; try++)); do
        grep -qs "^Uid:[[:space:]]*$user[[:space:]]" /proc/[0-9]*/status || break
        sleep 0.1
    done
}
# Prints where the image came from, of one that alice loads.
source_of() { as alice imgbroker get "$url" "$@" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["source"])'; }

# Installs what packages depend on, except packages of imgbroker, and others: DIRECTORY OTHER...
install_dependencies() {
    local dependencies
    dependencies=$(for package in "$1"/*.deb; do dpkg-deb -f "$package" Depends; done | tr ',' '\n' | grep -vE 'imgbroker|libgtk-4-dev' | paste -sd,)
    apt-get -qq satisfy --no-install-recommends "$dependencies" "${@:2}" >apt.log 2>&1 || fail "$(tail -5 apt.log)"
}

step "dependencies"
apt-get -qq update
# Also what compiles the example.
install_dependencies current gcc libc6-dev pkg-config
for user in alice bob; do useradd --create-home "$user"; done
residue >before

step "installation"
# The families of codecs are installed later, while the broker runs.
mkdir later
mv previous/imgbroker-loader-*.deb later/
dpkg -i previous/*.deb </dev/null >dpkg.log 2>&1 || fail "$(tail -5 dpkg.log)"
usermod -aG imgbroker alice
[[ -L /etc/systemd/system/sockets.target.wants/imgbroker.socket ]] || fail "the socket is not enabled"
[[ ! -e /etc/systemd/system/multi-user.target.wants/imgbroker.service ]] || fail "the service is enabled, not only the socket"
[[ -e /usr/share/doc/imgbroker/examples/imgbroker.thumbnailer ]] || fail "the entry for file managers is missing"
if compgen -G 'previous/imgbroker-thumbnailer_*' >/dev/null; then
    [[ -e /usr/share/man/man1/imgbroker-thumbnailer.1.gz ]] || fail "the thumbnail service has no manual page"
    for name in Thumbnailer1 Cache1; do
        program=$(sed -n 's/^Exec=//p' "/usr/share/dbus-1/services/org.freedesktop.thumbnails.$name.service")
        "$program" --version >/dev/null || fail "D-Bus cannot start the thumbnail service: $program"
    done
fi
equal "the configuration without its comments" "$(grep -cE '^[^#]' /etc/imgbroker/imgbroker.conf || true)" 0
imgbroker --check-config >/dev/null

step "images"
mkdir origin
python3 - <<'END'
import struct, zlib
chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
header = struct.pack(">IIBBBBB", 200, 100, 8, 2, 0, 0, 0)
rows = (b"\0" + b"\x0a\x14\x1e" * 200) * 100
parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
open("origin/picture.png", "wb").write(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
END
# An old file is fresh for long.
for ((number = 0; number < 4; number++)); do cp origin/picture.png "origin/$number.png"; done
touch --date 2020-01-01 origin/*.png
python3 -u -m http.server --bind 127.0.0.1 --directory origin 0 >origin.log 2>&1 &
origin=$!
until port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' origin.log) && [[ -n "$port" ]]; do sleep 0.1; done
url=http://127.0.0.1:$port/picture.png
echo "allow-address = 127.0.0.0/8" >>/etc/imgbroker/imgbroker.conf

start_broker
equal "the socket" "$(stat -c '%a %G' /run/imgbroker.sock)" "660 imgbroker"
equal "the broker's user" "$(stat -c %U "/proc/$broker")" imgbroker
as alice imgbroker get /srv/origin/picture.png --width 20 -o /home/alice/small.png >/dev/null
equal "the size of a scaled local file" \
    "$(python3 -c 'print(*__import__("struct").unpack(">II", open("/home/alice/small.png", "rb").read(24)[16:]))')" "20 10"
rm /home/alice/small.png
status=0
as bob imgbroker get "$url" >/dev/null 2>&1 || status=$?
equal "the status of a user who is not in the group" "$status" 3
advice=$(as bob imgbroker doctor || true)
[[ "$advice" == *"/run/imgbroker.sock does not admit you"* ]] || fail "the doctor does not tell that user the reason: $advice"
equal "the source of the first request" "$(source_of --width 100)" network
equal "the source of the second request" "$(source_of --width 100)" memory

step "families of codecs"
# Prints the size of an image of a family that alice loads, or the error's code.
load_family() {
    as alice imgbroker get "${url%/*}/$1" --json "${@:2}" 2>family.log | python3 -c 'import json, sys
reply = json.load(sys.stdin)
print(reply.get("code") or "{width} x {height}".format(**reply))' || true
}
cp families/* origin/
families=()
for package in later/*.deb; do
    family=${package#later/imgbroker-loader-}
    families+=("${family%%_*}")
done
equal "the families of the packages" "${families[*]}" "avif bmp heif jp2 jxl svg tiff"
for family in "${families[@]}"; do
    equal "an image of $family without its package" "$(load_family "$family")" unsupported-format
    dpkg -i "later/imgbroker-loader-$family"_*.deb </dev/null >dpkg.log 2>&1 || fail "$(tail -5 dpkg.log)"
    imgbroker ctl reload >reload.log
    grep -q '^loaders: .*'"$family" reload.log || fail "the reload does not find imgbroker-loader-$family: $(cat reload.log)"
    equal "the size of an image of $family" "$(load_family "$family" --retry-failed)" "8 x 8"
done
dpkg --purge imgbroker-loader-svg >dpkg.log 2>&1 || fail "$(tail -5 dpkg.log)"
imgbroker ctl reload | grep -q '^loaders: ' || fail "the reload does not notice that imgbroker-loader-svg is gone"
# Variants in memory stay; this file has other bytes.
sed 's/0a141e/1e140a/' families/svg >origin/other
equal "an image of a family that was removed" "$(load_family other)" unsupported-format
[[ -z "$(find / -xdev -name 'imgworker-svg*' -not -path '/srv/*' -not -path '/proc/*')" ]] || fail "the purge has left a program"

step "upgrade under load"
python=$(command -v python3)
as alice "$python" /srv/test-load.py "${url%/*}" 4 /srv/stop >load.log 2>load-failures.log &
load=$!
memory_hits() { imgbroker ctl stats --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["memoryHits"])'; }
until (($(memory_hits) > 100)); do sleep 0.1; done
dpkg -i current/*.deb </dev/null >dpkg.log 2>&1 || fail "$(tail -5 dpkg.log)"
loads=$(grep -c 'GET /' origin.log)
imgbroker ctl upgrade || fail "the installed program does not take over"
grep -q 'event=upgrade .*took over' broker.log || fail "the log has no line about the new program"
hits=$(memory_hits)
until (($(memory_hits) > hits + 100)); do sleep 0.1; done
equal "the number of loads from the origin after the upgrade" "$(grep -c 'GET /' origin.log)" "$loads"
touch stop
wait "$load" || fail "under load: $(cat load.log load-failures.log)"
echo "  $(cat load.log)"
equal "the source after the programs were replaced" "$(source_of --width 100)" memory
stop_broker
grep -q '^allow-address' /etc/imgbroker/imgbroker.conf || fail "the upgrade has replaced the administrator's configuration"
start_broker
equal "the source after the upgrade" "$(source_of --width 100)" disk
equal "the source of a reload" "$(source_of --width 100 --cache reload)" network

step "exporter"
[[ ! -e /etc/systemd/system/multi-user.target.wants/imgbroker-exporter.service ]] || fail "the exporter is enabled"
getent group imgbroker-stats >/dev/null || fail "there is no group imgbroker-stats"
useradd --no-create-home --groups imgbroker,imgbroker-stats carol
setpriv --reuid carol --regid carol --init-groups imgbroker exporter --listen 127.0.0.1:0 2>exporter.log &
exporter=$!
until page=$(sed -n 's/.*serving \(http[^ ]*\) .*/\1/p' exporter.log) && [[ -n "$page" ]]; do
    kill -0 "$exporter" 2>/dev/null || fail "the exporter has ended: $(cat exporter.log)"
    sleep 0.1
done
page() { python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode(), end="")' "$page$1"; }
equal "the health" "$(page health)" ok
page metrics | grep -q '^imgbroker_up 1$' || fail "the metrics say that no broker answers"
kill "$exporter"
wait "$exporter" || fail "the exporter ends with an error"
userdel carol

step "images over HTTP"
[[ ! -e /etc/systemd/system/multi-user.target.wants/imgbroker-http.service ]] || fail "images over HTTP are enabled"
setpriv --reuid alice --regid alice --init-groups imgbroker http --listen 127.0.0.1:0 2>http.log &
http=$!
until door=$(sed -n 's/.*serving \(http[^ ]*\) .*/\1/p' http.log) && [[ -n "$door" ]]; do
    kill -0 "$http" 2>/dev/null || fail "images over HTTP have ended: $(cat http.log)"
    sleep 0.1
done
equal "the size over HTTP" "$(python3 - "$door" "$url" <<'END'
import json, sys, urllib.parse, urllib.request
body = urllib.request.urlopen(sys.argv[2]).read()
fit = urllib.parse.quote(json.dumps([{"operation": "fit", "params": {"width": 50, "height": 50, "type": "png"}}]))
answer = urllib.request.urlopen(urllib.request.Request(sys.argv[1] + "pipeline?operations=" + fit, body))
print(answer.headers["Image-Width"], answer.headers["Image-Height"])
END
)" "50 25"
kill "$http"
wait "$http" || fail "images over HTTP end with an error"

step "Python client"
equal "the version in Python" "$(python3 -c 'import importlib.metadata as m; print(m.version("imgbroker"))')-1" \
    "$(dpkg-query -W -f '${Version}' python3-imgbroker)"
equal "the size in Python" \
    "$(as alice python3 -c "import imgbroker; image = imgbroker.get('$url', width=50); print(image.width, image.height)")" "50 25"

step "C client"
sed -i "s|https://example.org/picture.jpg|$url|" example.c
# shellcheck disable=SC2046
gcc -Wall -Werror -o example example.c $(pkg-config --cflags --libs imgbroker)
equal "the output of the example" "$(as alice ./example)" "200 x 100, first pixel: 10 20 30 255"

stop_broker

# Removes the packages. Fails if anything differs from the files and users before their installation, in the file named.
purge() {
    mapfile -t packages < <(dpkg-query -W -f '${Package}\n' '*imgbroker*')
    dpkg --purge "${packages[@]}" >dpkg.log 2>&1 || fail "$(tail -5 dpkg.log)"
    if grep -q '^warning' dpkg.log; then fail "$(grep -m1 '^warning' dpkg.log)"; fi
    residue >after
    diff "$1" after || fail "the purge has left the differences above"
}
step "purge"
touch /etc/imgbroker/further.conf
purge before

step "user and group by systemd-sysusers"
apt-get -qq install --no-install-recommends systemd-standalone-sysusers >apt.log 2>&1 || fail "$(tail -5 apt.log)"
residue >before
dpkg -i current/*.deb </dev/null >dpkg.log 2>&1 || fail "$(tail -5 dpkg.log)"
equal "the user" "$(getent passwd imgbroker | cut -d: -f5-)" "Image broker:/var/cache/imgbroker:/usr/sbin/nologin"
purge before

if compgen -G 'widgets/*.deb' >/dev/null; then
    step "widgets"
    install_dependencies widgets python3-gi qml-qt6 qml6-module-qtquick-window
    residue >before
    # GTK's development files are not installed, so the package that needs them is not configured.
    if [[ -e gallery ]]; then
        dpkg --unpack widgets/*-dev_*.deb </dev/null >dpkg.log 2>&1 || fail "$(tail -5 dpkg.log)"
        rm widgets/*-dev_*.deb
    fi
    dpkg -i current/*.deb widgets/*.deb </dev/null >dpkg.log 2>&1 || fail "$(tail -5 dpkg.log)"
    usermod -aG imgbroker alice
    echo "allow-address = 127.0.0.0/8" >>/etc/imgbroker/imgbroker.conf
    start_broker
    if [[ -e gallery ]]; then
        equal "what the gallery in C lacks" "$(ldd -r ./gallery | grep -E 'not found|undefined' || true)" ""
        cat >paintable.py <<'END'
import sys
import gi
gi.require_version("Gdk", "4.0")
gi.require_version("ImgbrokerGtk", "4.0")
from gi.repository import Gdk, GLib, ImgbrokerGtk

loop = GLib.MainLoop()
paintable = ImgbrokerGtk.Paintable()
paintable.connect("notify::state", lambda *_: paintable.props.state == ImgbrokerGtk.State.LOADING or loop.quit())
paintable.set_uri(sys.argv[1])
loop.run()
texture = paintable.props.texture
print(*Gdk.pixbuf_get_from_texture(texture).get_pixels()[:3] if texture else paintable.props.error_code)
END
        equal "the first pixel in GTK" "$(as alice XDG_CACHE_HOME=/tmp timeout 60 python3 /srv/paintable.py "$url")" "10 20 30"
    fi
    if compgen -G 'widgets/qml6-*' >/dev/null; then
        cat >item.qml <<'END'
import QtQuick
import Imgbroker

BrokerImage {
    width: 50
    height: 25
    source: Qt.application.arguments[Qt.application.arguments.length - 1]
    onStatusChanged: {
        if (status === BrokerImage.Error) { console.log(errorCode); Qt.exit(1) }
        if (status === BrokerImage.Ready) grabToImage(result => { result.saveToFile("/tmp/item.ppm"); Qt.exit(0) })
    }
}
END
        as alice XDG_RUNTIME_DIR=/tmp XDG_CACHE_HOME=/tmp QT_QPA_PLATFORM=offscreen QT_QUICK_BACKEND=software \
            timeout 60 /usr/lib/qt6/bin/qml /srv/item.qml -- "$url" >qml.log 2>&1 || fail "the QML program: $(tail -5 qml.log)"
        equal "the last pixel in QML" "$(python3 -c 'print(*open("/tmp/item.ppm", "rb").read()[-3:])')" "10 20 30"
    fi
    stop_broker
    purge before
fi
kill "$origin"
echo "test-deb: passed"
