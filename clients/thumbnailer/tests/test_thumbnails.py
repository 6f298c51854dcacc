"""Thumbnails: of many files, of odd names, of files that change, and failures."""

from __future__ import annotations

import os
import pathlib
import stat
import struct
import subprocess
import zlib
from typing import Dict, Tuple

import PIL.Image
import PIL.PngImagePlugin
import pytest
from conftest import CONNECTION, IMAGE, IS_THUMBNAIL, SAVE, SIDES, UNSUPPORTED, Bus, check, draw, pause, resume, uri_of
from support import Broker, eventually

TYPES = {
    "png": "image/png", "jpg": "image/jpeg", "webp": "image/webp", "gif": "image/gif", "bmp": "image/bmp", "ppm": "image/x-portable-pixmap",
    "tga": "image/x-tga", "ico": "image/vnd.microsoft.icon", "tif": "image/tiff", "svg": "image/svg+xml", "jp2": "image/jp2",
    "heic": "image/heif", "avif": "image/avif", "jxl": "image/jxl", "qoi": "image/qoi"}

#: Encoders of the formats that Pillow does not write: a PNG file, and the result.
ENCODERS = {"heic": "heif-enc -q 95 {} -o {}", "avif": "heif-enc -A -q 95 {} -o {}", "jxl": "cjxl --quiet {} {}"}


