"""A broker that follows a script: see clients/conformance/README.md for the steps."""

from __future__ import annotations

import array
import fcntl
import json
import mmap
import os
import pathlib
import socket
import struct
import threading
import time
import urllib.parse
from typing import Any, Dict, List, Optional

_F_ADD_SEALS = 1033
_SEALS = {"seal": 1, "shrink": 2, "grow": 4, "write": 8, "future-write": 16}
_MAGIC = 0x3164696C61766269

_IMAGE = pathlib.Path(__file__).resolve().parents[2] / "conformance" / "image.json"

Fields = Dict[str, Any]

# Steps of scripts

GET: Fields = {"read": "get"}
#: The seals of a segment.
LIVE_SEALS = ["seal", "shrink", "grow", "future-write"]


def send_image(byte: int, **fields: Any) -> Fields:
    """Sends an image of 32 bytes in a memfd of its own."""
    return {"sendImage": fields, "descriptors": [{"size": 32, "byte": byte}]}


def send_segment(number: int, byte: int, **fields: Any) -> Fields:
    """Sends an image and the segment in which it is."""
    return {
        "sendImage": {"segment": number, "segmentBytes": 4096, **fields},
        "descriptors": [{"size": 4096, "byte": byte, "seals": LIVE_SEALS}]}


def send_in_segment(number: int, **fields: Any) -> Fields:
    """Sends an image in a segment that was sent before."""
    return {"sendImage": {"segment": number, "fds": 0, **fields}}


def end_segment(number: Any) -> Fields:
    return {"send": {"type": "segmentEnded", "id": None, "segment": number}}


def refuse_together() -> List[Fields]:
    """Refuses two requests for want of room, and answers them when the image in buffer 7 was released."""
    refused = {"type": "error", "code": "quota-exceeded", "message": "M."}
    return [
        GET, GET, {"send": {**refused, "id": "$previous"}}, {"send": {**refused, "id": "$id"}}, {"awaitRelease": [7]},
        GET, send_image(3, buffer=3), GET, send_image(4, buffer=4)]


