"""Runs the tests in client_tests.c, and provides what they need."""

from __future__ import annotations

import array
import base64
import fcntl
import json
import os
import pathlib
import random
import select
import shutil
import signal
import socket
import subprocess
import threading
import urllib.parse
from typing import Any, Callable, Dict, List, Sequence

import PIL.Image
import pytest

from conftest import PROGRAMS
from fixtures import Scripted
from scripted import GET, ScriptedBroker, end_segment, refuse_together, send_image, send_in_segment, send_segment
from support import CONFORMANCE, Broker, Origin, Page, encoded, eventually

_FOLDER = pathlib.Path(__file__).resolve().parents[1]


def png(width: int = 64, height: int = 32) -> bytes:
    """Returns an opaque image."""
    return encoded(PIL.Image.linear_gradient("L").resize((width, height)).convert("RGB"))


def run(
    test: str, *arguments: str, programs: pathlib.Path = PROGRAMS, under: Sequence[str] = (),
    **actions: Callable[[], object],
) -> str:
    """Runs a test, and performs the actions that it asks for by lines of output. Returns the other lines."""
    process = subprocess.Popen(
        [*under, str(programs / "client_tests"), test, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True)
    lines = ""
    try:
        assert process.stdin is not None and process.stdout is not None
        for line in process.stdout:
            action = actions.get(line.strip())
            if action is None:
                lines += line
                continue
            action()
            process.stdin.write("done\n")
            process.stdin.flush()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
    return lines


@pytest.fixture
def url(origin: Origin, request: pytest.FixtureRequest) -> str:
    return origin.add(f"/{request.node.name}.png", png())


@pytest.mark.parametrize(
    "test", ["fork", "full-table", "arguments", "store", "leaks", "subscription", "threads", "memory", "trace", "thumb-hash"])
def test_with_broker(test: str, broker: Broker, url: str) -> None:
    run(test, broker.socket, url)


@pytest.mark.parametrize("test", ["releases", "kept", "upgrade"])
def test_with_own_broker(test: str, own_broker: Broker, url: str) -> None:
    run(test, own_broker.socket, url)


def test_threads_with_thread_sanitizer(broker: Broker, url: str) -> None:
    run("threads", broker.socket, url, programs=PROGRAMS.parent / "threads")


@pytest.mark.parametrize("test", ["fork", "arguments", "store", "subscription", "memory", "trace"])
def test_with_valgrind(test: str, broker: Broker, url: str) -> None:
    """The sanitizers do not see the accesses of Jansson, which is not built with them."""
    valgrind = ["valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full"]
    run(test, broker.socket, url, programs=PROGRAMS.parent / "plain", under=valgrind)


def test_no_broker(tmp_path: pathlib.Path) -> None:
    run("no-broker", str(tmp_path / "socket"))


def test_files(broker: Broker, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png())
    # Results of a file are kept once its last change is 20 ms ago.
    os.utime(path, (1, 1))
    os.link(path, tmp_path / "b.png")
    threading.Event().wait(0.05)
    run("files", broker.socket, str(path))


def test_data_urls(broker: Broker, tmp_path: pathlib.Path) -> None:
    shared = json.loads((CONFORMANCE / "data-urls.json").read_text())
    cases = [
        {"url": case["url"], "outcome": "invalid" if case["bytes"] is None else "other" if case["bytes"] else "empty"}
        for case in shared
    ]
    encoded = base64.b64encode(png()).decode()
    for url in (f"data:image/png;base64,{encoded}", f"DATA:;base64,{encoded.rstrip('=')}#a", "data:," + urllib.parse.quote(png())):
        cases.append({"url": url, "outcome": "image"})
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    run("data-urls", broker.socket, str(tmp_path / "cases.json"))


def test_cancel(own_broker: Broker, origin: Origin, url: str, gate: threading.Event) -> None:
    origin.pages["/gated.png"] = Page(png(), gate=gate)
    run("cancel", own_broker.socket, origin.url + "/gated.png", url)


def test_animation(own_broker: Broker, origin: Origin) -> None:
    pictures = [PIL.Image.new("RGB", (320, 240), (0, index * 4, 100)) for index in range(60)]
    file = encoded(pictures[0], "GIF", save_all=True, append_images=pictures[1:], duration=40)
    run("animation", own_broker.socket, origin.add("/frames.gif", file))


def test_detach(own_broker: Broker, origin: Origin, gate: threading.Event) -> None:
    origin.pages["/detached.png"] = Page(png(), gate=gate)
    run("detach", own_broker.socket, origin.url + "/detached.png")
    gate.set()
    run("detached", own_broker.socket, origin.url + "/detached.png")


def test_reload(tmp_path: pathlib.Path) -> None:
    settings = tmp_path / "settings"
    settings.write_text("queue-order = fifo\n")
    with Broker(tmp_path, "--config", str(settings)) as broker:
        lines = run(
            "reload", broker.socket,
            settings=lambda: settings.write_text("queue-order = lifo\nmemory-limit = 100M\n"),
            mistake=lambda: settings.write_text("queue-order = sideways\n")).splitlines()
    report = json.loads(lines[0])
    assert report["changed"] == [{"key": "memory-limit", "old": "512M", "new": "100M"}]
    assert [change["reason"] for change in report["refused"]] == ["needs a restart"]
    assert "queue-order needs one of fifo, lifo" in lines[1]


def test_restart(own_broker: Broker, origin: Origin, url: str, gate: threading.Event) -> None:
    origin.pages["/slow.png"] = Page(png(), gate=gate)

    def restart() -> None:
        own_broker.stop("kill")
        gate.set()
        own_broker.start()

    run("restart", own_broker.socket, url, origin.url + "/slow.png", restart=restart, stop=own_broker.stop)


def test_silence(own_broker: Broker, origin: Origin, gate: threading.Event) -> None:
    origin.pages["/silent.png"] = Page(png(), gate=gate)
    process = own_broker.process
    assert process is not None
    actions = {
        "freeze": lambda: process.send_signal(signal.SIGSTOP), "continue": lambda: process.send_signal(signal.SIGCONT)}
    try:
        run("silence", own_broker.socket, origin.url + "/silent.png", **actions)
    finally:
        process.send_signal(signal.SIGCONT)


def test_sessions(scripted: Scripted) -> None:
    broker = scripted([GET, send_image(7), {"close": True}], [GET, send_image(3), GET, {"sendImage": {"fds": 0}}])
    run("sessions", broker.path)
    assert broker.released == []


def test_requests_that_could_not_be_sent(scripted: Scripted) -> None:
    hello = {"type": "hello", "id": "$id", "protocol": 1, "features": ["files"]}
    greeting, loading = [{"read": "hello"}, {"send": hello}], [GET, _DESCRIPTION]
    broker = scripted([*greeting, *loading * 3], [*greeting, *loading])
    run("unsent", broker.path)


@pytest.mark.parametrize("is_sent_again", [False, True])
def test_pipelined(is_sent_again: bool, scripted: Scripted) -> None:
    again = send_image(3) if is_sent_again else {"sendImage": {"fds": 0}}
    # The kernel delivers a message with a descriptor by itself, so the client handles it before the next one.
    progress = {"type": "progress", "id": "$id", "received": 0, "expected": None}
    between = {"send": progress, "descriptors": [{"size": 32, "byte": 1}]}
    broker = scripted([GET, send_image(7), GET, {"awaitRelease": [7]}, between, again])
    run("pipelined", broker.path, "7", "3" if is_sent_again else "7")


def test_requests_that_are_refused_together(scripted: Scripted) -> None:
    broker = scripted([*_page(), GET, send_image(7, **_SLOT), *refuse_together()])
    run("refused_together", broker.path)


# Segments

_FIRST, _HELD = send_segment(5, 7), send_in_segment(5)
#: The slot that is valid on the page.
_SLOT = {"slot": 3, "generation": 5}
#: An image that was not delivered.
_DESCRIPTION = {"sendImage": {"buffer": "$absent", "fds": 0}}


def _page(*features: str) -> List[Dict[str, Any]]:
    """The beginning of a script with a validity page, whose slot 3 is valid."""
    hello = {"type": "hello", "id": "$id", "protocol": 1, "features": features, "fds": 1, "slots": 64}
    return [
        {"read": "hello"}, {"send": hello, "descriptors": [{"kind": "page", "slots": 64}]},
        {"setSlot": {**_SLOT, "tenths": 600000}}]


def _forgotten(broker: ScriptedBroker) -> List[int]:
    forgotten = [frame["segments"] for frame in broker.received[0] if frame["type"] == "forgetSegments"]
    return [number for numbers in forgotten for number in numbers]


def test_segments(scripted: Scripted) -> None:
    images = [_FIRST, *(send_in_segment(5, buffer=7 + number, offset=32 * number) for number in (1, 2))]
    broker = scripted([step for image in images for step in (GET, image)] + [GET, end_segment(5), _DESCRIPTION])
    run("segments", broker.path)
    eventually(lambda: _forgotten(broker) == [5])
    # Leases end before their segment.
    assert broker.received[0][0]["segments"] is True
    assert sorted(broker.released) == [7, 8, 9]
    assert broker.received[0][-1]["type"] == "forgetSegments"


def test_images_in_segments_outlive_connection(scripted: Scripted) -> None:
    broker = scripted([GET, _FIRST])

    def is_open() -> None:
        # The request that was pending is cancelled.
        eventually(lambda: broker.received[0][-1]["type"] == "cancel")
        poll = select.poll()
        poll.register(broker._connections[0], select.POLLRDHUP)
        assert poll.poll(0) == []

    run("outliving", broker.path, closed=is_open,
        released=lambda: eventually(lambda: broker._connections[0].fileno() < 0))


def test_closing_releases_kept_images(scripted: Scripted) -> None:
    others = [step for buffer in (8, 9, 10) for step in (GET, send_in_segment(5, buffer=buffer, **_SLOT))]
    broker = scripted([*_page(), GET, _FIRST, *others])
    run("closing", broker.path, closed=lambda: eventually(lambda: sorted(broker.released) == [8, 9, 10]))


def test_session_that_is_given_up_cancels_its_requests(scripted: Scripted) -> None:
    # No request has this number.
    broker = scripted([GET, _FIRST, GET, GET, {"send": {"type": "ok", "id": 99}}])

    def are_cancelled() -> None:
        gets = [frame["id"] for frame in broker.received[0] if frame["type"] == "get"]
        eventually(
            lambda: [frame["request"] for frame in broker.received[0] if frame["type"] == "cancel"] == gets[1:])

    run("given-up", broker.path, lost=are_cancelled)


def test_event_after_subscription(scripted: Scripted) -> None:
    """An event may come after the reply to the subscription's `cancel`."""
    done, event = {"type": "ok", "id": "$id"}, {"type": "event", "url": "http://a/b"}
    # The message before the `get` is the subscription, and `cancel` names it.
    broker = scripted([
        {"read": "subscribe"}, {"send": done}, GET, _DESCRIPTION, {"send": {**event, "id": "$previous"}},
        {"read": "cancel"}, {"send": done}, {"send": {**event, "id": "$request"}}, GET, _DESCRIPTION])
    run("subscription", broker.path, "http://a/b")


def test_long_message(scripted: Scripted) -> None:
    broker = scripted([GET, {"send": {"type": "error", "id": "$id", "code": "internal", "message": "ж" * 200}}])
    run("long-message", broker.path)


def test_lost_segment(scripted: Scripted) -> None:
    hello = {"type": "hello", "id": "$id", "protocol": 1}
    broker = scripted([
        {"read": "hello"}, {"send": hello}, {"read": "hello"}, {"send": hello},
        GET, _FIRST, GET, _HELD, GET, send_segment(5, 7, buffer=8)])
    run("lost-segment", broker.path)
    eventually(lambda: _forgotten(broker) == [5, 5])
    assert broker.released[:2] == [7, 7]
    # A further `hello` would end the use of segments without the field.
    assert [frame["segments"] for frame in broker.received[0][:2]] == [True, True]


def test_kept_image_leaves_ended_segment(scripted: Scripted) -> None:
    broker = scripted([*_page(), GET, send_segment(5, 7, **_SLOT), GET, end_segment(5), _DESCRIPTION])
    run("kept-in-segment", broker.path)
    eventually(lambda: _forgotten(broker) == [5])


def test_kept_metadata(scripted: Scripted) -> None:
    image = {**_SLOT, "metadata": {"exif": {"bytes": 32, "offset": 32}}}
    memory = [{"size": 64, "byte": 7}]
    script = [[GET, {"sendImage": {**image, "buffer": number}, "descriptors": memory}] for number in range(1, 9)]
    broker = scripted([*_page("metadata"), *(step for steps in script for step in steps)])
    run("kept-metadata", broker.path)


@pytest.mark.parametrize("features, kept", [([], "128"), (["segments"], "200")])
def test_default_number(features: Sequence[str], kept: str, scripted: Scripted) -> None:
    script = [*_page(*features), GET, send_segment(5, 7, **_SLOT)]
    broker = scripted(script + [GET, send_in_segment(5, **_SLOT)] * 199)
    assert run("default-number", broker.path).strip() == kept


def test_releases_in_segments_by_threads(scripted: Scripted) -> None:
    script = [GET, send_segment(5, 255)] + [GET, _HELD] * 999
    broker = scripted(script, script)
    run("threads", broker.path, "http://a/b", programs=PROGRAMS.parent / "threads")


def test_system_calls_of_hit_in_segment(scripted: Scripted) -> None:
    broker = scripted([GET, _FIRST] + [GET, _HELD] * 199)
    run("system-calls", broker.path, programs=PROGRAMS.parent / "plain")


# Garbage

_IMAGE = {
    "type": "image", "id": 2, "final": True, "source": "memory", "url": "http://a/b", "width": 4, "height": 2,
    "stride": 16, "pixelFormat": "rgba8", "alpha": "premultiplied", "bytes": 32, "offset": 0, "buffer": 7, "fds": 1,
    "frames": [{"offset": 0, "delayMs": 10}], "etag": "\"a\"", "slot": 1, "generation": 5,
}
_VALUES = [0, 1, -1, 7, 31, 33, 65535, 1 << 31, (1 << 53) - 1, 1 << 60, 1e300, None, True, "", "a", "\0", [], {}, [{}]]


def _memfd(size: int, seals: int) -> int:
    descriptor = os.memfd_create("garbage", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, 1033, seals)
    return descriptor


def _garbage(chance: random.Random, number: int) -> bytes:
    """Returns a frame with an image that is wrong in some fields or bytes, or perhaps right."""
    fields = {**_IMAGE, "id": number, "final": chance.random() < 0.8, "buffer": chance.randint(1, 3)}
    for _ in range(chance.choice([0, 0, 1, 2])):
        fields[chance.choice(list(fields))] = chance.choice(_VALUES)
    if chance.random() < 0.3:
        fields.update({"segment": chance.randint(1, 2), "segmentBytes": 4096})
    if chance.random() < 0.1:
        fields.update({"payload": 32, "fds": 0})
        del fields["buffer"]
    text = bytearray(json.dumps(fields).encode())
    for _ in range(chance.choice([0, 0, 0, 1, 5])):
        text[chance.randrange(len(text))] = chance.randrange(256)
    length = len(text) if chance.random() < 0.95 else chance.choice([0, 1, 5000, 1 << 20, 1 << 30])
    return length.to_bytes(4, "big") + bytes(text)


def _serve_garbage(listener: socket.socket, seed: int) -> None:
    chance = random.Random(seed)
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        try:
            with connection:
                while True:
                    length = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
                    if length == 0:
                        break
                    request = json.loads(connection.recv(length, socket.MSG_WAITALL))
                    if request["type"] == "hello":
                        reply = json.dumps({"type": "hello", "id": request["id"], "protocol": 1}).encode()
                        connection.sendall(len(reply).to_bytes(4, "big") + reply)
                    elif request["type"] == "get":
                        for _ in range(chance.randint(1, 3)):
                            descriptors = [
                                _memfd(chance.choice([32, 31, 4096, 4096, 4096, 0]), chance.choice([15, 31, 31, 31, 31, 23, 7]))
                                for _ in range(chance.choice([0, 1, 1, 1, 1, 2, 9]))]
                            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
                            data = _garbage(chance, request["id"])
                            try:
                                connection.sendmsg([data], rights if descriptors else [])
                                if chance.random() < 0.2:
                                    connection.sendall(bytes(32))
                            finally:
                                for descriptor in descriptors:
                                    os.close(descriptor)
                        # Ends a request that none of the frames has ended.
                        end = b'{"type":"error","id":null,"code":"internal"}'
                        connection.sendall(len(end).to_bytes(4, "big") + end)
                        break
        except OSError:
            continue


@pytest.mark.parametrize("seed", range(4))
def test_garbage(seed: int, tmp_path: pathlib.Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        listener.listen(100)
        threading.Thread(target=_serve_garbage, args=(listener, seed), daemon=True).start()
        output = run("garbage", str(tmp_path / "socket"), "400")
        listener.shutdown(socket.SHUT_RDWR)
    # Some of the replies are right.
    assert 20 < int(output.split()[0]) < 380


# The build

def test_install(tmp_path: pathlib.Path, broker: Broker, url: str) -> None:
    """A program in C++ builds against the installed library by pkg-config, and runs, although the prefix was not known when the
    library was built."""
    make = ["make", "-s", "-C", str(_FOLDER), f"BUILD={tmp_path}/build"]
    subprocess.run(make, check=True)
    subprocess.run([*make, f"DESTDIR={tmp_path}", "PREFIX=/usr", "install"], check=True)
    environment = {**os.environ, "PKG_CONFIG_SYSROOT_DIR": str(tmp_path),
                   "PKG_CONFIG_PATH": str(tmp_path / "usr/lib/pkgconfig"), "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1",
                   "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1", "LD_LIBRARY_PATH": str(tmp_path / "usr/lib"),
                   "IMGBROKER_SOCKET": broker.socket}
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "imgbroker"], check=True, capture_output=True, text=True, env=environment)
    (tmp_path / "program.cc").write_text("""
        #include <imgbroker.h>
        #include <cstdio>
        int main(int, char **arguments) {
            imgbroker *broker = imgbroker_open(nullptr, nullptr);
            imgbroker_options options = {};
            options.width = 16;
            imgbroker_image *image = nullptr;
            if (imgbroker_get(broker, arguments[1], &options, &image, nullptr) != IMGBROKER_OK) return 1;
            std::printf("%u x %u\\n", image->width, image->height);
            imgbroker_image_release(image);
            imgbroker_close(broker);
        }""")
    subprocess.run(
        ["g++", "-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o", str(tmp_path / "program"),
         str(tmp_path / "program.cc"), *flags.stdout.split()], check=True)
    result = subprocess.run(
        [str(tmp_path / "program"), url], check=True, capture_output=True, text=True, env=environment)
    assert result.stdout == "16 x 8\n"
    needed = subprocess.run(
        ["readelf", "-d", str(tmp_path / "program")], check=True, capture_output=True, text=True).stdout
    assert "libimgbroker.so.0" in needed


def test_exported_names() -> None:
    """The library exports nothing but its interface."""
    names = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=just-symbols", str(PROGRAMS / "libimgbroker.so.0")], check=True,
        capture_output=True, text=True).stdout.split()
    assert names and all(name.startswith("imgbroker_") for name in names)


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed")
def test_clang() -> None:
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only"]
    subprocess.run(["clang", *flags, str(_FOLDER / "imgbroker.c")], check=True)
