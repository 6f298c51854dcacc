#!/usr/bin/env python3
"""Runs the example of the Swift client with a real broker: `test_example.py PROGRAM`. Needs the standard library alone."""

from __future__ import annotations

import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python" / "tests"))

from support import Broker, Origin  # noqa: E402


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + bytes(x + y & 255 for x in range(3 * width)) for y in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b"")


def main(program: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        broker, origin, ended = Broker(folder), Origin(), threading.Event()
        try:
            (folder / "photo.png").write_bytes(_png(64, 32))
            url = origin.add("/picture.png", _png(200, 100))
            origin.add("/picture.png?cancelled", b"", gate=ended)
            result = subprocess.run(
                [program, url, str(folder / "photo.png")], env={**os.environ, "IMGBROKER_SOCKET": broker.socket},
                stdout=subprocess.PIPE, timeout=60, check=True)
        finally:
            ended.set()
            broker.stop()
            origin.close()
    output = result.stdout.decode()
    print(output, end="")
    for part in ("progress: 0 of", "loaded: 200 × 100", "sizes: [4, 8, 16]", "kept: true", "cancelled", "file: 8 × 8"):
        assert part in output, f"missing in the output: {part}"


if __name__ == "__main__":
    main(sys.argv[1])
