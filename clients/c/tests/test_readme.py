"""The examples of the READMEs compile without warnings and run as they are, but for the URL."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
from typing import List

import PIL.Image
import pytest

from conftest import PROGRAMS
from support import ROOT, Broker, Origin

EXAMPLE = "https://example.org/picture.jpg"


def _programs(page: str) -> List[str]:
    return re.findall(r"```c\n(#include.*?)```", (ROOT / page).read_text(), re.DOTALL)


def _run(text: str, folder: pathlib.Path, broker: Broker, *arguments: str) -> str:
    """Compiles and runs a program with the library. Returns its output."""
    (folder / "program.c").write_text(text)
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsanitize=address,undefined", f"-I{ROOT}/clients/c"]
    subprocess.run(
        ["cc", "-std=c11", *flags, "-o", str(folder / "program"), str(folder / "program.c"),
         str(PROGRAMS / "libimgbroker.a"), "-ljansson"], check=True)
    run = subprocess.run(
        [str(folder / "program"), *arguments], stdout=subprocess.PIPE, text=True, timeout=60, check=True,
        env={**os.environ, "IMGBROKER_SOCKET": broker.socket})
    return run.stdout


@pytest.fixture
def url(origin: Origin, tmp_path: pathlib.Path) -> str:
    PIL.Image.new("RGB", (512, 256), (10, 20, 30)).save(tmp_path / "a.png")
    return origin.add("/readme.png", (tmp_path / "a.png").read_bytes())


@pytest.mark.parametrize(
    ("page", "output"),
    [("README.md", "512 x 256, first byte: 10\n"), ("clients/c/README.md", "256 x 128, first pixel: 10 20 30 255\n")])
def test_first_example(page: str, output: str, broker: Broker, url: str, tmp_path: pathlib.Path) -> None:
    program = _programs(page)[0]
    assert EXAMPLE in program
    assert _run(program.replace(EXAMPLE, url), tmp_path, broker) == output


def test_poll_loop(broker: Broker, url: str, tmp_path: pathlib.Path) -> None:
    output = _run(_programs("clients/c/README.md")[1], tmp_path, broker, url, "ftp://127.0.0.1/", url + "?2")
    lines = sorted(output.splitlines())
    assert lines[0].startswith("ftp://127.0.0.1/: ") and lines[1] == f"{url}: 512 x 256"
    assert lines[2].startswith(f"{url}?2: ") and len(lines) == 3
