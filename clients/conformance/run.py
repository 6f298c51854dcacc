#!/usr/bin/env python3
"""Runs the conformance tests with a program that performs their calls: `run.py PROGRAM [ARGUMENT]...`.

The program is started for each case, with the socket's path and, if it is to keep images, `keep` as further arguments. A
line of its input is the JSON of a request, whose `id` has no meaning; `file` has the path of a local file in place of `url`, with `fds` = 1, and `held`
is true for an image that stays in use. It answers with a line: an object with `image` (fields), `bytes` (hexadecimal), `progress` and
`before`, or with `reply`, `error` or `failure`. $IMGBROKER_TEST_PRODUCTS has the programs of the broker. Needs the standard
library alone.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import traceback
from typing import List, Optional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python" / "tests"))

from conformance import (  # noqa: E402
    SCRIPTED, Fields, await_coarse_clock, cases, compare, keeps_images, prepare, write_file,
)
from scripted import ScriptedBroker  # noqa: E402
from support import Broker, Origin, eventually  # noqa: E402

class Driver:
    """The program under test."""

    def __init__(self, command: List[str], socket: str, keeps: bool) -> None:
        self._process = subprocess.Popen(
            [*command, socket, *(["keep"] if keeps else [])], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._watchdog = threading.Timer(60, self._process.kill)
        self._watchdog.start()

    def perform(self, request: Fields) -> Fields:
        """Performs a call. Returns the result."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the program has ended"
        result: Fields = json.loads(line)
        return result

    def holds_buffers(self) -> bool:
        """Whether the process has descriptors of a scripted broker's buffers."""
        folder = pathlib.Path(f"/proc/{self._process.pid}/fd")
        for entry in folder.iterdir():
            try:
                if "memfd:scripted" in os.readlink(entry):
                    return True
            except FileNotFoundError:
                pass
        return False

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.communicate()
        self._watchdog.cancel()


#: The values of fields that a description does not have.
ABSENT: Fields = {"damaged": False, "stale": False, "blacklisted": False, "loops": 1, "embedded": False}


def _perform(driver: Driver, call: Fields) -> None:
    """Performs a call and compares the result."""
    request = call["request"]
    # A message about a file comes with its descriptor.
    more = {"fds": 1} if "file" in request else {}
    compare(driver.perform({"id": 0, **request, **more, "held": call.get("keep", False)}), call["expect"], ABSENT)


def _scripted(command: List[str], case: Fields, folder: pathlib.Path) -> None:
    broker = ScriptedBroker(str(folder / "socket"), case["connections"])
    keeps = keeps_images(case)
    driver = Driver(command, broker.path, keeps)
    try:
        for call in case["calls"]:
            if "do" in call:
                broker.do(call["do"])
                await_coarse_clock()
            else:
                _perform(driver, call)
        if not keeps and not any(call.get("keep") for call in case["calls"]):
            # No descriptor is lost by a fault.
            eventually(lambda: not driver.holds_buffers())
    finally:
        driver.close()
        broker.close()


def _real(command: List[str], case: Fields, folder: pathlib.Path, broker: Broker, origin: Origin) -> None:
    calls = prepare(case, origin, f"/conformance-{case['number']}", folder)
    # Others without kept images, because the source is compared.
    driver = Driver(command, broker.socket, case.get("keeps", False))
    try:
        for call in calls:
            if "do" in call:
                write_file(call["do"]["writeFile"], folder)
            else:
                _perform(driver, call)
    finally:
        driver.close()


def main(command: List[str]) -> int:
    """Runs all cases. Returns the number of failures."""
    failures = count = 0
    origin: Optional[Origin] = None
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        broker = Broker(folder)
        origin = Origin()
        for name, case in cases(*SCRIPTED, "broker"):
            place = folder / str(count)
            place.mkdir()
            count += 1
            try:
                if "connections" in case:
                    _scripted(command, case, place)
                else:
                    _real(command, case, place, broker, origin)
            except Exception:
                failures += 1
                print(f"FAILED {name}\n{traceback.format_exc()}", file=sys.stderr)
        origin.close()
        broker.stop()
    print(f"conformance: {count - failures} of {count} cases passed")
    return failures


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(1 if main(sys.argv[1:]) else 0)
