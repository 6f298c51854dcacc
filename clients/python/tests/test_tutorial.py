"""The commands and the program of docs/tutorial.md run as they are, but for the port."""

from __future__ import annotations

import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
from typing import Tuple

from support import PRODUCTS, ROOT, Picture, eventually

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()


def block(kind: str, start: str) -> str:
    """Returns the block of code that begins with these words."""
    found = re.search(rf"```{kind}\n({re.escape(start)}.*?)```", TUTORIAL, re.DOTALL)
    assert found is not None, start
    return found[1]


def free_port() -> int:
    """Returns a free port; if possible none that the kernel gives to other programs."""
    first, last = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = [port for port in range(10_000, 1 << 16) if not first <= port <= last]
    for port in [*random.sample(ports, min(20, len(ports))), 0]:
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(listener.getsockname()[1])
    raise AssertionError("no port is free")


def test_tutorial(tmp_path: pathlib.Path, picture: Picture) -> None:
    (tmp_path / "picture.png").write_bytes(picture(256, 128))
    port = str(free_port())
    environment = {
        **os.environ, "PATH": f"{PRODUCTS}:{os.environ['PATH']}", "HOME": str(tmp_path),
        "IMGBROKER_SOCKET": str(tmp_path / "imgbroker.sock"),
    }

    def run(*words: str) -> Tuple[int, str]:
        finished = subprocess.run(
            words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        return finished.returncode, finished.stdout

    def start(command: str) -> "subprocess.Popen[bytes]":
        assert command.endswith(" &")
        return subprocess.Popen(
            ["sh", "-c", "exec " + command[:-2]], cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)

    broker_lines = block("sh", "export IMGBROKER_SOCKET").splitlines()
    network_lines = block("sh", "python3 -m http.server").replace("8000", port).splitlines()
    broker, server = start(broker_lines[1]), start(network_lines[0])
    try:
        eventually(lambda: run("imgbroker", "ctl", "stats")[0] == 0)
        eventually(lambda: socket.socket().connect_ex(("127.0.0.1", int(port))) == 0)
        for line in block("sh", "imgbroker get picture.png").splitlines():
            status, text = run("sh", "-c", line)
            assert status == 0 and "from " in text, text
        assert run("sh", "-c", "imgbroker get picture.png")[1].endswith("from memory\n")
        for line in network_lines[1:]:
            status, text = run("sh", "-c", line)
            assert status == 0, text
        for name in ["small.png", "round.png", "from-network.webp"]:
            assert (tmp_path / name).stat().st_size > 0
        program = block("python", "import imgbroker").replace("8000", port)
        status, text = run(sys.executable, "-c", program)
        assert status == 0 and re.fullmatch(r"128 64 (memory|disk)\n\d+ \d+ \d+ 255\n", text), text
    finally:
        for process in (broker, server):
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=20)
