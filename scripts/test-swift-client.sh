#!/usr/bin/env bash
# test-swift-client.sh: builds the example of the Swift client and those of its README and the repository's, checks what the example
# needs, runs it, and runs the conformance tests with the client; with the programs of the release build, or those in $IMGBROKER_TEST_PRODUCTS.
set -euo pipefail
cd "$(dirname "$0")/.."

IMGBROKER_TEST_PRODUCTS=$(realpath "${IMGBROKER_TEST_PRODUCTS:-.build/release}")
export IMGBROKER_TEST_PRODUCTS PYTHONDONTWRITEBYTECODE=1
products=.build/example

swift build -c release --package-path clients/swift/example --scratch-path "$products"

# The manifest of the client's README, beside the package as it says, with the program of each README.
readme=$(mktemp -d)
trap 'rm -rf "$readme"' EXIT
ln -s "$PWD" "$readme/imgbroker"
mkdir -p "$readme/viewer/Sources/viewer"
snippet() { awk -v number="$2" '/^```swift/ { inside = ++count == number; next } /^```/ { inside = 0 } inside' "$1"; }
build() {
    snippet "$1" "$2" >"$readme/viewer/Sources/viewer/main.swift"
    swift build -c release --package-path "$readme/viewer" --scratch-path .build/readme
}
snippet clients/swift/README.md 1 >"$readme/viewer/Package.swift"
build clients/swift/README.md 2
build README.md 1

# A program that uses the client needs glibc and the Swift runtime, and no other library.
others=$(readelf -d "$products/release/imgexample" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vE '^(libswift.*\.so|lib(c|m|gcc_s|stdc\+\+)\.so\.[0-9]+|ld-linux.*\.so\.[0-9]+)$' || true)
if [[ -n "$others" ]]; then
    echo "error: the example needs libraries besides glibc and the Swift runtime:" $others >&2
    exit 1
fi
timeout --foreground 15m python3 clients/swift/test_example.py "$products/release/imgexample"
timeout --foreground 15m python3 clients/conformance/run.py "$IMGBROKER_TEST_PRODUCTS/imgprobe" calls
