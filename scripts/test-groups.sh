#!/usr/bin/env bash
# test-groups.sh: tests scripts/groups.py with groups that pass, fail, and leave something.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# expect STATUS TEXT LINE...: runs a table of lines, which must end with a status and print a text.
expect() {
    local status=$1 text=$2 found=0 output
    shift 2
    printf '%s\n' "$@" >"$work/table"
    output=$(scripts/groups.py --logs "$work/logs" --processors 2 "$work/table" 2>&1) || found=$?
    if [[ "$found" != "$status" || "$output" != *"$text"* ]]; then
        printf 'error: status %s and "%s" expected, status %s and this found:\n%s\n' "$status" "$text" "$found" "$output" >&2
        exit 1
    fi
}

expect 0 "All 2 groups passed." "a 1 true" "b 1 after=a [[ -d \"\$TMPDIR\" ]]"
# Two groups that wait for each other run side by side.
expect 0 "All 2 groups passed." "a 1 touch $work/a; until [[ -e $work/b ]]; do sleep 0.05; done" \
    "b 1 touch $work/b; until [[ -e $work/a ]]; do sleep 0.05; done"
# One that uses all processors runs alone, in its place.
expect 0 "All 3 groups passed." "a 1 touch $work/c; sleep 0.3; rm $work/c" "b all [[ ! -e $work/c ]] && touch $work/d" \
    "c 0.1 [[ -e $work/d ]]"
expect 1 "the reason" "a 1 echo the reason; exit 3" "b 1 after=a true"
expect 1 "✘ b" "a 1 sleep 600" "b 1 sleep 0.2; false"
expect 1 "left process" "a 1 setsid sleep 600 & true"
expect 1 "left file" "a 1 touch \"\$TMPDIR/file\""
expect 1 "left file" "a 1 touch \"\$TMPDIR/own.lock\""
expect 1 "left directory" "a 1 mktemp -d >/dev/null"
if mount -t tmpfs tmpfs "$work" 2>/dev/null && umount "$work"; then
    expect 1 "left mount" "a 1 mkdir \"\$TMPDIR/m\" && mount -t tmpfs tmpfs \"\$TMPDIR/m\""
fi
expect 0 "All 1 groups passed." "a 1 mkdir \"\$TMPDIR/TemporaryDirectory.x\"; (sleep 1 &)"
echo "The groups are run as expected."
