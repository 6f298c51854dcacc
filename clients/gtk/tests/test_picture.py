"""A picture alone: its states, sources, sizes and animations."""

from __future__ import annotations

import contextlib
import pathlib
import threading
import time
from typing import List

import PIL.Image

from conftest import Screen, Viewer, color_of, image
from support import Broker, Origin, Page, encoded, eventually

RED, BLUE = (255, 0, 0), (0, 0, 255)


def animation(folder: pathlib.Path, frames: int, width: int, height: int, delay_ms: int = 40) -> str:
    """Writes an animation whose frames have the colours of their numbers. Returns its path."""
    path = str(folder / "animation.webp")
    pictures = [PIL.Image.new("RGB", (width, height), color_of(number)) for number in range(frames)]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=delay_ms, loop=0, lossless=True)
    return path


def test_states(viewer: Viewer, origin: Origin, gate: threading.Event) -> None:
    """A picture is loading, then ready; a new source removes its image at once; without one it is empty."""
    origin.add("/states.png", image(RED), gate=gate)
    viewer.do(f"viewer.show(uri='{origin.url}/states.png', content_fit='cover')")
    viewer.wait("loading")
    gate.set()
    viewer.wait("ready")
    assert viewer.get("viewer.states") == ["loading", "ready"]
    assert viewer.get("viewer.picture.props.progress") == 1
    assert viewer.get("viewer.picture.props.image_thumb_hash")
    eventually(lambda: viewer.screen.count(RED) == 400 * 600)
    gate.clear()
    origin.add("/other.png", image(BLUE), gate=gate)
    viewer.do(f"viewer.picture.set_uri('{origin.url}/other.png'); result = viewer.picture.props.texture is None")
    eventually(lambda: viewer.screen.count(RED) == 0)
    viewer.wait("loading")
    gate.set()
    eventually(lambda: viewer.screen.count(BLUE) == 400 * 600)
    viewer.do("viewer.picture.set_uri(None)")
    viewer.wait("empty")
    eventually(lambda: viewer.screen.count(BLUE) == 0)


def test_errors_and_retry(viewer: Viewer, origin: Origin) -> None:
    """A failure has a code and a message, and `retry` loads the image although it failed a moment ago."""
    url = origin.add("/retry.png", b"", status=500)
    viewer.do(f"viewer.show(uri='{url}')")
    viewer.wait("failed")
    assert viewer.get("viewer.picture.props.error_code") == "http-status"
    assert "500" in viewer.get("viewer.picture.props.error.message")
    assert viewer.get("viewer.picture.props.error.domain") == "imgbroker-gtk-error"
    assert viewer.get("viewer.picture.has_css_class('failed')")
    origin.add("/retry.png", image(RED))
    viewer.do("viewer.picture.retry()")
    viewer.wait("ready")
    assert viewer.get("(viewer.picture.props.error_code, viewer.picture.dup_error())") == [None, None]
    for source, code in [("/missing.png", "file"), ("data:image/png;base64,AAAA", "unsupported-format")]:
        viewer.do(f"viewer.picture.set_uri('{source}')")
        eventually(lambda: viewer.get("viewer.picture.props.error_code"))
        assert viewer.state() == "failed"
    # A name that is not UTF-8.
    viewer.do("viewer.picture.set_uri('file:///missing-%FF')")
    eventually(lambda: "/missing-\ufffd" in (viewer.get("viewer.picture.props.error_message") or ""))
    assert "/missing-\ufffd" in viewer.get("viewer.picture.props.error.message")
    viewer.do("viewer.picture.props.crop = '1,2,3'; viewer.picture.set_uri('/tmp')")
    eventually(lambda: viewer.get("viewer.picture.props.error_message") == "crop is not X,Y,WIDTH,HEIGHT")


