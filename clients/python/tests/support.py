"""What the tests start: brokers, origins and scripted brokers."""

from __future__ import annotations

import http.server
import io
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, TypeVar

ROOT = pathlib.Path(__file__).resolve().parents[3]
CONFORMANCE = ROOT / "clients" / "conformance"
#: Where the programs are.
PRODUCTS = pathlib.Path(os.environ.get("IMGBROKER_TEST_PRODUCTS") or ROOT / ".build" / "release")

Value = TypeVar("Value")
#: The fixture that encodes an image.
Picture = Callable[..., bytes]


def eventually(condition: Callable[[], Value], seconds: float = 20.0) -> Value:
    """Waits for a condition; its value must be true in the end."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            assert value, "the condition did not come true"
            return value
        time.sleep(0.01)


def encoded(image: Any, format: str = "PNG", **options: Any) -> bytes:
    """Returns the file of an image of Pillow's."""
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def open_descriptors() -> int:
    """Returns the number of open descriptors of this process."""
    return len(os.listdir("/proc/self/fd")) - 1


class Page(NamedTuple):
    """What an origin answers to one path."""

    body: bytes
    status: int = 200
    headers: Dict[str, str] = {}
    #: Closes the connection after this number of bytes of the body.
    close_after: Optional[int] = None
    #: The answer waits for it.
    gate: Optional[threading.Event] = None


class Origin:
    """A local HTTP server."""

    def __init__(self) -> None:
        self.pages: Dict[str, Page] = {}
        self.requests: List[str] = []
        #: The number of open connections.
        self.connections = 0
        lock = threading.Lock()
        origin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                origin.requests.append(self.path)
                page = origin.pages.get(self.path, Page(b"", 404))
                if page.gate is not None:
                    page.gate.wait(120)
                self.send_response(page.status)
                for name, value in page.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(page.body)))
                self.end_headers()
                try:
                    self.wfile.write(page.body if page.close_after is None else page.body[:page.close_after])
                except OSError:
                    self.close_connection = True
                if page.close_after is not None:
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        class Server(http.server.ThreadingHTTPServer):
            def process_request(self, request: Any, client_address: Any) -> None:
                with lock:
                    origin.connections += 1
                super().process_request(request, client_address)

            def shutdown_request(self, request: Any) -> None:
                super().shutdown_request(request)
                with lock:
                    origin.connections -= 1

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def add(self, path: str, body: bytes, **arguments: Any) -> str:
        """Serves a body at a path. Returns its URL."""
        arguments.setdefault("headers", {"Cache-Control": "max-age=3600"})
        self.pages[path] = Page(body, **arguments)
        return self.url + path

    def close(self) -> None:
        """Stops it."""
        self._server.shutdown()
        self._server.server_close()


class Broker:
    """A real broker, which ends with the context."""

    def __init__(self, folder: pathlib.Path, *options: str) -> None:
        self.socket = str(folder / "socket")
        self._folder = folder
        self._options = options
        self.process: Optional["subprocess.Popen[bytes]"] = None
        self.start()

    def __enter__(self) -> "Broker":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts it, and waits until it listens."""
        program = PRODUCTS / "imgbroker"
        assert program.exists(), f"{program} is missing: run make build, or set IMGBROKER_TEST_PRODUCTS"
        log = open(self._folder / "log", "ab")
        with log:
            self.process = subprocess.Popen(
                [str(program), "--socket", self.socket, "--cache-dir", str(self._folder / "cache"), "--allow-address",
                 "127.0.0.0/8", "--workers", "1", *self._options], stdout=log, stderr=log)
        eventually(self._listens)

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(self.socket) == 0

    def stats(self) -> Dict[str, Any]:
        """Returns its figures."""
        command = [str(PRODUCTS / "imgbroker"), "ctl", "--socket", self.socket, "stats", "--json"]
        figures: Dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        return figures

    def stop(self, signal: str = "terminate") -> None:
        """Ends it: `terminate` or `kill`."""
        if self.process is not None:
            getattr(self.process, signal)()
            self.process.wait(30)
            self.process = None


class Display:
    """A virtual display."""

    def __init__(self, size: str) -> None:
        reading, writing = os.pipe()
        self._server = subprocess.Popen(
            # Without a reset when a screenshot was its only client, which would disconnect a program that starts meanwhile.
            ["Xvfb", "-displayfd", str(writing), "-screen", "0", size + "x24", "-nolisten", "tcp", "-noreset"],
            pass_fds=[writing], stderr=subprocess.DEVNULL)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            self.name = ":" + pipe.readline().strip()

    def picture(self) -> Any:
        """Returns a screenshot, an image of Pillow's."""
        from PIL import ImageGrab

        return ImageGrab.grab(xdisplay=self.name).convert("RGB")

    def counts(self) -> Dict[Tuple[int, int, int], int]:
        """Returns the number of pixels of each colour."""
        return {color: count for count, color in self.picture().getcolors(1 << 24)}

    def press(self, *arguments: str) -> None:
        """Moves the pointer, clicks, types or turns the wheel."""
        subprocess.run(["xdotool", *arguments], check=True, env={**os.environ, "DISPLAY": self.name})

    def close(self) -> None:
        """Ends it."""
        self._server.terminate()
        self._server.wait(20)


def run_python(
    *arguments: str, socket: Optional[str] = None, folder: Optional[pathlib.Path] = None
) -> "subprocess.CompletedProcess[str]":
    """Runs Python in a process of its own, whose default broker is the one at a socket, if given."""
    environment = {**os.environ, **({} if socket is None else {"IMGBROKER_SOCKET": socket})}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def run_script(folder: pathlib.Path, text: str, *arguments: str) -> str:
    """Runs a script, which becomes a file in a folder. Returns its output; it must succeed."""
    (folder / "script.py").write_text(text)
    run = run_python(str(folder / "script.py"), *arguments)
    assert run.returncode == 0, run.stderr
    return run.stdout
