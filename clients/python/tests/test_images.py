"""The views of an image, and the life of its memory."""

from __future__ import annotations

import copy
import ctypes
import gc
import hashlib
import io
import multiprocessing
import pickle
import subprocess
import sys
from typing import Any, Iterator

import numpy
import PIL.Image
import pytest

import imgbroker
from imgbroker._image import Image
from imgbroker._wire import image_of
from support import ROOT, Broker, Origin, Picture, eventually, run_python



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


@pytest.mark.parametrize("options", [
    {}, {"alpha": "straight"}, {"pixel_format": "bgra8"}, {"pixel_format": "bgra8", "alpha": "straight"}, {"pixel_format": "rgb8"}])
def test_opaque_pillow_image_can_be_saved_as_jpeg(
        client: imgbroker.Client, origin: Origin, picture: Picture, options: Any) -> None:
    image = client.get(origin.add("/opaque.jpg", picture(9, 5, (200, 100, 50), format="JPEG")), **options).pil()
    assert (image.mode, image.size) == ("RGB", (9, 5))
    color: Any = image.getpixel((8, 4))
    assert max(abs(a - b) for a, b in zip(color, (200, 100, 50))) <= 4
    image.save(io.BytesIO(), "JPEG")


_OF_DEBIAN = """
import sys, imgbroker, PIL.Image
client = imgbroker.Client(sys.argv[1])
for url, mode in zip(sys.argv[2:], ("RGB", "RGBA")):
    for form in ("rgba8", "bgra8", "rgb8", "gray8"):
        for alpha in ("straight", "premultiplied"):
            image = client.get(url, pixel_format=form, alpha=alpha).pil()
            assert image.mode == {"rgb8": "RGB", "gray8": "L"}.get(form, mode), (image.mode, form, alpha)
            image.getpixel((8, 4))
"""


@pytest.mark.skipif(
    subprocess.run(["/usr/bin/python3", "-c", "import PIL"], stderr=subprocess.DEVNULL).returncode != 0,
    reason="Debian's Pillow is missing")
def test_pillow_of_debian(broker: Broker, origin: Origin, picture: Picture) -> None:
    """Pillow 9 is stricter in what it reads from."""
    urls = [origin.add(f"/debian{len(color)}.png", picture(9, 5, color)) for color in ((1, 2, 3), (1, 2, 3, 128))]
    subprocess.run(
        ["/usr/bin/python3", "-c", _OF_DEBIAN, broker.socket, *urls], check=True, timeout=60,
        env={"PYTHONPATH": str(ROOT / "clients" / "python" / "src"), "PYTHONDONTWRITEBYTECODE": "1"})


def test_pillow_image_of_padded_rows() -> None:
    data = bytes([1, 2, 3, 255, 9, 9, 9, 9, 4, 5, 6, 255, 9, 9, 9, 9])
    opaque = _image(data, width=1, height=2, stride=8, pixelFormat="bgra8").pil()
    assert opaque.mode == "RGB" and opaque.getpixel((0, 1)) == (6, 5, 4)
    data = data[:11] + b"\x80" + data[12:]
    for alpha in ("straight", "premultiplied"):
        assert _image(data, width=1, height=2, stride=8, pixelFormat="bgra8", alpha=alpha).pil().mode == "RGBA"


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


def test_array_protocol() -> None:
    data = bytes(range(48))
    image: Any = _image(data, width=2, height=3, stride=16, pixelFormat="rgba8")
    pixels = numpy.asarray(image)
    assert pixels.shape == (3, 2, 4) and pixels.dtype == numpy.uint8 and not pixels.flags.writeable
    assert numpy.shares_memory(pixels, numpy.frombuffer(data, numpy.uint8))
    copied = numpy.array(image)
    assert copied.flags.writeable and (copied == pixels).all() and not numpy.shares_memory(copied, pixels)
    floats = numpy.asarray(image, numpy.float32)
    assert floats.dtype == numpy.float32 and (floats == pixels).all()
    # As numpy 1 and 2 call it.
    assert image.__array__().base is not None and image.__array__(numpy.dtype("uint8")).base is not None
    assert image.__array__(None, copy=True).flags.writeable and not image.__array__(copy=False).flags.writeable
    with pytest.raises(ValueError, match="needs a copy"):
        image.__array__(numpy.float32, copy=False)
    assert (image == pixels).all()


