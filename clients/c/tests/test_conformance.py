"""Runs clients/conformance: tests/conformance.c performs the calls, and this compares the results."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import time
from typing import Any, Callable, Iterator, List, Tuple

import pytest

from conformance import SCRIPTED, Fields, await_coarse_clock, cases, compare, keeps_images, prepare, write_file
from conftest import PROGRAMS
from fixtures import Scripted
from scripted import GET, LIVE_SEALS, send_image, send_segment
from support import Broker, Origin

STYLES = ["blocking", "pollable"]


def _cases(*files: str) -> List[Any]:
    return [pytest.param(case, id=name) for name, case in cases(*files)]


#: A case with an image that may be kept.
_VALID = next(cases("validity"))[1]


class Client:
    """A process of tests/conformance.c."""

    def __init__(self, socket: str, keep_images: int, style: str) -> None:
        self._process = subprocess.Popen(
            [str(PROGRAMS / "conformance"), socket, str(keep_images), style], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)

    def open_descriptors(self) -> int:
        """Returns the number of its open descriptors."""
        return len(os.listdir(f"/proc/{self._process.pid}/fd"))

    def perform(self, call: Fields) -> Fields:
        """Performs a call. Returns the result."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(call) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the client has ended"
        result: Fields = json.loads(line)
        if "image" in result:
            result.update(bytes=result["image"]["hex"], blocks=result["image"]["blocks"])
        return result

    def close(self) -> None:
        """Ends it; a sanitizer's report is an error."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        assert self._process.wait(30) == 0


Connect = Callable[[str, int, str], Client]


@pytest.fixture
def connect(scripted: Scripted) -> Iterator[Connect]:
    """Starts clients, which end before the broker."""
    clients: List[Client] = []

    def start(socket: str, keep_images: int, style: str) -> Client:
        clients.append(Client(socket, keep_images, style))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


def _check(result: Fields, expected: Fields) -> None:
    if "failure" in expected:
        assert result["error"]["code"] == expected["failure"]
        return
    compare(result, expected)
    if "image" in expected:
        assert len(result["before"]) == len(expected.get("before", []))


def _is_raw(request: Fields) -> bool:
    """Returns whether a request has a value that means the default in the client's options."""
    values = [request.get("quality", 1), request.get("timeoutMs", 1), request.get("variant", {}).get("width", 1)]
    return 0 in values


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("case", _cases(*SCRIPTED))
def test_scripted(case: Fields, style: str, scripted: Scripted, connect: Connect) -> None:
    broker = scripted(*case["connections"])
    client = connect(broker.path, 8 if keeps_images(case) else -1, style)
    for call in case["calls"]:
        if "do" in call:
            broker.do(call["do"])
            await_coarse_clock()
        else:
            _check(client.perform(call), call["expect"])
    # Standard input, output and error; the connection's epoll, two timers and perhaps the socket: mapped images
    # need no descriptor, and faults lose none.
    assert client.open_descriptors() <= 7


def test_requested_images_before_kept_ones(scripted: Scripted, connect: Connect) -> None:
    script = _VALID["connections"][0]
    refused = {"send": {"type": "error", "id": "$id", "code": "quota-exceeded", "message": "M."}}
    broker = scripted([*script, GET, refused, {"awaitRelease": [7]}, GET, send_image(3, buffer=8)])
    client = connect(broker.path, 8, "blocking")
    _check(client.perform({"request": {"type": "get", "url": "http://a/b"}}), {"image": {"width": 4}, "byte": 7})
    _check(client.perform({"request": {"type": "get", "url": "http://a/c"}}), {"image": {"width": 4}, "byte": 3})


def test_reports_once_a_second(scripted: Scripted, connect: Connect) -> None:
    broker = scripted([*_VALID["connections"][0], *[GET, send_image(3, buffer=8)] * 20])
    client = connect(broker.path, 8, "blocking")
    start = time.monotonic()
    kept = {"request": {"type": "get", "url": "http://a/kept"}}
    client.perform(kept)
    for number in range(20):
        _check(client.perform(kept), {"image": {"width": 4}, "byte": 7})
        client.perform({"request": {"type": "get", "url": f"http://a/{number}"}})
    duration = time.monotonic() - start
    client.close()
    assert sum(frame["type"] == "touch" for frame in broker.received[0]) <= duration


@pytest.mark.parametrize("style", STYLES)
def test_request_behind_hello(style: str, scripted: Scripted, connect: Connect) -> None:
    """A request does not wait for the reply to `hello`, and is sent again as often as the broker closes the connection before it."""
    asked = [{"read": "hello"}, GET]
    closed = [*asked, {"close": True}]
    broker = scripted(
        [{"read": "hello"}, {"send": {"type": "hello", "id": "$id", "protocol": 1}}, {"close": True}], closed, closed,
        [*asked, send_image(7)])
    client = connect(broker.path, -1, style)
    assert client.perform({"request": {"type": "get", "url": "http://a/b"}})["image"]["width"] == 4


