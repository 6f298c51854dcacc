from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

import PIL.Image
import pytest
from gi.repository import Gio, GLib

# The broker is that of the Python client's tests.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python" / "tests"))

from fixtures import own_broker as broker  # noqa: E402, F401
from support import Broker, eventually  # noqa: E402

#: Where scripts/test-client.sh has installed the service.
INSTALLED = pathlib.Path(os.environ["IMGBROKER_THUMBNAILER_INSTALLED"])
PROGRAM = INSTALLED / "libexec" / "imgbroker-thumbnailer"
NAME = "org.freedesktop.thumbnails.Thumbnailer1"
PATH = "/org/freedesktop/thumbnails/Thumbnailer1"
SIDES = {"normal": 128, "large": 256, "x-large": 512, "xx-large": 1024}

#: The codes of the signal Error.
UNSUPPORTED, CONNECTION, IMAGE, IS_THUMBNAIL, SAVE, FLAVOR = range(6)

# Root reads and writes everything otherwise.
UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


class Signal(NamedTuple):
    """A signal of the service."""

    name: str
    handle: int
    uris: List[str] = []
    code: int = -1
    message: str = ""


class Bus:
    """A session bus, which starts the service, and a client of it."""

    def __init__(self, folder: pathlib.Path, socket: str) -> None:
        self.cache = folder / "home" / "thumbnails"
        self.log = folder / "bus-log"
        # Another thumbnailer of the machine, which the one of the user hides.
        services = folder / "data" / "dbus-1" / "services"
        services.mkdir(parents=True)
        (services / "org.xfce.Tumbler.Thumbnailer1.service").write_text(f"[D-BUS Service]\nName={NAME}\nExec=/bin/false\n")
        self.environment = {
            **os.environ, "XDG_DATA_HOME": str(INSTALLED / "share"), "XDG_DATA_DIRS": str(folder / "data"),
            "XDG_CACHE_HOME": str(folder / "home"), "IMGBROKER_SOCKET": socket, "G_DEBUG": "fatal-criticals", "LC_ALL": "C.UTF-8"}
        with open(self.log, "ab") as log:
            self._daemon = subprocess.Popen(
                [*UNPRIVILEGED, "dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address=1"], env=self.environment,
                stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._daemon.stdout is not None
        self.address = self._daemon.stdout.readline().strip()
        self.environment["DBUS_SESSION_BUS_ADDRESS"] = self.address
        self.clients: List["Client"] = []
        self.client = self.connect()

    def connect(self) -> "Client":
        """Connects a further client."""
        self.clients.append(Client(self.address))
        return self.clients[-1]

    def disconnect(self, client: "Client") -> None:
        """Disconnects a client; the service knows that afterwards, if it has asked the bus."""
        name = client.bus.get_unique_name()
        client.call("GetFlavors")
        self.clients.remove(client)
        client.bus.close_sync(None)
        call = self.client.bus.call_sync
        eventually(lambda: not call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "NameHasOwner",
                                    GLib.Variant("(s)", (name,)), None, Gio.DBusCallFlags.NONE, -1, None)[0])

    def service_process(self) -> Optional[int]:
        """Returns the number of the service's process, if it runs."""
        call = self.client.bus.call_sync
        try:
            result = call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetConnectionUnixProcessID",
                          GLib.Variant("(s)", (NAME,)), None, Gio.DBusCallFlags.NONE, -1, None)
        except GLib.Error:
            return None
        return int(result[0])

    def thumbnail(self, uri: str, flavor: str = "normal") -> pathlib.Path:
        """Returns the path of a thumbnail."""
        return self.cache / flavor / (hashlib.md5(uri.encode()).hexdigest() + ".png")

    def make_folder(self, flavor: str) -> pathlib.Path:
        """Makes the folder of a flavor, as other programs do."""
        for folder in (self.cache.parent, self.cache, self.cache / flavor):
            folder.mkdir(mode=0o700)
        return self.cache / flavor

    def failures(self) -> List[pathlib.Path]:
        """Returns the files of remembered failures."""
        return sorted(self.cache.glob("fail/imgbroker-*/*.png"))

    def close(self) -> None:
        """Ends all, and checks the log."""
        process = self.service_process()
        for client in self.clients:
            client.bus.close_sync(None)
        self._daemon.terminate()
        self._daemon.communicate(timeout=20)
        if process is not None:
            eventually(lambda: not pathlib.Path(f"/proc/{process}").exists())
        log = self.log.read_text()
        assert not any(word in log for word in ["Sanitizer", "runtime error", "CRITICAL", "WARNING"]), log


