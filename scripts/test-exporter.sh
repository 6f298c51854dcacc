#!/usr/bin/env bash
# test-exporter.sh: tests the exporter of the release build, or of the programs in $IMGBROKER_TEST_PRODUCTS: the metrics, alerts and their
# tests with promtool, the dashboard under load in headless Chromium, and whether stats, top, metrics and dashboard agree. $OUTPUT
# (.build/exporter) takes screenshots. Debian's package of promtool is unpacked in .build/exporter if it is not installed: its service
# is not wanted.
set -euo pipefail
cd "$(dirname "$0")/.."

export OUTPUT=${OUTPUT:-$PWD/.build/exporter}
mkdir -p "$OUTPUT"
IMGBROKER_TEST_PRODUCTS=$(realpath "${IMGBROKER_TEST_PRODUCTS:-.build/release}")
PROMTOOL=$(command -v promtool || echo "$PWD/.build/exporter/prometheus/usr/bin/promtool")
export IMGBROKER_TEST_PRODUCTS PROMTOOL
if [[ ! -x "$PROMTOOL" ]]; then
    download=$(mktemp -d)
    trap 'rm -rf "$download"' EXIT
    (cd "$download" && apt-get -q download prometheus >/dev/null)
    dpkg-deb --extract "$download"/prometheus_*.deb .build/exporter/prometheus
fi

(cd packaging/monitoring && "$PROMTOOL" check rules imgbroker.rules.yml && "$PROMTOOL" test rules imgbroker.rules.test.yml)

export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=Tests/Browser:Tests/Families
timeout --foreground 15m /usr/bin/python3 Tests/Exporter/dashboard.py
timeout --foreground 15m /usr/bin/python3 Tests/Exporter/agreement.py

# Every metric that the alerts and the dashboard of Grafana name exists.
missing=$(comm -23 \
    <(grep -ohE 'imgbroker_[a-z_]+' packaging/monitoring/imgbroker.{rules.yml,grafana.json} | sed 's/_bucket$//' | sort -u) \
    <(awk '/^# TYPE/ { print $3 }' "$OUTPUT/metrics.txt" | sort -u))
[[ -z "$missing" ]] || { echo "error: these metrics do not exist: $missing" >&2; exit 1; }
echo "The exporter's metrics, alerts and dashboard are as expected."