def test_image_beyond_held_buffer(scripted: Scripted, connect: Connect) -> None:
    broker = scripted([GET, send_image(7), GET, {"sendImage": {"fds": 0, "offset": 4096}}])
    client = connect(broker.path, -1, "blocking")
    request = {"type": "get", "url": "http://a/b"}
    _check(client.perform({"request": request, "keep": True}), {"image": {"width": 4}})
    _check(client.perform({"request": request}), {"failure": "protocol-violation"})


_FAULTS = {
    "unknown segment": ({"segment": 6, "fds": 0}, None),
    "descriptor without size": ({"segment": 6}, {"size": 4096}),
    "size without descriptor": ({"segment": 5, "segmentBytes": 4096, "fds": 0}, None),
    "size without segment": ({"segmentBytes": 4096}, {"size": 4096}),
    "descriptor missing": ({"segment": 6, "segmentBytes": 4096}, None),
    "number zero": ({"segment": 0, "segmentBytes": 4096}, {"size": 4096}),
    "no lease": ({"segment": 5, "fds": 0, "buffer": "$absent"}, None),
    "smaller": ({"segment": 6, "segmentBytes": 8192}, {"size": 4096}),
    "larger": ({"segment": 6, "segmentBytes": 4096}, {"size": 8192}),
    "image beyond its segment": ({"segment": 5, "fds": 0, "offset": 4065}, None),
    "image beyond a new segment": ({"segment": 6, "segmentBytes": 4096, "offset": 4065}, {"size": 4096}),
    "overflow": ({"segment": 5, "fds": 0, "offset": (1 << 53) - 1}, None),
    "payload": ({"segment": 5, "fds": 0, "payload": 32}, None),
    "pipe": ({"segment": 6, "segmentBytes": 4096}, {"kind": "pipe"}),
    "seals of an image": (
        {"segment": 6, "segmentBytes": 4096}, {"size": 4096, "seals": ["seal", "shrink", "grow", "write"]}),
    **{f"no seal {seal}": (
        {"segment": 6, "segmentBytes": 4096}, {"size": 4096, "seals": [each for each in LIVE_SEALS if each != seal]})
       for seal in LIVE_SEALS},
}


@pytest.mark.parametrize("name", _FAULTS)
def test_faulty_segment(name: str, scripted: Scripted, connect: Connect) -> None:
    """A fault ends the connection, and leaves earlier images and the next connection alone."""
    fields, descriptor = _FAULTS[name]
    first = send_segment(5, 7)
    fault = {"sendImage": {**fields}, "descriptors": [] if descriptor is None else [{"seals": LIVE_SEALS, **descriptor}]}
    broker = scripted([GET, first, GET, fault], [GET, first])
    client = connect(broker.path, -1, "blocking")
    call = {"request": {"type": "get", "url": "http://a/b"}}
    _check(client.perform(call), {"image": {"width": 4}, "byte": 7})
    descriptors = client.open_descriptors()
    _check(client.perform(call), {"failure": "protocol-violation"})
    assert client.open_descriptors() == descriptors - 1
    _check(client.perform(call), {"image": {"width": 4}, "byte": 7})
    assert client.open_descriptors() == descriptors


def test_descriptor_of_mapped_segment(scripted: Scripted, connect: Connect) -> None:
    """The second descriptor is closed, and the mapping stays."""
    broker = scripted([GET, send_segment(5, 7), GET, send_segment(5, 3)])
    client = connect(broker.path, -1, "blocking")
    call = {"request": {"type": "get", "url": "http://a/b"}}
    for _ in range(2):
        _check(client.perform(call), {"image": {"width": 4}, "byte": 7})
        assert client.open_descriptors() == 7


@pytest.fixture(scope="module", params=STYLES)
def style_and_broker(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tuple[str, Broker]]:
    """A style of calls and a broker of its own, because a broker remembers failures."""
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield request.param, broker


@pytest.mark.parametrize("case", _cases("broker"))
def test_broker(
    case: Fields, style_and_broker: Tuple[str, Broker], origin: Origin, tmp_path: pathlib.Path, connect: Connect
) -> None:
    style, broker = style_and_broker
    calls = prepare(case, origin, f"/{style}-{case['number']}", tmp_path)
    # Others without kept images, because the source is compared.
    client = connect(broker.socket, 8 if case.get("keeps") else -1, style)
    for call in calls:
        if "do" in call:
            write_file(call["do"]["writeFile"], tmp_path)
        else:
            _check(client.perform({**call, "raw": _is_raw(call["request"])}), call["expect"])
