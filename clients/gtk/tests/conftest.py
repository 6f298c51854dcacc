from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any, Dict, Iterator, List, Tuple

import PIL.Image
import pytest

# The broker and the origin are those of the Python client's tests.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python" / "tests"))

from fixtures import gate, own_broker as broker  # noqa: E402, F401
from support import Broker, Display, Origin, Page, encoded, eventually  # noqa: E402

#: The folder of the library, built by scripts/test-client.sh.
BUILT = pathlib.Path(os.environ["IMGBROKER_GTK_BUILT"])
_FOLDER = pathlib.Path(__file__).resolve().parent

Color = Tuple[int, int, int]


def color_of(number: int) -> Color:
    """The colour of the image with a number below 5,000, as in viewer.py."""
    return (number % 16 * 12 + 20, number // 16 % 16 * 12 + 20, number // 256 * 9 + 20)


def image(color: Color, width: int = 300, height: int = 225, form: str = "PNG") -> bytes:
    """Returns an image of one colour."""
    return encoded(PIL.Image.new("RGB", (width, height), color), form)


class _Numbered(Dict[str, Page]):
    """The pages of an origin, and an image of its colour at the path of each number."""

    def get(self, path: str, default: Any = None) -> Any:
        if not path.startswith("/n/"):
            return super().get(path, default)
        return Page(image(color_of(int(path[3:]))), headers={"Cache-Control": "max-age=3600"})


class Screen(Display):
    """A virtual display, and the programs on it."""

    def __init__(self) -> None:
        super().__init__("1100x800")
        self._programs: List["subprocess.Popen[str]"] = []

    def start(self, socket: str, *command: str, scale: int = 1) -> "subprocess.Popen[str]":
        """Starts a program."""
        environment = {
            **os.environ, "DISPLAY": self.name, "GDK_BACKEND": "x11", "GSK_RENDERER": "cairo", "GDK_SCALE": str(scale),
            "IMGBROKER_SOCKET": socket, "LC_ALL": "C.UTF-8", "GI_TYPELIB_PATH": str(BUILT), "LD_LIBRARY_PATH": str(BUILT),
            "G_DEBUG": "fatal-criticals", "GTK_A11Y": "none", "NO_AT_BRIDGE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        program = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._programs.append(program)
        return program

    def count(self, color: Color) -> int:
        """Returns the number of pixels of a colour."""
        return self.counts().get(color, 0)

    def center(self, color: Color) -> Tuple[int, int]:
        """Returns the place in the middle of all pixels of a colour."""
        picture = self.picture()
        places = [index for index, pixel in enumerate(picture.getdata()) if pixel == color]
        columns = [place % picture.width for place in places]
        return (min(columns) + max(columns)) // 2, places[len(places) // 2] // picture.width

    def end(self, program: "subprocess.Popen[str]") -> None:
        """Ends a program, which must be running."""
        assert program.poll() is None
        program.kill()
        program.communicate()

    def close(self) -> None:
        """Ends it."""
        for program in self._programs:
            program.kill()
            program.communicate()
        super().close()


class Viewer:
    """A program that does what the tests say."""

    def __init__(self, screen: Screen, socket: str, scale: int = 1) -> None:
        self.screen = screen
        self.process = screen.start(socket, "/usr/bin/python3", str(_FOLDER / "viewer.py"), scale=scale)

    def do(self, code: str) -> Any:
        """Executes lines of Python in the program. Returns their `result`."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(code), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        assert line, f"the program has ended with {self.process.wait(20)}"
        return json.loads(line)

    def get(self, expression: str) -> Any:
        """Evaluates an expression in the program."""
        return self.do(f"result = {expression}")

    def state(self) -> str:
        """Returns the state of its picture."""
        return str(self.get("viewer.picture.props.state.value_nick"))

    def wait(self, state: str) -> None:
        """Waits for a state of its picture."""
        eventually(lambda: self.state() == state)

    def end(self) -> None:
        """Ends the program, which must succeed."""
        assert self.process.stdin is not None
        self.process.communicate(timeout=20)
        assert self.process.returncode == 0


@pytest.fixture(scope="session")
def screen() -> Iterator[Screen]:
    screen = Screen()
    yield screen
    screen.close()


@pytest.fixture(scope="session")
def origin() -> Iterator[Origin]:
    """An HTTP server; tests use paths of their own."""
    origin = Origin()
    origin.pages = _Numbered()
    yield origin
    origin.close()


@pytest.fixture
def viewer(screen: Screen, broker: Broker) -> Iterator[Viewer]:
    viewer = Viewer(screen, broker.socket)
    yield viewer
    viewer.end()


def private_memory(viewer: Viewer) -> int:
    """Returns the bytes of memory that a program shares with no other."""
    status = pathlib.Path(f"/proc/{viewer.process.pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024
