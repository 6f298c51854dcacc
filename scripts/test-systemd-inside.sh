#!/usr/bin/env bash
# test-systemd-inside.sh: tests the packages in /srv/previous and /srv/packages with the systemd that runs as process 1: socket activation,
# readiness, reload, logs, restart, crash and upgrade under load, and what stays after a stop. Called by scripts/test-systemd.sh.
set -euo pipefail
cd /srv

step() { echo "test-systemd: $1"; }
fail() {
    echo "error: $1" >&2
    journal -n 20 >&2 || true
    exit 1
}
equal() { [[ "$2" == "$3" ]] || fail "$1 is \"$2\" instead of \"$3\""; }
begun=@$(date +%s)
journal() { journalctl -u imgbroker --since "$begun" --no-pager "$@"; }
has_failure() { journal -o json | grep request-failed >/dev/null; }
property() { systemctl show -P "$1" "${2:-imgbroker.service}"; }
as() { setpriv --reuid "$1" --regid "$1" --init-groups env -i PATH=/usr/bin:/bin HOME="/home/$1" "${@:2}"; }
figure() { imgbroker ctl stats --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
# until WHAT COMMAND...: waits until a command succeeds.
until_true() {
    for ((try = 0; try < 200; try++)); do
        if "${@:2}" >/dev/null 2>&1; then return; fi
        sleep 0.1
    done
    fail "$1 did not happen"
}
clean() {
    systemctl stop imgbroker-exporter.service imgbroker.socket imgbroker.service 2>/dev/null || true
    dpkg --purge imgbroker-exporter imgbroker python3-imgbroker >/dev/null 2>&1 || true
    rm -rf /srv/origin /srv/*.log /srv/stop
}
clean
for user in alice bob; do id "$user" >/dev/null 2>&1 || useradd --create-home "$user"; done

step "installation"
dpkg -i previous/{imgbroker,imgbroker-exporter,python3-imgbroker}_*.deb </dev/null >dpkg.log 2>&1 || fail "$(tail -5 dpkg.log)"
usermod -aG imgbroker alice
equal "the socket's state after the installation" "$(systemctl is-active imgbroker.socket)" active
equal "the service's state after the installation" "$(systemctl is-active imgbroker.service || true)" inactive
equal "the cache directory" "$(stat -c '%a %U %G' /var/cache/imgbroker)" "700 imgbroker imgbroker"
equal "the socket" "$(stat -c '%a %U %G' /run/imgbroker.sock)" "660 root imgbroker"

mkdir origin
python3 - <<'END'
import random, struct, zlib
chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
# Too large for segments.
header = struct.pack(">IIBBBBB", 300, 300, 8, 2, 0, 0, 0)
for number in range(12):
    rows = b"".join(b"\0" + random.Random(number * 300 + row).randbytes(900) for row in range(300))
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows, 1)), chunk(b"IEND", b"")]
    open(f"origin/{number}.png", "wb").write(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
END
# Old files are fresh for long.
touch --date 2020-01-01 origin/*.png
python3 -u -m http.server --bind 127.0.0.1 --directory origin 0 >origin.log 2>&1 &
origin=$!
until_true "the origin's start" grep -q ' port ' origin.log
url=http://127.0.0.1:$(sed -n 's/.* port \([0-9]*\) .*/\1/p' origin.log)
echo "allow-address = 127.0.0.0/8" >>/etc/imgbroker/imgbroker.conf

step "socket activation"
as alice imgbroker get "$url/0.png" >/dev/null || fail "a member of the group loads no image"
equal "the service's state" "$(systemctl is-active imgbroker.service)" active
equal "the service's user" "$(stat -c %U "/proc/$(property MainPID)")" imgbroker
[[ "$(property WatchdogTimestampMonotonic)" != 0 ]] || fail "the broker reports no life"
status=0
as bob imgbroker get "$url/0.png" >/dev/null 2>&1 || status=$?
equal "the status of a user who is not in the group" "$status" 3
sandbox=$(figure sandbox)
[[ "$sandbox" == seccomp+landlock* ]] || fail "the workers' sandbox is $sandbox"

step "exposure"
exposure() { systemd-analyze security --no-pager "$1" | sed -n 's/.*Overall exposure level.*: \([0-9.]*\) .*/\1/p'; }
for name in imgbroker imgbroker-exporter; do
    exposed=$(exposure "$name.service")
    echo "  $name.service: $exposed"
    python3 -c 'import sys; sys.exit(not float(sys.argv[1]) <= 1.7)' "$exposed" || fail "the exposure of $name.service is $exposed"
done

step "reload"
echo "log-level = info" >>/etc/imgbroker/imgbroker.conf
systemctl reload imgbroker.service || fail "the reload has failed"
# The journal has it somewhat later.
has_reload() { journal -o cat | grep 'event=reload message="reload: log-level: notice → info"'; }
until_true "a line about the reload" has_reload
status=0
as alice imgbroker get "$url/missing.png?secret" >/dev/null 2>&1 || status=$?
until_true "a line about a failed request" has_failure
priority=$(journal -o json -g request-failed | python3 -c 'import json, sys
for line in sys.stdin: print(json.loads(line)["PRIORITY"])' | sort -u)
equal "the priority of a failed request" "$priority" 6
if journal -o cat | grep -E '^<|secret'; then fail "the journal has the lines above"; fi

step "restart, crash and upgrade under load"
for ((number = 0; number < 12; number++)); do as alice imgbroker get "$url/$number.png" >/dev/null; done
# Images are stored after some time, and then a state that says what they are.
until_true "the storage of the images" sh -c '[ "$(systemctl show -P NFileDescriptorStore imgbroker.service)" -ge 13 ]'
loads=$(grep -c 'GET /[0-9]*.png' origin.log)
python=$(command -v python3)
as alice "$python" /srv/test-load.py "$url" 12 /srv/stop >load.log 2>load-failures.log &
load=$!
# answered COUNT: whether the broker that runs now has answered that many requests.
answered() { [[ "$(figure memoryHits)" -ge "$1" ]]; }
# serves WHAT FORMER: waits until another process serves, and checks that it has neither loaded nor decoded.
serves() {
    until_true "the end of the former process after $1" sh -c "[ \"\$(systemctl show -P MainPID imgbroker.service)\" != $2 ]"
    until_true "service after $1" answered 100
    equal "the number of decodings after $1" "$(figure decodes)" 0
    equal "the number of loads from the origin after $1" "$(grep -c 'GET /[0-9]*.png' origin.log)" "$loads"
}
until_true "load" answered 100
former=$(property MainPID)
systemctl restart imgbroker.service
serves "a restart" "$former"
former=$(property MainPID)
until_true "the storage of the images" sh -c '[ "$(systemctl show -P NFileDescriptorStore imgbroker.service)" -ge 13 ]'
kill -KILL "$former"
serves "a crash" "$former"
former=$(property MainPID)
dpkg -i packages/{imgbroker,imgbroker-exporter,python3-imgbroker}_*.deb </dev/null >dpkg.log 2>&1 || fail "$(tail -5 dpkg.log)"
serves "an upgrade of the package" "$former"
touch /srv/stop
wait "$load" || fail "under load: $(cat load.log load-failures.log)"
echo "  $(cat load.log)"
grep -q '^log-level' /etc/imgbroker/imgbroker.conf || fail "the upgrade has replaced the administrator's configuration"

step "exporter"
systemctl start imgbroker-exporter.service
page() { python3 -c 'import sys, urllib.request; print(urllib.request.urlopen("http://127.0.0.1:9464/" + sys.argv[1]).read().decode(), end="")' "$1"; }
is_healthy() { [[ "$(page health)" == ok ]]; }
until_true "a healthy exporter" is_healthy
page metrics | grep -q '^imgbroker_up 1$' || fail "the metrics say that no broker answers"

step "user unit"
# The user is no member of the group, and has a manager, a broker and a cache of its own.
bob=$(id -u bob)
runtime=/run/user/$bob
loginctl enable-linger bob
until_true "the start of the user's manager" systemctl --quiet is-active "user@$bob.service"
of_bob() { as bob env XDG_RUNTIME_DIR="$runtime" "$@"; }
user_property() { of_bob systemctl --user show -P "$1" imgbroker.service; }
of_bob mkdir -p /home/bob/.config/imgbroker
echo "allow-address = 127.0.0.0/8" | of_bob tee /home/bob/.config/imgbroker/imgbroker.conf >/dev/null
of_bob systemctl --user --quiet enable --now imgbroker.socket
equal "the user's socket" "$(stat -c '%a %U' "$runtime/imgbroker.sock")" "600 bob"
equal "the state of the user's service before a request" "$(of_bob systemctl --user is-active imgbroker.service || true)" inactive
source_for_bob() { of_bob imgbroker get "$url/0.png" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["source"])'; }
equal "the source of the user's first request" "$(source_for_bob)" network
equal "the source of the user's second request" "$(source_for_bob)" memory
equal "the state of the user's service" "$(of_bob systemctl --user is-active imgbroker.service)" active
equal "the user of the user's service" "$(stat -c %U "/proc/$(user_property MainPID)")" bob
equal "the user's cache directory" "$(stat -c '%a %U' /home/bob/.cache/imgbroker)" "700 bob"
[[ "$(user_property WatchdogTimestampMonotonic)" != 0 ]] || fail "the user's broker reports no life"
sandbox=$(of_bob imgbroker ctl stats --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["sandbox"])')
[[ "$sandbox" == seccomp+landlock* ]] || fail "the sandbox of the user's workers is $sandbox"
echo "log-level = info" | of_bob tee -a /home/bob/.config/imgbroker/imgbroker.conf >/dev/null
of_bob systemctl --user reload imgbroker.service || fail "the reload of the user's service has failed"
of_bob systemctl --user restart imgbroker.service
source_after=$(source_for_bob)
[[ "$source_after" == memory || "$source_after" == disk ]] || fail "the source after a restart of the user's service is $source_after"
of_bob systemctl --user --quiet disable --now imgbroker.socket imgbroker.service
[[ ! -e "$runtime/imgbroker.sock" ]] || fail "the user's socket stays after a stop"
loginctl disable-linger bob

step "stop"
systemctl --quiet stop imgbroker-exporter.service imgbroker.service 2>/dev/null
equal "the stored descriptors after a stop" "$(property NFileDescriptorStore)" 0
equal "the source after a stop" \
    "$(as alice imgbroker get "$url/0.png" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["source"])')" disk
# The fork server may be late on a busy machine.
journal -p warning -o cat | grep -v -e 'worker is gone: outside' -e 'the fork server has made no worker in time' | grep 'event=' &&
    fail "the journal has the warnings above"
kill "$origin"
clean
[[ ! -e /run/imgbroker.sock ]] || fail "the socket stays after the purge"
echo "test-systemd: passed"
