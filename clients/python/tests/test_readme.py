"""The examples of the READMEs run as they are, but for the URL."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from typing import Callable

import pytest

from support import Broker, Origin

ROOT = pathlib.Path(__file__).parents[3]
EXAMPLE = "https://example.org/picture.jpg"


@pytest.mark.parametrize("page", ["README.md", "clients/python/README.md"])
def test_first_example(page: str, broker: Broker, origin: Origin, picture: Callable[..., bytes]) -> None:
    text = (ROOT / page).read_text()
    block = re.search(r"```python\n(import imgbroker\n.*?)```", text, re.DOTALL)
    assert block is not None and EXAMPLE in block[1]
    script = block[1].replace(EXAMPLE, origin.add("/readme.png", picture(512, 256))) + "print(pixels.shape)\n"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60,
        env={**os.environ, "IMGBROKER_SOCKET": broker.socket})
    assert (run.stdout, run.stderr) == ("(128, 256, 4)\n", "")
