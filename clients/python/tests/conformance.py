"""The cases of clients/conformance, for the tests of all clients. Needs the standard library alone."""

from __future__ import annotations

import base64
import json
import pathlib
import time
from typing import Any, Dict, Iterator, List, Tuple

from support import CONFORMANCE, Origin, Page, eventually

Fields = Dict[str, Any]

#: The files with cases for a scripted broker.
SCRIPTED = ("requests", "replies", "faults", "segments", "validity")


def _read(name: str) -> Fields:
    content: Fields = json.loads((CONFORMANCE / f"{name}.json").read_text())
    return content


def _expanded(value: Any, parts: Fields) -> Any:
    """Returns a value with the parts for which strings `@name` stand; in a list, a list's elements."""
    if isinstance(value, str):
        return _expanded(parts[value[1:]], parts) if value.startswith("@") else value
    if isinstance(value, dict):
        return {name: _expanded(item, parts) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    items: List[Any] = []
    for item in value:
        found = _expanded(item, parts)
        items += found if isinstance(item, str) and isinstance(found, list) else [found]
    return items


def _script(case: Fields) -> Fields:
    """Returns the connections and calls for which `fault` or `error` stands."""
    if "fault" in case:
        return {"connections": [case["fault"], ["@send-5"]], "calls": ["@violation", "@get-5"]}
    if "error" in case:
        reply = {"type": "error", "id": "$id", "message": "A reason.", **case["error"]}
        return {
            "connections": [[{"read": "get"}, {"send": reply}]],
            "calls": [{"request": "@get", "expect": {"error": case["error"]}}]}
    return {}


def cases(*files: str) -> Iterator[Tuple[str, Fields]]:
    """Returns the cases of files, each with its name."""
    parts = _read("parts")
    for file in files:
        for number, case in enumerate(_read(file)["cases"]):
            whole = {"number": number, **_script(case), **case}
            request = _expanded(whole["calls"][0], parts)["request"]
            yield f"{file}: {case['name']}", _expanded(whole, {**parts, "request": request})


def _assert_contains(actual: Fields, expected: Fields, absent: Fields) -> None:
    found = {name: actual.get(name, absent.get(name)) for name in expected}
    assert found == expected, f"expected {expected}, not {found}"


def compare(result: Fields, expected: Fields, absent: Fields = {}) -> None:
    """Compares the result of a call with the expected one: `image`, `reply` or `error` (fields) or `failure`, of an image also
    `bytes` and `blocks` (hexadecimal), `progress` and `before`. `absent` has the values of fields that may be missing."""
    for kind in ("failure", "error", "reply", "image"):
        assert (kind in result) == (kind in expected), f"expected {expected}, not {result}"
    if "failure" in expected:
        assert result["failure"] == expected["failure"], result["failure"]
    for kind in ("error", "reply", "image"):
        if kind in expected:
            actual = result[kind]
            _assert_contains(actual.get("stats", actual), expected[kind], absent)
    data = bytes.fromhex(result.get("bytes", ""))
    if "byte" in expected:
        assert data == bytes([expected["byte"]]) * result["image"]["bytes"]
    if "pixel" in expected:
        assert list(data[:4]) == expected["pixel"], data[:4]
    if "body" in expected:
        assert data == base64.b64decode(expected["body"])
    if "blocks" in expected:
        blocks = {kind: base64.b64encode(bytes.fromhex(block)).decode() for kind, block in result["blocks"].items()}
        assert blocks == expected["blocks"], blocks
    if "progress" in expected:
        assert result["progress"] == expected["progress"], result["progress"]
    if "before" in expected:
        assert len(result["before"]) == len(expected["before"]), result["before"]
        for actual, fields in zip(result["before"], expected["before"]):
            _assert_contains(actual, fields, absent)


def keeps_images(case: Fields) -> bool:
    """Returns whether the client of a scripted case is to keep images."""
    return any(step.get("read") == "hello" for script in case["connections"] for step in script)


def await_coarse_clock() -> None:
    """Waits until the clock of a client, which may lag, has come to the present tenth of a second."""
    coarse = 6  # CLOCK_MONOTONIC_COARSE
    tenth = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 100_000_000
    eventually(lambda: time.clock_gettime_ns(coarse) // 100_000_000 >= tenth)


def write_file(file: Fields, folder: pathlib.Path) -> None:
    """Writes a local file, and waits: results are not kept at first."""
    (folder / file["name"]).write_bytes(base64.b64decode(file["body"]))
    time.sleep(0.05)


def prepare(case: Fields, origin: Origin, prefix: str, folder: pathlib.Path) -> List[Fields]:
    """Writes the files of a case into a folder, and serves its pages at paths with a prefix. Returns its calls, with these places."""
    for file in case.get("files", []):
        write_file(file, folder)
    for page in case.get("origin", []):
        origin.pages[prefix + page["path"]] = Page(
            base64.b64decode(page["body"]), page.get("status", 200), page["headers"], page.get("closeAfter"))
    text = json.dumps(case["calls"]).replace("$origin", origin.url + prefix).replace("$files", str(folder))
    calls: List[Fields] = json.loads(text)
    return calls
