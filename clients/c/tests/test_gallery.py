"""Runs examples/gallery.c in a window of a virtual display, and checks screenshots of it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import threading
from typing import Callable, Dict, Iterator, List, Tuple

import PIL.Image
import PIL.ImageGrab
import pytest

from support import Broker, Origin, Page, eventually

GALLERY = pathlib.Path(os.environ.get("IMGBROKER_C_GALLERY", ""))
#: The size of a tile's picture, and the colour of a tile with an error.
TILE = (220, 165)
FAILED = (0x3A, 0x26, 0x28)

Color = Tuple[int, int, int]


def _color(number: int) -> Color:
    """Returns a colour that no other image and no part of the window has."""
    return (250 - number * 5, 100, number * 5)


class Screen:
    """A virtual display."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self._server = subprocess.Popen(
            # Without a reset when a screenshot was its only client, which would disconnect a program that starts meanwhile.
            ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1100x800x24", "-nolisten", "tcp", "-noreset"],
            pass_fds=[writing], stderr=subprocess.DEVNULL)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            self.name = ":" + pipe.readline().strip()
        self._programs: List["subprocess.Popen[bytes]"] = []

    def show(self, broker: Broker, *sources: str, scale: int = 1) -> None:
        """Starts a gallery."""
        environment = {**os.environ, "DISPLAY": self.name, "GDK_BACKEND": "x11", "GSK_RENDERER": "cairo",
                       "GDK_SCALE": str(scale), "IMGBROKER_SOCKET": broker.socket, "LC_ALL": "C.UTF-8"}
        self._programs.append(subprocess.Popen([str(GALLERY), *sources], env=environment, stderr=subprocess.DEVNULL))

    def picture(self) -> PIL.Image.Image:
        """Returns a screenshot."""
        return PIL.ImageGrab.grab(xdisplay=self.name).convert("RGB")

    def counts(self) -> Dict[Color, int]:
        """Returns the number of pixels of each colour."""
        return {color: count for count, color in self.picture().getcolors(1 << 24)}

    def center(self, color: Color) -> Tuple[int, int]:
        """Returns the place in the middle of all pixels of a colour."""
        picture = self.picture()
        places = [index for index, pixel in enumerate(picture.getdata()) if pixel == color]
        columns = [place % picture.width for place in places]
        return (min(columns) + max(columns)) // 2, places[len(places) // 2] // picture.width

    def press(self, *arguments: str) -> None:
        """Moves the pointer, clicks or turns the wheel."""
        subprocess.run(["xdotool", *arguments], check=True, env={**os.environ, "DISPLAY": self.name})

    def stop(self) -> None:
        """Ends the gallery, which must be running."""
        for program in self._programs:
            assert program.poll() is None
            program.terminate()
            program.wait(20)
        self._programs.clear()

    def close(self) -> None:
        """Ends it."""
        for program in self._programs:
            program.kill()
            program.wait(20)
        self._server.terminate()
        self._server.wait(20)


@pytest.fixture
def screen() -> Iterator[Screen]:
    screen = Screen()
    yield screen
    screen.close()


def is_shown(screen: Screen, *numbers: int) -> Callable[[], bool]:
    """Returns a condition: the tiles of these images are filled, but for their round corners."""
    least = TILE[0] * TILE[1] - 200

    def condition() -> bool:
        counts = screen.counts()
        return all(counts.get(_color(number), 0) >= least for number in numbers)

    return condition


def test_gallery(screen: Screen, broker: Broker, origin: Origin, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(40):
        PIL.Image.new("RGB", (800, 600), _color(number)).save(folder / f"{number:02}.png")
    (folder / "05.png").write_bytes(b"no image")
    (folder / "notes.txt").write_text("This is not shown.")
    path = folder / "41.png"
    PIL.Image.new("RGB", (640, 480), _color(41)).save(path)
    url = origin.add("/gallery.png", path.read_bytes())
    path.unlink()

    screen.show(broker, url, str(folder))
    # The URL, and the files that fit into the window; the broken one has an error.
    eventually(is_shown(screen, 41, 0, 1, 2, 3, 4, 6))
    eventually(lambda: screen.counts().get(FAILED, 0) > 20_000)
    assert _color(39) not in screen.counts()

    # The wheel scrolls, to images that were not requested before.
    x, y = screen.center(_color(1))
    screen.press("mousemove", str(x), str(y))

    def scrolled() -> bool:
        screen.press("click", "5")
        return is_shown(screen, 37, 38, 39)()

    eventually(scrolled)
    assert _color(0) not in screen.counts()

    # A click shows an image large, and the button leads back.
    x, y = screen.center(_color(38))
    screen.press("mousemove", str(x), str(y), "click", "1")
    eventually(lambda: screen.counts().get(_color(38), 0) > 800 * 600 * 0.99)
    assert _color(39) not in screen.counts()
    screen.press("mousemove", "28", "28", "click", "1")
    eventually(is_shown(screen, 37, 38, 39))
    screen.stop()


def test_two_pixels_for_one(screen: Screen, broker: Broker, tmp_path: pathlib.Path) -> None:
    """With a scale factor of 2, the pixels of a thumbnail are pixels of the screen."""
    stripes = PIL.Image.new("RGB", (2 * TILE[0], 2 * TILE[1]))
    stripes.putdata([((x % 2) * 255, 0, 255 - (x % 2) * 255) for _ in range(2 * TILE[1]) for x in range(2 * TILE[0])])
    stripes.save(tmp_path / "stripes.png")
    screen.show(broker, str(tmp_path / "stripes.png"), scale=2)

    def is_sharp() -> bool:
        counts = screen.counts()
        least = 2 * TILE[0] * TILE[1] - 1000
        return counts.get((255, 0, 0), 0) >= least and counts.get((0, 0, 255), 0) >= least

    eventually(is_sharp)
    screen.stop()


def test_restart(screen: Screen, origin: Origin, tmp_path: pathlib.Path) -> None:
    """Images stay on the screen while the broker restarts, and those in flight arrive afterwards."""
    broker = Broker(tmp_path)
    gate = threading.Event()
    try:
        for number in range(2):
            PIL.Image.new("RGB", (300, 200), _color(number)).save(tmp_path / f"{number}.png")
        origin.pages["/gated.png"] = Page((tmp_path / "1.png").read_bytes(), gate=gate)
        screen.show(broker, str(tmp_path / "0.png"), origin.url + "/gated.png")
        eventually(is_shown(screen, 0))
        broker.stop("kill")
        gate.set()
        broker.start()
        eventually(is_shown(screen, 0, 1))
        screen.stop()
    finally:
        gate.set()
        broker.stop()