def test_sources_and_variants(viewer: Viewer, tmp_path: pathlib.Path) -> None:
    """Files and bytes are sources like URLs; each replaces the one before. Crops and steps change the image."""
    path = tmp_path / "halves with space.png"
    halves = PIL.Image.new("RGB", (200, 100), RED)
    halves.paste(BLUE, (100, 0, 200, 100))
    halves.save(path)
    viewer.do(f"viewer.show(file=Gio.File.new_for_path('{path}'), content_fit='fill')")
    eventually(lambda: viewer.screen.count(RED) > 110_000 and viewer.screen.count(BLUE) > 110_000)
    viewer.do("viewer.picture.props.crop = '0,0,100,100'")
    eventually(lambda: viewer.screen.count(RED) == 400 * 600)
    viewer.do("viewer.picture.props.crop = '100,0,100,100'")
    eventually(lambda: viewer.screen.count(BLUE) == 400 * 600)
    viewer.do("viewer.picture.props.steps = 'grayscale'")
    eventually(lambda: viewer.screen.count(BLUE) == 0 and viewer.state() == "ready")
    viewer.do(f"viewer.picture.props.crop = viewer.picture.props.steps = None; viewer.picture.set_uri('{path.as_uri()}')")
    eventually(lambda: viewer.screen.count(RED) > 110_000 and viewer.screen.count(BLUE) > 110_000)
    assert viewer.get("viewer.picture.props.file is None")
    data = image(color_of(7))
    viewer.do(f"viewer.picture.set_bytes(GLib.Bytes.new({data!r}))")
    eventually(lambda: viewer.screen.count(color_of(7)) == 400 * 600)
    assert viewer.get("viewer.picture.props.uri is None")


def test_placeholders(viewer: Viewer, origin: Origin, gate: threading.Event) -> None:
    """A ThumbHash, a paintable or an icon is shown until the image, and after a failure the error's."""
    url = origin.add("/late.png", image(RED), gate=gate)
    viewer.do(f"viewer.show(uri='{url}', thumb_hash='1QcSHQRnh493V4dIh4eXh1h4kJUI', content_fit='cover', transition='crossfade')")
    viewer.wait("loading")
    eventually(lambda: len(viewer.screen.picture().crop((0, 0, 400, 600)).getcolors(1 << 20)) > 500)
    gate.set()
    eventually(lambda: viewer.screen.count(RED) == 400 * 600)
    viewer.do("""
texture = Gdk.MemoryTexture.new(30, 20, Gdk.MemoryFormat.R8G8B8, GLib.Bytes.new(bytes([1, 200, 3]) * 600), 90)
viewer.show(uri='/missing.png', error_paintable=texture)
""")
    eventually(lambda: viewer.screen.count((1, 200, 3)) == 600)
    viewer.do("viewer.show(uri='/missing.png', placeholder=texture, flags=ImgbrokerGtk.LoadFlags.DELAY_PLACEHOLDER)")
    eventually(lambda: viewer.screen.count((1, 200, 3)) == 600)


def test_shown_on_demand(viewer: Viewer, origin: Origin) -> None:
    """With `avoid-auto-show`, the program decides when a loaded image is shown."""
    url = origin.add("/demand.png", image(RED))
    viewer.do(f"viewer.show(uri='{url}', content_fit='cover', flags=ImgbrokerGtk.LoadFlags.AVOID_AUTO_SHOW)")
    viewer.wait("ready")
    assert viewer.get("viewer.picture.props.texture is not None") and viewer.screen.count(RED) == 0
    viewer.do("viewer.picture.show_image()")
    eventually(lambda: viewer.screen.count(RED) == 400 * 600)
    # Also in another size.
    viewer.do("viewer.window.set_default_size(500, 600)")
    eventually(lambda: viewer.screen.count(RED) == 500 * 600)


