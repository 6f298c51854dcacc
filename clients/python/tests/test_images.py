"""The views of an image, and the life of its memory."""

from __future__ import annotations

import ctypes
import gc
import io
import subprocess
import sys
from typing import Any, Callable, Iterator

import numpy
import PIL.Image
import pytest

import imgbroker
from imgbroker._image import Image
from imgbroker._wire import image_of
from support import Broker, Origin, eventually

Picture = Callable[..., bytes]


def _image(data: bytes, **fields: Any) -> Image:
    """Returns an image of bytes of this process."""
    return Image(image_of({"source": "memory", "bytes": len(data), "alpha": "straight", **fields}), memoryview(data))


def test_array_is_read_only_and_shares_memory(client: imgbroker.Client, origin: Origin, picture: Picture) -> None:
    image = client.get(origin.add("/array.png", picture(40, 30, (10, 200, 30))))
    pixels = image.numpy()
    assert pixels.shape == (30, 40, 4) and pixels.dtype == numpy.uint8
    assert (pixels == (10, 200, 30, 255)).all()
    assert not pixels.flags.writeable
    assert numpy.shares_memory(pixels, numpy.frombuffer(image.buffer, numpy.uint8))
    with pytest.raises((ValueError, TypeError)):
        image.buffer[0] = 1
    assert len(image) == image.nbytes == 4800 and bytes(image) == image.buffer.tobytes()
    assert image.premultiplied and image.alpha == "premultiplied"


def test_writable_image_changes_alone(client: imgbroker.Client, origin: Origin, picture: Picture) -> None:
    url = origin.add("/writable.png", picture(40, 30, (10, 200, 30)))
    shared = client.get(url).numpy()
    images = [
        client.get(url, writable=True), client.submit(url, writable=True).result(),
        next(client.get_many([url], writable=True)).get(), client.get(url, writable=True, delivery="inline"),
    ]
    for value, image in enumerate(images):
        pixels = image.numpy()
        assert pixels.flags.writeable and (pixels == (10, 200, 30, 255)).all()
        pixels[:] = value
        # Also as a consumer of an older DLPack sees it.
        assert image.__dlpack__() is not None and numpy.from_dlpack(image).flags.writeable
    assert [image.numpy().min() for image in images] == [image.numpy().max() for image in images] == [0, 1, 2, 3]
    assert (shared == (10, 200, 30, 255)).all() and (client.get(url).numpy() == shared).all()
    assert not client.get(url).numpy().flags.writeable


@pytest.mark.parametrize("name, value", [
    ("width", None), ("width", True), ("width", 65_536), ("height", -1), ("bytes", None), ("bytes", 1 << 53), ("bytes", 1.0),
    ("source", None), ("source", "elsewhere"), ("final", None), ("final", 1), ("stale", "no"), ("url", 1), ("etag", []),
    ("slot", -1), ("slot", "1"), ("generation", 1 << 32), ("buffer", 0), ("fds", 2), ("fds", 1), ("pixelFormat", "cmyk"),
    ("pixelFormat", []), ("alpha", "some"), ("alpha", None), ("expires", False), ("frames", None), ("spans", {}),
])
def test_field_of_a_wrong_type_or_out_of_range(name: str, value: Any) -> None:
    fields = {
        "final": True, "source": "file", "width": 2, "height": 1, "stride": 8, "pixelFormat": "rgba8", "alpha": "straight",
        "bytes": 8, "expires": None, "etag": None, "slot": None, "unknown": {},
    }
    assert image_of(fields).width == 2
    with pytest.raises(imgbroker.ProtocolViolationError):
        image_of({**fields, name: value})


def test_array_respects_stride() -> None:
    data = bytes(range(48))
    pixels = _image(data, width=2, height=3, stride=16, pixelFormat="rgba8").numpy()
    assert pixels[:, :, 0].tolist() == [[0, 4], [16, 20], [32, 36]]


def test_formats_without_alpha() -> None:
    rgb = _image(bytes(range(24)), width=2, height=3, stride=8, pixelFormat="rgb8", alpha="none")
    assert rgb.numpy().shape == (3, 2, 3) and rgb.pil().mode == "RGB" and rgb.pil().getpixel((1, 1)) == (11, 12, 13)
    gray = _image(bytes(range(12)), width=3, height=3, stride=4, pixelFormat="gray8", alpha="none")
    assert gray.numpy().shape == (3, 3) and gray.pil().getpixel((2, 1)) == 6


def test_frames() -> None:
    image = _image(
        bytes(16), width=1, height=2, stride=4, pixelFormat="rgba8",
        frames=[{"offset": 0, "delayMs": 100}, {"offset": 8, "delayMs": 40}], loops=0)
    assert [frame.delay_ms for frame in image.frames] == [100, 40]
    assert image.numpy(1).shape == (2, 1, 4)
    with pytest.raises(IndexError):
        image.numpy(2)


@pytest.mark.parametrize("options", [
    {}, {"alpha": "straight"}, {"pixel_format": "bgra8"}, {"pixel_format": "bgra8", "alpha": "straight"}])
def test_pillow_image(client: imgbroker.Client, origin: Origin, picture: Picture, options: Any) -> None:
    url = origin.add("/pillow.png", picture(9, 5, (200, 100, 50, 128)))
    image = client.get(url, **options).pil()
    assert (image.mode, image.size) == ("RGBA", (9, 5))
    color: Any = image.getpixel((8, 4))
    assert max(abs(a - b) for a, b in zip(color, (200, 100, 50, 128))) <= 1


