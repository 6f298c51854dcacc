#!/usr/bin/env bash
# lint.sh [--fix]: checks the formatting of all Swift sources and the pages; with --fix, formats the sources instead.
set -euo pipefail
cd "$(dirname "$0")/.."

# `swift format` ignores paths that do not exist, so only existing ones are given.
paths=()
for path in Package.swift Sources Tests Demo Benchmarks Fuzz clients; do
    if [[ -e "$path" ]]; then paths+=("$path"); fi
done

if [[ "${1:-}" == --fix ]]; then
    exec swift format format --in-place --parallel --recursive "${paths[@]}"
fi
swift format lint --strict --parallel --recursive "${paths[@]}"
# `swift format` leaves comments as they are.
if LC_ALL=C.UTF-8 grep -rnP --include='*.swift' --exclude-dir='.build*' '^(?=\s*//).{121}' "${paths[@]}"; then
    echo "error: these comments have lines of more than 120 columns" >&2
    exit 1
fi
# The broker's decisions are values without the system.
if grep -rnE '^(package |public |internal )?import (C[A-Z][A-Za-z]+|Foundation|Glibc|LinuxSystem|SharedCache)' Sources/BrokerCore; then
    echo "error: BrokerCore imports a system module" >&2
    exit 1
fi
scripts/lint-words.py
scripts/lint-docs.py
scripts/floors.py --check
echo "lint: ${paths[*]} docs"
