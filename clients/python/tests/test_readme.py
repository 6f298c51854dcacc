"""The examples of the READMEs run as they are, but for the URL."""

from __future__ import annotations

import re

import pytest

from support import ROOT, Broker, Origin, Picture, run_python

EXAMPLE = "https://example.org/picture.jpg"


@pytest.mark.parametrize("page", ["README.md", "clients/python/README.md"])
def test_first_example(page: str, broker: Broker, origin: Origin, picture: Picture) -> None:
    text = (ROOT / page).read_text()
    block = re.search(r"```python\n(import imgbroker\n.*?)```", text, re.DOTALL)
    assert block is not None and EXAMPLE in block[1]
    script = block[1].replace(EXAMPLE, origin.add("/readme.png", picture(512, 256))) + "print(pixels.shape)\n"
    run = run_python("-c", script, socket=broker.socket)
    assert (run.stdout, run.stderr) == ("(128, 256, 4)\n", "")