def test_pillow_image_of_an_encoded_image(client: imgbroker.Client, origin: Origin, picture: Picture) -> None:
    image = client.get(origin.add("/encoded.png", picture(9, 5)), as_="webp")
    assert image.stride is None and image.content_type == "image/webp"
    assert image.pil().size == (9, 5)
    assert PIL.Image.open(io.BytesIO(bytes(image))).format == "WEBP"
    with pytest.raises(ValueError, match="encoded"):
        image.numpy()


def test_image_that_was_not_delivered(client: imgbroker.Client, origin: Origin, picture: Picture) -> None:
    image = client.get(origin.add("/none.png", picture(9, 5)), delivery="none")
    assert image.width == 9 and len(image.buffer) == 0
    with pytest.raises(ValueError, match="delivered"):
        image.numpy()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the buffer protocol needs Python 3.12")
def test_buffer_protocol() -> None:
    image: Any = _image(b"1234", width=1, height=1, stride=4, pixelFormat="rgba8")
    view = memoryview(image)
    assert view.readonly and view.tobytes() == b"1234"


def test_dlpack() -> None:
    data = bytes(range(48))
    image = _image(data, width=2, height=3, stride=16, pixelFormat="rgba8")
    assert image.__dlpack_device__() == (1, 0)
    # A consumer that cannot express read-only memory gets no writable view of it.
    with pytest.raises(BufferError):
        image.__dlpack__()
    with pytest.raises(BufferError):
        image.__dlpack__(max_version=(1, 0), dl_device=(2, 0))
    references = sys.getrefcount(data)
    capsule = image.__dlpack__(max_version=(1, 0))
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    assert name(capsule) == b"dltensor_versioned"
    del capsule
    # The capsule was not consumed, and has released the bytes.
    assert sys.getrefcount(data) == references
    if tuple(map(int, numpy.__version__.split(".")[:2])) >= (2, 1):
        pixels = numpy.from_dlpack(image)
        assert pixels.shape == (3, 2, 4) and not pixels.flags.writeable
        assert pixels[:, :, 0].tolist() == [[0, 4], [16, 20], [32, 36]]
        assert numpy.shares_memory(pixels, numpy.frombuffer(data, numpy.uint8))
        del image
        gc.collect()
        assert pixels[2, 1].tolist() == [36, 37, 38, 39]
        del pixels
    gc.collect()
    assert sys.getrefcount(data) <= references


@pytest.mark.skipif(
    tuple(map(int, numpy.__version__.split(".")[:2])) < (2, 1), reason="numpy makes no capsule of read-only memory")
@pytest.mark.parametrize("is_consumed", [False, True])
def test_dlpack_released_by_an_error(is_consumed: bool) -> None:
    data = bytes(range(48))
    references = sys.getrefcount(data)

    def fail() -> Iterator[Any]:
        image = _image(data, width=2, height=3, stride=16, pixelFormat="rgba8")
        yield numpy.from_dlpack(image) if is_consumed else image.__dlpack__(max_version=(1, 0))
        raise ValueError("expected")

    # The list releases its items while the error is set.
    with pytest.raises(ValueError, match="expected"):
        list(fail())
    gc.collect()
    assert sys.getrefcount(data) == references


def test_dlpack_copy() -> None:
    image = _image(bytes(range(48)), width=2, height=3, stride=16, pixelFormat="rgba8")
    if int(numpy.__version__.split(".")[0]) >= 2:
        pixels = numpy.from_dlpack(_Copied(image))
        assert pixels[2, 1].tolist() == [36, 37, 38, 39]


class _Copied:
    def __init__(self, image: Image) -> None:
        self._image = image

    def __dlpack__(self, **arguments: Any) -> Any:
        return self._image.__dlpack__(max_version=arguments.get("max_version"), copy=True)

    def __dlpack_device__(self) -> Any:
        return self._image.__dlpack_device__()


def test_datasets_require_torch() -> None:
    script = "import sys; sys.modules['torch'] = None; import imgbroker.torch"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert run.stderr.endswith("ImportError: imgbroker.torch requires PyTorch: pip install torch\n")


def test_lease_ends_with_the_last_view(broker: Broker, origin: Origin, picture: Picture) -> None:
    url = origin.add("/lease.png", picture(64, 64))
    with imgbroker.Client(broker.socket, keep_images=0) as client, imgbroker.Client(broker.socket) as other:
        before = other.stats()["leasedBytes"]

        def leased() -> int:
            return int(other.stats()["leasedBytes"]) - int(before)

        image = client.get(url)
        again = client.get(url)
        pixels = image.numpy()[2:3]
        view = again.buffer[5:9]
        eventually(lambda: leased() >= 64 * 64 * 4)
        del image, again
        client.stats()
        assert leased() >= 64 * 64 * 4
        del pixels
        client.flush()
        client.stats()
        assert leased() >= 64 * 64 * 4
        # The last one: it is released without a further message of this thread.
        del view
        eventually(lambda: leased() <= 0)


def test_images_outlive_client_and_broker(tmp_path: Any, origin: Origin, picture: Picture) -> None:
    broker = Broker(tmp_path)
    client = imgbroker.Client(broker.socket)
    pixels = client.get(origin.add("/outlives.png", picture(16, 16, (1, 2, 3)))).numpy()
    client.close()
    broker.stop("kill")
    gc.collect()
    assert (pixels == (1, 2, 3, 255)).all()
