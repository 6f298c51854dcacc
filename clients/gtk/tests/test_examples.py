"""The examples, in C, Python and JavaScript, show images of URLs and files, and errors."""

from __future__ import annotations

import pathlib

import pytest

from conftest import BUILT, Screen, color_of, image
from support import Broker, Origin, eventually

_EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
_COMMANDS = {
    "c": [str(BUILT / "gallery")],
    "python": ["/usr/bin/python3", str(_EXAMPLES / "gallery.py")],
    "javascript": ["gjs", "-m", str(_EXAMPLES / "gallery.js")],
}
#: The pixels of a tile but for round corners.
TILE = 220 * 165 - 200


@pytest.mark.parametrize("language", _COMMANDS)
def test_gallery(screen: Screen, broker: Broker, origin: Origin, tmp_path: pathlib.Path, language: str) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.png").write_bytes(image(color_of(number), 800, 600))
    (tmp_path / "01.png").write_bytes(b"no image")
    (tmp_path / "notes.txt").write_text("This is not shown.")
    url = origin.add(f"/gallery-{language}.png", image(color_of(70)))
    files = [str(tmp_path)] if language == "c" else [str(path) for path in sorted(tmp_path.glob("*.png"))]
    program = screen.start(broker.socket, *_COMMANDS[language], url, *files)
    for number in (70, 0, 2, 3, 4):
        eventually(lambda: screen.count(color_of(number)) >= TILE)
    assert screen.count(color_of(1)) == 0 and screen.count(color_of(29)) == 0
    # The wheel scrolls to images that were not requested before.
    x, y = screen.center(color_of(3))
    screen.press("mousemove", str(x), str(y))

    def is_at_end() -> bool:
        # GTK marks the end by a glow, which hides a part of the last tiles.
        screen.press("click", "--repeat", "8", "5")
        return screen.count(color_of(29)) >= TILE // 2

    eventually(is_at_end)
    if language == "c":
        # A click shows an image large, Escape the grid.
        x, y = screen.center(color_of(28))
        screen.press("mousemove", str(x), str(y), "click", "1")
        eventually(lambda: screen.count(color_of(28)) > 600 * 700)
        screen.press("key", "Escape")
        eventually(lambda: screen.count(color_of(29)) >= TILE // 2)
    screen.end(program)
