#!/usr/bin/env bash
# run-tests.sh [OPTION]...: runs tests that are already built: with options, those that `swift test` selects by them;
# without, all of them. Prints a line for each suite that ends, then each failure and the closing line of each run. The
# full logs are in .build/test-logs.
set -euo pipefail
cd "$(dirname "$0")/.."

logs=.build/test-logs
minutes=20
# Suites that measure time or processor time, or that affect the whole machine: they run last, with nothing beside them.
timing='TimingTests|IntegrationTests\.MemoryGroupTests'

# As many as `BlockingTrait` in Tests/IntegrationTests lets run at once: time limits do not count the time in this queue.
export SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=$((3 * $(nproc)))

names=() pids=() seen=()

# start NAME OPTION...: starts a run. --ignore-lock, because runs that go on together use the same build.
start() {
    local name=$1
    shift
    timeout "${minutes}m" swift test --skip-build --disable-xctest --ignore-lock "$@" >"$logs/$name.log" 2>&1 &
    names+=("$name") pids+=($!) seen+=(0)
}

# Prints the lines of suites that have ended since the last call.
show() {
    local i lines
    for i in "${!names[@]}"; do
        lines=$(wc -l <"$logs/${names[i]}.log")
        if ((lines == seen[i])); then continue; fi
        sed -n "$((seen[i] + 1)),${lines}p" "$logs/${names[i]}.log" | grep -aE '^[✔✘] Suite .* after ' || true
        seen[i]=$lines
    done
}

# report NAME STATUS: prints why a run failed, and its closing line.
report() {
    local log=$logs/$1.log
    if (($2 == 124)); then
        echo "error: $1: tests took longer than $minutes minutes. Started and not ended:"
        comm -23 \
            <(sed -nE '/^◇ Test (run|case) /d; s/^◇ Test (.*) started\.$/\1/p' "$log" | sort) \
            <(sed -nE 's/^[✔✘] Test (.*) (passed|failed) after .*$/\1/p' "$log" | sed -E 's/ with [0-9]+ test cases?$//' | sort)
    elif (($2 != 0)); then
        echo "error: $1: tests failed:"
        grep -aE -A4 '^✘ Test .* recorded an issue' "$log" | cut -c 1-2000 || tail -n 30 "$log"
    fi
    grep -aE '^[✔✘] Test run with ' "$log" || true
}

# Waits for the runs that were started, reports on each, and sets `status` when one failed.
finish() {
    local i code
    while [[ -n "$(jobs -pr)" ]]; do
        sleep 1
        show
    done
    show
    for i in "${!names[@]}"; do
        code=0
        wait "${pids[i]}" || code=$?
        if ((code != 0)); then status=1; fi
        report "${names[i]}" "$code"
    done
    names=() pids=() seen=()
}

# `timeout` passes the signal on to all processes of its run. A broker of a test process that was killed has nobody else to end it.
trap 'kill "${pids[@]}" 2>/dev/null || true; pkill -KILL -P 1 -f "^$PWD/\.build/.*/imgbroker --socket /tmp/ib-" || true' EXIT
trap 'exit 130' INT TERM

mkdir -p "$logs"
status=0
if (($# > 0)); then
    start tests "$@"
    finish
else
    # Tests of the processes mostly wait, so several of them go on at once, beside tests that compute.
    # Suites of the disk cache wait for one another, so they must not begin after all others.
    start units --skip 'IntegrationTests|ImageDecodingTests|imgcacheTests' --skip "$timing"
    start imgcacheTests --filter imgcacheTests --skip "$timing"
    start ImageDecodingTests --filter ImageDecodingTests --skip "$timing"
    start IntegrationTests --filter IntegrationTests --skip "$timing"
    finish
    start timing --no-parallel --filter "$timing"
    finish
fi
echo "Full logs: $logs"
exit "$status"