def test_resize(viewer: Viewer, broker: Broker, origin: Origin) -> None:
    """While the window is resized, the present image is shown; when its size has settled, one of more pixels is requested."""
    stripes = PIL.Image.new("RGB", (800, 800))
    stripes.putdata([RED if x % 2 == 0 else BLUE for _ in range(800) for x in range(800)])
    # A busy machine gets further attempts, each with a file of other bytes, which the broker has not decoded yet.
    for attempt in range(5):
        url = origin.add(f"/resize{attempt}.png", encoded(stripes, dpi=(72 + attempt, 72)))
        viewer.do("viewer.window.set_default_size(100, 100); viewer.show()")
        eventually(lambda: viewer.get("viewer.picture.get_width()") == 100)
        viewer.do(f"viewer.show(uri='{url}')")
        viewer.wait("ready")
        requests = broker.stats()["requests"]
        slow = 0
        for side in range(120, 801, 20):
            start = time.monotonic()
            viewer.do(f"viewer.window.set_default_size({side}, {side})")
            eventually(lambda: viewer.get("viewer.picture.get_width()") == side)
            assert viewer.get("viewer.picture.props.texture is not None")
            slow += time.monotonic() - start > 0.075
        # All pixels of the original, sharp.
        eventually(lambda: viewer.screen.count(RED) == 400 * 800)
        assert viewer.get("viewer.last_size") == [800, 800]
        # The size has settled where two steps take 150 ms together, so each slow step explains two requests.
        assert broker.stats()["requests"] - requests <= 12 + 2 * slow
        if slow < 6:
            break
    # The original has no more.
    requests = broker.stats()["requests"]
    textures = viewer.get("viewer.textures")
    viewer.do("viewer.window.set_default_size(1000, 790)")
    eventually(lambda: viewer.get("viewer.picture.get_width()") == 1000)
    viewer.do("viewer.window.set_default_size(300, 300)")
    eventually(lambda: viewer.get("viewer.picture.get_width()") == 300)
    assert viewer.get("viewer.textures") == textures and broker.stats()["requests"] == requests


def test_two_pixels_for_one(screen: Screen, broker: Broker, tmp_path: pathlib.Path) -> None:
    """With a scale factor of 2, pixels of the image are pixels of the screen."""
    stripes = PIL.Image.new("RGB", (800, 600))
    stripes.putdata([RED if x % 2 == 0 else BLUE for _ in range(600) for x in range(800)])
    stripes.save(tmp_path / "stripes.png")
    viewer = Viewer(screen, broker.socket, scale=2)
    viewer.do(f"viewer.window.set_default_size(400, 300); viewer.show(uri='{tmp_path}/stripes.png')")
    eventually(lambda: screen.count(RED) == 400 * 600 and screen.count(BLUE) == 400 * 600)
    viewer.end()


def numbers(screen: Screen, frames: int, seconds: float = 20) -> List[int]:
    """Returns the numbers of the frames that screenshots show, until all have been seen."""
    colors = {color_of(number): number for number in range(frames)}
    seen: List[int] = []

    def are_all_seen() -> bool:
        number = colors.get(screen.picture().getpixel((50, 50)))
        if number is not None and (not seen or seen[-1] != number):
            seen.append(number)
        return len(set(seen)) == frames

    eventually(are_all_seen, seconds)
    return seen


def test_animation(viewer: Viewer, broker: Broker, tmp_path: pathlib.Path) -> None:
    """All frames are shown in order. A hidden animation stops, and its images are released; it plays again when it is shown."""
    path = animation(tmp_path, 5, 100, 100, 150)
    viewer.do(f"viewer.window.set_default_size(100, 100); viewer.show(uri='{path}')")
    seen = numbers(viewer.screen, 5)
    assert all(later != earlier for earlier, later in zip(seen, seen[1:]))
    viewer.do("viewer.picture.props.playing = False")
    textures = viewer.get("viewer.textures")
    viewer.do("viewer.picture.props.playing = True")
    eventually(lambda: viewer.get("viewer.textures") > textures + 3)
    viewer.do("viewer.picture.set_visible(False)")
    textures = viewer.get("viewer.textures")
    eventually(lambda: viewer.get("viewer.picture.props.texture is None"))
    # The frame that was due when it was hidden, and the release.
    assert viewer.get("viewer.textures") <= textures + 2
    eventually(lambda: broker.stats()["leases"] <= 1)
    viewer.do("viewer.picture.set_visible(True)")
    numbers(viewer.screen, 5)


