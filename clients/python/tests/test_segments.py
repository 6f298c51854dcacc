"""Images in segments."""

from __future__ import annotations

import asyncio
import gc
import pathlib
import resource
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterator, List

import numpy
import pytest

import imgbroker
from imgbroker import _segment
from conformance import cases
from fixtures import Scripted
from scripted import GET, ScriptedBroker, end_segment, send_in_segment, send_segment
from support import Broker, Origin, Picture, eventually, open_descriptors, run_script

#: The memory of a broker whose places are used again soon.
_LITTLE = ("--memory-limit", "4M")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with segments, for tests that do not end it."""
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


def _mappings(name: str = "imgbroker-segment") -> int:
    """Returns the number of mappings of memfds with a name."""
    gc.collect()
    return pathlib.Path("/proc/self/maps").read_text().count(f"/memfd:{name}")


def _has_segment(image: imgbroker.Image) -> bool:
    return image._reply.segment is not None


def _colors(origin: Origin, picture: Picture, name: str, count: int) -> List[str]:
    """Returns the URLs of images of 64 KiB, each of which has the colour (number, 100, 50)."""
    return [origin.add(f"/{name}-{number}.png", picture(128, 128, (number, 100, 50))) for number in range(count)]


def _is_color(pixels: Any, number: int) -> bool:
    return bool((pixels == (number, 100, 50, 255)).all())


def _leased(client: imgbroker.Client) -> int:
    gc.collect()
    return int(client.stats()["leasedBytes"])


def _await_idle(client: imgbroker.Client) -> None:
    """Waits until the leases of earlier tests have ended."""
    eventually(lambda: _leased(client) == 0)


# Images


def test_images_are_those_without_segments(
    broker: Broker, memfd_broker: Broker, origin: Origin, picture: Picture, tmp_path: pathlib.Path
) -> None:
    urls = [origin.add(f"/same-{width}.png", picture(width, 40)) for width in range(1, 40)]
    large = origin.add("/same-large.png", picture(400, 400))
    file = tmp_path / "picture.png"
    file.write_bytes(picture(77, 33))
    sources: List[Any] = [*urls, large, file, picture(31, 30)]
    variants: List[Dict[str, Any]] = [
        {}, {"as_": "png"}, {"pixel_format": "gray8"}, {"pixel_format": "rgb8", "width": 7}, {"delivery": "inline"}]
    mappings = _mappings()
    with imgbroker.Client(broker.socket) as client, imgbroker.Client(memfd_broker.socket) as other:
        descriptors = open_descriptors()
        for options in variants:
            ours = [result.get() for result in client.get_many(sources, **options)]
            others = [result.get() for result in other.get_many(sources, **options)]
            assert [bytes(image) for image in ours] == [bytes(image) for image in others]
            assert not any(map(_has_segment, others))
            small = options.get("delivery") != "inline"
            assert [_has_segment(image) for image in ours] == [small and image.nbytes <= 256 << 10 for image in ours]
            for image in ours:
                assert image.buffer.readonly and image.buffer.format == "B" and image.buffer.nbytes == image.nbytes
            del ours, others, image
        # Those of the large image, of the other broker, and of the two connections.
        assert mappings < _mappings() <= mappings + 4
        del other
        images = [client.get(url, width=5) for url in urls]
        before = open_descriptors()
        images += [client.get(url, width=6) for url in urls]
        assert open_descriptors() == before and all(map(_has_segment, images)) and descriptors
        with pytest.raises(ValueError):
            images[0].numpy().flags.writeable = True


def test_view_outlives_its_image_and_the_collector(broker: Broker, origin: Origin, picture: Picture) -> None:
    with imgbroker.Client(broker.socket, keep_images=0) as client, imgbroker.Client(broker.socket) as other:
        url, = _colors(origin, picture, "view", 1)
        _await_idle(other)
        row = client.get(url).numpy()[3:4]
        rows: Any = row
        views = [memoryview(rows)[0:1], client.get(url).buffer[8:12].cast("B")]
        del row, rows
        gc.collect()
        client.flush()
        assert _leased(other) > 0 and views[1].tobytes() == bytes((0, 100, 50, 255))
        del views[1]
        client.flush()
        client.stats()
        assert _leased(other) > 0 and numpy.asarray(views[0])[0, 0].tolist() == [0, 100, 50, 255]
        views.clear()
        eventually(lambda: _leased(other) == 0)


def test_image_keeps_its_connection(broker: Broker, origin: Origin, picture: Picture) -> None:
    urls = _colors(origin, picture, "connection", 4)
    with imgbroker.Client(broker.socket, keep_images=0) as other:
        _await_idle(other)
        clients, mappings = other.stats()["clients"], _mappings()
        client = imgbroker.Client(broker.socket)
        for url in urls:
            eventually(lambda: client.get(url) is client.kept_image(url))
        pixels = client.get(urls[0]).numpy()
        client.close()
        del client
        gc.collect()
        # Those that were only kept are released.
        eventually(lambda: 65536 <= _leased(other) < 2 * 65536)
        assert other.stats()["clients"] == clients + 1 and _mappings() == mappings + 1
        assert _is_color(pixels, 0)
        del pixels
        eventually(lambda: _leased(other) == 0 and other.stats()["clients"] == clients)
        assert _mappings() == mappings


@pytest.mark.parametrize("way", ["terminate", "kill"])
def test_views_of_a_broker_that_has_exited(tmp_path: pathlib.Path, origin: Origin, picture: Picture, way: str) -> None:
    urls = _colors(origin, picture, f"exited-{way}", 8)
    broker = Broker(tmp_path, *_LITTLE)
    client = imgbroker.Client(broker.socket, reconnect=20)
    mappings = _mappings()
    try:
        pixels = [client.get(url).numpy() for url in urls]
        broker.stop(way)
        assert client.kept_image(urls[0]) is None
        broker.start()
        again = [client.get(url).numpy() for url in urls]
        for number in range(8):
            assert _is_color(pixels[number], number) and _is_color(again[number], number)
        assert _mappings() >= mappings + 2
        del pixels, again
        client.close()
        eventually(lambda: _mappings() == mappings)
    finally:
        client.close()
        broker.stop()


def test_segments_stay_during_an_upgrade(tmp_path: pathlib.Path, origin: Origin, picture: Picture) -> None:
    urls = _colors(origin, picture, "upgrade", 8)
    with Broker(tmp_path) as broker:
        with imgbroker.Client(broker.socket) as client, imgbroker.Client(broker.socket) as other:
            pixels = [client.get(url).numpy() for url in urls]
            session = client._engine._session
            other.upgrade()
            again = [client.get(url) for url in urls]
            assert client._engine._session is session and all(map(_has_segment, again))
            for number in range(8):
                assert _is_color(pixels[number], number) and _is_color(again[number].numpy(), number)
            assert {image._reply.segment for image in again} == {1}


# Kept images


def test_kept_images_take_no_descriptor(broker: Broker, origin: Origin, picture: Picture) -> None:
    url, = _colors(origin, picture, "kept", 1)
    with imgbroker.Client(broker.socket) as client:
        widths = range(1, 161)
        eventually(lambda: client.get(url, width=1) is client.kept_image(url, width=1))
        before = open_descriptors()

        def are_kept() -> bool:
            for result in [result for width in widths for result in client.get_many([url], width=width, height=3, fit="fill")]:
                result.get()
            return all(client.kept_image(url, width=width, height=3, fit="fill") for width in widths)

        eventually(are_kept)
        requests = client.stats()["requests"]
        for width in widths:
            assert client.get(url, width=width, height=3, fit="fill").width == width
        assert client.stats()["requests"] == requests
        assert open_descriptors() == before and len(client._kept.entries) > 128


def test_kept_images_with_descriptors_are_limited(broker: Broker, origin: Origin, picture: Picture) -> None:
    large = [origin.add(f"/kept-large-{number}.png", picture(300, 300 + number)) for number in range(4)]
    small = _colors(origin, picture, "kept-small", 3)
    with imgbroker.Client(broker.socket, keep_descriptors=2) as client:
        for url in [*small, *large]:
            eventually(lambda: client.get(url) is client.kept_image(url))
        assert [client.kept_image(url) is not None for url in large] == [False, False, True, True]
        assert all(client.kept_image(url) for url in small)
        # Used ones, which `kept_image` has marked, are evicted after the others.
        eventually(lambda: client.get(large[0]) is client.kept_image(large[0]))
        assert sum(client.kept_image(url) is not None for url in large) == 2
    with imgbroker.Client(broker.socket, keep_descriptors=0) as client:
        for url in small:
            eventually(lambda: client.get(url) is client.kept_image(url))
        assert client.get(large[0]) is not client.get(large[0])


# Places that are used again


def _load_all(client: imgbroker.Client, urls: List[str], start: int, held: List[Any]) -> int:
    """Loads images in an order of its own, holds the latest, and returns the number of those that changed while held."""
    wrong = 0
    for step in range(len(urls)):
        number = (start + 7 * step) % len(urls)
        held.append((number, client.get(urls[number]).numpy()))
        if len(held) > 3:
            earliest, pixels = held.pop(0)
            wrong += not _is_color(pixels, earliest)
            del pixels
    wrong += sum(not _is_color(pixels, number) for number, pixels in held)
    held.clear()
    return wrong


@pytest.mark.parametrize("keep_images", [0, 16])
def test_threads_while_places_are_used_again(
    tmp_path: pathlib.Path, origin: Origin, picture: Picture, keep_images: int
) -> None:
    urls = _colors(origin, picture, "threads", 100)
    with Broker(tmp_path, *_LITTLE) as broker:
        with imgbroker.Client(broker.socket, keep_images=keep_images) as client, ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(lambda start: _load_all(client, urls, start, []), range(0, 80, 10))) == 0
            assert client.stats()["evictions"] > 0


def test_tasks_while_places_are_used_again(tmp_path: pathlib.Path, origin: Origin, picture: Picture) -> None:
    urls = _colors(origin, picture, "tasks", 100)

    async def load(client: imgbroker.AsyncClient, start: int) -> int:
        wrong = 0
        for step in range(100):
            number = (start + 7 * step) % len(urls)
            image = await client.get(urls[number])
            await asyncio.sleep(0)
            wrong += not _is_color(image.numpy(), number)
        return wrong

    async def load_all(broker: Broker) -> int:
        async with imgbroker.AsyncClient(broker.socket, keep_images=16) as client:
            return sum(await asyncio.gather(*[load(client, start) for start in range(0, 80, 10)]))

    with Broker(tmp_path, *_LITTLE) as broker:
        assert asyncio.run(load_all(broker)) == 0


# Forks


_FORK = """
import collections, ctypes, fcntl, mmap, os, sys, time
from imgbroker import _memory
from imgbroker._segment import Segment
file = os.memfd_create("segment", os.MFD_ALLOW_SEALING)
size = (1 << 20) - 64
os.ftruncate(file, size)
memory = mmap.mmap(file, size)
memory[:] = b"a" * size
fcntl.fcntl(file, _memory.F_ADD_SEALS, _memory.SEGMENT_SEALS)
segments = [Segment(number, file, size, None) for number in (1, 2, 3)]
releases = collections.deque()
view = segments[0].view(_memory.Lease(7, releases, segments[0]), 64, 100_000)
del segments
assert not releases
for _ in range(20):
    memory[:] = b"a" * size
    assert bytes(view) == b"a" * 100_000
    child = os.fork()
    # What a broker does after the parent has released the image.
    memory[:] = b"b" * size
    if child == 0:
        # Also in a process that is forked from this one.
        child = os.fork()
        same = bytes(view) == b"a" * 100_000
        maps = open("/proc/self/maps").read()
        status = same and view.readonly and not any("memfd:segment" in line and "r--s" in line for line in maps.splitlines())
        if child:
            status = os.waitpid(child, 0)[1] == 0 and status
        os._exit(not status)
    assert os.waitpid(child, 0)[1] == 0
    assert bytes(view) == b"b" * 100_000
