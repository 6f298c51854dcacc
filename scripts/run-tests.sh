#!/usr/bin/env bash
# run-tests.sh [options of swift test]: runs tests that are built, and repeats at the end what failed, which otherwise
# stands somewhere in thousands of lines.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
timeout --foreground 20m swift test --skip-build --disable-xctest "$@" 2>&1 | tee "$log" || status=$?
if ((status != 0)); then
    echo
    # 124 is from `timeout`: then what was begun and did not end is told.
    if ((status == 124)); then
        echo "error: the tests took longer than 20 minutes; not ended:"
        comm -23 \
            <(sed -nE 's/^◇ Test (.*) started\.$/\1/p' "$log" | sort) \
            <(sed -nE 's/^[✔✘] Test (.*) (passed|failed) after .*$/\1/p' "$log" | sort)
    else
        echo "error: tests failed:"
        grep -E -A4 '^✘ Test .* recorded an issue' "$log" || tail -n 30 "$log"
    fi
fi
exit "$status"