def test_long_animation(viewer: Viewer, broker: Broker, tmp_path: pathlib.Path) -> None:
    """An animation of more than 8 MiB is played in parts, in order, again and again, and also if the broker is killed meanwhile."""
    path = animation(tmp_path, 12, 1000, 700, 60)
    viewer.do(f"viewer.window.set_default_size(1000, 700); viewer.show(uri='{path}')")
    numbers(viewer.screen, 12, 60)
    assert broker.stats()["leasedBytes"] < 20 << 20
    broker.stop("kill")
    broker.start()
    numbers(viewer.screen, 12, 60)


def test_animation_that_begins_without_broker(viewer: Viewer, broker: Broker, tmp_path: pathlib.Path) -> None:
    """An animation of which the first part fails for want of a broker begins when there is one."""
    path = animation(tmp_path, 5, 100, 100, 150)
    viewer.do(f"viewer.window.set_default_size(100, 100); viewer.show(uri='{path}', playing=False)")
    viewer.wait("ready")
    broker.stop()
    # An image that is requested at the same time fails at the same time, and tells of it.
    viewer.do(f"viewer.picture.props.playing = True; other = ImgbrokerGtk.Paintable.new('{path}', 50, 50)")
    eventually(lambda: viewer.get("other.props.error_code") == "no-broker")
    broker.start()
    numbers(viewer.screen, 5)


def test_broker_that_comes_late(screen: Screen, tmp_path: pathlib.Path, origin: Origin) -> None:
    """Without a broker the state is `failed`; the image is loaded when there is one."""
    viewer = Viewer(screen, str(tmp_path / "socket"))
    url = origin.add("/waiting.png", image(RED))
    viewer.do(f"viewer.show(uri='{url}')")
    viewer.wait("failed")
    assert viewer.get("viewer.picture.props.error_code") == "no-broker"
    broker = Broker(tmp_path)
    viewer.wait("ready")
    viewer.end()
    broker.stop()


def test_kept_images(viewer: Viewer, origin: Origin) -> None:
    """An image that was got from memory once is shown again without a request, and without the state `loading`."""
    url = origin.add("/kept.png", image(RED))
    viewer.do(f"viewer.show(uri='{url}', content_fit='cover')")
    viewer.wait("ready")
    for expected in (["empty", "loading", "ready"], ["empty", "ready"]):
        viewer.do("viewer.states.clear(); viewer.picture.set_uri(None)")
        eventually(lambda: viewer.screen.count(RED) == 0)
        viewer.do(f"viewer.picture.set_uri('{url}')")
        eventually(lambda: viewer.screen.count(RED) == 400 * 600)
        assert viewer.get("viewer.states") == expected


def test_refresh(viewer: Viewer, origin: Origin, tmp_path: pathlib.Path, gate: threading.Event) -> None:
    """With `refresh-cached`, the cached image is shown until the origin has answered. A file is read as always."""
    url = origin.add("/refresh.png", image(RED))
    viewer.do(f"viewer.show(uri='{url}', content_fit='cover')")
    viewer.wait("ready")
    origin.add("/refresh.png", image(BLUE), gate=gate)
    viewer.do("viewer.picture.props.flags = ImgbrokerGtk.LoadFlags.REFRESH_CACHED")
    viewer.do("viewer.picture.set_uri(None); viewer.states.clear()")
    viewer.do(f"viewer.picture.set_uri('{url}')")
    eventually(lambda: viewer.screen.count(RED) == 400 * 600)
    assert viewer.state() == "loading"
    gate.set()
    eventually(lambda: viewer.screen.count(BLUE) == 400 * 600 and viewer.state() == "ready")
    (tmp_path / "file.png").write_bytes(image(RED))
    viewer.do(f"viewer.picture.set_uri('{tmp_path}/file.png')")
    eventually(lambda: viewer.screen.count(RED) == 400 * 600 and viewer.state() == "ready")