del view
assert list(releases) == [(7, 1)]
print(len(os.listdir("/proc/self/fd")))
"""


def test_forked_process_has_copies(tmp_path: pathlib.Path) -> None:
    # The standard ones, that of the memfd and the mapping's, and that of the folder.
    assert run_script(tmp_path, _FORK) == "6\n"


_PROCESS = """
import multiprocessing, sys, imgbroker
def answer(image, begin, answers):
    begin.wait()
    answers.put(set(map(tuple, image.numpy().reshape(-1, 4).tolist())))
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    client = imgbroker.Client(sys.argv[1], keep_images=0)
    for number in range(3):
        begin, answers = context.Event(), context.SimpleQueue()
        process = context.Process(target=answer, args=(client.get(sys.argv[2 + number]), begin, answers))
        # The parent process forgets the arguments.
        process.start()
        client.flush()
        for url in sys.argv[2:]:
            client.get(url)
        begin.set()
        assert answers.get() == {(number, 100, 50, 255)}
        process.join()
    print("done")
"""


def test_image_as_the_argument_of_a_process(tmp_path: pathlib.Path, origin: Origin, picture: Picture) -> None:
    with Broker(tmp_path, *_LITTLE) as broker:
        assert run_script(tmp_path, _PROCESS, broker.socket, *_colors(origin, picture, "argument", 100)) == "done\n"


# Scripted brokers


_URL = "http://origin/a.png"


def _sent(broker: ScriptedBroker, connection: int = 0) -> List[Any]:
    """Returns the releases and the forgotten segments that a client has sent."""
    return [
        frame.get("buffers") or frame.get("segments") for frame in broker.received[connection]
        if frame["type"] in ("release", "forgetSegments")]


def test_segment_that_has_ended_is_forgotten_after_its_last_lease(scripted: Scripted) -> None:
    broker = scripted([
        GET, send_segment(3, 3, buffer=7), GET, send_in_segment(3, buffer=8, offset=64), end_segment(99), end_segment(3),
        GET, send_segment(4, 4, buffer=9)])
    mappings = _mappings("scripted")
    with imgbroker.Client(broker.path, keep_images=0) as client:
        assert broker.path and client.get(_URL).buffer[0] == 3
        pixels = client.get(_URL).numpy()
        assert client.get(_URL).buffer[0] == 4
        client.flush()
        eventually(lambda: [number for numbers in _sent(broker) for number in numbers] == [7, 9])
        assert _mappings("scripted") == mappings + 2 and pixels[0, 0, 0] == 3
        view = pixels[1:]
        del pixels
        gc.collect()
        time.sleep(0.05)
        assert view[0, 0, 0] == 3
        del view
        # Without a further message of this thread.
        eventually(lambda: _sent(broker)[-2:] == [[8], [3]])
        assert _mappings("scripted") == mappings + 1
    assert broker.received[0][0]["segments"] is True


def test_segment_that_ends_without_leases_is_forgotten(scripted: Scripted) -> None:
    broker = scripted([GET, send_segment(3, 3, buffer=7), {"awaitRelease": [7]}, end_segment(3)])
    mappings = _mappings("scripted")
    with imgbroker.Client(broker.path, keep_images=0) as client:
        client.get(_URL)
        client.flush()
        eventually(lambda: _sent(broker) == [[7], [3]])
        assert _mappings("scripted") == mappings
        # It wakes for nothing more.
        session = client._engine._session
        assert session is not None and not session.holds_leases and not session.is_flush_due


def test_segment_that_ends_is_not_kept(scripted: Scripted) -> None:
    hello, page, slot, *_ = next(cases("validity"))[1]["connections"][0]
    broker = scripted([
        hello, page, slot, GET, send_segment(3, 3, buffer=7, slot=3, generation=5),
        GET, send_segment(4, 4, buffer=8, slot=3, generation=5), end_segment(3)])
    with imgbroker.Client(broker.path, keep_images=8) as client:
        assert [client.get(url).buffer[0] for url in (_URL, "http://origin/b.png")] == [3, 4]
        # Without a further message of this thread.
        eventually(lambda: _sent(broker) == [[7], [3]])
        assert client.kept_image(_URL) is None and client.kept_image("http://origin/b.png") is not None


@pytest.mark.parametrize("number", [None, 0, "3", 1 << 53])
def test_end_of_no_segment(scripted: Scripted, number: Any) -> None:
    broker = scripted([GET, end_segment(number)])
    with imgbroker.Client(broker.path) as client, pytest.raises(imgbroker.ProtocolViolationError):
        client.get(_URL)


def test_segment_that_cannot_be_mapped_comes_again(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = scripted([
        GET, send_segment(3, 3, buffer=7), GET, send_in_segment(3, buffer=8, offset=64), {"awaitRelease": [7, 8]},
        GET, send_segment(3, 3, buffer=9), GET, send_in_segment(3, buffer=10)])
    with imgbroker.Client(broker.path, keep_images=0) as client:
        with monkeypatch.context() as patch:
            patch.setattr(_segment, "c_mmap", lambda *_: _segment._FAILED)
            with client._engine._lock:
                futures = [client.submit(_URL), client.submit(_URL)]
            for future in futures:
                with pytest.raises(imgbroker.ProcessLimitError, match="cannot map a segment of 4096 bytes"):
                    future.result(10)
        eventually(lambda: [3] in _sent(broker) and {7, 8} <= set(broker.released))
        assert [client.get(_URL).buffer[0] for _ in range(2)] == [3, 3]


def test_lost_descriptor_of_a_segment(broker: Broker, origin: Origin, picture: Picture) -> None:
    urls = _colors(origin, picture, "lost", 2)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with imgbroker.Client(broker.socket, keep_images=0) as client:
        assert client.prefetch(urls) == (2, 0)
        # The origin is in this process, and needs descriptors, too.
        eventually(lambda: origin.connections == 0)
        with socket.socket() as gap:
            lowest = gap.fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limit[1]))
        try:
            for _ in range(2):
                with pytest.raises(imgbroker.ProcessLimitError, match="RLIMIT_NOFILE"):
                    client.get(urls[0])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        images = [client.get(url) for url in urls]
        assert all(map(_has_segment, images)) and [_is_color(image.numpy(), n) for n, image in enumerate(images)] == [True, True]


class _Interrupted:
    """A socket of which a signal handler ends the sending of the next message after a part of it."""

    def __init__(self, connected: socket.socket) -> None:
        self._connected = connected

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connected, name)

    def send(self, data: bytes, flags: int) -> int:
        self._connected.send(data[:5], flags)
        raise KeyboardInterrupt


def test_message_that_a_signal_ends_leaves_the_leases(broker: Broker, origin: Origin, picture: Picture) -> None:
    url, = _colors(origin, picture, "interrupted", 1)
    with imgbroker.Client(broker.socket, keep_images=0) as client, imgbroker.Client(broker.socket, keep_images=0) as other:
        _await_idle(other)
        image = client.get(url)
        session: Any = client._engine._session
        session.socket = _Interrupted(session.socket)
        with pytest.raises(KeyboardInterrupt):
            client.get(url)
        # Over the next connection.
        assert client.get(url).width == 128 and client._engine._session is not session
        # The request was sent again; the session and the frames of the error have it.
        del session
        gc.collect()
        client.flush()
        client.stats()
        assert _leased(other) > 0 and _is_color(image.numpy(), 0)
        del image
        eventually(lambda: _leased(other) == 0)


def test_leases_of_many_threads_are_counted(scripted: Scripted) -> None:
    count = 200
    script = [GET, send_segment(3, 3, buffer=1)]
    for buffer in range(2, count):
        script += [GET, send_in_segment(3, buffer=buffer, offset=buffer)]
    broker = scripted(script)
    with imgbroker.Client(broker.path, keep_images=0) as client:
        first = client.get(_URL)
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(lambda _: client.get(_URL).buffer[31], range(count - 2))) == {3}
        session: Any = client._engine._session
        eventually(lambda: session._leases_in_segments == 1 == session._segments[3].leases)
        assert first.buffer[0] == 3
        del first
        eventually(lambda: sorted(broker.released) == list(range(1, count)))
