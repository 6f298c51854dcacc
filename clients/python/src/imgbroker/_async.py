"""The client for asyncio: the methods of `Client` as coroutines, over the same connection."""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
from typing import (
    TYPE_CHECKING, Any, AsyncIterator, Callable, Dict, Iterable, List, Optional, Sequence, Tuple, Union, cast,
)

from . import _memory
from ._client import (
    EVENTS, CacheStatus, Client, ClearResult, Event, Events, FailedEntry, Hello, PrefetchResult, ReloadResult,
    Result, Source, Wish, clear_of, clear_request, failed_of, failed_request, form_of, hello_of, is_url, open_file, reload_of,
    report_prefetch, source_request, stats_of, status_of, store_request,
)
from ._errors import ImageBrokerError
from ._frames import Frame, next_range
from ._image import Image
from ._options import prefetch_parts
from ._session import Request
from ._wire import integer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._image import Pixels
    from ._options import GetOptions


class AsyncClient:
    """A connection to the broker for asyncio, which any loop may use. No method waits on the event loop; `store` copies its data
    there.

    Cancelling a task cancels its request. Callbacks run on the event loop.
    """

    def __init__(
        self, socket: Optional[str] = None, *, patience: Optional[float] = 30.0, reconnect: float = 5.0,
        keep_images: int = 4096, keep_bytes: int = 256 << 20, keep_descriptors: int = 128,
    ) -> None:
        """Creates a client; see `Client`.

        patience: the seconds of silence after which the broker is asked for a sign of life; after as long again without
            one, requests fail with `NotAnsweringError`. None waits without a limit.
        """
        self._client = Client(
            socket, patience=patience, reconnect=reconnect, keep_images=keep_images, keep_bytes=keep_bytes,
            keep_descriptors=keep_descriptors)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection. Images stay valid."""
        await _in_thread(self._client.close)

    async def _ask(self, request: Request) -> Any:
        return await asyncio.wrap_future(self._client.send(request))

    async def _descriptor(self, source: Source) -> Optional[int]:
        """Opens a local file, which may take long, in a thread."""
        return None if is_url(source) else cast(int, await _opening(open_file, source))

    async def get(
        self, source: Source, *, preview: Optional[Callable[[Image], None]] = None,
        partial: Optional[Callable[[Image], None]] = None,
        progress: Optional[Callable[[int, Optional[int]], None]] = None, writable: bool = False,
        **options: "Unpack[GetOptions]",
    ) -> Image:
        """Loads an image; see `Client.get`."""
        wish = Wish(cast(Dict[str, Any], options), form_of(writable))
        find = functools.partial(self._client.kept_or_open, source, wish, preview is None)
        # Opening a file may take long.
        image, descriptor, key = find() if is_url(source) else await _opening(find)
        if image is not None:
            return image
        request = self._client.get_request(
            source, wish, descriptor, key, _on_loop(preview), _on_loop(partial), _on_loop(progress))
        return cast(Image, await self._ask(request))

    async def frames(
        self, source: Source, *, writable: bool = False, **options: "Unpack[GetOptions]"
    ) -> AsyncIterator[Frame]:
        """Plays an animation in parts; see `Client.frames`."""
        start, count = 0, 1
        following: "Optional[asyncio.Task[Image]]" = None
        try:
            while count:
                more = cast(Any, {**options, "frames": (start, count)})
                part = await (following or self.get(source, writable=writable, **more))
                first, (start, count) = start, next_range(start, part)
                if count:
                    more["frames"] = (start, count)
                    following = asyncio.ensure_future(self.get(source, writable=writable, **more))
                for position, timing in enumerate(part.frames):
                    yield Frame(first + position, timing.delay_ms, part, position)
                del part
        finally:
            if following is not None:
                following.cancel()

    async def get_many(
        self, sources: Iterable[Source], *, ordered: bool = True, in_flight: int = 64, writable: bool = False,
        **options: "Unpack[GetOptions]",
    ) -> AsyncIterator[Result]:
        """Loads images, at most `in_flight` concurrently; see `Client.get_many`."""
        numbered = enumerate(sources)
        pending: "Dict[asyncio.Task[Result], int]" = {}
        try:
            while True:
                for index, source in itertools.islice(numbered, max(1, in_flight) - len(pending)):
                    load = self._load(index, source, writable, cast(Dict[str, Any], options))
                    pending[asyncio.ensure_future(load)] = index
                if not pending:
                    return
                if ordered:
                    task = next(iter(pending))
                    await asyncio.wait([task])
                else:
                    done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                    task = done.pop()
                    del done
                del pending[task]
                result = task.result()
                del task
                yield result
                del result
        finally:
            for task in pending:
                task.cancel()

    async def _load(self, index: int, source: Source, writable: bool, options: Dict[str, Any]) -> Result:
        try:
            return Result(index, source, await self.get(source, writable=writable, **cast(Any, options)), None)
        except (ImageBrokerError, OSError, ValueError) as error:
            return Result(index, source, None, error)

    async def query(self, source: Source, **options: "Unpack[GetOptions]") -> CacheStatus:
        """Queries the state of a cached image."""
        return status_of(await self._ask(source_request(
            "query", source, cast(Dict[str, Any], options), descriptor=await self._descriptor(source))))

    async def prefetch(
        self, urls: Sequence[str], *, progress: Optional[Callable[[int, int, int], None]] = None,
        **options: "Unpack[GetOptions]",
    ) -> PrefetchResult:
        """Loads images into the cache; see `Client.prefetch`."""
        done = failed = 0
        report = _on_loop(progress)
        for part in prefetch_parts(urls):
            callback: Optional[Callable[[PrefetchResult], None]] = None
            if report is not None:
                callback = functools.partial(report_prefetch, report, done, failed, len(urls))
            request, last = self._client.prefetch_request(part, cast(Dict[str, Any], options), callback)
            await self._ask(request)
            done += last[-1].done
            failed += last[-1].failed
        return PrefetchResult(done, failed)

    async def store(
        self, url: str, data: Union["Pixels", _memory.Bytes, int], *, content_type: Optional[str] = None,
        size: Optional[Tuple[int, int]] = None, pixel_format: str = "rgba8", alpha: str = "straight",
        storage: str = "memory",
    ) -> None:
        """Stores an encoded image, or pixels; see `Client.store`."""
        await self._ask(store_request(url, data, content_type, size, pixel_format, alpha, storage))

    async def remove(self, source: Source) -> int:
        """Removes an image in all its variants. Returns the number of originals removed."""
        return integer(await self._ask(source_request(
            "remove", source, {}, descriptor=await self._descriptor(source))), "removed")

    async def hello(self) -> Hello:
        """Requests the broker's version, formats and limits."""
        return hello_of(await self._ask(Request({"type": "hello", "protocol": 1})))

    async def stats(self) -> Dict[str, Any]:
        """Requests the broker's counters and gauges."""
        return stats_of(await self._ask(Request({"type": "stats"})))

    async def events(self, names: Sequence[str] = EVENTS) -> AsyncIterator[Event]:
        """Subscribes to events over a connection of its own; see `Client.events`."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        events = cast(Events, await _in_thread(self._client.events, names))
        try:
            events.notify(lambda: loop.call_soon_threadsafe(ready.set))
            while True:
                ready.clear()
                while not events.is_empty:
                    yield next(events)
                await ready.wait()
        finally:
            await _in_thread(events.close)

    async def clear(self, tier: str = "all", *, older_than_seconds: Optional[int] = None) -> ClearResult:
        """Empties a tier of the cache. Administrators only."""
        return clear_of(await self._ask(clear_request(tier, older_than_seconds)))

    async def failed(self, url: Optional[str] = None) -> List[FailedEntry]:
        """Lists the recently failed URLs. Administrators only."""
        return failed_of(await self._ask(failed_request("list", url)))

    async def clear_failed(self, url: Optional[str] = None) -> int:
        """Removes a URL, or all, from the recently failed. Administrators only."""
        return integer(await self._ask(failed_request("clear", url)), "removed")

    async def suspend(self) -> None:
        """Suspends new loads of all clients. Administrators only."""
        await self._ask(Request({"type": "suspend"}))

    async def resume(self) -> None:
        """Ends `suspend`. Administrators only."""
        await self._ask(Request({"type": "resume"}))

    async def cancel_all(self) -> None:
        """Cancels all pending requests of all clients. Administrators only."""
        await self._ask(Request({"type": "cancelAll"}))

    async def reload(self) -> ReloadResult:
        """Has the broker read its settings again; see `Client.reload`. Administrators only."""
        return reload_of(await self._ask(Request({"type": "reload"})))

    async def upgrade(self) -> None:
        """Has the installed program take the place of the running broker; see `Client.upgrade`. Administrators only."""
        await self._ask(Request({"type": "upgrade"}))

    def flush(self) -> None:
        """Releases the leases of images that this process no longer uses now."""
        self._client.flush()


def _in_thread(function: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().run_in_executor(None, functools.partial(function, *arguments))


async def _opening(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function in a thread that returns a descriptor, or a tuple with one in the second place. If the task is cancelled
    meanwhile, closes the descriptor when it arrives."""
    opening = _in_thread(function, *arguments)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_opened)
        raise


def _close_opened(opening: "asyncio.Future[Any]") -> None:
    if opening.cancelled() or opening.exception() is not None:
        return
    result = opening.result()
    descriptor = result[1] if isinstance(result, tuple) else result
    if descriptor is not None:
        os.close(descriptor)


def _on_loop(callback: Optional[Callable[..., None]]) -> Optional[Callable[..., None]]:
    """Returns a callback for any thread that calls another on the running loop."""
    if callback is None:
        return None
    loop = asyncio.get_running_loop()

    def call(*arguments: Any) -> None:
        loop.call_soon_threadsafe(callback, *arguments)

    return call
