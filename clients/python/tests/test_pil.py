"""`imgbroker.pil` against Pillow."""

from __future__ import annotations

import copy
import errno
import gzip
import io
import os
import pathlib
import pickle
import tempfile
import threading
from typing import Any, Callable, Dict, List, Tuple, Type

import numpy
import PIL
import PIL.Image
import PIL.ImageCms
import PIL.ImageFile
import PIL.ImageOps
import PIL.ImageSequence
import pytest

import imgbroker
from imgbroker import pil as Image
from fixtures import Scripted
from support import Broker, Origin, encoded, eventually, open_descriptors, run_python, run_script


GRAY = PIL.Image.linear_gradient("L").resize((97, 61))
COLOR = PIL.Image.merge("RGB", (GRAY, GRAY.rotate(180), GRAY.transpose(PIL.Image.Transpose.FLIP_TOP_BOTTOM)))
TRANSPARENT = COLOR.copy()
TRANSPARENT.putalpha(PIL.Image.radial_gradient("L").resize(COLOR.size))
LA = PIL.Image.merge("LA", (GRAY, TRANSPARENT.getchannel("A")))


@pytest.fixture(autouse=True)
def default(client: imgbroker.Client, monkeypatch: pytest.MonkeyPatch) -> imgbroker.Client:
    """The client of the module's functions."""
    monkeypatch.setattr(imgbroker, "_default", client)
    return client


def _difference(ours: PIL.Image.Image, theirs: PIL.Image.Image) -> float:
    """Returns the mean difference of pixels."""
    assert (ours.mode, ours.size) == (theirs.mode, theirs.size)
    return float(abs(numpy.asarray(ours).astype(int) - numpy.asarray(theirs)).mean())


CASES: List[Tuple[str, PIL.Image.Image, Dict[str, Any], float]] = [
    ("PNG", GRAY, {}, 0), ("PNG", COLOR, {}, 0), ("PNG", TRANSPARENT, {}, 0), ("PNG", LA, {}, 0),
    ("JPEG", GRAY, {}, 0.5), ("JPEG", COLOR, {}, 1), ("JPEG", COLOR, {"progressive": True, "comment": b"\xff" * 300}, 1),
    ("WEBP", COLOR, {"lossless": True}, 0), ("WEBP", TRANSPARENT, {"lossless": True, "exact": True}, 0), ("BMP", COLOR, {}, 0),
    ("PPM", COLOR, {}, 0), ("PPM", GRAY, {}, 0), ("TGA", COLOR, {}, 0), ("TIFF", COLOR, {}, 0), ("JPEG2000", COLOR, {}, 1), ("AVIF", COLOR, {}, 3),
]


@pytest.mark.parametrize("format, source, options, tolerance", CASES, ids=[f"{case[0]}-{case[1].mode}-{n}" for n, case in enumerate(CASES)])
def test_formats(tmp_path: pathlib.Path, format: str, source: PIL.Image.Image, options: Dict[str, Any], tolerance: float) -> None:
    path = tmp_path / "image"
    try:
        path.write_bytes(encoded(source, format, **options))
    except (KeyError, OSError):
        pytest.skip(f"this Pillow does not write {format}")
    with Image.open(path) as ours, PIL.Image.open(path) as theirs:
        assert (ours.size, ours.mode, ours.format) == (theirs.size, theirs.mode, theirs.format)
        assert ours.n_frames == getattr(theirs, "n_frames", 1) and not ours.is_animated
        assert ours.get_format_mimetype() is not None and ours.filename == str(path)
        assert isinstance(ours, PIL.ImageFile.ImageFile) and isinstance(ours, Image.Image)
        assert _difference(ours, theirs) <= tolerance
    # After the block, the loaded image remains.
    assert ours.convert("RGB").resize((7, 7)).size == (7, 7)


