"""Runs clients/conformance."""

from __future__ import annotations

import gc
import pathlib
import re
from typing import Any, Dict, List

import pytest

import imgbroker
from conformance import SCRIPTED, Fields, cases, compare, keeps_images, prepare, write_file
from scripted import ScriptedBroker
from support import Broker, Origin, eventually, open_descriptors

_FAILURES: Dict[Any, str] = {
    imgbroker.ProtocolViolationError: "protocol-violation", imgbroker.ConnectionLostError: "connection-lost",
    imgbroker.NoBrokerError: "no-broker", imgbroker.NotAnsweringError: "not-answering",
}


def _cases(*files: str) -> List[Any]:
    return [pytest.param(case, id=name) for name, case in cases(*files)]


def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), name)


def _options(request: Fields) -> Fields:
    """Returns the options of the client for the fields of a request."""
    options: Fields = {}
    for name, value in request.items():
        if name == "variant":
            options.update({_snake(key): item for key, item in value.items()})
            if "frames" in options:
                options["frames"] = (options["frames"]["first"], options["frames"]["count"])
        elif name == "credentials":
            options["credentials"] = (value["username"], value["password"])
        elif name == "as":
            options["as_"] = value
        elif name not in ("type", "url", "urls", "file", "progress", "staleFirst"):
            options[_snake(name)] = value
    return options


def _source(request: Fields) -> Any:
    """Returns the URL of a request, or the path of its local file."""
    return pathlib.Path(request["file"]) if "file" in request else request["url"]


def _described_header(image: imgbroker.Image) -> Fields:
    """The fields of the description, and the places of the metadata blocks."""
    fields: Fields = {"metadata": {
        kind: {"bytes": block.length, **({} if block.offset is None else {"offset": block.offset})}
        for kind, block in image._reply.blocks.items()}}
    found = image.description
    if found is not None:
        fields.update({
            "format": found.format, "orientation": found.orientation, "profile": found.profile,
            "bitDepth": found.bit_depth, "hasAlpha": found.has_alpha, "loops": found.loops, "status": found.status,
            "lastModified": found.last_modified, "length": found.length,
            "density": None if found.density is None else {"x": found.density.x, "y": found.density.y}})
    return fields


def _described(image: imgbroker.Image) -> Fields:
    return {
        "width": image.width, "height": image.height, "stride": image.stride, "pixelFormat": image.pixel_format,
        "alpha": image.alpha, "bytes": image.nbytes, "source": image.source, "url": image.url,
        "contentType": image.content_type, "originalWidth": image.original_size[0],
        "originalHeight": image.original_size[1], "frameCount": image.frame_count, "loops": image.loops,
        "frames": [{"offset": frame.offset, "delayMs": frame.delay_ms} for frame in image.frames],
        "averageColor": image.average_color, "etag": image.etag, "expires": image.expires, "stale": image.stale,
        "damaged": image.damaged, "damage": image.damage, "embedded": image.embedded,
        **_described_header(image),
        "spans": [
            {"name": span.name, "startMicroseconds": span.start_microseconds, "microseconds": span.microseconds}
            for span in image.spans],
    }


def _reply(client: imgbroker.Client, request: Fields) -> Fields:
    """Performs a request that returns no image."""
    options: Any = _options(request)
    kind = request["type"]
    if kind == "query":
        status = client.query(_source(request), **options)
        return {"memory": status.memory, "disk": status.disk, "fresh": status.fresh,
                "averageColor": status.average_color}
    if kind == "remove":
        return {"removed": client.remove(_source(request))}
    if kind == "prefetch":
        return dict(client.prefetch(request["urls"], **options)._asdict())
    if kind == "clear":
        return dict(client.clear(request["tier"], older_than_seconds=request.get("olderThanSeconds"))._asdict())
    if kind == "reload":
        return {
            name: [{key: value for key, value in change._asdict().items() if value is not None} for change in changes]
            for name, changes in client.reload()._asdict().items()}
    if kind == "upgrade":
        client.upgrade()
        return {}
    assert kind == "stats"
    return client.stats()


def _call(client: imgbroker.Client, call: Fields, submits: bool = False) -> Any:
    """Performs a call, by `get` or by `submit`, and compares the result. Returns the image if there is one."""
    request, expected = call["request"], call["expect"]
    received: List[Any] = []
    before: List[imgbroker.Image] = []
    callbacks: Dict[str, Any] = {}
    if request.get("progress"):
        callbacks["progress"] = lambda *numbers: received.append(list(numbers))
    if request.get("staleFirst"):
        callbacks["preview"] = before.append
    options: Any = _options(request)
    image: Any = None
    result: Fields = {"progress": received}
    try:
        if request["type"] != "get":
            result["reply"] = _reply(client, request)
        elif submits:
            image = client.submit(_source(request), **callbacks, **options).result(60)
        else:
            image = client.get(_source(request), **callbacks, **options)
    except imgbroker.RefusedError as error:
        result["error"] = {
            "code": error.code.value, "retryable": error.retryable, "httpStatus": error.http_status,
            "retryAfterMs": error.retry_after_ms, "cause": error.cause and error.cause.value,
            "blacklisted": error.recently_failed}
    except tuple(_FAILURES) as error:
        result["failure"] = _FAILURES[type(error)]
    if image is not None:
        result.update(
            image=_described(image), bytes=bytes(image).hex(), before=[_described(each) for each in before],
            blocks={kind: block.hex() for kind, block in image.metadata.items()})
    compare(result, expected)
    return image


@pytest.mark.parametrize("case", _cases("validity"))
def test_scripted_with_submit(case: Fields, tmp_path: pathlib.Path) -> None:
    test_scripted(case, tmp_path, submits=True)


@pytest.mark.parametrize("case", _cases(*SCRIPTED))
def test_scripted(case: Fields, tmp_path: pathlib.Path, submits: bool = False) -> None:
    gc.collect()
    descriptors = open_descriptors()
    broker = ScriptedBroker(str(tmp_path / "socket"), case["connections"])
    client = imgbroker.Client(broker.path, keep_images=8 if keeps_images(case) else 0, reconnect=10)
    kept: List[Any] = []
    try:
        for call in case["calls"]:
            if "do" in call:
                broker.do(call["do"])
                continue
            image = _call(client, call, submits)
            if call.get("keep"):
                kept.append(image)
            del image
    finally:
        client.close()
        broker.close()
    kept.clear()
    gc.collect()
    # No descriptor is lost by a fault; the scripted broker's threads close theirs.
    eventually(lambda: open_descriptors() <= descriptors)


@pytest.mark.parametrize("case", _cases("broker"))
def test_broker(case: Fields, broker: Broker, origin: Origin, tmp_path: pathlib.Path) -> None:
    calls = prepare(case, origin, f"/conformance-{case['number']}", tmp_path)
    # Others without kept images, because the source is compared.
    with imgbroker.Client(broker.socket, keep_images=8 if case.get("keeps") else 0) as client:
        for call in calls:
            if "do" in call:
                write_file(call["do"]["writeFile"], tmp_path)
            else:
                _call(client, call)