def test_release_keeps_the_place(viewer: Viewer, origin: Origin, gate: threading.Event) -> None:
    """A released picture keeps its natural size, and shows a blurred image until it is loaded again."""
    gradient = PIL.Image.linear_gradient("L").resize((300, 150)).convert("RGB")
    url = origin.add("/place.png", encoded(gradient), headers={"Cache-Control": "no-store"})
    viewer.do(f"viewer.show(uri='{url}', valign=Gtk.Align.START)")
    viewer.wait("ready")
    measure = "list(viewer.picture.measure(Gtk.Orientation.VERTICAL, 300))[:2]"
    assert viewer.get(measure) == [0, 150]
    origin.pages["/place.png"] = origin.pages["/place.png"]._replace(gate=gate)
    viewer.do("viewer.box.set_visible(False)")
    viewer.wait("empty")
    assert viewer.get(measure) == [0, 150]
    viewer.do("viewer.box.set_visible(True)")
    viewer.wait("loading")
    eventually(lambda: len(viewer.screen.picture().crop((0, 0, 400, 200)).getcolors(1 << 20)) > 50)
    gate.set()
    viewer.wait("ready")


def test_handlers(viewer: Viewer, broker: Broker, origin: Origin, tmp_path: pathlib.Path) -> None:
    """Handlers of notifications may retry, set another source, or remove the picture."""
    path = animation(tmp_path, 5, 100, 100, 20)
    url = origin.add("/handlers.png", image(RED))
    # A slideshow that begins with an animation.
    viewer.do(f"""
viewer.show(content_fit='cover')
def follow(picture, _):
    if picture.props.state == ImgbrokerGtk.State.READY and picture.props.uri == '{path}':
        picture.set_uri('{url}')
viewer.picture.connect('notify::state', follow)
viewer.picture.set_uri('{path}')
""")
    eventually(lambda: viewer.screen.count(RED) == 400 * 600)
    assert viewer.state() == "ready" and viewer.get("viewer.picture.props.progress") == 1
    for signal, source in [("error", "/missing.png"), ("state", path), ("texture", path), ("state", url)]:
        viewer.do(f"""
viewer.show()
viewer.removed = False
def remove(picture, _):
    if picture.get_parent():
        picture.get_parent().remove(picture)
        viewer.removed = True
viewer.picture.connect('notify::{signal}', remove)
viewer.picture.set_uri('{source}')
""")
        eventually(lambda: viewer.get("viewer.removed"))
    viewer.do("""
viewer.show(uri='/missing.png')
viewer.retries = 0
def retry(picture, _):
    viewer.retries += 1
    if viewer.retries < 4:
        picture.retry()
viewer.picture.connect('notify::error', retry)
""")
    eventually(lambda: viewer.get("viewer.retries") >= 4)
    assert viewer.state() == "failed"


def test_without_a_size(viewer: Viewer, origin: Origin) -> None:
    """A picture without a requested size takes that of the original, also in what scrolls; a failed one that of its icon."""
    url = origin.add("/natural.png", image(RED, 200, 120))
    viewer.do(f"""
box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL)
viewer.picture = ImgbrokerGtk.Picture(uri='{url}', halign=Gtk.Align.START, valign=Gtk.Align.START)
box.append(viewer.picture)
viewer.window.set_child(Gtk.ScrolledWindow(child=box))
viewer.window.present()
""")
    eventually(lambda: viewer.screen.count(RED) == 200 * 120)
    viewer.do("viewer.picture.set_uri('/missing.png')")
    eventually(lambda: viewer.get("viewer.picture.get_height()") == 32)


def test_change_out_of_view(
    viewer: Viewer, broker: Broker, origin: Origin, tmp_path: pathlib.Path, gate: threading.Event
) -> None:
    """A change whose request was cancelled out of view is made up for."""
    halves = PIL.Image.new("RGB", (200, 100), RED)
    halves.paste(BLUE, (100, 0, 200, 100))
    url = origin.add("/halves.png", encoded(halves), headers={"Cache-Control": "no-store"})
    viewer.do(f"viewer.show(uri='{url}', crop='0,0,100,100', content_fit='cover')")
    eventually(lambda: viewer.screen.count(RED) == 400 * 600)
    origin.pages["/halves.png"] = origin.pages["/halves.png"]._replace(gate=gate)
    viewer.do("viewer.picture.props.crop = '100,0,100,100'")
    viewer.wait("loading")
    viewer.do("viewer.box.set_visible(False)")
    viewer.do("viewer.box.set_visible(True)")
    gate.set()
    eventually(lambda: viewer.screen.count(BLUE) == 400 * 600)