def test_array_of_no_pixels() -> None:
    with pytest.raises(ValueError, match="not delivered"):
        _image(b"", width=1, height=1, bytes=4, stride=4, pixelFormat="rgba8").__array__()
    with pytest.raises(ValueError, match="encoded as image/webp"):
        _image(b"RIFF", width=1, height=1, contentType="image/webp").__array__()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the buffer protocol needs Python 3.12")
def test_buffer_protocol() -> None:
    image: Any = _image(b"1234", width=1, height=1, stride=4, pixelFormat="rgba8")
    view = memoryview(image)
    assert view.readonly and view.tobytes() == b"1234" and numpy.asarray(image).shape == (1, 1, 4)
    assert hashlib.sha256(image).digest() == hashlib.sha256(b"1234").digest()


def test_shape_of_the_buffer() -> None:
    simple, shaped = 0, 0x11C
    image = _image(bytes(range(24)), width=2, height=3, stride=8, pixelFormat="rgb8", alpha="none")
    assert image.__buffer__(simple).shape == (24,) and image.__buffer__(shaped).shape == (3, 2, 3)
    unpadded = _image(bytes(range(6)), width=2, height=3, stride=2, pixelFormat="gray8", alpha="none")
    rows: Any = unpadded.__buffer__(shaped).tolist()
    assert rows == [[0, 1], [2, 3], [4, 5]]
    frames = [{"offset": 0, "delayMs": 1}, {"offset": 8, "delayMs": 1}]
    animation = _image(bytes(16), width=1, height=2, stride=4, pixelFormat="rgba8", frames=frames)
    assert animation.__buffer__(shaped).shape == (2, 1, 4) and len(animation.__buffer__(simple)) == 16
    assert _image(b"RIFF", width=1, height=1, contentType="image/webp").__buffer__(shaped).tobytes() == b"RIFF"
    with pytest.raises(BufferError, match="not delivered"):
        _image(b"", width=1, height=1, bytes=4, stride=4, pixelFormat="rgba8").__buffer__(shaped)


def test_image_as_a_value() -> None:
    image: Any = _image(b"", width=1, height=1, bytes=4, stride=4, pixelFormat="rgba8")
    assert image and len(image) == 0 and bytes(image) == b"" and image == image and len({image}) == 1
    for use in (iter, list, lambda image: image[0]):
        with pytest.raises(TypeError):
            use(image)
    frames = [{"offset": 0, "delayMs": 1}, {"offset": 4, "delayMs": 1}]
    assert "1x1 rgba8 of 2 frames" in repr(_image(bytes(8), width=1, height=1, stride=4, pixelFormat="rgba8", frames=frames))


def _shown(image: Image) -> PIL.Image.Image:
    data = image._repr_png_()
    assert data is not None
    shown = PIL.Image.open(io.BytesIO(data))
    shown.load()
    return shown


@pytest.mark.parametrize("pixel_format, alpha, data, mode, color", [
    ("rgba8", "straight", (10, 20, 30, 40), "RGBA", (10, 20, 30, 40)), ("bgra8", "straight", (30, 20, 10, 40), "RGBA", (10, 20, 30, 40)),
    ("rgba8", "premultiplied", (20, 40, 100, 100), "RGBA", (51, 102, 255, 100)), ("rgba8", "premultiplied", (0, 0, 0, 0), "RGBA", (0, 0, 0, 0)),
    ("rgb8", "none", (1, 2, 3), "RGB", (1, 2, 3)), ("gray8", "none", (7,), "L", 7),
])
def test_notebook_image(pixel_format: str, alpha: str, data: Any, mode: str, color: Any) -> None:
    row = bytes(data) * 3 + bytes(16 - 3 * len(data))
    shown = _shown(_image(row * 2, width=3, height=2, stride=16, pixelFormat=pixel_format, alpha=alpha))
    assert (shown.mode, shown.size, shown.getpixel((2, 1))) == (mode, (3, 2), color)