def color_of(number: int) -> Tuple[int, int, int]:
    return (number % 8 * 30 + 20, number // 8 % 8 * 30 + 20, number // 64 * 30 + 20)


def decodes(broker: Broker) -> int:
    """Returns the number of decoded images."""
    return int(broker.stats()["histograms"]["decode"]["count"])


def requests(broker: Broker) -> int:
    return int(sum(user["requests"] for user in broker.stats().get("users", [])))


def png_header(width: int, height: int) -> bytes:
    """Returns the begin of a PNG file of a size, and an end."""
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


def draw_any(path: pathlib.Path, color: Tuple[int, int, int]) -> str:
    """Draws an image of one colour in the format of the file's name. Returns its URI."""
    suffix = path.suffix[1:]
    new = path.with_name("new." + suffix)
    if suffix == "svg":
        new.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="300" height="200"><rect width="300" height="200" '
                       f'fill="rgb{color}"/></svg>')
    elif suffix == "qoi":
        # One pixel, and runs of it of at most 62.
        runs = [62] * (59_999 // 62) + [59_999 % 62]
        new.write_bytes(struct.pack(">4sIIBB", b"qoif", 300, 200, 3, 0) + b"\xfe" + bytes(color) + bytes(191 + run for run in runs) +
                        bytes(7) + b"\1")
    elif suffix in ENCODERS:
        draw(new.with_suffix(".png"), color=color)
        command = ENCODERS[suffix].format(new.with_suffix(".png"), new).split()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    else:
        size = (256, 170) if suffix == "ico" else (300, 200)
        draw(new, *size, color=color, **({"quality": 95} if suffix in ("jpg", "webp") else {}))
    new.rename(path)
    return uri_of(path)


def test_many(bus: Bus, broker: Broker, files: pathlib.Path) -> None:
    """500 files of all formats have valid thumbnails, each made once; of those that change meanwhile, another one is."""
    paths, types = {}, []
    for number in range(500):
        suffix = list(TYPES)[number % len(TYPES)]
        path = files / f"{number}.{suffix}"
        paths[draw_any(path, color_of(number))] = path
        types.append(TYPES[suffix])

    def make() -> None:
        found = bus.client.make(*paths, types=types)
        assert {signal.name for signal in found.values()} == {"Ready"} and found.keys() == paths.keys()

    def check_all(colors: Dict[int, int]) -> None:
        for number, (uri, path) in enumerate(paths.items()):
            image = check(bus, uri, path, mime_type=types[number])
            assert image.width == 128 and 84 <= image.height <= 86
            pixel = image.convert("RGB").getpixel((64, 40))
            assert max(abs(a - b) for a, b in zip(pixel, color_of(colors.get(number, number)))) < 12, path
        assert len(list(bus.cache.glob("*/*"))) == 500
        subprocess.run(["pngcheck", "-q", *bus.cache.glob("normal/*.png")], check=True)

    make()
    check_all({})
    made = decodes(broker), requests(broker)
    assert made == (500, 500)
    before = {path: path.stat().st_mtime_ns for path in bus.cache.glob("normal/*")}
    make()
    assert {path: path.stat().st_mtime_ns for path in bus.cache.glob("normal/*")} == before
    assert (decodes(broker), requests(broker)) == made
    # A changed file is met before or after its change, and in the latter case again when it is requested next.
    changed = {number: 499 - number for number in range(0, 500, 10)}
    handle = bus.client.queue(list(paths), types=types)
    bus.client.wait(lambda: bus.client.of(handle, "Ready"))
    for number, color in changed.items():
        draw_any(list(paths.values())[number], color_of(color))
    bus.client.finish(handle)
    make()
    check_all(changed)
    assert (decodes(broker), requests(broker)) == (550, 550)


def test_flavors(bus: Bus, files: pathlib.Path) -> None:
    """Each flavor has its folder and size, and no image is enlarged."""
    path = files / "large.png"
    uri, small = draw(path, 1500, 3000), draw(files / "small.png", 40, 30)
    for flavor, side in SIDES.items():
        assert bus.client.make(uri, small, flavor=flavor)[uri].name == "Ready"
        image = check(bus, uri, path, flavor)
        assert image.size == (side // 2, side)
        assert image.text["Thumb::Image::Width"] == "1500" and image.text["Thumb::Image::Height"] == "3000"
        assert check(bus, small, files / "small.png", flavor).size == (40, 30)


def test_pixels(bus: Bus, files: pathlib.Path) -> None:
    """Transparency stays, and the orientation is applied."""
    uri = draw(files / "clear.png", 300, 300)
    PIL.Image.new("RGBA", (300, 300), (0, 200, 0, 100)).save(files / "clear.png")
    turned = files / "turned.jpg"
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    PIL.Image.new("RGB", (300, 150), (0, 0, 200)).save(turned, exif=exif)
    bus.client.make(uri, uri_of(turned))
    assert check(bus, uri, files / "clear.png").getpixel((60, 60)) == (0, 200, 0, 100)
    assert check(bus, uri_of(turned), turned).size == (64, 128)


@pytest.mark.parametrize("name", ["ä ö.png", "100%41%2F.png", "a#b?c&d.png", "emoji 🖼.png", "\udcff\udcfe.png", "new\nline.png"])
def test_names(bus: Bus, files: pathlib.Path, name: str) -> None:
    """Every file name has a URI, in the spelling of the caller."""
    uri = draw(files / name)
    assert bus.client.make(uri)[uri].name == "Ready"
    check(bus, uri, files / name)


def test_spellings(bus: Bus, files: pathlib.Path) -> None:
    """Another spelling of a URI is another thumbnail; a host is accepted if it is this one."""
    uri = draw(files / "a.png")
    other = uri.replace("a.png", "%61.png")
    local = uri.replace("file:///", "file://localhost/")
    assert {signal.name for signal in bus.client.make(uri, other, local).values()} == {"Ready"}
    for spelling in (uri, other, local):
        check(bus, spelling, files / "a.png")


def test_once(bus: Bus, broker: Broker, files: pathlib.Path) -> None:
    """A thumbnail that several handles and clients request at once is made once."""
    uri, other = draw(files / "a.png"), bus.connect()
    pause(broker)
    handles = [bus.client.queue([uri]), bus.client.queue([uri], scheduler="background"), other.queue([uri])]
    bus.client.wait(lambda: bus.client.of(handles[1], "Started") and other.of(handles[2], "Started"))
    resume(broker)
    for handle in handles[:2]:
        assert bus.client.finish(handle)[uri].name == "Ready"
    assert other.finish(handles[2])[uri].name == "Ready"
    assert requests(broker) == 1
    # A signal goes to the client that has the handle.
    assert not bus.client.of(handles[2], "Ready") and not other.of(handles[0], "Ready")


def test_foreign_thumbnails(bus: Bus, broker: Broker, files: pathlib.Path) -> None:
    """A valid thumbnail of another program stays; a damaged or an older one, or one of another file, is replaced."""
    path = files / "a.png"
    uri = draw(path)
    thumbnail = bus.thumbnail(uri)
    bus.make_folder("normal")
    seconds = str(path.stat().st_mtime_ns // 1_000_000_000)
    good = {"Thumb::URI": uri, "Thumb::MTime": seconds}
    cases: Tuple[Tuple[Dict[str, str], bool], ...] = (
        (good, True), ({**good, "Thumb::MTime": seconds + ".250000"}, True), ({**good, "Thumb::MTime": "17"}, False),
        ({**good, "Thumb::URI": uri + "x"}, False), ({**good, "Thumb::Size": "3"}, False), ({"Thumb::URI": uri}, False), ({}, False))
    for texts, is_valid in cases:
        information = PIL.PngImagePlugin.PngInfo()
        for keyword, text in texts.items():
            information.add_text(keyword, text)
        PIL.Image.new("RGB", (128, 85), (1, 2, 3)).save(thumbnail, pnginfo=information)
        assert bus.client.make(uri)[uri].name == "Ready"
        with PIL.Image.open(thumbnail) as image:
            assert (image.convert("RGB").getpixel((0, 0)) == (1, 2, 3)) == is_valid, texts
    content = thumbnail.read_bytes()
    for damage in (content[:-1], content[:-30], content[:40], b"", content[:20] + b"\xff" * 30 + content[50:], b"x" * 100_000):
        thumbnail.write_bytes(damage)
        assert bus.client.make(uri)[uri].name == "Ready"
        assert thumbnail.read_bytes() == content
    check(bus, uri, path)


def test_changed(bus: Bus, files: pathlib.Path) -> None:
    """A changed file gets another thumbnail, also within the same second and with the same size."""
    path = files / "a.ppm"
    for number in range(5):
        uri = draw(path, color=color_of(number))
        os.utime(path, ns=(0, 1_700_000_000_000_000_000 + number))
        assert bus.client.make(uri)[uri].name == "Ready"
        assert check(bus, uri, path).getpixel((9, 9)) == color_of(number)


@pytest.mark.parametrize("way", ["rename", "write", "remove"])
def test_changed_meanwhile(bus: Bus, broker: Broker, files: pathlib.Path, way: str) -> None:
    """A thumbnail of a file that changes while the broker has it is that of the new file."""
    path = files / "a.ppm"
    uri = draw(path, color=(200, 0, 0))
    bus.client.make(draw(files / "b.ppm"))
    process = bus.service_process()
    pause(broker)
    handle = bus.client.queue([uri])
    eventually(lambda: any(
        os.path.realpath(link) == str(path) for link in pathlib.Path(f"/proc/{process}/fd").iterdir() if link.is_symlink()))
    if way == "rename":
        draw(files / "new.ppm", color=(0, 200, 0))
        (files / "new.ppm").rename(path)
    elif way == "write":
        draw(path, color=(0, 200, 0))
    else:
        path.unlink()
    resume(broker)
    signal = bus.client.finish(handle)[uri]
    if way == "remove":
        assert (signal.name, signal.code) == ("Error", IMAGE) and not bus.thumbnail(uri).exists()
    else:
        assert signal.name == "Ready"
        assert check(bus, uri, path).getpixel((9, 9)) == (0, 200, 0)
    assert not bus.failures()


def test_failures(bus: Bus, broker: Broker, files: pathlib.Path) -> None:
    """A failure of an image is remembered until its file changes."""
    contents = {
        "text.png": b"no image", "cut.png": png_header(30, 30), "bomb.png": png_header(60_000, 60_000), "empty.jpg": b"",
        "damaged.webp": b"RIFF\x20\0\0\0WEBPVP8 " + b"\xff" * 24}
    uris = {}
    for name, content in contents.items():
        (files / name).write_bytes(content)
        uris[name] = uri_of(files / name)
    found = bus.client.make(*uris.values())
    reasons = {name: found[uri].message.partition(":")[0] for name, uri in uris.items()}
    assert {(signal.name, signal.code) for signal in found.values()} == {("Error", IMAGE)}
    assert reasons["text.png"] == "unsupported-format" and reasons["bomb.png"] == "too-many-pixels" and reasons["empty.jpg"] == "empty-image"
    assert len(bus.failures()) == len(uris) and not list(bus.cache.glob("normal/*"))
    for path in bus.failures():
        assert path.stat().st_mode == 0o100600 and path.parent.stat().st_mode == 0o40700
        with PIL.Image.open(path) as image:
            image.load()
            assert image.size == (1, 1) and image.text["Thumb::URI"] in found and image.text["Thumb::MTime"].isdigit()
    before = requests(broker)
    for flavor in ("normal", "large"):
        for uri, signal in bus.client.make(*uris.values(), flavor=flavor).items():
            assert (signal.name, signal.code) == ("Error", IMAGE)
            assert signal.message == found[uri].message.partition(":")[0] + ", and the file has not changed since"
    assert requests(broker) == before
    good = draw(files / "text.png")
    assert bus.client.make(good)[good].name == "Ready"


def test_other_failures(bus: Bus, broker: Broker, files: pathlib.Path) -> None:
    """What is no image file is an error at once, is not sent to the broker, and is not remembered."""
    os.mkfifo(files / "pipe.png")
    os.mknod(files / "socket.png", stat.S_IFSOCK | 0o600)
    (files / "folder.png").mkdir()
    secret = draw(files / "secret.png")
    (files / "secret.png").chmod(0)
    good = draw(files / "good.png")
    (files / "device.png").symlink_to("/dev/zero")
    (files / "loop.png").symlink_to("loop.png")
    folder = uri_of(files)
    cases = {
        uri_of(files / "pipe.png"): IMAGE, uri_of(files / "socket.png"): IMAGE, uri_of(files / "folder.png"): IMAGE, secret: IMAGE, folder + "/missing.png": IMAGE,
        uri_of(files / "device.png"): IMAGE, uri_of(files / "loop.png"): IMAGE, "https://example.org/a.png": UNSUPPORTED,
        "trash:///a.png": UNSUPPORTED, good.replace("file:///", "file://elsewhere/"): UNSUPPORTED, good + "%00": UNSUPPORTED,
        folder + "%2Fgood.png": UNSUPPORTED, folder + "/ä.png": UNSUPPORTED, folder + "/a b.png": UNSUPPORTED, "": UNSUPPORTED,
        "file:": UNSUPPORTED, str(files / "good.png"): UNSUPPORTED, "file:///" + "a" * 20_000: UNSUPPORTED, "file:///" + "a" * 5_000: IMAGE}
    found = bus.client.make(*cases)
    assert {uri: signal.code for uri, signal in found.items()} == cases
    assert {signal.name for signal in found.values()} == {"Error"}
    film = bus.client.make(good, types=["video/mp4"])[good]
    assert (film.name, film.code) == ("Error", UNSUPPORTED)
    assert requests(broker) == 0 and not bus.failures()


def test_thumbnails_of_thumbnails(bus: Bus, files: pathlib.Path) -> None:
    """Files below the folder of thumbnails have none, by any path."""
    uri = draw(files / "a.png")
    bus.client.make(uri)
    (files / "link.png").symlink_to(bus.thumbnail(uri))
    (files / "folder").symlink_to(bus.cache)
    below = [uri_of(bus.thumbnail(uri)), uri_of(files / "link.png"),
             uri_of(files / "folder" / "normal" / bus.thumbnail(uri).name)]
    assert {signal.code for signal in bus.client.make(*below).values()} == {IS_THUMBNAIL}
    assert len(list(bus.cache.glob("*/*"))) == 1


def test_unwritable_folder(bus: Bus, files: pathlib.Path) -> None:
    """A thumbnail that cannot be written is an error, which is not remembered."""
    uri = draw(files / "a.png")
    folder = bus.make_folder("normal")
    folder.chmod(0o500)
    assert bus.client.make(uri)[uri].code == SAVE
    folder.chmod(0o700)
    assert not list(folder.iterdir()) and not bus.failures()
    bus.thumbnail(uri).mkdir()
    assert bus.client.make(uri)[uri].code == SAVE
    assert [path.name for path in folder.iterdir()] == [bus.thumbnail(uri).name]
    bus.thumbnail(uri).rmdir()
    folder.rmdir()
    folder.write_text("")
    assert bus.client.make(uri)[uri].code == SAVE


def test_links(bus: Bus, files: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A link in place of a thumbnail is replaced, and not followed; a folder may be a link, unless others may write to it."""
    uri, victim = draw(files / "a.png"), tmp_path / "victim"
    victim.write_text("untouched")
    thumbnail = bus.thumbnail(uri)
    bus.make_folder("normal")
    thumbnail.symlink_to(victim)
    assert bus.client.make(uri)[uri].name == "Ready"
    check(bus, uri, files / "a.png")
    # Neither is a valid thumbnail behind a link used.
    elsewhere = tmp_path / "elsewhere.png"
    thumbnail.rename(elsewhere)
    thumbnail.symlink_to(elsewhere)
    assert bus.client.make(uri)[uri].name == "Ready" and not thumbnail.is_symlink()
    assert victim.read_text() == "untouched"
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    (bus.cache / "large").symlink_to(other)
    assert bus.client.make(uri, flavor="large")[uri].name == "Ready" and (other / thumbnail.name).exists()
    (other / thumbnail.name).unlink()
    other.chmod(0o777)
    assert bus.client.make(uri, flavor="large")[uri].code == SAVE and not list(other.iterdir())


def test_killed_broker(bus: Bus, broker: Broker, files: pathlib.Path) -> None:
    """Without a broker, all requests end with errors, which are not remembered; with the next one, thumbnails are made."""
    uris = [draw(files / f"{number}.png") for number in range(100)]
    pause(broker)
    handle = bus.client.queue(uris)
    bus.client.wait(lambda: bus.client.of(handle, "Started"))
    broker.stop("kill")
    found = bus.client.finish(handle)
    assert {(signal.name, signal.code) for signal in found.values()} == {("Error", CONNECTION)} and len(found) == 100
    assert {signal.message.partition(":")[0] for signal in found.values()} <= {"no-broker", "connection-lost"}
    assert not bus.failures()
    broker.start()
    assert {signal.name for signal in bus.client.make(*uris).values()} == {"Ready"}


def test_restarted_broker(bus: Bus, broker: Broker, files: pathlib.Path) -> None:
    """A broker that restarts in between costs no thumbnail."""
    uris = [draw(files / f"{number}.png") for number in range(60)]
    handle = bus.client.queue(uris)
    bus.client.wait(lambda: bus.client.of(handle, "Ready"))
    broker.stop("kill")
    broker.start()
    assert {signal.name for signal in bus.client.finish(handle).values()} == {"Ready"}
