"""Requests, threads, many images in flight, and restarts, with a real broker."""

from __future__ import annotations

import base64
import bz2
import gc
import gzip
import io
import json
import lzma
import os
import pathlib
import resource
import signal
import tempfile
import threading
import time
import weakref
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import Any, List

import pytest

import imgbroker
from imgbroker import ErrorCode
from imgbroker._client import data_of_url, is_data_url, is_url
from fixtures import Scripted
from support import Broker, Origin, Page, Picture, encoded, eventually, open_descriptors, run_script



def test_no_broker(tmp_path: pathlib.Path) -> None:
    client = imgbroker.Client(str(tmp_path / "missing"))
    with pytest.raises(imgbroker.NoBrokerError, match="missing") as info:
        client.stats()
    assert info.value.code is None and info.value.retryable
    client.close()
    with pytest.raises(imgbroker.ClosedError):
        client.stats()


def test_default_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, broker: Broker) -> None:
    from imgbroker._options import default_socket

    assert default_socket({"IMGBROKER_SOCKET": "/a", "XDG_RUNTIME_DIR": "/b"}, lambda _: True) == "/a"
    assert default_socket({"IMGBROKER_SOCKET": "", "XDG_RUNTIME_DIR": "/b"}, lambda _: True) == "/b/imgbroker.sock"
    assert default_socket({"XDG_RUNTIME_DIR": "/b"}, lambda _: False) == "/run/imgbroker.sock"
    assert default_socket({}, lambda _: True) == "/run/imgbroker.sock"
    monkeypatch.setenv("IMGBROKER_SOCKET", broker.socket)
    assert imgbroker.Client().hello().server.startswith("imgbroker/")


def test_module_functions(broker: Broker, origin: Origin, picture: Picture) -> None:
    url = origin.add("/module.png", picture(64, 32))
    os.environ["IMGBROKER_SOCKET"] = broker.socket
    try:
        assert imgbroker.get(url, width=16).numpy().shape == (8, 16, 4)
        assert [result.get().width for result in imgbroker.get_many([url, url], width=8)] == [8, 8]
    finally:
        del os.environ["IMGBROKER_SOCKET"]
        imgbroker.default_client().close()


def test_pixel_formats(client: imgbroker.Client, origin: Origin, picture: Picture) -> None:
    numpy = pytest.importorskip("numpy")
    pytest.importorskip("PIL")
    url = origin.add("/formats.png", picture(61, 37, (200, 100, 50, 77)))
    straight = client.get(url, alpha="straight").numpy().astype(int)
    share = straight[..., 3:]
    rgb = client.get(url, pixel_format="rgb8", background="#102030")
    assert (rgb.stride, rgb.alpha, rgb.nbytes) == (183, "none", 183 * 37)
    flat = (straight[..., :3] * share + numpy.array([16, 32, 48]) * (255 - share) + 127) // 255
    assert rgb.numpy().shape == (37, 61, 3) and (rgb.numpy() == flat).all()
    assert rgb.pil().mode == "RGB" and (numpy.asarray(rgb.pil()) == flat).all()
    gray = client.get(url, pixel_format="gray8", background="#102030")
    assert (gray.stride, gray.alpha, gray.nbytes) == (61, "none", 61 * 37)
    luma = (flat @ numpy.array([299, 587, 114]) + 500) // 1000
    assert gray.numpy().shape == (37, 61) and (gray.numpy() == luma).all()
    assert gray.pil().mode == "L" and (numpy.asarray(gray.pil()) == luma).all()


