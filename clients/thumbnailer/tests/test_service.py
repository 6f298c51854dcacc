"""The service: its methods, its queue and its life."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
from typing import Any, Dict, Iterator, List, Tuple

import pytest
from conftest import CONNECTION, FLAVOR, INSTALLED, PROGRAM, UNPRIVILEGED, Bus, check, draw, pause, resume, uri_of
from gi.repository import Gio, GLib
from scripted import ScriptedBroker
from support import Broker, eventually

CACHE = "org.freedesktop.thumbnails.Cache1"
VERSION = subprocess.run([str(PROGRAM), "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[1]


def refusal(action: Any) -> str:
    """Returns the name of the D-Bus error of a call."""
    with pytest.raises(GLib.Error) as caught:
        action()
    return str(Gio.DBusError.get_remote_error(caught.value)).rpartition(".")[2]


def test_capabilities(bus: Bus) -> None:
    """The service says what it can do, in lists of equal length."""
    schemes, types = bus.client.call("GetSupported")
    assert set(schemes) == {"file"} and len(schemes) == len(types) == len(set(types))
    assert {"image/jpeg", "image/png", "image/heif", "image/svg+xml"} <= set(types)
    assert bus.client.call("GetFlavors") == (["normal", "large", "x-large", "xx-large"],)
    assert bus.client.call("GetSchedulers") == (["default", "foreground", "background"],)


@contextlib.contextmanager
def scripted_bus(folder: pathlib.Path, script: List[Dict[str, Any]]) -> Iterator[Tuple[Bus, ScriptedBroker]]:
    """A bus whose service has a broker that follows a script."""
    hello = {"type": "hello", "id": "$id", "protocol": 1, "features": ["files", "embedded"]}
    steps = [{"read": "hello"}, {"send": hello}, *script]
    with contextlib.closing(ScriptedBroker(str(folder / "scripted"), [steps])) as scripted:
        with contextlib.closing(Bus(folder, scripted.path)) as bus:
            yield bus, scripted


def failure(code: str, request: str = "$id") -> Dict[str, Any]:
    """Returns the step of a script that ends a request with an error."""
    return {"send": {"type": "error", "id": request, "code": code, "message": ""}}


def test_name_and_version(tmp_path: pathlib.Path, files: pathlib.Path) -> None:
    """The service states its name and version to the broker, as the protocol writes them."""
    uri = draw(files / "a.png")
    with scripted_bus(tmp_path, [{"read": "get"}, failure("internal")]) as (bus, scripted):
        assert bus.client.make(uri)[uri].code == CONNECTION
        hello = scripted.received[0][0]
        assert hello["type"] == "hello" and re.fullmatch(r"imgbroker-thumbnailer/\d+\.\d+\.\d+", hello["client"])


def test_odd_requests(bus: Bus, files: pathlib.Path) -> None:
    """Nothing to do ends at once; what cannot be done is an error."""
    uri = draw(files / "a.png")
    assert bus.client.make() == {}
    found = bus.client.make(uri, uri_of(files / "b.png"), flavor="huge")
    assert {(received.name, received.code) for received in found.values()} == {("Error", FLAVOR)}
    assert bus.client.make(uri, scheduler="unknown")[uri].name == "Ready"
    assert refusal(lambda: bus.client.queue([uri], types=["image/png", "image/png"])) == "InvalidArgs"
    for handle in (0, 17, 0xffffffff):
        bus.client.call("Dequeue", "(u)", handle)


def made_before(bus: Bus, uris: List[str], others: List[str]) -> int:
    """Returns the number of thumbnails whose files are older than the newest one of others.

    The files show in which order the service makes them, also where this process reads its signals late.
    """
    newest = max(bus.thumbnail(uri).stat().st_mtime_ns for uri in others)
    return sum(bus.thumbnail(uri).stat().st_mtime_ns < newest for uri in uris)


def test_full_queue(bus: Bus, broker: Broker, files: pathlib.Path) -> None:
    """The queue has room for 100,000 URIs, and one client for half of them; it is free again afterwards."""
    uri, other, third = draw(files / "a.png"), bus.connect(), bus.connect()
    pause(broker)
    assert refusal(lambda: bus.client.queue([uri] * 50_001)) == "LimitsExceeded"
    handles = [bus.client.queue([uri] * 50_000), other.queue([uri] * 49_999)]
    assert refusal(lambda: bus.client.queue([uri])) == "LimitsExceeded"
    assert refusal(lambda: third.queue([uri, uri])) == "LimitsExceeded"
    last = third.queue([uri])
    for handle in handles:
        third.call("Dequeue", "(u)", handle)
    resume(broker)
    assert third.finish(last)[uri].name == "Ready"
    assert bus.client.make(uri)[uri].name == "Ready"


def test_dequeue(bus: Bus, broker: Broker, files: pathlib.Path) -> None:
    """A handle that is dequeued ends without further thumbnails; a new request may replace one."""
    uris = [draw(files / f"{number}.png") for number in range(60)]
    pause(broker)
    first = bus.client.queue(uris)
    bus.client.wait(lambda: bus.client.of(first, "Started"))
    second = bus.client.queue(uris[:20], replaces=first)
    bus.client.call("Dequeue", "(u)", first)
    third = bus.client.queue(uris[50:])
    bus.client.call("Dequeue", "(u)", third)
    resume(broker)
    assert {received.name for received in bus.client.finish(second).values()} == {"Ready"}
    for handle in (first, third):
        bus.client.wait(lambda: bus.client.of(handle, "Finished"))
        assert not bus.client.of(handle, "Ready") and not bus.client.of(handle, "Error")
    assert 20 <= len(list(bus.cache.glob("normal/*"))) <= 20 + 16 + 10


def test_dequeued_again(tmp_path: pathlib.Path, files: pathlib.Path) -> None:
    """Requests that are cancelled, because handles are dequeued, do not count as attempts, however many there are."""
    cancelled = [{"read": "get"}, {"read": "cancel"}, failure("cancelled", "$request")]
    uri, handle = draw(files / "a.png"), 0
    with scripted_bus(tmp_path, [*cancelled * 4, {"read": "get"}, failure("internal")]) as (bus, scripted):
        for number in range(5):
            handle = bus.client.queue([uri], replaces=handle)
            eventually(lambda: [frame["type"] for connection in scripted.received for frame in connection].count("get") > number)
        assert bus.client.finish(handle)[uri].code == CONNECTION


def test_replaced_in_full_queue(bus: Bus, broker: Broker, files: pathlib.Path) -> None:
    """The place of a dequeued handle is free at once, also while the broker makes its thumbnails."""
    uri = draw(files / "a.png")
    pause(broker)
    handle = 0
    for _ in range(3):
        handle = bus.client.queue([uri] * 50_000, replaces=handle)
        bus.client.wait(lambda: bus.client.of(handle, "Started"))
    bus.client.call("Dequeue", "(u)", handle)
    bus.client.wait(lambda: bus.client.of(handle, "Finished"))
    resume(broker)


def test_disconnected_clients(bus: Bus, broker: Broker, files: pathlib.Path) -> None:
    """Thumbnails of a client that has left the bus are made after those of the others."""
    many, few = ([draw(files / f"{name}{number}.png") for number in range(count)] for name, count in (("m", 200), ("f", 60)))
    other = bus.connect()
    pause(broker)
    handle = other.queue(many)
    other.wait(lambda: other.of(handle, "Started"))
    bus.disconnect(other)
    handle = bus.client.queue(few)
    resume(broker)
    bus.client.finish(handle)
    eventually(lambda: len(list(bus.cache.glob("normal/*.png"))) == 260)
    assert made_before(bus, many, few) < 16 + 20


def test_disconnected_clients_in_full_queue(bus: Bus, broker: Broker, files: pathlib.Path) -> None:
    """Clients that have left the bus give way to the others."""
    uri = draw(files / "a.png")
    pause(broker)
    for _ in range(2):
        other = bus.connect()
        other.queue([uri] * 50_000)
        bus.disconnect(other)
    handle = bus.client.queue([uri] * 50_000)
    bus.client.call("Dequeue", "(u)", handle)
    resume(broker)
    assert bus.client.make(uri)[uri].name == "Ready"


def test_turns(bus: Bus, broker: Broker, files: pathlib.Path) -> None:
    """Clients take turns, so that a few thumbnails do not wait for many; those in the background come last."""
    other, third = bus.connect(), bus.connect()
    many, few = ([draw(files / f"{name}{number}.png") for number in range(count)] for name, count in (("m", 200), ("f", 4)))
    late = [draw(files / f"l{number}.png") for number in range(30)]
    pause(broker)
    background = third.queue(late, scheduler="background")
    third.wait(lambda: third.of(background, "Started"))
    handles = [bus.client.queue(many[:100]), bus.client.queue(many[100:])]
    handle = other.queue(few, scheduler="foreground")
    resume(broker)
    assert len(other.finish(handle)) == 4
    for own in handles:
        bus.client.finish(own)
    third.finish(background)
    assert made_before(bus, many, few) < 50
    # Eight of them are in flight at most, and a late thread may finish the last of the others.
    assert made_before(bus, late, many) < 16
    # Both handles of the client took turns, too.
    order = [received.handle for received in bus.client.signals if received.name == "Ready"]
    assert 30 < order[:100].count(handles[0]) < 70


def test_end(bus: Bus, broker: Broker, files: pathlib.Path) -> None:
    """The service ends without work, and the bus starts it again. A second one refuses to run."""
    uri = draw(files / "a.png")
    # Long enough for the second one to find it.
    command = [*UNPRIVILEGED, str(PROGRAM), "--idle", "5"]
    first = subprocess.Popen(command, env=bus.environment)
    eventually(lambda: bus.service_process() == first.pid)
    second = subprocess.run(command, env=bus.environment, stderr=subprocess.PIPE, text=True, timeout=20)
    assert second.returncode == 1 and "another program has this name" in second.stderr
    assert bus.client.make(uri)[uri].name == "Ready"
    assert first.wait(20) == 0
    assert bus.client.make(uri, flavor="large")[uri].name == "Ready"
    assert bus.service_process() not in (None, first.pid)


def test_calls_at_the_end(bus: Bus, files: pathlib.Path) -> None:
    """Calls that arrive while the service ends are answered, by it or by the next one."""
    uri = draw(files / "a.png")
    for _ in range(3):
        service = subprocess.Popen([*UNPRIVILEGED, str(PROGRAM), "--idle", "1"], env=bus.environment)
        eventually(lambda: bus.service_process() == service.pid)
        while service.poll() is None:
            bus.client.call("GetFlavors")
            # The calls above postpone the end, those of the name's last moments do not.
            eventually(lambda: bus.service_process() != service.pid)
            assert bus.client.queue([uri]) > 0
            service.wait(20)
        process = bus.service_process()
        assert process is not None
        subprocess.run(["kill", str(process)], check=True)
        eventually(lambda: bus.service_process() is None)


@pytest.mark.parametrize("arguments", [["--idle", "0"], ["--idle", "x"], ["file.png"], ["--unknown"]])
def test_wrong_arguments(arguments: List[str]) -> None:
    assert subprocess.run([str(PROGRAM), *arguments], stderr=subprocess.PIPE, timeout=20).returncode == 2


def test_manual_page() -> None:
    """The manual page is installed, and describes all options."""
    page = (INSTALLED / "share" / "man" / "man1" / "imgbroker-thumbnailer.1").read_text().replace("\\-", "-")
    options = subprocess.run([str(PROGRAM), "--help"], check=True, stdout=subprocess.PIPE, text=True, timeout=20).stdout
    assert set(re.findall("--[a-z]+", options)) == set(re.findall("^[.]BI? (--[a-z]+)", page, re.M))


def test_without_bus(tmp_path: pathlib.Path) -> None:
    """Without a bus, the service says so."""
    environment = {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={tmp_path}/none"}
    result = subprocess.run([str(PROGRAM)], env=environment, stderr=subprocess.PIPE, text=True, timeout=20)
    assert result.returncode == 1 and "no session bus" in result.stderr


def test_killed(bus: Bus, files: pathlib.Path) -> None:
    """A service that is killed leaves whole thumbnails; the next one removes its unfinished files, and not those of another service."""
    uris = [draw(files / f"{number}.png") for number in range(200)]
    for count in range(20, 121, 20):
        # The next service numbers its handles anew.
        client = bus.connect()
        handle = client.queue(uris)
        client.wait(lambda: len(client.of(handle, "Ready")) >= count)
        process = bus.service_process()
        assert process is not None
        os.kill(process, signal.SIGKILL)
        eventually(lambda: bus.service_process() is None)
    subprocess.run(["pngcheck", "-q", *bus.cache.glob("normal/*.png")], check=True)
    folders = bus.cache / "normal", bus.cache / "fail" / f"imgbroker-{VERSION}"
    folders[1].mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in folders:
        for name in (".imgbroker-0123456789abcdef", ".imgbroker-locked", ".other"):
            (folder / name).write_text("unfinished")
    with contextlib.ExitStack() as stack:
        for folder in folders:
            fcntl.flock(stack.enter_context(open(folder / ".imgbroker-locked")), fcntl.LOCK_EX)
        assert {received.name for received in bus.connect().make(*uris).values()} == {"Ready"}
        for folder in folders:
            eventually(lambda: {path.name for path in folder.glob(".*")} == {".imgbroker-locked", ".other"})
    for uri in uris:
        check(bus, uri, files / uri.rpartition("/")[2])


def cache(bus: Bus, method: str, signature: str, *arguments: Any) -> None:
    bus.client.call(method, signature, *arguments, interface=CACHE)


def test_delete_and_cleanup(bus: Bus, files: pathlib.Path) -> None:
    """Thumbnails of deleted files, and of old ones, are removed on request."""
    uris = [draw(files / name) for name in ("a.png", "b.png", "c.png")]
    (files / "bad.png").write_text("no image")
    bad = uri_of(files / "bad.png")

    def made(flavor: str = "normal") -> int:
        bus.client.make(*uris, bad, flavor=flavor)
        return len(list(bus.cache.glob("*/*.png"))) + len(bus.failures())

    assert (made(), made("large")) == (4, 7)
    cache(bus, "Delete", "(as)", [uris[0], bad, uri_of(files / "unknown.png")])
    assert len(list(bus.cache.glob("*/*.png"))) == 4 and not bus.failures()
    cache(bus, "Cleanup", "(asu)", [uris[1]], 0)
    assert len(list(bus.cache.glob("*/*.png"))) == 2
    made()
    cache(bus, "Cleanup", "(asu)", [uri_of(files)[:-1], "file:///elsewhere/"], 0xffffffff)
    assert bus.thumbnail(uris[0]).exists()
    cache(bus, "Cleanup", "(asu)", [uri_of(files)], 17)
    assert bus.thumbnail(uris[0]).exists()
    cache(bus, "Cleanup", "(asu)", [uri_of(files)], 0xffffffff)
    assert not list(bus.cache.glob("*/*.png")) and not bus.failures()
    assert made() == 4
    cache(bus, "Cleanup", "(asu)", [uri_of(files) + "/"], 0)
    assert not list(bus.cache.glob("*/*.png")) and not bus.failures()


def test_order_of_changes(bus: Bus, files: pathlib.Path) -> None:
    """Changes are made in the order of the calls, also if a client does not wait for each."""
    uri = draw(files / "0.png")
    bus.client.make(uri)
    for number in range(1, 100):
        shutil.copy2(files / "0.png", files / f"{number}.png")
    for number in range(1, 100):
        arguments = GLib.Variant("(asas)", ([uri_of(files / f"{number - 1}.png")], [uri_of(files / f"{number}.png")]))
        bus.client.bus.call(CACHE, "/" + CACHE.replace(".", "/"), CACHE, "Move", arguments, None, Gio.DBusCallFlags.NONE, -1, None, None)
    last = uri_of(files / "99.png")
    cache(bus, "Copy", "(asas)", [last], [uri])
    assert {path.name for path in bus.cache.glob("normal/*")} == {bus.thumbnail(last).name, bus.thumbnail(uri).name}


def test_move_and_copy(bus: Bus, broker: Broker, files: pathlib.Path) -> None:
    """A moved file keeps its thumbnails, and a copy with the same time has the same; another file has none."""
    path, moved, copied, other = (files / name for name in ("a.png", "moved ä.png", "copied.png", "other.png"))
    uri = draw(path)
    bus.client.make(uri)
    bus.client.make(uri, flavor="large")
    subprocess.run(["cp", "-p", str(path), str(copied)], check=True)
    cache(bus, "Copy", "(asas)", [uri], [uri_of(copied)])
    path.rename(moved)
    cache(bus, "Move", "(asas)", [uri, uri], [uri_of(moved)])
    assert not bus.thumbnail(uri).exists() and not bus.thumbnail(uri, "large").exists()
    for target in (moved, copied):
        for flavor in ("normal", "large"):
            check(bus, uri_of(target), target, flavor)
    draw(other, 200, 100)
    cache(bus, "Copy", "(asas)", [uri_of(moved)], [uri_of(other)])
    cache(bus, "Move", "(asas)", [uri_of(moved)], ["file:///missing/file.png"])
    assert not bus.thumbnail(uri_of(other)).exists() and not bus.thumbnail(uri_of(moved)).exists()
