from __future__ import annotations

import json
import os
import pathlib
import select
import subprocess
import sys
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import pytest

# The broker and the origin are those of the Python client's tests.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python" / "tests"))

from fixtures import gate, origin  # noqa: E402, F401
from support import Broker, Display  # noqa: E402

#: The build folder of scripts/test-client.sh.
BUILD = pathlib.Path(os.environ["IMGBROKER_QML_BUILD"])
HEADER = "import QtQuick\nimport QtQuick.Window\nimport Imgbroker\n"

Color = Tuple[int, int, int]


class Program:
    """A QML program in a process of its own, in which expressions can be evaluated."""

    def __init__(
        self, display: Display, socket: str, folder: pathlib.Path, arguments: Sequence[str], environment: Dict[str, str],
    ) -> None:
        self.picture, self.counts = display.picture, display.counts
        self._errors = open(folder / "errors", "w+")
        self.process = subprocess.Popen(
            [str(BUILD / "driver"), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            env={**os.environ, "DISPLAY": display.name, "QT_QPA_PLATFORM": "xcb", "QT_QUICK_BACKEND": os.environ.get("QT_QUICK_BACKEND", "software"),
                 "QML_IMPORT_PATH": str(BUILD / "qml"), "QT_IM_MODULE": "", "QT_ACCESSIBILITY": "0", "LC_ALL": "C.UTF-8",
                 "XDG_RUNTIME_DIR": str(folder), "HOME": str(folder), "IMGBROKER_SOCKET": socket, **environment})

    def eval(self, expression: str) -> Any:
        """Returns the value of an expression in JavaScript, in the scope of the window."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(expression.replace("\n", " ").encode() + b"\n")
        self.process.stdin.flush()
        line = b""
        while not line.endswith(b"\n"):
            assert select.select([self.process.stdout], [], [], 30)[0], "the program hangs"
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            assert part, f"the program has ended: {self.errors()}"
            line += part
        return json.loads(line)

    def status(self, name: str) -> int:
        """Returns a line of /proc/PID/status, such as RssShmem, in KiB."""
        lines = pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))

    def errors(self) -> str:
        """Returns the warnings of the program."""
        self._errors.flush()
        return pathlib.Path(self._errors.name).read_text()

    def close(self) -> None:
        """Ends it, which must have been running without warnings."""
        assert self.process.stdin is not None
        was_running = self.process.poll() is None
        self.process.stdin.close()
        try:
            status = self.process.wait(20)
        finally:
            self.process.kill()
        errors = self.errors()
        self._errors.close()
        assert was_running and status == 0 and "Error:" not in errors and "Binding loop" not in errors, (status, errors)


class Screen(Display):
    """A virtual display, on which one program at a time is shown."""

    def __init__(self) -> None:
        super().__init__("800x600")
        self.folder: Optional[pathlib.Path] = None
        self._programs: List[Program] = []

    def run(self, socket: str, file: pathlib.Path, *arguments: str, **environment: str) -> Program:
        """Shows a file."""
        assert self.folder is not None
        self._programs.append(Program(self, socket, self.folder, [str(file), *arguments], environment))
        return self._programs[-1]

    def show(self, broker: Broker, content: str, **environment: str) -> Program:
        """Shows a white window of 800 × 600 pixels with some content."""
        assert self.folder is not None
        file = self.folder / "main.qml"
        file.write_text(HEADER + f'Window {{ id: root; x: 0; y: 0; width: 800; height: 600; visible: true\n{content}\n}}\n')
        return self.run(broker.socket, file, **environment)

    def close_programs(self) -> None:
        """Ends all programs."""
        while self._programs:
            self._programs.pop().close()


@pytest.fixture(scope="session")
def display() -> Iterator[Screen]:
    screen = Screen()
    yield screen
    screen.close()


@pytest.fixture
def screen(display: Screen, tmp_path: pathlib.Path) -> Iterator[Screen]:
    display.folder = tmp_path
    yield display
    display.close_programs()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for tests that do not end it."""
    folder = tmp_path_factory.mktemp("broker")
    configuration = folder / "imgbroker.conf"
    configuration.write_text("[preset tiny]\nwidth = 40\n")
    broker = Broker(folder, "--config", str(configuration))
    yield broker
    broker.stop()
