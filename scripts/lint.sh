#!/usr/bin/env bash
# Checks (or, with --fix, establishes) the formatting of all Swift sources.
set -euo pipefail
cd "$(dirname "$0")/.."

# `swift format` says nothing about a path that does not exist, so only those that do are given.
paths=()
for path in Package.swift Sources Tests Demo Benchmarks Fuzz; do
    if [[ -e "$path" ]]; then paths+=("$path"); fi
done

if [[ "${1:-}" == --fix ]]; then
    exec swift format format --in-place --parallel --recursive "${paths[@]}"
fi
swift format lint --strict --parallel --recursive "${paths[@]}"

# A file is about one thing.
limit=400
status=0
while IFS= read -r file; do
    lines=$(wc -l <"$file")
    if ((lines > limit)); then
        echo "$file: $lines lines, more than $limit" >&2
        status=1
    fi
done < <(find "${paths[@]}" -name .build -prune -o -name '*.swift' -print)
echo "lint: ${paths[*]}"
exit "$status"
