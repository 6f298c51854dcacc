#!/usr/bin/env bash
# fuzz.sh [TARGET…]: builds Fuzz/ and runs each target (without arguments all), one after the other, for SECONDS_EACH
# seconds (60). Prints a line for each, and fails on a finding: its input is then in .build/fuzz/finds/TARGET. Corpora in
# .build/fuzz/corpora are kept and grow.
#
# FUZZ_LIBRARIES is a prefix with static libraries of libpng, libjpeg and libwebp, built by the toolchain's clang with
# `-fsanitize=address,fuzzer-no-link`; with it, the codecs are instrumented, too.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds="${SECONDS_EACH:-60}"
work="$PWD/.build/fuzz"

python=""
for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import PIL' 2>/dev/null; then python="$candidate" && break; fi
done
if [[ -z "$python" ]]; then
    echo "error: python3 does not find Pillow (Debian: python3-pil), which makes the seeds" >&2
    exit 1
fi

if [[ -n "${FUZZ_LIBRARIES:-}" ]]; then
    # The other libraries without their folder, which would come first and also has the system's codecs.
    mkdir -p "$work/pkgconfig"
    for module in libcurl libseccomp nettle sqlite3; do
        printf 'Name: %s\nDescription: as it is\nVersion: %s\nLibs: %s\n' "$module" \
            "$(pkg-config --modversion "$module")" "$(pkg-config --libs-only-l "$module")" >"$work/pkgconfig/$module.pc"
    done
    export PKG_CONFIG_PATH="$FUZZ_LIBRARIES/lib/pkgconfig:$work/pkgconfig"
fi
# Not --sanitize: SwiftPM passes two sanitizers as two options, of which the Swift compiler uses the last.
build=(swift build --package-path Fuzz --scratch-path "$work/build" -c release -Xswiftc -sanitize=fuzzer,address
    -Xcc -fsanitize=address,fuzzer-no-link)
# gold warns that it cannot export a local symbol of the sanitizer, which is not needed.
"${build[@]}" 2>&1 | grep -v __asan_extra_spill_area
fuzzer="$("${build[@]}" --show-bin-path)/imgfuzz"
"$python" scripts/fuzz-seeds.py "$work/seeds"

if (($# == 0)); then
    mapfile -t targets < <(FUZZ_TARGET=? "$fuzzer" 2>/dev/null)
    set -- "${targets[@]}"
fi
# A finding ends the process; the runtime's backtrace takes long and is not needed.
export SWIFT_BACKTRACE=enable=no
failed=0
for target in "$@"; do
    corpus="$work/corpora/$target" log="$work/$target.log" finds="$work/finds/$target/"
    mkdir -p "$corpus" "$finds"
    longest=4096
    if [[ "$target" =~ ^(png|jpeg|webp|avif|avif-samples|heif|jp2|jxl|svg|tiff|bmp|ico|pnm|qoi|tga|gif|animation|partial|metadata)$ ]]; then longest=16384; fi
    regressions=()
    if [[ -d "Fuzz/Regressions/$target" ]]; then regressions=("Fuzz/Regressions/$target"); fi
    result="nothing found"
    # fontconfig keeps its caches.
    leaks=1
    if [[ "$target" == svg ]]; then leaks=0; fi
    if ! ASAN_OPTIONS="detect_leaks=$leaks" FUZZ_TARGET="$target" RAYON_NUM_THREADS=1 "$fuzzer" -max_total_time="$seconds" -max_len="$longest" -timeout=10 \
        -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="$finds" "$corpus" "$work/seeds/$target" \
        "${regressions[@]}" >"$log" 2>&1; then
        # Without such a line the process was killed.
        what=$(grep -m 1 -hoE 'broken: .*|SUMMARY: .*|Fatal error: .*' "$log") || what="it ended"
        result="FOUND: $what (see $log, $finds)"
        failed=1
    fi
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    coverage=$(sed -nE 's/.*cov: ([0-9]+).*/\1/p' "$log" | tail -n 1)
    printf '%-18s %10s runs   coverage %6s   %s\n' "$target" "${runs:-?}" "${coverage:-?}" "$result"
done
exit "$failed"
