"""The client for asyncio, with a real broker."""

from __future__ import annotations

import asyncio
import pathlib
import threading
from typing import Any, Callable, Coroutine, List

import pytest

import imgbroker
from imgbroker import _async, _client
from imgbroker._client import open_file
from support import Broker, Origin, Picture, eventually, open_descriptors

Test = Callable[[imgbroker.AsyncClient], Coroutine[Any, Any, None]]


def _run(broker: Broker, test: Test, **settings: Any) -> None:
    async def main() -> None:
        async with imgbroker.AsyncClient(broker.socket, **settings) as client:
            await asyncio.wait_for(test(client), 60)

    asyncio.run(main())


def test_methods(broker: Broker, origin: Origin, picture: Picture, tmp_path: pathlib.Path) -> None:
    url = origin.add("/async.png", picture(20, 10))
    missing = origin.url + "/async-missing.png"

    async def test(client: imgbroker.AsyncClient) -> None:
        assert (await client.get(url, width=10)).numpy().shape == (5, 10, 4)
        pixels = (await client.get(url, width=10, writable=True)).numpy()
        pixels[:] = 0
        assert (await client.get(url, width=10)).numpy().any()
        # An image has no slot before it comes from memory.
        while await client.get(url, width=10) is not await client.get(url, width=10):
            await asyncio.sleep(0.01)
        with pytest.raises(imgbroker.DownloadError):
            await client.get(missing)
        assert (await client.query(url)).disk in (True, False)
        assert await client.remove(url) == 1
        await client.store(url, picture(7, 7))
        assert (await client.get(url)).width == 7
        assert (await client.hello()).server.startswith("imgbroker/")
        assert (await client.stats())["requests"] > 0
        assert await client.failed(missing) != []
        assert await client.clear_failed(missing) == 1
        assert (await client.clear("memory", older_than_seconds=1000)).removed == 0
        await client.suspend()
        await client.resume()
        await client.cancel_all()
        assert await client.reload() == imgbroker.ReloadResult((), ())
        await client.upgrade()
        assert [span.name for span in (await client.get(url, trace=True)).spans] == ["reply"]
        client.flush()
        numbers: List[Any] = []
        loop_thread = threading.get_ident()
        urls = [url, missing]
        result = await client.prefetch(
            urls, progress=lambda *state: numbers.append((*state, threading.get_ident() == loop_thread)))
        assert result == (1, 1)
        await asyncio.sleep(0)
        assert numbers[-1] == (1, 1, 2, True)
        with pytest.raises(FileNotFoundError):
            await client.get(tmp_path / "missing")

    _run(broker, test)


@pytest.mark.parametrize("ordered", [True, False])
def test_many(broker: Broker, origin: Origin, picture: Picture, ordered: bool) -> None:
    urls = [origin.add(f"/async-{width}.png", picture(width, 10)) for width in range(10, 30)]
    urls.insert(3, origin.url + "/async-many-missing.png")
    urls.insert(5, "/missing/file.png")
    urls.insert(7, "data:image/png")

    async def test(client: imgbroker.AsyncClient) -> None:
        results = [result async for result in client.get_many(urls, in_flight=6, ordered=ordered)]
        numbers = [result.number for result in results]
        assert (numbers if ordered else sorted(numbers)) == list(range(23))
        errors = {result.number: result.error for result in results if result.error is not None}
        assert sorted(errors) == [3, 5, 7] and isinstance(errors[5], FileNotFoundError) and isinstance(errors[7], ValueError)

    _run(broker, test)


def test_cancelling_a_task_cancels_its_request(
    broker: Broker, origin: Origin, picture: Picture, gate: threading.Event
) -> None:
    url = origin.add("/async-cancel.png", picture(8, 8), gate=gate)

    async def test(client: imgbroker.AsyncClient) -> None:
        before = (await client.stats())["cancelled"]
        task = asyncio.ensure_future(client.get(url))
        while "/async-cancel.png" not in origin.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while (await client.stats())["cancelled"] != before + 1:
            await asyncio.sleep(0.01)

    _run(broker, test)


def test_events(broker: Broker, origin: Origin, picture: Picture) -> None:
    url = origin.add("/async-events.png", picture(8, 8))

    async def test(client: imgbroker.AsyncClient) -> None:
        events = client.events(["finished"])
        next_event = asyncio.ensure_future(events.__anext__())
        clients = (await client.stats())["clients"]
        while not next_event.done():
            await client.get(url, cache="reload")
        assert (await next_event).url == url
        await events.aclose()  # type: ignore[attr-defined]
        while (await client.stats())["clients"] > clients:
            await asyncio.sleep(0.01)

    _run(broker, test)


def test_no_broker(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        async with imgbroker.AsyncClient(str(tmp_path / "missing")) as client:
            with pytest.raises(imgbroker.NoBrokerError):
                await client.stats()

    asyncio.run(main())


def test_restart(tmp_path: pathlib.Path, origin: Origin, picture: Picture) -> None:
    url = origin.add("/async-restart.png", picture(8, 8))
    broker = Broker(tmp_path)

    async def test(client: imgbroker.AsyncClient) -> None:
        await client.get(url)
        broker.stop("kill")
        waiting = asyncio.ensure_future(client.get(url))
        await asyncio.get_running_loop().run_in_executor(None, broker.start)
        assert (await waiting).width == 8

    with broker:
        _run(broker, test, reconnect=20)
    eventually(lambda: broker.process is None)


def test_cancelling_a_task_closes_the_file_that_it_opens(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begins, goes_on, was_opened = (threading.Event() for _ in range(3))

    def wait(source: Any) -> int:
        begins.set()
        goes_on.wait(20)
        descriptor = open_file(source)
        was_opened.set()
        return descriptor

    monkeypatch.setattr(_client, "open_file", wait)
    monkeypatch.setattr(_async, "open_file", wait)

    async def main() -> None:
        client = imgbroker.AsyncClient(str(tmp_path / "missing"))
        loop = asyncio.get_running_loop()
        # The loop's own thread, and its descriptors.
        await loop.run_in_executor(None, begins.is_set)
        before = open_descriptors()
        for method in (client.get, client.query, client.remove):
            task = asyncio.ensure_future(method(b"a"))
            await loop.run_in_executor(None, begins.wait, 20)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            goes_on.set()
            await loop.run_in_executor(None, was_opened.wait, 20)
            while open_descriptors() > before:
                await asyncio.sleep(0.01)
            for event in (begins, goes_on, was_opened):
                event.clear()

    asyncio.run(asyncio.wait_for(main(), 20))
