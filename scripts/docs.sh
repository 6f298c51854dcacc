#!/usr/bin/env bash
# docs.sh: builds the documentation of the Swift library, and that of the widgets for GTK 4 if gi-docgen is installed, into
# .build/documentation; warnings are errors.
set -euo pipefail
cd "$(dirname "$0")/.."

products=.build/example
output=.build/documentation
modules=IPCProtocol,HTTPValues,LinuxSystem,SharedCache

swift build -c release --package-path clients/swift/example --scratch-path "$products"
rm -rf "$output"
mkdir -p "$output/symbols"
# With the types of other modules that the library exports.
swift symbolgraph-extract -module-name ImageBrokerClient -I "$products/release/Modules" \
    -Xcc -fmodule-map-file="$products/release/CLinux.build/module.modulemap" \
    -target "$(swiftc -print-target-info | sed -n 's/.*"unversionedTriple": "\(.*\)",/\1/p' | head -1)" \
    -minimum-access-level public -experimental-allowed-reexported-modules="$modules" -output-dir "$output/symbols"
docc convert Sources/ImageBrokerClient/ImageBrokerClient.docc --additional-symbol-graph-dir "$output/symbols" \
    --fallback-bundle-identifier imgbroker.ImageBrokerClient --fallback-display-name ImageBrokerClient --warnings-as-errors \
    --output-path "$output/ImageBrokerClient.doccarchive"

if command -v gi-docgen >/dev/null && command -v g-ir-scanner >/dev/null && pkg-config --exists gtk4; then
    make --no-print-directory -s -C clients/gtk docs BUILD="$PWD/.build/gtk" C_CLIENT=../c
    cp -r .build/gtk/docs/ImgbrokerGtk-4.0 "$output/"
else
    echo "Without the documentation of the widgets for GTK 4: run scripts/bootstrap.sh --for-docs."
fi
