"""Descriptions by the header, metadata and previews, against Pillow."""

from __future__ import annotations

import pathlib
from typing import Any, List

import PIL.Image
import PIL.ImageCms
import pytest

import imgbroker
from support import Origin, encoded

#: Images from elsewhere, which not every checkout has.
GIVEN = pathlib.Path(__file__).resolve().parents[4] / "shared" / "images"
FILES: List[pathlib.Path] = sorted(
    path for path in (GIVEN.glob("*") if GIVEN.is_dir() else ())
    # Those of PngSuite whose names begin with x are invalid.
    if path.suffix in (".png", ".apng", ".jpg", ".jpeg", ".gif", ".webp") and not path.name.startswith("pngsuite-x"))

_QUARTER_TURNS = (5, 6, 7, 8)


def _exif(orientation: int = 1) -> PIL.Image.Exif:
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    exif[0x010F] = "Maker"
    return exif


@pytest.mark.skipif(not FILES, reason="the given images are not here")
@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_given_images(client: imgbroker.Client, path: pathlib.Path) -> None:
    image = client.get(path, delivery="header", metadata=["exif", "xmp", "icc"])
    theirs = PIL.Image.open(path)
    width, height = theirs.size
    exif = theirs.getexif()
    if exif.get(0x0112) in _QUARTER_TURNS:
        width, height = height, width
    found = image.description
    assert found is not None
    assert (image.width, image.height) == (width, height) and image.original_size == (width, height)
    assert image.frame_count == getattr(theirs, "n_frames", 1)
    assert found.format == str(theirs.format).lower() and found.length == path.stat().st_size
    assert found.orientation == exif.get(0x0112, 1)
    assert image.metadata.get("icc") == theirs.info.get("icc_profile")
    assert dict(image.exif) == dict(exif)
    dpi = theirs.info.get("dpi")
    if dpi is not None and theirs.format in ("JPEG", "PNG"):
        assert found.density == (round(dpi[0]), round(dpi[1]))
    if theirs.format == "PNG":
        assert found.bit_depth == path.read_bytes()[24]
    if theirs.format in ("JPEG", "WEBP"):
        assert found.has_alpha == ("A" in theirs.getbands()) and found.bit_depth == 8
    whole = client.get(path)
    assert (whole.width, whole.height, whole.frame_count) == (image.width, image.height, image.frame_count)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_metadata(client: imgbroker.Client, origin: Origin, format: str) -> None:
    profile = PIL.ImageCms.ImageCmsProfile(PIL.ImageCms.createProfile("sRGB")).tobytes()
    file = encoded(PIL.Image.linear_gradient("L").convert("RGB"), format, exif=_exif(6), icc_profile=profile, dpi=(300, 300))
    url = origin.add(f"/metadata.{format}", file)
    image = client.get(url, width=16, metadata=["exif", "icc", "xmp"])
    assert image.exif[0x010F] == "Maker" and image.exif[0x0112] == 6
    assert image.metadata["icc"] == profile and set(image.metadata) == {"exif", "icc"}
    assert image.nbytes == len(bytes(image)) == 16 * 16 * 4 and image.numpy().shape == (16, 16, 4)
    described = client.get(url, delivery="header")
    assert described.description is not None and described.description.profile == "sRGB built-in"
    assert described.metadata == {} and described.metadata_lengths == {"exif": len(image.metadata["exif"]), "icc": len(profile)}
    assert len(bytes(described)) == 0
    plain = client.get(url, width=16)
    assert plain.metadata == {} and len(plain.exif) == 0 and (plain.numpy() == image.numpy()).all()


def test_copies_keep_the_metadata(client: imgbroker.Client, origin: Origin) -> None:
    import pickle

    url = origin.add("/pickled.jpg", encoded(PIL.Image.new("RGB", (20, 10)), "JPEG", exif=_exif()))
    for writable in (False, True):
        image = client.get(url, metadata=["exif"], writable=writable)
        copy = pickle.loads(pickle.dumps(image))
        assert copy.metadata == image.metadata and bytes(copy) == bytes(image) and copy.metadata["exif"]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_preview(client: imgbroker.Client, origin: Origin, orientation: int) -> None:
    scene = PIL.Image.linear_gradient("L").resize((1600, 1200)).convert("RGB")
    scene.paste((200, 30, 30), (0, 0, 800, 600))
    thumbnail = encoded(scene.resize((320, 240)), "JPEG", quality=85)
    exif = _exif(orientation).tobytes()[6:]
    # The directory of the thumbnail follows that of the image.
    assert exif[:2] in (b"MM", b"II")
    order: Any = "big" if exif[:2] == b"MM" else "little"
    first = int.from_bytes(exif[4:8], order)
    link = first + 2 + 12 * int.from_bytes(exif[first:first + 2], order)
    start = len(exif)

    def entry(tag: int, value: int) -> bytes:
        return tag.to_bytes(2, order) + (4).to_bytes(2, order) + (1).to_bytes(4, order) + value.to_bytes(4, order)

    directory = (2).to_bytes(2, order) + entry(0x0201, start + 30) + entry(0x0202, len(thumbnail)) + bytes(4)
    block = exif[:link] + start.to_bytes(4, order) + exif[link + 4:] + directory + thumbnail
    url = origin.add(f"/preview-{orientation}.jpg", encoded(scene, "JPEG", exif=b"Exif\0\0" + block))
    fast = client.get(url, width=120, height=120, embedded="fast")
    assert fast.embedded and fast.original_size == ((1200, 1600) if orientation in _QUARTER_TURNS else (1600, 1200))
    slow = client.get(url, width=120, height=120)
    assert not slow.embedded and (slow.width, slow.height) == (fast.width, fast.height)
    difference = abs(fast.numpy().astype(int) - slow.numpy().astype(int))
    assert difference.mean() < 3 and difference.max() < 90
    # The image itself is in memory now.
    assert not client.get(url, width=120, height=120, embedded="fast").embedded
    assert not client.get(url, width=900, embedded="fast").embedded