def test_loops(viewer: Viewer, tmp_path: pathlib.Path) -> None:
    """An animation in parts plays as often as it says, and stops at its last frame; it plays again on demand."""
    path = str(tmp_path / "loops.webp")
    pictures = [PIL.Image.new("RGB", (1500, 1000), color_of(number)) for number in range(3)]
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=30, loop=2, lossless=True)
    viewer.do(f"viewer.show(uri='{path}', content_fit='fill', width_request=1500, height_request=1000)")
    eventually(lambda: viewer.get("viewer.textures") >= 7)
    # The still image, and the frames of two loops.
    assert viewer.get("viewer.textures") == 7
    for _ in range(10):
        # Before the last frame has been shown for its time, this only begins that time again.
        viewer.do("viewer.picture.props.playing = False; viewer.picture.props.playing = True")
        with contextlib.suppress(AssertionError):
            eventually(lambda: viewer.get("viewer.textures") >= 12, seconds=2)
            break
    assert viewer.get("viewer.textures") >= 12


def test_origin_of_an_animation(viewer: Viewer, origin: Origin, tmp_path: pathlib.Path) -> None:
    """The parts of an animation are of one download, also if its response must be confirmed."""
    body = pathlib.Path(animation(tmp_path, 12, 1000, 700, 30)).read_bytes()
    for value in ["no-cache", "no-store"]:
        url = origin.add(f"/animation-{value}.webp", body, headers={"Cache-Control": value})
        viewer.do(f"viewer.window.set_default_size(1000, 700); viewer.show(uri='{url}')")
        if value == "no-cache":
            numbers(viewer.screen, 12, 60)
            textures = viewer.get("viewer.textures")
            eventually(lambda: viewer.get("viewer.textures") > textures + 24)
        else:
            viewer.wait("ready")
        assert origin.requests.count(f"/animation-{value}.webp") <= 2


def test_many_short_lives(viewer: Viewer, broker: Broker, origin: Origin) -> None:
    """Pictures that are removed while they load leave no request and no lease."""
    viewer.do(f"""
for round in range(20):
    box = Gtk.Box()
    for number in range(20):
        box.append(ImgbrokerGtk.Picture(uri='{origin.url}/n/%d' % (round * 20 + number), hexpand=True))
    viewer.window.set_child(box)
    viewer.window.present()
    context = GLib.MainContext.default()
    for _ in range(5):
        context.iteration(False)
viewer.show()
box = None
""")
    eventually(lambda: broker.stats()["queued"] + broker.stats()["running"] == 0)
    eventually(lambda: broker.stats()["leases"] == 0)


def test_paintable(viewer: Viewer, origin: Origin, broker: Broker) -> None:
    """A paintable loads its image in its size, and any widget shows it."""
    url = origin.add("/paintable.png", image(RED, 800, 600))
    viewer.do(f"""
paintable = ImgbrokerGtk.Paintable.new('{url}', 200, 200)
viewer.window.set_child(Gtk.Picture(paintable=paintable))
viewer.window.present()
""")
    eventually(lambda: viewer.get("paintable.props.state.value_nick") == "ready")
    assert viewer.get("(paintable.get_intrinsic_width(), paintable.get_intrinsic_height())") == [200, 150]
    eventually(lambda: viewer.screen.count(RED) > 400 * 299)
    viewer.do("paintable.props.width = 400; paintable.props.height = 0")
    eventually(lambda: viewer.get("paintable.get_intrinsic_width()") == 400)


def test_unwatched_progress(viewer: Viewer, origin: Origin, gate: threading.Event) -> None:
    """`progress` rises while bytes arrive."""
    body = image(RED) + b"\0" * 400_000
    origin.pages["/progress.png"] = Page(body, gate=gate)
    viewer.do(f"""
viewer.show(uri='{origin.url}/progress.png', show_progress=True)
viewer.shares = []
viewer.picture.connect('notify::progress', lambda picture, _: viewer.shares.append(picture.props.progress))
""")
    gate.set()
    viewer.wait("ready")
    shares = viewer.get("viewer.shares")
    assert shares == sorted(shares) and shares[-1] == 1
