"""How connections are used and left, with a scripted broker."""

from __future__ import annotations

import errno
import gc
import os
import queue
import socket
import time
from types import SimpleNamespace
from typing import Any, Dict, List, Mapping

import pytest

import imgbroker
from imgbroker import _session
from imgbroker._engine import Engine
from imgbroker._kept import KeptImages
from imgbroker._wire import encode_frame
from conformance import cases
from fixtures import Scripted
from scripted import GET, refuse_together, send_image, send_segment
from support import eventually

_URL = "http://origin/a.png"
_IMAGE = send_image(3)
_GREETING: List[Dict[str, Any]] = [
    {"read": "hello"}, {"send": {"type": "hello", "id": "$id", "protocol": 1, "features": ["files"]}}]


# Sending


class _Full:
    """A socket that fails to send the next messages with a descriptor."""

    def __init__(self, connected: socket.socket, error: int, count: int) -> None:
        self._connected = connected
        self._error = error
        self.count = count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connected, name)

    def sendmsg(self, *arguments: Any) -> int:
        if self.count:
            self.count -= 1
            raise OSError(self._error, os.strerror(self._error))
        return self._connected.sendmsg(*arguments)


@pytest.mark.parametrize("error", [errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM])
def test_request_that_cannot_be_sent_yet(scripted: Scripted, error: int) -> None:
    broker = scripted([*_GREETING, GET, _IMAGE, GET, _IMAGE])
    with imgbroker.Client(broker.path, keep_images=0) as client:
        client.get(b"a")
        session: Any = client._engine._session
        session.socket = full = _Full(session.socket, error, 5)
        start = time.monotonic()
        assert client.submit(b"a").result(20).width == 4
        # It waits before it tries again.
        assert full.count == 0 and time.monotonic() - start > 0.02
        assert not session.has_outgoing and client._engine._session is session


def test_connection_that_cannot_send_is_lost(scripted: Scripted) -> None:
    broker = scripted([*_GREETING, GET, _IMAGE], [*_GREETING, GET, _IMAGE])
    with imgbroker.Client(broker.path, keep_images=0) as client:
        client.get(b"a")
        session: Any = client._engine._session
        session.socket = _Full(session.socket, errno.EACCES, 1)
        assert client.submit(b"a").result(20).width == 4
        assert client._engine._session is not session


# Cancellations


def _assert_cancelled(future: Any, seconds: float) -> None:
    with pytest.raises(imgbroker.OutcomeError) as info:
        future.result(seconds)
    assert info.value.code is imgbroker.ErrorCode.CANCELLED