class ScriptedBroker:
    """Listens at a path and plays one script for each connection, in order."""

    def __init__(self, path: str, connections: List[List[Fields]]) -> None:
        self.path = path
        #: The fields of `sendImage` that a step does not state.
        self._image = json.loads(_IMAGE.read_text())
        self.problems: List[str] = []
        #: The frames of each connection.
        self.received: List[List[Fields]] = []
        self.released: List[int] = []
        self._page: Optional[mmap.mmap] = None
        self._scripts = connections
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._connections: List[socket.socket] = []
        self._players: List[threading.Thread] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops it, and raises `AssertionError` if the client did not do what the script expects."""
        # Wakes the thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(20)
        self._listener.close()
        for connection in self._connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        # They close their sockets, of which the next test may count the descriptors.
        for player in self._players:
            player.join(20)
        os.unlink(self.path)
        if self._page is not None:
            self._page.close()
        assert not self.problems, self.problems

    def do(self, step: Fields) -> None:
        """Performs a step that changes the validity page."""
        assert self._page is not None
        if "setSlot" in step:
            _write_slot(self._page, step["setSlot"])
        if "setOwner" in step:
            self._page[16:20] = struct.pack("=I", step["setOwner"])

    def _run(self) -> None:
        for script in self._scripts:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            self.received.append([])
            player = threading.Thread(target=self._play, args=(connection, script, self.received[-1]), daemon=True)
            self._players.append(player)
            player.start()

    def _play(self, connection: socket.socket, script: List[Fields], received: List[Fields]) -> None:
        identifier: Any = None
        previous: Any = None
        request: Any = None
        # Requests that came while a release was awaited.
        early: List[Fields] = []
        answers_hello = not any(step.get("read") == "hello" for step in script)
        try:
            for step in script:
                if "read" in step:
                    frame = early.pop(0) if early else self._read(connection, received, answers_hello)
                    previous, identifier, request = identifier, frame.get("id"), frame.get("request")
                    if frame.get("type") != step["read"]:
                        self.problems.append(f"expected {step['read']}, received {frame}")
                    expected = step.get("fields")
                    if frame["type"] == "hello" and expected is not None and "segments" not in expected:
                        # Clients may map segments.
                        frame.pop("segments", None)
                    if expected is not None and _comparable(frame) != _comparable(expected):
                        self.problems.append(f"expected {expected}, received {frame}")
                elif "send" in step or "sendImage" in step:
                    fields = step["send"] if "send" in step else {**self._image, **step["sendImage"]}
                    known = {"$id": identifier, "$previous": previous, "$request": request}
                    fields = {k: known.get(v, v) if isinstance(v, str) else v for k, v in fields.items() if v != "$absent"}
                    self._send(connection, json.dumps(fields).encode(), step)
                elif "sendText" in step:
                    self._send(connection, step["sendText"].encode("latin-1"), step)
                elif "sendBytes" in step:
                    self._send_bytes(connection, bytes.fromhex(step["sendBytes"]), step)
                elif "awaitRelease" in step:
                    while not set(step["awaitRelease"]) <= set(self.released):
                        frame = self._read_one(connection, received)
                        if frame["type"] not in ("release", "touch", "forgetSegments"):
                            early.append(frame)
                elif step.get("close"):
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                else:
                    self.do(step)
            while True:
                self._read_one(connection, received)
        except (OSError, EOFError):
            pass
        finally:
            connection.close()

    def _read(self, connection: socket.socket, received: List[Fields], answers_hello: bool) -> Fields:
        while True:
            frame = self._read_one(connection, received)
            if frame["type"] == "hello" and answers_hello:
                reply = {"type": "hello", "id": frame["id"], "protocol": 1, "server": "scripted/1"}
                self._send(connection, json.dumps(reply).encode(), {})
            elif frame["type"] not in ("release", "touch", "forgetSegments"):
                return frame

    def _read_one(self, connection: socket.socket, received: List[Fields]) -> Fields:
        length = int.from_bytes(_read_exactly(connection, 4), "big")
        frame: Fields = json.loads(_read_exactly(connection, length))
        received.append(frame)
        if frame["type"] == "release":
            self.released += frame.get("buffers", []) or [frame["buffer"]]
        return frame

    def _send(self, connection: socket.socket, text: bytes, step: Fields) -> None:
        self._send_bytes(connection, len(text).to_bytes(4, "big") + text, step)
        payload = step.get("payload")
        if payload is not None:
            connection.sendall(bytes([payload["byte"]]) * payload["size"])

    def _send_bytes(self, connection: socket.socket, data: bytes, step: Fields) -> None:
        descriptors = [self._descriptor(item) for item in step.get("descriptors", [])]
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        try:
            sent = connection.sendmsg([data], rights)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        # Sending nothing fails, too, if the client has its reply and is gone, and its last frames would not be read.
        if sent < len(data):
            connection.sendall(data[sent:])

    def _descriptor(self, item: Fields) -> int:
        kind = item.get("kind", "memfd")
        if kind == "pipe":
            reading, writing = os.pipe()
            os.close(writing)
            return reading
        descriptor = os.memfd_create("scripted", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        if kind == "page":
            slots = item["slots"]
            os.ftruncate(descriptor, item.get("size", 64 + 8 * slots))
            page = self._page = mmap.mmap(descriptor, 0)
            page[:20] = struct.pack(
                "=QIII", item.get("magic", _MAGIC), item.get("version", 1), slots, item.get("owner", 4711))
        elif "byte" in item:
            os.write(descriptor, bytes([item["byte"]]) * item["size"])
        else:
            os.ftruncate(descriptor, item["size"])
        seals = 0
        for name in item.get("seals", ["seal", "shrink", "grow", "future-write" if kind == "page" else "write"]):
            seals |= _SEALS[name]
        fcntl.fcntl(descriptor, _F_ADD_SEALS, seals)
        return descriptor


def _comparable(frame: Fields) -> Fields:
    """Returns the fields without `id`, and the URL in canonical spelling, which a client may send, too."""
    fields = {name: value for name, value in frame.items() if name != "id"}
    if "url" in fields:
        fields["url"] = urllib.parse.quote(fields["url"], safe="%/:=&?~#+!$,;'@()*[]")
    return fields


def _write_slot(page: mmap.mmap, slot: Fields) -> None:
    expiry = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 100_000_000 + slot["tenths"]
    at = 64 + 8 * slot["slot"]
    page[at:at + 8] = struct.pack("=Q", slot["generation"] << 32 | expiry)


def _read_exactly(connection: socket.socket, count: int) -> bytes:
    parts: List[bytes] = []
    while count:
        part = connection.recv(count)
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


