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

# A file is about one thing; a long one is worth a thought, though no error.
while IFS= read -r file; do
    lines=$(wc -l <"$file")
    if ((lines > 400)); then echo "note: $file has $lines lines, more than 400" >&2; fi
done < <(find "${paths[@]}" -name .build -prune -o -name '*.swift' -print)
echo "lint: ${paths[*]}"