def test_iterator_that_ends_while_a_request_is_sent(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the collector runs at this place and finds the iterator."""
    broker = scripted([
        GET, _IMAGE, GET, GET, {"read": "cancel"}, send_image(4, id="$previous", buffer=8),
        {"send": {"type": "error", "id": "$request", "code": "cancelled", "message": "M."}},
        {"send": {"type": "ok", "id": "$id"}}, GET, send_image(5, buffer=9)])
    with imgbroker.Client(broker.path, keep_images=0) as client:
        iterator: Any = client.get_many([_URL, "http://origin/b"])
        # Held, so that nothing else is sent.
        first = next(iterator).get()

        def encode(fields: Mapping[str, Any]) -> bytes:
            monkeypatch.setattr(_session, "encode_frame", encode_frame)
            iterator.close()
            return encode_frame(fields)

        monkeypatch.setattr(_session, "encode_frame", encode)
        assert [client.get(_URL).buffer[0] for _ in range(2)] == [4, 5] and first.buffer[0] == 3
    requests = [frame for frame in broker.received[0] if "id" in frame]
    assert [frame["type"] for frame in requests] == ["hello", "get", "get", "get", "cancel", "get"]
    assert len({frame["id"] for frame in requests}) == len(requests)


def test_cancelled_requests_are_not_sent_over_the_next_connection(scripted: Scripted) -> None:
    shutting_down = {"send": {"type": "error", "id": "$id", "code": "shutting-down", "message": "M."}}
    broker = scripted([GET, shutting_down, GET, {"read": "cancel"}, {"close": True}], [GET, _IMAGE])
    with imgbroker.Client(broker.path) as client:
        engine: Any = client._engine
        refused = client.submit(_URL)
        eventually(lambda: engine._session is not None and engine._session.deferred)
        client.cancel(refused)
        _assert_cancelled(refused, 0)
        pending = client.submit(_URL)
        client.cancel(pending)
        _assert_cancelled(pending, 20)
        assert client.get(_URL).width == 4
    assert [frame["type"] for frame in broker.received[1] if "id" in frame] == ["hello", "get"]


@pytest.mark.parametrize("code", ["quota-exceeded", "overloaded", "shutting-down"])
def test_refusal_after_a_cancellation(scripted: Scripted, code: str) -> None:
    """The request is not sent again, and takes no room of kept images."""
    refuse = [
        {"read": "cancel"}, {"send": {"type": "error", "id": "$request", "code": code, "message": "M."}},
        {"send": {"type": "ok", "id": "$id"}}]
    broker = scripted([
        *next(cases("validity"))[1]["connections"][0], GET, GET, *refuse, *refuse, GET, send_image(4, buffer=8)])
    with imgbroker.Client(broker.path, keep_images=8) as client:
        image = client.get(_URL)
        futures: List[Any] = [client.submit(f"http://origin/{name}") for name in ("b", "c")]
        assert futures[0].cancel()
        client.cancel(futures[1])
        _assert_cancelled(futures[1], 20)
        assert client.get("http://origin/d").buffer[0] == 4
        assert client.kept_image(_URL) is image and futures[0].cancelled()
    requests = [frame["type"] for frame in broker.received[0] if "id" in frame]
    assert requests == ["hello", "get", "get", "get", "cancel", "cancel", "get"]


# Leaving


def test_closed_client_cancels_its_requests(scripted: Scripted) -> None:
    """An image in a segment keeps the connection open, over which the broker would load them."""
    broker = scripted([GET, send_segment(5, 3), GET, {"read": "cancel"}])
    client = imgbroker.Client(broker.path)
    image = client.get(_URL)
    waiting = client.submit(_URL)
    eventually(lambda: [frame["type"] for frame in broker.received[0]] == ["hello", "get", "get"])
    client.close()
    with pytest.raises(imgbroker.ClosedError):
        waiting.result(0)
    eventually(lambda: broker.received[0][-1].get("request") == 3)
    assert image.buffer[0] == 3


# Callbacks


def test_callback_that_raises_after_a_cancellation(scripted: Scripted) -> None:
    progress = {"send": {"type": "progress", "id": "$id", "received": 1, "expected": 2}}
    broker = scripted([GET, progress, {"read": "cancel"}, GET, _IMAGE])
    submitted: "queue.SimpleQueue[Any]" = queue.SimpleQueue()

    def report(*_: Any) -> None:
        submitted.get(timeout=20).cancel()
        raise KeyError

    with imgbroker.Client(broker.path) as client:
        cancelled = client.submit(_URL, progress=report)
        submitted.put(cancelled)
        eventually(cancelled.cancelled)
        # Over the same connection.
        assert client.submit(_URL).result(20).width == 4


def test_all_effects_are_performed() -> None:
    performed: List[int] = []

    def fail(number: int) -> None:
        raise KeyError(number)

    with pytest.raises(KeyError, match="1"):
        Engine._perform([lambda: fail(1), lambda: performed.append(2), lambda: fail(3), lambda: performed.append(4)])
    assert performed == [2, 4]


# References


def test_dropped_events_end_their_subscription(scripted: Scripted) -> None:
    event = {"send": {"type": "event", "id": "$id", "event": "evicted", "url": _URL}}
    broker = scripted([{"read": "subscribe"}, {"send": {"type": "ok", "id": "$id"}}, event])
    gc.disable()
    try:
        events = imgbroker.Client(broker.path).events()
        assert next(events).url == _URL
        engine = events._engine
        del events
        eventually(lambda: engine._thread is None)
    finally:
        gc.enable()


def test_error_of_an_image_keeps_no_lease(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = scripted([GET, _IMAGE])

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr(_session, "map_buffer", fail)
    gc.disable()
    try:
        with imgbroker.Client(broker.path, keep_images=0) as client:
            with pytest.raises(imgbroker.ProcessLimitError):
                client.get(_URL)
            eventually(lambda: broker.released == [7])
    finally:
        gc.enable()


def test_requests_that_are_refused_together(scripted: Scripted) -> None:
    """The room of kept images is for all requests that were sent before it was made."""
    broker = scripted([*next(cases("validity"))[1]["connections"][0], *refuse_together()])
    with imgbroker.Client(broker.path, keep_images=8) as client:
        client.get(_URL)
        images = [client.submit(f"http://origin/{name}") for name in ("c", "d")]
        assert [bytes(image.result(10).buffer[:1]) for image in images] == [b"\x03", b"\x04"]


def test_room_is_made_by_half_of_the_kept_images() -> None:
    kept = KeptImages(8, 1 << 20, 8)
    entries: Any = kept.entries
    entries.update({(number,): SimpleNamespace(is_used=number < 2, size=1) for number in range(5)})
    left = []
    while kept.make_room():
        left.append(list(entries))
    assert left == [[(0,), (1,)], [(1,)], []]