class Client:
    """A program that asks for thumbnails."""

    def __init__(self, address: str) -> None:
        flags = Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION
        self.bus = Gio.DBusConnection.new_for_address_sync(address, flags, None, None)
        self.signals: List[Signal] = []
        self.bus.signal_subscribe(None, NAME, None, PATH, None, Gio.DBusSignalFlags.NONE, self._take)

    def _take(self, _bus: Any, _sender: str, _path: str, _interface: str, name: str, arguments: GLib.Variant) -> None:
        self.signals.append(Signal(name, *arguments.unpack()))

    def call(self, method: str, signature: str = "()", *arguments: Any, interface: str = NAME) -> Any:
        """Calls a method of the service."""
        path = "/" + interface.replace(".", "/")
        return self.bus.call_sync(
            interface, path, interface, method, GLib.Variant(signature, arguments), None, Gio.DBusCallFlags.NONE, 60_000, None).unpack()

    def queue(self, uris: List[str], flavor: str = "normal", types: Optional[List[str]] = None, scheduler: str = "default",
              replaces: int = 0) -> int:
        """Requests thumbnails. Returns the handle."""
        return int(self.call("Queue", "(asasssu)", uris, types or [], flavor, scheduler, replaces)[0])

    def wait(self, condition: Callable[[], Any], seconds: float = 90) -> None:
        """Receives signals until a condition is true."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.signals[-5:]
            while GLib.MainContext.default().iteration(False):
                pass
            time.sleep(0.002)

    def of(self, handle: int, name: str) -> List[Signal]:
        """Returns the signals of a handle."""
        return [received for received in self.signals if received.handle == handle and received.name == name]

    def finish(self, handle: int) -> Dict[str, Signal]:
        """Waits for the end of a handle. Returns the signal of each URI, of which there is one."""
        self.wait(lambda: self.of(handle, "Finished"))
        own = [received for received in self.signals if received.handle == handle]
        assert own[0].name == "Started" and own[-1].name == "Finished"
        found = [(uri, received) for received in own for uri in received.uris]
        assert len(dict(found)) == len(found)
        return dict(found)

    def make(self, *uris: str, **arguments: Any) -> Dict[str, Signal]:
        """Requests thumbnails and waits for them."""
        return self.finish(self.queue(list(uris), **arguments))


def uri_of(path: pathlib.Path) -> str:
    """Returns the URI of a file as file managers write it."""
    return str(Gio.File.new_for_path(os.fsencode(path)).get_uri())


def draw(path: pathlib.Path, width: int = 300, height: int = 200, color: Any = (200, 30, 30), **options: Any) -> str:
    """Draws an image of one colour. Returns its URI."""
    PIL.Image.new("RGB", (width, height), color).save(path, **options)
    return uri_of(path)


def check(bus: Bus, uri: str, path: pathlib.Path, flavor: str = "normal", mime_type: Optional[str] = None) -> PIL.Image.Image:
    """Checks that a thumbnail is as the specification says."""
    file = bus.thumbnail(uri, flavor)
    assert file.lstat().st_mode == 0o100600
    assert file.parent.stat().st_mode == 0o40700 and file.parent.parent.stat().st_mode == 0o40700
    info = path.stat()
    with PIL.Image.open(file) as image:
        image.load()
        assert image.format == "PNG" and max(image.size) <= SIDES[flavor]
        assert image.text["Thumb::URI"] == uri
        assert image.text["Thumb::MTime"] == str(info.st_mtime_ns // 1_000_000_000)
        assert image.text["Thumb::Size"] == str(info.st_size)
        assert image.text.get("Thumb::Mimetype") == mime_type
        return image


def pause(broker: Broker) -> None:
    """Stops the process of the broker, so that requests wait."""
    assert broker.process is not None
    broker.process.send_signal(signal.SIGSTOP)


def resume(broker: Broker) -> None:
    """Lets the process of the broker continue."""
    assert broker.process is not None
    broker.process.send_signal(signal.SIGCONT)


@pytest.fixture
def bus(tmp_path: pathlib.Path, broker: Broker) -> Iterator[Bus]:
    bus = Bus(tmp_path, broker.socket)
    yield bus
    bus.close()


@pytest.fixture
def files(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder for the images of a test."""
    folder = tmp_path / "images"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)