def test_notebook_image_is_bounded() -> None:
    data = bytes(range(256)) * 11 * 3
    shown = _shown(_image(data, width=2816, height=3, stride=2816, pixelFormat="gray8", alpha="none"))
    assert shown.size == (939, 1) and [shown.getpixel((x, 0)) for x in (1, 938)] == [3, 2814 % 256]


def test_notebook_image_of_frames_and_files(picture: Picture) -> None:
    frames = [{"offset": 0, "delayMs": 1}, {"offset": 4, "delayMs": 1}]
    animation = _image(bytes([1, 2, 3, 255, 4, 5, 6, 255]), width=1, height=1, stride=4, pixelFormat="rgba8", frames=frames)
    assert _shown(animation).getpixel((0, 0)) == (1, 2, 3, 255) and animation._repr_jpeg_() is None
    jpeg, png = picture(9, 5, format="JPEG"), picture(9, 5)
    image = _image(jpeg, width=9, height=5, contentType="image/jpeg")
    assert image._repr_jpeg_() == jpeg and image._repr_png_() is None
    assert _image(png, width=9, height=5, contentType="image/png")._repr_png_() == png
    assert _image(bytes(5 << 20), width=9, height=5, contentType="image/png")._repr_png_() is None
    assert _image(b"", width=1, height=1, bytes=4, stride=4, pixelFormat="rgba8")._repr_png_() is None


def test_pickled_image_needs_no_broker(tmp_path: Any, origin: Origin, picture: Picture) -> None:
    broker = Broker(tmp_path)
    with imgbroker.Client(broker.socket) as client:
        image = client.get(origin.add("/pickled.png", picture(16, 16, (1, 2, 3))), trace=True)
        changed = client.get(origin.url + "/pickled.png", writable=True)
        changed.numpy()[:] = 7
        pickles = [pickle.dumps(image, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
        pickle_of_changed = pickle.dumps(changed)
    broker.stop("kill")
    for data in pickles:
        again = pickle.loads(data)
        assert bytes(again) == bytes(image) and repr(again) == repr(image) and again.url == image.url and again.spans == image.spans
        assert not again.numpy().flags.writeable and again.pil().getpixel((15, 15)) == (1, 2, 3)
    writable = pickle.loads(pickle_of_changed).numpy()
    assert writable.flags.writeable and (writable == 7).all()


def test_pickles_are_bounded() -> None:
    data = bytes((64 << 20) + 64)
    large = _image(data, width=4096, height=4096, stride=4096 * 4, pixelFormat="rgba8")
    with pytest.raises(pickle.PicklingError, match=r"67108928 bytes.*image\.numpy\(\)\.copy\(\)"):
        pickle.dumps(large)
    # These do not copy.
    assert copy.copy(large) is large and copy.deepcopy(large) is large


def test_copies_of_a_writable_image() -> None:
    data = bytearray(8)
    image = _image(data, width=1, height=2, stride=4, pixelFormat="rgba8")  # type: ignore[arg-type]
    for other in (copy.copy(image), copy.deepcopy([image])[0]):
        other.numpy()[:] = 5
        assert (other.numpy() == 5).all() and not image.numpy().any()


def _answer(requests: Any, answers: Any) -> None:
    image = requests.get()
    answers.put((image, image.numpy().sum()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_images_pass_through_queues(client: imgbroker.Client, origin: Origin, picture: Picture, method: str) -> None:
    image = client.get(origin.add("/queue.png", picture(16, 16, (1, 2, 3))))
    context: Any = multiprocessing.get_context(method)
    requests, answers = context.Queue(), context.Queue()
    process = context.Process(target=_answer, args=(requests, answers), daemon=True)
    process.start()
    requests.put(image)
    again, total = answers.get(timeout=60)
    process.join(60)
    assert bytes(again) == bytes(image) and total == image.numpy().sum()


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
    run = run_python("-c", "import sys; sys.modules['torch'] = None; import imgbroker.torch")
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
