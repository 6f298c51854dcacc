#!/usr/bin/env bash
# run-tests.sh [--beside | --alone] [OPTION]...: runs tests that are already built in $BUILD (.build): those that --filter and --skip select;
# with --beside without the timing suites, with --alone these only, one test after the other. Prints a line for each suite that ends, then
# each failure and the closing line. The full log is .build/logs/NAME.swift-test, where NAME is $IMGBROKER_GROUP or "tests".
set -euo pipefail
cd "$(dirname "$0")/.."

# The link's target, because each build replaces the link.
folder=$(realpath "${BUILD:-.build}/debug")
log=.build/logs/${IMGBROKER_GROUP:-tests}.swift-test
minutes=20
# Suites that measure time or processor time, or that affect the whole machine: they run with nothing beside them.
timing='TimingTests|IntegrationTests\.MemoryGroupTests'
if [[ "${1:-}" == --alone ]]; then
    shift
    set -- --no-parallel --filter "$timing" "$@"
elif [[ "${1:-}" == --beside ]]; then
    shift
    set -- --skip "$timing" "$@"
fi

# As many as `BlockingTrait` in Tests/IntegrationTests lets run at once: time limits do not count the time in this queue.
export SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=$((3 * $(nproc)))

mkdir -p .build/logs
status=0
# Not `swift test`, which locks the build folder, or fails where another process has locked it.
NO_COLOR=1 timeout "${minutes}m" "$folder/imgbrokerPackageTests.xctest" --testing-library swift-testing "$@" 2>&1 | tee "$log" |
    grep -a --line-buffered -E '^[✔✘] Suite .* after ' || status=${PIPESTATUS[0]}
if ((status == 124)); then
    echo "error: tests took longer than $minutes minutes. Started and not ended:"
    comm -23 \
        <(sed -nE '/^◇ Test (run|case) /d; s/^◇ Test (.*) started\.$/\1/p' "$log" | sort) \
        <(sed -nE 's/^[✔✘] Test (.*) (passed|failed) after .*$/\1/p' "$log" | sed -E 's/ with [0-9]+ test cases?$//' | sort)
elif ((status != 0)); then
    echo "error: tests failed:"
    grep -aE -A4 '^✘ Test .* recorded an issue' "$log" | cut -c 1-2000 || tail -n 30 "$log"
fi
grep -aE '^[✔✘] Test run with ' "$log" || true
echo "Full log: $log"
exit "$status"