@pytest.mark.parametrize("source, mode, format, options", [
    (COLOR.quantize(16), "RGB", "PNG", {}), (COLOR.quantize(16), "RGBA", "PNG", {"transparency": 1}),
    (PIL.Image.new("I;16", (97, 61), 30000), "L", "PNG", {}),
    (GRAY.convert("1"), "L", "PNG", {}), (COLOR.convert("CMYK"), "RGB", "JPEG", {}), (COLOR, "RGBA", "GIF", {}),
])
def test_modes_that_differ(source: PIL.Image.Image, mode: str, format: str, options: Dict[str, Any]) -> None:
    image = Image.open(io.BytesIO(encoded(source, format, **options)))
    assert (image.mode, image.size) == (mode, (97, 61))
    image.load()
    assert image.mode == mode and len(image.getbands()) == len(mode)


def test_sources(tmp_path: pathlib.Path, origin: Origin) -> None:
    data = encoded(COLOR, "PNG")
    path = tmp_path / "a:b#c%20.png"
    path.write_bytes(data)
    compressed = tmp_path / "image.gz"
    compressed.write_bytes(gzip.compress(data))
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    temporary = tempfile.TemporaryFile()
    temporary.write(data)
    with open(path, "rb") as file, open(path, "rb", buffering=0) as raw, gzip.open(compressed) as unpacked, open(reading, "rb") as pipe, temporary:
        file.seek(5)
        sources: List[Any] = [
            str(path), os.fsencode(path), path, file, raw, io.BytesIO(data), unpacked, pipe, temporary,
            origin.add("/pil.png", data)]
        for source in sources:
            image = Image.open(source)
            assert image.mode == "RGB" and _difference(image, COLOR) == 0, source
            assert not getattr(source, "closed", False)
    assert Image.open(origin.add("/pil-gray.png", encoded(GRAY, "PNG"))).mode == "RGB"


def test_no_pixels_before_they_are_needed(tmp_path: pathlib.Path, default: imgbroker.Client) -> None:
    path = tmp_path / "lazy.jpg"
    COLOR.resize((1000, 800)).save(path, dpi=(300, 300))

    def decodes() -> int:
        return int(default.stats()["decodes"])

    before = decodes()
    image = Image.open(path)
    assert image.size == (1000, 800) and image.mode == "RGB" and image.info["dpi"] == (300, 300) and image.n_frames == 1
    assert not image.getexif() and "1000x800" in repr(image) and decodes() == before
    path.unlink()
    # The file was opened before it was removed.
    assert image.getpixel((0, 0)) is not None and decodes() == before + 1
    image.load()
    image.copy()
    assert decodes() == before + 1 and image.fp is None


def test_pixels_are_shared_and_may_be_changed(tmp_path: pathlib.Path) -> None:
    for source in (GRAY.resize((800, 600)), COLOR.resize((800, 600)), TRANSPARENT.resize((800, 600))):
        path = tmp_path / f"{source.mode}.png"
        source.save(path)
        first, second = Image.open(path), Image.open(path)
        pixels: Any = first.load()
        pixels[3, 4] = value = (0, 0, 0, 0)[:len(source.mode)] if len(source.mode) > 1 else 0
        assert first.getpixel((3, 4)) == value and _difference(second, source) == 0 and _difference(Image.open(path), source) == 0
        first.paste(source, (0, 0))
        first.putpixel((0, 0), value)
        assert second.getpixel((0, 0)) == source.getpixel((0, 0))
        for format in ("PNG", "TIFF"):
            assert _difference(PIL.Image.open(io.BytesIO(encoded(second, format))), source) == 0


def test_context_manager_and_close(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "image.png"
    COLOR.save(path)
    Image.open(path).load()
    before = open_descriptors()
    with Image.open(path) as image:
        assert open_descriptors() == before + 1
    with pytest.raises(ValueError, match="closed"):
        image.load()
    closed = Image.open(path)
    closed.load()
    closed.close()
    with pytest.raises(ValueError):
        closed.getpixel((0, 0))
    unloaded = Image.open(io.BytesIO(path.read_bytes()))
    unloaded.close()
    with pytest.raises(ValueError):
        unloaded.load()
    with open(path, "rb") as file:
        with Image.open(file) as image:
            image.load()
        assert not file.closed
        image = Image.open(file)
    with pytest.raises(ValueError, match="closed file"):
        image.load()
    assert open_descriptors() == before


def test_other_names_are_those_of_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Image.new("RGB", (2, 3)).size == (2, 3) and Image.Resampling is PIL.Image.Resampling and getattr(Image, "LANCZOS") == 1 and Image.Image is PIL.Image.Image
    assert Image.fromarray(numpy.zeros((3, 2), numpy.uint8)).mode == "L" and {"open", "merge", "Resampling"} <= set(dir(Image))
    with pytest.raises(AttributeError):
        Image.nothing  # type: ignore[attr-defined]
    data = encoded(COLOR, "PNG")
    # So that it is restored.
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 1)
    Image.MAX_IMAGE_PIXELS = 1000
    assert PIL.Image.MAX_IMAGE_PIXELS == Image.MAX_IMAGE_PIXELS == 1000
    with pytest.raises(PIL.Image.DecompressionBombError):
        Image.open(io.BytesIO(data))
    Image.MAX_IMAGE_PIXELS = None
    Image.open(io.BytesIO(data)).load()