def test_damaged_image(client: imgbroker.Client, origin: Origin, picture: Picture) -> None:
    data = picture(64, 64)
    url = origin.add("/damaged.png", data[:len(data) * 2 // 3])
    image = client.get(url, damaged="accept")
    assert image.damaged and image.damage is not None and image.damage.endswith(".")
    assert image.numpy().shape == (64, 64, 4)
    with pytest.raises(imgbroker.RefusedError) as info:
        client.get(url)
    assert info.value.code is ErrorCode.TRUNCATED
    assert client.get(url, damaged="accept").source == "memory"


def test_unknown_option_and_value(client: imgbroker.Client) -> None:
    options: Any = {"widht": 3}
    with pytest.raises(TypeError, match="widht"):
        client.get("http://127.0.0.1/a.png", **options)
    options = {"width": object()}
    with pytest.raises(TypeError):
        client.get("http://127.0.0.1/a.png", **options)
    assert client.stats()["requests"] >= 0


def test_request_that_is_too_long(client: imgbroker.Client) -> None:
    with pytest.raises(imgbroker.MessageError):
        client.get("http://127.0.0.1/" + "a" * (1 << 20))
    assert client.hello().limits["maxFrameBytes"] == 1 << 20


def test_many(client: imgbroker.Client, origin: Origin, picture: Picture) -> None:
    urls = [origin.add(f"/many-{width}.png", picture(width, 10)) for width in range(10, 40)]
    urls.insert(5, origin.url + "/many-missing.png")
    results = list(client.get_many(urls, in_flight=8))
    assert [result.number for result in results] == list(range(31)) and [r.source for r in results] == urls
    assert isinstance(results[5].error, imgbroker.DownloadError) and results[5].image is None
    with pytest.raises(imgbroker.DownloadError):
        results[5].get()
    assert [r.get().width for r in results if r.error is None] == list(range(10, 40))
    unordered = list(client.get_many(urls, ordered=False))
    assert sorted(result.number for result in unordered) == list(range(31))


@pytest.mark.parametrize("ordered", [True, False])
def test_many_with_files(
    ordered: bool, client: imgbroker.Client, origin: Origin, picture: Picture, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "file.png").write_bytes(picture(7, 7))
    sources: List[imgbroker.Source] = [
        str(tmp_path / "missing.png"), tmp_path / "file.png", origin.add("/with-files.png", picture(8, 8)),
        "data:image/png", "nul\0.png",
    ]
    results = sorted(client.get_many(sources, ordered=ordered))
    assert [result.source for result in results] == sources
    assert isinstance(results[0].error, FileNotFoundError)
    with pytest.raises(FileNotFoundError, match="missing.png"):
        results[0].get()
    assert [result.get().width for result in results[1:3]] == [7, 8]
    assert [type(result.error) for result in results[3:]] == [ValueError, ValueError]


def test_many_as_they_come(client: imgbroker.Client, origin: Origin, picture: Picture, gate: threading.Event) -> None:
    slow = origin.add("/come-slow.png", picture(8, 8), gate=gate)
    fast = origin.add("/come-fast.png", picture(9, 9))
    results = client.get_many([slow, fast], ordered=False)
    assert next(results).source == fast
    gate.set()
    assert next(results).source == slow
    assert list(results) == []


def test_closing_many_cancels_the_rest(
    client: imgbroker.Client, origin: Origin, picture: Picture, gate: threading.Event
) -> None:
    urls = [origin.add(f"/cancel-{i}.png", picture(8, 8), gate=gate) for i in range(3)]
    fast = origin.add("/cancel-fast.png", picture(8, 8))
    before = client.stats()["cancelled"]
    for _ in client.get_many([*urls, fast], ordered=False):
        break
    eventually(lambda: client.stats()["cancelled"] == before + 3)


def test_update(
    client: imgbroker.Client, broker: Broker, origin: Origin, picture: Picture, gate: threading.Event
) -> None:
    url = origin.add("/update.png", picture(8, 8), gate=gate)
    with imgbroker.Client(broker.socket) as leaving:
        future = leaving.submit(url)
        leaving.stats()
        leaving.update(future, priority="high")
        leaving.update(future, detach=True)
        with pytest.raises(ValueError):
            leaving.update(future)
        leaving.stats()
    gate.set()

    def is_cached() -> bool:
        try:
            return client.get(url, cache="only-if-cached").width == 8
        except imgbroker.OutcomeError:
            return False

    eventually(is_cached)


def test_cancel(client: imgbroker.Client, origin: Origin, picture: Picture, gate: threading.Event) -> None:
    url = origin.add("/cancel.png", picture(8, 8), gate=gate)
    future = client.submit(url)
    client.cancel(future)
    with pytest.raises(imgbroker.OutcomeError) as info:
        future.result(20)
    assert info.value.code is ErrorCode.CANCELLED
    future = client.submit(url)
    assert future.cancel()
    with pytest.raises(CancelledError):
        future.result(20)
    gate.set()
    assert client.get(url).width == 8


def test_callbacks(client: imgbroker.Client, origin: Origin, picture: Picture) -> None:
    url = origin.add("/callbacks.png", picture(8, 8))
    numbers: List[Any] = []
    client.get(url, progress=lambda received, expected: numbers.append((received, expected)))
    assert numbers[0][0] == 0 and numbers[-1][0] == numbers[-1][1] == len(origin.pages["/callbacks.png"].body)
    previews: List[imgbroker.Image] = []
    image = client.get(url, preview=previews.append)
    assert [preview.final for preview in previews] == [False] and image.final


def test_signal_cancels_the_request(
    client: imgbroker.Client, origin: Origin, picture: Picture, gate: threading.Event
) -> None:
    url = origin.add("/signal.png", picture(8, 8), gate=gate)
    before = client.stats()["cancelled"]

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGUSR1, interrupt)

    def send() -> None:
        eventually(lambda: "/signal.png" in origin.requests)
        os.kill(os.getpid(), signal.SIGUSR1)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            client.get(url)
    finally:
        signal.signal(signal.SIGUSR1, old)
        sender.join()
        eventually(lambda: client.stats()["cancelled"] == before + 1)
        gate.set()
    assert client.get(url).width == 8


def test_image_ends_without_the_collector(broker: Broker, origin: Origin, picture: Picture) -> None:
    urls = [origin.add(f"/collector-{i}.png", picture(8 + i, 8)) for i in range(3)]
    gc.collect()
    gc.disable()
    try:
        with imgbroker.Client(broker.socket, keep_images=0) as client:
            alive = [weakref.ref(client.get(urls[0])), weakref.ref(client.submit(urls[1]).result())]
            for result in client.get_many(urls, ordered=False):
                alive.append(weakref.ref(result.get()))
                del result
            eventually(lambda: not any(reference() for reference in alive))
    finally:
        gc.enable()


def test_error_of_a_callback_ends_its_request_only(
    client: imgbroker.Client, origin: Origin, picture: Picture
) -> None:
    url = origin.add("/callback-error.png", picture(8, 8))

    def fail(*_: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        client.get(url, progress=fail)
    assert client.get(url).width == 8


def test_cache(client: imgbroker.Client, origin: Origin, picture: Picture) -> None:
    url = "http://127.0.0.1:1/stored.png"
    client.store(url, picture(20, 10), content_type="image/png")
    assert client.query(url).fresh
    assert client.get(url, cache="only-if-cached").width == 20
    assert client.remove(url) == 1
    with pytest.raises(imgbroker.OutcomeError):
        client.get(url, cache="only-if-cached")
    with pytest.raises(imgbroker.ImageError):
        client.store(url, b"no image")
    descriptor = os.memfd_create("test")
    os.write(descriptor, picture(7, 7))
    client.store(url, descriptor)
    os.close(descriptor)
    assert client.get(url, cache="only-if-cached").width == 7
    progress: List[Any] = []
    urls = [origin.add(f"/prefetch-{i}.png", picture(8, 8)) for i in range(3)] + [origin.url + "/prefetch-missing"]
    assert client.prefetch(urls, progress=lambda *numbers: progress.append(numbers)) == (3, 1)
    assert progress[-1] == (3, 1, 4)
    assert client.prefetch([]) == (0, 0)


def test_stored_pixels(client: imgbroker.Client, broker: Broker) -> None:
    numpy = pytest.importorskip("numpy")
    url = "http://127.0.0.1:1/pixels"
    pixels = numpy.arange(20 * 30 * 4, dtype=numpy.uint8).reshape(20, 30, 4)
    client.store(url, pixels)
    image = client.get(url, cache="only-if-cached", alpha="straight")
    assert (image.width, image.height, image.source) == (30, 20, "memory")
    assert (image.numpy() == pixels).all()
    assert client.get(url, cache="only-if-cached", width=15).width == 15
    with pytest.raises(imgbroker.ImageBrokerError) as info:
        client.get(url, cache="only-if-cached", as_="original")
    assert info.value.code == "unsupported-format"
    # An array that is not contiguous, bytes with a size, and a sealed memfd.
    client.store(url, pixels[:, ::2])
    assert (client.get(url, cache="only-if-cached", alpha="straight").numpy() == pixels[:, ::2]).all()
    client.store(url, pixels.tobytes(), size=(40, 15), pixel_format="bgra8")
    image = client.get(url, cache="only-if-cached", alpha="straight", pixel_format="bgra8")
    assert (image.width, image.numpy().tobytes()) == (40, pixels.tobytes())
    from imgbroker import _memory
    descriptor = _memory.sealed_copy(pixels.tobytes())
    client.store(url, descriptor, size=(20, 30), storage="disk")
    with pytest.raises(imgbroker.ImageBrokerError):
        client.store(url, descriptor, size=(21, 30))
    os.close(descriptor)
    assert client.get(url, cache="only-if-cached", alpha="straight").width == 20
    for data, size in [(pixels[:, :, :3], None), (pixels.tobytes(), (7, 7)), (pixels.astype(numpy.uint16), None)]:
        with pytest.raises(ValueError):
            client.store(url, data, size=size)


def test_prefetch_is_divided() -> None:
    from imgbroker._options import prefetch_parts

    assert [len(part) for part in prefetch_parts(["http://a/"] * 2500)] == [1000, 1000, 500]
    assert [len(part) for part in prefetch_parts(["http://a/" + "b" * 8000] * 30)] == [24, 6]
    # In canonical spelling, an "ä" has six bytes.
    assert [len(part) for part in prefetch_parts(["http://a/" + "ä" * 1000] * 40)] == [16, 16, 8]
    assert prefetch_parts([]) == [[]]


def test_administration(tmp_path: pathlib.Path, origin: Origin, picture: Picture) -> None:
    with Broker(tmp_path) as broker, imgbroker.Client(broker.socket) as client:
        url = origin.add("/administration.png", picture(8, 8))
        client.get(url)
        with pytest.raises(imgbroker.DownloadError):
            client.get(origin.url + "/administration-missing.png")
        assert [entry.code for entry in client.failed()] == ["http-status"]
        assert client.clear_failed() == 1
        assert client.clear("memory").removed == 1
        client.suspend()
        future = client.submit(url, cache="reload")
        eventually(lambda: client.stats()["queued"] == 1)
        client.cancel_all()
        with pytest.raises(imgbroker.OutcomeError):
            future.result(20)
        client.resume()
        assert client.get(url).width == 8
        assert client.reload() == imgbroker.ReloadResult((), ())


def test_reload(tmp_path: pathlib.Path) -> None:
    settings = tmp_path / "settings"
    settings.write_text("queue-order = fifo\n")
    with Broker(tmp_path, "--config", str(settings)) as broker, imgbroker.Client(broker.socket) as client:
        settings.write_text("queue-order = lifo\nmemory-limit = 100M\n")
        change = imgbroker.SettingChange("memory-limit", "512M", "100M")
        refusal = imgbroker.SettingChange("queue-order", "fifo", "lifo", "needs a restart")
        assert client.reload() == ((change,), (refusal,))
        settings.write_text("queue-order = sideways\n")
        with pytest.raises(imgbroker.MessageError, match="settings"):
            client.reload()


def test_upgrade(tmp_path: pathlib.Path, origin: Origin, picture: Picture) -> None:
    url = origin.add("/upgrade.png", picture(8, 8))
    with Broker(tmp_path) as broker:
        with imgbroker.Client(broker.socket) as client, imgbroker.Client(broker.socket) as other:
            for _ in range(2):
                eventually(lambda: client.get(url) and client.kept_image(url))
                other.upgrade()
                # The page has ended with the program that wrote it.
                assert client.kept_image(url) is None
            image = eventually(lambda: client.get(url) and client.kept_image(url))
            assert image is not None and image.numpy().shape == (8, 8, 4)
            before = client.stats()["requests"]
            assert all(client.get(url) is image for _ in range(100))
            assert client.stats()["requests"] == before
            assert origin.requests.count("/upgrade.png") == 1


def test_trace(client: imgbroker.Client, origin: Origin, picture: Picture) -> None:
    url = origin.add("/trace.png", picture(8, 8))
    image = client.get(url, trace=True)
    assert {"download", "reply"} <= {span.name for span in image.spans}
    assert all(span.microseconds >= 0 for span in image.spans)
    # A hit has no other span, and is requested each time.
    for _ in range(3):
        assert [span.name for span in client.get(url, trace=True).spans] == ["reply"]
    assert client.kept_image(url, trace=True) is None
    assert client.get(url).spans == ()


def test_events(client: imgbroker.Client, origin: Origin, picture: Picture) -> None:
    url = origin.add("/events.png", picture(8, 8))
    with client.events(["started", "finished"]) as events:
        client.get(url)
        first = next(event for event in events if event.url == url)
        assert first.name == "started"
        assert next(event for event in events if event.url == url).name == "finished"
    with pytest.raises(imgbroker.ClosedError):
        while True:
            next(events)


def test_threads_share_a_connection(broker: Broker, origin: Origin, picture: Picture) -> None:
    urls = [origin.add(f"/thread-{width}.png", picture(width, 10)) for width in range(10, 26)]
    with imgbroker.Client(broker.socket, keep_images=4) as client:
        clients = client.stats()["clients"]

        def load(number: int) -> List[int]:
            return [client.get(urls[(number + i) % len(urls)]).width for i in range(60)]

        with ThreadPoolExecutor(12) as pool:
            for number, widths in enumerate(pool.map(load, range(12))):
                assert widths == [10 + (number + i) % 16 for i in range(60)]
        assert client.stats()["clients"] == clients


def test_descriptors_and_threads_end_with_the_client(broker: Broker, origin: Origin, picture: Picture) -> None:
    url = origin.add("/ends.png", picture(8, 8))
    gc.collect()
    # The origin is in this process, too.
    eventually(lambda: origin.connections == 0)
    before = open_descriptors()
    threads = set(threading.enumerate())
    client = imgbroker.Client(broker.socket)
    image = client.get(url)
    client.close()
    del image
    eventually(lambda: open_descriptors() == before)
    other = imgbroker.Client(broker.socket)
    other.get(url)
    # Without `close`.
    del other, client
    gc.collect()
    eventually(lambda: open_descriptors() == before and threads.issuperset(threading.enumerate()))


@pytest.mark.parametrize("way", ["terminate", "kill"])
def test_restart(tmp_path: pathlib.Path, origin: Origin, picture: Picture, way: str, gate: threading.Event) -> None:
    url = origin.add(f"/restart-{way}.png", picture(8, 8))
    slow = origin.add(f"/restart-{way}-slow.png", picture(9, 9), gate=gate)
    broker = Broker(tmp_path)
    client = imgbroker.Client(broker.socket, reconnect=20)
    try:
        image = client.get(url)
        in_flight = client.submit(slow)
        eventually(lambda: f"/restart-{way}-slow.png" in origin.requests)
        broker.stop(way)
        assert client.kept_image(url) is None
        assert image.numpy().shape == (8, 8, 4)
        # Sent while no broker listens.
        meanwhile = client.submit(url)
        broker.start()
        gate.set()
        assert in_flight.result(20).width == 9
        assert meanwhile.result(20).width == 8
        assert client.get(url).width == 8
    finally:
        gate.set()
        client.close()
        broker.stop()


def test_broker_that_does_not_come_back(tmp_path: pathlib.Path) -> None:
    with Broker(tmp_path) as broker, imgbroker.Client(broker.socket, reconnect=0.2) as client:
        client.stats()
        broker.stop()
        start = time.monotonic()
        with pytest.raises((imgbroker.NoBrokerError, imgbroker.ConnectionLostError)):
            client.stats()
        assert time.monotonic() - start < 10


def test_broker_that_hangs(scripted: Scripted) -> None:
    broker = scripted([{"read": "get"}])
    with imgbroker.Client(broker.path, patience=0.2) as client:
        with pytest.raises(imgbroker.NotAnsweringError):
            client.get("http://origin/a.png")
    eventually(lambda: [frame["type"] for frame in broker.received[0]] == ["hello", "get", "stats"])


def test_full_descriptor_table(tmp_path: pathlib.Path, origin: Origin, picture: Picture) -> None:
    urls = [origin.add(f"/full-{i}.png", picture(8 + i, 8)) for i in range(3)]
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Broker(tmp_path, "--segments", "off") as broker, imgbroker.Client(broker.socket, keep_images=0) as client:
        first = client.get(urls[0])
        # The origin is in this process, and needs descriptors, too.
        assert client.prefetch(urls) == (3, 0)
        eventually(lambda: origin.connections == 0)
        # The next descriptor would be above the limit.
        gap = os.dup(0)
        os.close(gap)
        resource.setrlimit(resource.RLIMIT_NOFILE, (gap, limit[1]))
        try:
            with pytest.raises(imgbroker.ProcessLimitError, match="RLIMIT_NOFILE") as info:
                client.get(urls[1])
            assert info.value.retryable
            # Neither the connection nor other images are affected.
            assert client.get(urls[0]).buffer == first.buffer
            assert client.get(urls[1], delivery="inline").width == 9
            with pytest.raises(imgbroker.ProcessLimitError):
                client.get(urls[1])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        assert client.get(urls[1]).numpy().shape == (8, 9, 4)
        assert first.numpy().shape == (8, 8, 4)


def test_repeated_hits_take_no_request(broker: Broker, origin: Origin, picture: Picture) -> None:
    url = origin.add("/repeated.png", picture(8, 8))
    with imgbroker.Client(broker.socket) as client:
        # An image has no slot before it comes from memory.
        image = eventually(lambda: client.get(url, width=4) and client.kept_image(url, width=4))
        assert image is not None
        before = client.stats()
        assert all(client.get(url, width=4) is image for _ in range(1000))
        assert client.stats()["requests"] == before["requests"]
        eventually(lambda: (client.get(url, width=4), client.stats()["mappedHits"] >= before["mappedHits"] + 1000)[1])
        # The page is valid until the reply to the request that changes it.
        assert client.remove(url) == 1
        assert client.kept_image(url, width=4) is None
        assert client.get(url, width=4) is not image


def test_kept_images_are_limited(broker: Broker, origin: Origin, picture: Picture) -> None:
    urls = [origin.add(f"/kept-{i}.png", picture(10, 10)) for i in range(4)]
    with imgbroker.Client(broker.socket, keep_images=2) as client:
        for url in urls:
            eventually(lambda: client.get(url) is client.kept_image(url))
        assert [client.kept_image(url) is not None for url in urls] == [False, False, True, True]
    with imgbroker.Client(broker.socket, keep_bytes=500) as client:
        for url in urls:
            eventually(lambda: client.get(url) is client.kept_image(url))
        assert sum(client.kept_image(url) is not None for url in urls) == 1


_FORK = """
import os, sys, threading, traceback, imgbroker
socket, url = sys.argv[1:3]
client = imgbroker.Client(socket)
image = client.get(url)
client.get(url)
stop = threading.Event()
def work():
    other = imgbroker.Client(socket, keep_images=0)
    while not stop.is_set():
        client.get(url, cache="no-cache"); other.get(url)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads: thread.start()
statuses = []
for _ in range(10):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            inherited = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                         if os.path.exists(f"/proc/self/fd/{fd}")]
            assert not any(link.startswith("socket:") for link in inherited), inherited
            pixels = image.numpy().copy()
            assert client.get(url).numpy().tolist() == pixels.tolist()
            assert client.get(url).width == image.width
            del image
            client.close()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    statuses.append(os.waitpid(child, 0)[1])
stop.set()
for thread in threads: thread.join()
assert not any(statuses), statuses
# Neither the stream nor the leases of the parent were used.
assert client.get(url).numpy().tolist() == image.numpy().tolist()
client.close()
print("done")
"""


def test_fork(broker: Broker, origin: Origin, picture: Picture, tmp_path: pathlib.Path) -> None:
    assert run_script(tmp_path, _FORK, broker.socket, origin.add("/fork.png", picture(8, 8))) == "done\n"


_FORK_WHILE_CONNECTING = """
import os, socket, sys, threading, imgbroker
path, url = sys.argv[1:3]
is_connecting, may_connect = threading.Event(), threading.Event()
connect = socket.socket.connect
def connect_later(self, address):
    is_connecting.set()
    may_connect.wait()
    return connect(self, address)
socket.socket.connect = connect_later
client = imgbroker.Client(path)
thread = threading.Thread(target=client.get, args=[url])
thread.start()
is_connecting.wait()
child = os.fork()
if child == 0:
    inherited = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                 if os.path.exists(f"/proc/self/fd/{fd}")]
    os._exit(any(link.startswith("socket:") for link in inherited))
may_connect.set()
thread.join()
client.close()
print(os.waitpid(child, 0)[1])
"""


def test_fork_while_connecting(broker: Broker, origin: Origin, picture: Picture, tmp_path: pathlib.Path) -> None:
    url = origin.add("/fork-early.png", picture(8, 8))
    assert run_script(tmp_path, _FORK_WHILE_CONNECTING, broker.socket, url) == "0\n"


_SPAWN = """
import multiprocessing, sys, imgbroker
def load(client, url): return client.get(url).numpy().sum().item()
if __name__ == "__main__":
    client = imgbroker.Client(sys.argv[1])
    expected = load(client, sys.argv[2])
    for method in ("spawn", "fork", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.starmap(load, [(client, sys.argv[2])] * 4) == [expected] * 4
    print("done")
"""


def test_spawn(broker: Broker, origin: Origin, picture: Picture, tmp_path: pathlib.Path) -> None:
    url = origin.add("/spawn.png", picture(8, 8))
    assert run_script(tmp_path, _SPAWN, broker.socket, url) == "done\n"


def test_local_file(client: imgbroker.Client, tmp_path: pathlib.Path, picture: Picture) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(picture(20, 10))
    with pytest.raises(FileNotFoundError):
        client.get(tmp_path / "missing.png")
    if "files" not in client.hello().features:
        with pytest.raises(imgbroker.FeatureMissingError, match="files"):
            client.get(path)
        with pytest.raises(imgbroker.FeatureMissingError):
            client.query(str(path))
        pytest.skip("the broker does not serve local files: `files` is not among its features")
    # Before that, results are not kept.
    time.sleep(0.05)
    image = client.get(path, width=10, name="picture.png")
    assert image.source == "file" and image.url is None and image.width == 10
    assert client.get(str(path), width=10).source == "memory"
    path.write_bytes(picture(30, 10))
    assert client.get(path).width == 30


def two_frames() -> bytes:
    """An animated GIF of 2 × 2 pixels, red and then blue, which is shown for 50 ms each."""
    file = b"GIF89a" + bytes([2, 0, 2, 0, 0x80, 0, 0, 255, 0, 0, 0, 0, 255]) + b"\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"
    for index in (0, 1):
        # Codes of three bits: clear, two pixels, clear, two pixels, end.
        codes = sum(code << 3 * place for place, code in enumerate([4, index, index, 4, index, index, 5]))
        file += bytes([0x21, 0xF9, 4, 0, 5, 0, 0, 0]) + b"," + bytes([0, 0, 0, 0, 2, 0, 2, 0, 0, 2, 3]) + codes.to_bytes(3, "little") + b"\0"
    return file + b";"


def test_animation(client: imgbroker.Client) -> None:
    image = client.get(two_frames(), frame="all", alpha="straight")
    assert [frame.delay_ms for frame in image.frames] == [50, 50] and image.loops == 0
    assert image.numpy(1)[0, 0].tolist() == [0, 0, 255, 255]
    encoded = client.get(two_frames(), frame="all", as_="webp")
    assert (encoded.content_type, encoded.frame_count, len(encoded.frames)) == ("image/webp", 2, 0)
    again = client.get(bytes(encoded), frame="all")
    assert [frame.delay_ms for frame in again.frames] == [50, 50] and again.loops == 0
    with pytest.raises(imgbroker.RefusedError) as info:
        client.get(two_frames(), frame="all", as_="png")
    assert info.value.code == ErrorCode.BAD_REQUEST


def test_bytes(client: imgbroker.Client, tmp_path: pathlib.Path, picture: Picture) -> None:
    data = picture(21, 12)
    path = tmp_path / "picture.png"
    path.write_bytes(data)
    image = client.get(data)
    assert (image.width, image.url, image.source) == (21, None, "file")
    url = "data:image/png;base64," + base64.b64encode(data).decode()
    for source in (data, bytearray(data), memoryview(data), io.BytesIO(data), url):
        assert client.get(source).source == "memory"
        assert client.kept_image(source) is None
    assert client.query(data).memory
    with open(path, "rb") as file:
        file.seek(5)
        # A regular file is one like that of its path, and its position does not matter.
        assert client.get(file).width == client.get(file.fileno()).width == 21
        assert file.tell() == 5
    reader, writer = os.pipe()
    os.write(writer, data)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert client.get(pipe).source == "memory"
    # Their descriptors are those of the compressed bytes.
    for module in (bz2, gzip, lzma):
        compressed = tmp_path / module.__name__
        compressed.write_bytes(module.compress(data))
        with module.open(compressed) as unpacked:
            unpacked.read(5)
            assert client.get(unpacked).width == 21
    spooled: Any = tempfile.SpooledTemporaryFile()
    with spooled:
        spooled.write(data)
        assert client.get(spooled).width == 21
    assert [result.get().width for result in client.get_many([data, url, path])] == [21, 21, 21]
    assert client.remove(data) == 1
    with pytest.raises(TypeError, match="binary mode"):
        client.get(io.StringIO("text"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not float"):
        client.get(1.5)  # type: ignore[arg-type]
    with pytest.raises(imgbroker.ImageBrokerError) as info:
        client.get(b"")
    assert info.value.code is ErrorCode.EMPTY_IMAGE
    with pytest.raises(ValueError, match="comma"):
        client.get("data:image/png")


def test_data_urls() -> None:
    cases = json.loads((pathlib.Path(__file__).parents[2] / "conformance" / "data-urls.json").read_text())
    for case in cases:
        assert is_data_url(case["url"]) and not is_url(case["url"])
        if case["bytes"] is None:
            with pytest.raises(ValueError):
                data_of_url(case["url"])
        else:
            assert data_of_url(case["url"]) == case["bytes"].encode(), case["url"]


def test_kept_local_file(broker: Broker, tmp_path: pathlib.Path, picture: Picture) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(picture(20, 10))
    time.sleep(0.05)
    with imgbroker.Client(broker.socket) as client:
        assert client.kept_image(path) is None
        image = client.get(path)
        assert client.get(str(path)) is image and client.kept_image(path) is image
        assert client.submit(path).result(0) is image
        assert client.get(path, width=10) is not image
        path.write_bytes(picture(30, 10))
        assert client.kept_image(path) is None
        assert client.get(path).width == 30
        path.unlink()
        assert client.kept_image(path) is None
        with pytest.raises(FileNotFoundError):
            client.get(path)


def test_kept_writable_images(broker: Broker, tmp_path: pathlib.Path, picture: Picture) -> None:
    """Each has a mapping of its own, although only the first takes a request."""
    path = tmp_path / "picture.png"
    path.write_bytes(picture(20, 10))
    time.sleep(0.05)
    with imgbroker.Client(broker.socket) as client, imgbroker.Client(broker.socket, keep_images=0) as other:
        first = client.get(path, writable=True)
        expected = bytes(first)
        requests = other.stats()["requests"]
        second = client.get(path, writable=True)
        third = client.submit(path, writable=True).result(0)
        assert other.stats()["requests"] == requests
        first.buffer[0] ^= 1
        second.buffer[1] ^= 1
        assert bytes(third) == expected and bytes(second) != expected != bytes(first)
        # The lease lasts while the store or an image has it.
        del first, second
        gc.collect()
        assert bytes(client.get(path, writable=True)) == expected
        # One that is not writable is another image.
        assert client.get(path).buffer.readonly
        client.remove(path)
        assert bytes(client.get(path, writable=True)) == expected
        assert other.stats()["requests"] > requests + 1
    assert bytes(third) == expected


def test_additions_are_not_sent_to_a_broker_without_them(scripted: Scripted) -> None:
    broker = scripted([{"read": "get"}])
    with imgbroker.Client(broker.path) as client:
        additions: List[Any] = [
            {"crop": (0, 0, 1, 1)}, {"steps": [{"op": "blur", "sigma": 1}]}, {"damaged": "accept"},
            {"pixel_format": "rgb8"}, {"pixel_format": "gray8"}]
        for options in additions:
            with pytest.raises(imgbroker.FeatureMissingError):
                client.get("http://origin/a.png", **options)


def test_file_over_the_wire(tmp_path: pathlib.Path, origin: Origin, scripted: Scripted) -> None:
    """The client's side of local files, with a scripted broker that has them."""
    path = tmp_path / "picture"
    path.write_bytes(b"1")
    hello = {"type": "hello", "id": "$id", "protocol": 1, "server": "s", "features": ["files", "steps"]}
    reply = {"type": "image", "id": "$id", "source": "file", "width": 1, "height": 1, "bytes": 4, "fds": 1, "buffer": 1,
             "stride": 4, "pixelFormat": "rgba8", "alpha": "premultiplied", "contentType": "image/png"}
    broker = scripted([
        {"read": "hello"}, {"send": hello},
        {"read": "get", "fields": {"type": "get", "fds": 1, "name": "n", "variant": {
            "crop": {"x": 1, "y": 2, "width": 3, "height": 4}, "steps": [{"op": "flip", "axis": "vertical"}]}}},
        {"send": reply, "descriptors": [{"size": 4, "byte": 1}]}])
    with imgbroker.Client(broker.path) as client:
        # The origin is in this process, too.
        eventually(lambda: origin.connections == 0)
        before = open_descriptors()
        # Two for the connection and its other end, two to wake its thread.
        image = client.get(path, name="n", crop=(1, 2, 3, 4), steps=[{"op": "flip", "axis": "vertical"}])
        assert image.source == "file" and image.url is None
        del image
        # That of the file is closed, and that of the image when its lease has been released.

        def is_closed() -> bool:
            client.flush()
            return open_descriptors() == before + 4

        eventually(is_closed)


def test_frames(broker: Broker, origin: Origin) -> None:
    PIL = pytest.importorskip("PIL.Image")
    pictures = [PIL.new("RGB", (320, 240), (0, index * 4, 100)) for index in range(60)]
    file = encoded(pictures[0], "GIF", save_all=True, append_images=pictures[1:], duration=40)
    origin.pages["/frames.gif"] = Page(file, 200, {"Content-Type": "image/gif"})
    expected = PIL.open(io.BytesIO(file))
    with imgbroker.Client(broker.socket) as client:
        frames = []
        for frame in client.frames(origin.url + "/frames.gif"):
            expected.seek(frame.index)
            assert frame.pil().tobytes() == expected.convert("RGB").tobytes()
            frames.append(frame)
        assert [frame.index for frame in frames] == list(range(60))
        assert {frame.delay_ms for frame in frames} == {40}
        assert len({id(frame.part) for frame in frames}) == 4
        # A player that stops early leaves nothing.
        player = client.frames(origin.url + "/frames.gif")
        assert next(player).index == 0
        player.close()
        with pytest.raises(imgbroker.RefusedError):
            client.get(origin.url + "/frames.gif", frames=(60, 1))