def test_errors(tmp_path: pathlib.Path, origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.open(io.BytesIO(encoded(COLOR, "PNG"))).close()
    # The origin is in this process, too.
    eventually(lambda: origin.connections == 0)
    before = open_descriptors()
    for data in (b"", b"This is no image.", encoded(COLOR, "JPEG")[:100]):
        path = tmp_path / "none"
        path.write_bytes(data)
        sources: List[Any] = [path, io.BytesIO(data), path]
        for source in sources:
            with pytest.raises(PIL.UnidentifiedImageError) as found:
                Image.open(source)
            assert isinstance(found.value.__cause__, imgbroker.ImageBrokerError)
            assert str(found.value) == f"cannot identify image file {str(source) if source is path else source!r}"
    with pytest.raises(FileNotFoundError) as missing:
        Image.open(tmp_path / "missing")
    assert missing.value.errno == errno.ENOENT and missing.value.filename == str(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        Image.open(tmp_path)
    with pytest.raises(FileNotFoundError) as missing:
        Image.open(origin.url + "/pil-missing")
    assert isinstance(missing.value.__cause__, imgbroker.DownloadError)
    with pytest.raises(OSError, match="http-status"):
        Image.open(origin.add("/pil-500", b"", status=500))
    png = io.BytesIO(encoded(COLOR, "PNG"))
    wrong: List[Tuple[Any, Dict[str, Any], Type[Exception]]] = [
        (png, {"mode": "w"}, ValueError), (io.StringIO(), {}, ValueError), (png, {"formats": "PNG"}, TypeError)]
    for source, options, kind in wrong:
        with pytest.raises(kind):
            Image.open(source, **options)
    with pytest.raises(PIL.UnidentifiedImageError):
        Image.open(png, formats=["JPEG"])
    Image.open(png, formats=["png"]).close()
    eventually(lambda: open_descriptors() == before)
    monkeypatch.setattr(imgbroker, "_default", imgbroker.Client(str(tmp_path / "socket")))
    with pytest.raises(OSError) as lost:
        Image.open(png)
    assert isinstance(lost.value.__cause__, imgbroker.NoBrokerError)


def test_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(COLOR, "PNG")
    image = Image.open(io.BytesIO(data[:len(data) * 3 // 4]))
    assert image.size == COLOR.size
    with pytest.raises(OSError, match="truncated") as found:
        image.load()
    assert isinstance(found.value.__cause__, imgbroker.ImageError)
    with pytest.raises(OSError, match="truncated"):
        Image.open(io.BytesIO(data[:len(data) * 3 // 4])).verify()
    monkeypatch.setattr(PIL.ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    image.load()
    assert image.getpixel((0, 0)) == COLOR.getpixel((0, 0))


def test_verify(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "image.png"
    COLOR.save(path)
    image = Image.open(path)
    image.verify()
    with pytest.raises(ValueError, match="closed"):
        image.load()
    loaded = Image.open(path)
    loaded.load()
    loaded.verify()
    assert _difference(loaded, COLOR) == 0


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", [1, 6])
def test_metadata(format: str, orientation: int) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    exif[0x010F], exif[0x0131] = "Maker of cameras", "Software"
    exif.get_ifd(0x8769)[0x9286] = b"Comment"
    data = encoded(COLOR, format, exif=exif, icc_profile=PIL.ImageCms.ImageCmsProfile(PIL.ImageCms.createProfile("sRGB")).tobytes())
    ours, theirs = Image.open(io.BytesIO(data)), PIL.Image.open(io.BytesIO(data))
    upright = PIL.ImageOps.exif_transpose(theirs)
    assert upright is not None and ours.size == upright.size
    expected = dict(theirs.getexif())
    assert expected.pop(0x0112) == orientation
    assert dict(ours.getexif()) == expected and ours.getexif().get_ifd(0x8769) == theirs.getexif().get_ifd(0x8769)
    assert (ours._getexif() or {})[0x010F] == "Maker of cameras"
    # So programs that turn the image leave it as it is.
    turned = PIL.ImageOps.exif_transpose(ours)
    assert turned is not None and _difference(turned, upright) < (3 if format != "PNG" else 0.001)
    profile = PIL.ImageCms.ImageCmsProfile(io.BytesIO(ours.info["icc_profile"]))
    assert PIL.ImageCms.getProfileDescription(profile).strip() == "sRGB built-in"
    saved = PIL.Image.open(io.BytesIO(encoded(ours, format, exif=ours.info["exif"])))
    assert saved.getexif()[0x010F] == "Maker of cameras"


def test_damaged_exif() -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 3
    block = exif.tobytes()[6:]
    for end in range(len(block)):
        assert len(Image._without_orientation(block[:end])) >= end
    assert b"\x01\x12" in block and b"\x01\x12" not in Image._without_orientation(block)


def test_draft(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "image.jpg"
    COLOR.resize((1001, 803)).save(path)
    for mode, size in (("RGB", (400, 300)), ("L", (200, 200)), ("L", None), (None, (100, 100)), ("RGB", (5000, 10))):
        ours, theirs = Image.open(path), PIL.Image.open(path)
        assert ours.draft(mode, size) == theirs.draft(mode, size)
        assert (ours.size, ours.mode) == (theirs.size, theirs.mode) and ours.draft(mode, size) is None
        assert _difference(ours, theirs) < 2
        assert ours.draft("RGB", (10, 10)) is None


@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_thumbnail(tmp_path: pathlib.Path, format: str) -> None:
    path = tmp_path / "image"
    COLOR.resize((1001, 403)).save(path, format)
    for size in ((200, 200), (100, 30), (1, 1), (2000, 403), (2000, 2000), (7.9, 50.5)):
        for resample in (Image.Resampling.BICUBIC, Image.Resampling.NEAREST):
            ours, theirs = Image.open(path), PIL.Image.open(path)
            ours.thumbnail(size, resample)
            theirs.thumbnail(size, resample)
            assert _difference(ours, theirs) < 6 if min(theirs.size) > 1 else ours.size == theirs.size
    loaded = Image.open(path)
    loaded.load()
    loaded.thumbnail((50, 50))
    assert loaded.size == (50, 20)


FRAMES = [COLOR, COLOR.rotate(90), PIL.ImageOps.invert(COLOR), COLOR.rotate(180), GRAY.convert("RGB")]


@pytest.mark.parametrize("format, options", [("GIF", {"loop": 3}), ("GIF", {}), ("PNG", {"loop": 2}), ("WEBP", {"lossless": True, "loop": 0})])
def test_animation(format: str, options: Dict[str, Any]) -> None:
    durations = [50, 70, 90, 110, 130]
    frames = [frame.quantize(64).convert("RGB") for frame in FRAMES] if format == "GIF" else FRAMES
    data = encoded(frames[0], format, save_all=True, append_images=frames[1:], duration=durations, **options)
    ours, theirs = Image.open(io.BytesIO(data)), PIL.Image.open(io.BytesIO(data))
    shown = [frame.convert("RGBA") for frame in PIL.ImageSequence.Iterator(theirs)]
    assert (ours.n_frames, ours.is_animated, ours.tell()) == (5, True, 0) and ours.mode == "RGBA"
    assert ours.info.get("loop") == theirs.info.get("loop") and ours.info["duration"] == 50
    for index in (0, 1, 2, 3, 4, 2, 0, 4):
        ours.seek(index)
        assert ours.tell() == index and ours.info["duration"] == durations[index]
        assert _difference(ours, shown[index]) < 0.01
        ours.putpixel((0, 0), (1, 2, 3, 4))
    assert [frame.info["duration"] for frame in PIL.ImageSequence.Iterator(ours)] == durations
    for outside in (5, -1):
        with pytest.raises(EOFError):
            ours.seek(outside)
    assert ours.tell() == 4
    ours.seek(1)
    ours.thumbnail((20, 20))
    assert max(ours.size) == 20
    ours.seek(2)
    assert ours.size == COLOR.size and _difference(ours, shown[2]) < 0.01
    ours.close()
    with pytest.raises(ValueError):
        ours.seek(0)
        ours.load()


def test_animation_is_requested_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(FRAMES[0], "PNG", save_all=True, append_images=FRAMES[1:], duration=50)
    requested = []
    load = imgbroker.Client.get

    def get(self: Any, source: Any, **options: Any) -> imgbroker.Image:
        requested.append(options.get("frames"))
        return load(self, source, **options)

    monkeypatch.setattr(imgbroker.Client, "get", get)
    frames: Any = PIL.ImageSequence.Iterator(Image.open(io.BytesIO(data)))
    assert len([frame.copy() for frame in frames]) == 5
    assert requested == [None, (0, 1), (1, 4)]


def test_still_image_has_one_frame() -> None:
    image = Image.open(io.BytesIO(encoded(COLOR, "PNG")))
    image.seek(0)
    with pytest.raises(EOFError):
        image.seek(1)
    assert image.tell() == 0 and not image.is_animated


def test_copies_and_pickles() -> None:
    data = encoded(TRANSPARENT, "PNG", dpi=(72, 72))
    makes: List[Callable[[Any], Any]] = [copy.copy, copy.deepcopy, lambda image: pickle.loads(pickle.dumps(image))]
    for make in makes:
        image = make(Image.open(io.BytesIO(data)))
        theirs = make(PIL.Image.open(io.BytesIO(data)))
        assert image.format == theirs.format and image.info["dpi"] == (72, 72) and getattr(image, "n_frames", 1) == 1
        assert _difference(image, TRANSPARENT) == 0
        image.putpixel((0, 0), (1, 2, 3, 4))
    image = Image.open(io.BytesIO(data))
    assert type(image.copy()) is PIL.Image.Image and image == Image.open(io.BytesIO(data))


def test_threads() -> None:
    data = encoded(COLOR, "PNG")
    found: List[float] = []

    def load() -> None:
        found.append(_difference(Image.open(io.BytesIO(data)), COLOR))

    threads = [threading.Thread(target=load) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [0] * 16


_FORK = """
import os, sys
from imgbroker import pil as Image
unloaded, loaded = Image.open(sys.argv[1]), Image.open(sys.argv[1])
loaded.load()
child = os.fork()
pixels = [image.tobytes() for image in (unloaded, loaded, Image.open(sys.argv[1]))]
assert len(set(pixels)) == 1
if child == 0:
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""


def test_fork(broker: Broker, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMGBROKER_SOCKET", broker.socket)
    COLOR.save(tmp_path / "image.png")
    assert run_script(tmp_path, _FORK, str(tmp_path / "image.png")) == "0\n"


def test_broker_without_descriptions(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    image = {
        "type": "image", "id": "$id", "width": 1, "height": 1, "stride": 4, "pixelFormat": "rgba8", "alpha": "straight", "bytes": 4,
        "source": "file", "contentType": "image/png", "payload": 4}
    script: List[Dict[str, Any]] = [
        {"read": "hello"}, {"send": {"type": "hello", "id": "$id", "protocol": 1, "server": "old/1", "features": ["files"]}},
        {"read": "get"}, {"send": image, "payload": {"byte": 255, "size": 4}},
    ]
    with imgbroker.Client(scripted(script).path) as client:
        monkeypatch.setattr(imgbroker, "_default", client)
        old = Image.open(io.BytesIO(b"any"))
        assert (old.mode, old.size, old.format, old.getpixel((0, 0))) == ("RGB", (1, 1), "PNG", (255, 255, 255))


def test_requires_pillow() -> None:
    script = "import sys; sys.modules['PIL'] = None; import imgbroker.pil"
    assert run_python("-c", script).stderr.endswith("ImportError: imgbroker.pil requires Pillow: pip install Pillow\n")
