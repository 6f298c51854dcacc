"""Runs QML programs with the module in a virtual display, with the software renderer, and checks screenshots of them."""

from __future__ import annotations

import base64
import json
import pathlib
import socket
import threading
import time
from typing import Any, Callable, Iterator, List, Tuple

import PIL.Image
import pytest

from conftest import Color, Program, Screen
from support import Broker, Origin, Page, encoded, eventually

NULL, READY, LOADING, ERROR = range(4)
RED, GREEN, BLUE, GREY = (255, 0, 0), (0, 128, 0), (0, 0, 255), (128, 128, 128)
FEED = pathlib.Path(__file__).resolve().parents[1] / "examples" / "feed.qml"
IMAGE = 'BrokerImage {{ id: image; width: 200; height: 150; {} }}'


def plain(color: Color, width: int = 64, height: int = 48, **options: Any) -> bytes:
    """Returns a file of one colour."""
    return encoded(PIL.Image.new("RGB", (width, height), color), **options)


def shows(program: Program, color: Color, width: int, height: int) -> Callable[[], bool]:
    """Returns a condition: the screen shows as many pixels of a colour as a rectangle has."""
    return lambda: program.counts().get(color, 0) == width * height


def is_ready(program: Program, name: str = "image") -> Callable[[], bool]:
    """Returns a condition: an image has been loaded."""
    return lambda: bool(program.eval(f"{name}.status") == READY)


def requests(broker: Broker) -> int:
    """Returns the number of requests that the broker has received."""
    return int(broker.stats()["requests"])


# A long list

#: The number of rows.
ROWS = 5000
#: Marks the colours of rows and pictures, of which no other part of the window has one.
MARK = 0xA5


def number_color(number: int) -> Color:
    return (number >> 8, number & 255, MARK)


def is_broken(number: int) -> bool:
    return number % 11 == 5


class Slow:
    """A gate that opens by itself after 0.2 s."""

    def wait(self, _: float) -> None:
        time.sleep(0.2)


class Numbers(dict):
    """Pages with the images of all numbers, some of them slow, damaged or missing."""

    def get(self, path: str, default: Any = None) -> Any:
        if not path.startswith("/number/"):
            return super().get(path, default)
        number = int(path.rsplit("/", 1)[1])
        if is_broken(number):
            return Page(b"", 404) if number % 2 == 0 else Page(b"no image")
        gate: Any = Slow() if number % 17 == 3 else None
        return Page(plain(number_color(number)), headers={"Cache-Control": "max-age=3600"}, gate=gate)


LIST = """
    property alias list: list
    ListView {{
        id: list; anchors.fill: parent; model: {rows}; reuseItems: true
        delegate: Rectangle {{
            required property int index
            readonly property BrokerImage image: picture
            width: list.width; height: 50
            Rectangle {{
                width: 50; height: 50
                color: Qt.rgba((index >> 8) / 255, (index & 255) / 255, 165 / 255, 1)
            }}
            BrokerImage {{
                id: picture; x: 60; width: 64; height: 48
                source: "{url}/" + index; fillMode: BrokerImage.PreserveAspectCrop
            }}
        }}
    }}
    NumberAnimation {{ id: scroll; target: list; property: "contentY" }}
"""


def check_rows(picture: PIL.Image.Image) -> Tuple[int, int, int]:
    """Checks a screenshot of the list: each picture has the number of its row. Returns the number of pictures, of rows without one, and of
    rows that are broken."""
    shown = missing = broken = 0
    top = 0
    while top < picture.height:
        row = picture.getpixel((25, top))
        end = top
        while end < picture.height and picture.getpixel((25, end)) == row:
            end += 1
        assert row[2] == MARK, f"the row at {top} has no number: {row}"
        # The picture has 48 of the 50 pixels of its row.
        found = {color for _, color in picture.crop((61, top, 123, end)).getcolors(1 << 12)} - {(255, 255, 255)}
        assert found <= {row}, f"the row at {top} has {found}, not {row}"
        number = row[0] << 8 | row[1]
        shown += bool(found)
        broken += is_broken(number)
        missing += not found and not is_broken(number) and end - top > 2
        top = end
    return shown, missing, broken


@pytest.fixture
def numbers() -> Iterator[Origin]:
    origin = Origin()
    origin.pages = Numbers()
    yield origin
    origin.close()


def test_list(screen: Screen, tmp_path: pathlib.Path, numbers: Origin) -> None:
    """A list that scrolls at speed shows no wrong picture, also while the broker is killed."""
    broker = Broker(tmp_path)
    try:
        program = screen.show(broker, LIST.format(rows=ROWS, url=numbers.url + "/number"))

        eventually(lambda: program.picture().getpixel((25, 0))[2] == MARK)

        def is_complete() -> bool:
            shown, missing, broken = check_rows(program.picture())
            return shown > 8 and missing == 0

        eventually(is_complete)
        assert program.status("RssShmem") < 80 << 10
        memory = program.status("RssAnon")
        scrolls = [(0, 2000, 1500), (2000, 200_000, 2500), (200_000, 196_000, 2500), (196_000, 245_000, 1500)]
        seen = pictures = rounds = first = 0
        # A busy machine takes fewer screenshots of each round.
        while rounds < 4 and (seen <= 20 or pictures <= 50):
            rounds += 1
            for step, (start, end, duration) in enumerate(scrolls):
                program.eval(f"scroll.from = {start}, scroll.to = {end}, scroll.duration = {duration}, scroll.start()")
                while program.eval("scroll.running"):
                    pictures += check_rows(program.picture())[0]
                    seen += 1
                    if step == 2 and broker.process is not None and pictures > 0 and seen % 5 == 0:
                        broker.stop("kill")
                    elif broker.process is None and seen % 5 == 4:
                        broker.start()
            # Later rounds show many of the same rows again.
            first = first or len(numbers.requests)
        assert seen > 20 and pictures > 50, (seen, pictures)
        if broker.process is None:
            broker.start()
        # The rows in view are loaded at once, because the requests of those that were not in view any more have been cancelled.
        eventually(is_complete)
        assert program.eval("list.itemAtIndex(4903).image.status") == (ERROR if is_broken(4903) else READY)
        assert first < ROWS / 2
        eventually(lambda: (broker.stats()["queued"], broker.stats()["running"]) == (0, 0))
        # Images that are kept take 64 MiB at most, and none is copied.
        assert program.status("RssShmem") < 80 << 10
        assert program.status("RssAnon") < memory + (24 << 10)
    finally:
        broker.stop()


def test_cancelled(screen: Screen, broker: Broker, origin: Origin, gate: threading.Event) -> None:
    """A row that leaves the view cancels its request, also if no other row takes its place."""
    for number in range(60):
        origin.pages[f"/gated/{number}"] = Page(plain(number_color(number)), gate=gate)
    before = broker.stats()
    program = screen.show(broker, LIST.format(rows=60, url=origin.url + "/gated"))
    eventually(lambda: requests(broker) >= before["requests"] + 12)
    # Five rows remain; the others enter the pool.
    program.eval("list.anchors.fill = undefined, list.cacheBuffer = 0, list.width = 800, list.height = 250")
    eventually(lambda: broker.stats()["queued"] + broker.stats()["running"] in range(1, 7))
    assert broker.stats()["cancelled"] > before["cancelled"]
    gate.set()
    eventually(lambda: check_rows(program.picture().crop((0, 0, 800, 250)))[0] == 5)


def test_new_source(screen: Screen, broker: Broker, origin: Origin, gate: threading.Event) -> None:
    """A new source clears the picture at once, also before its own is loaded."""
    origin.add("/first", plain(RED))
    origin.pages["/second"] = Page(plain(BLUE), gate=gate)
    program = screen.show(broker, IMAGE.format(f'source: "{origin.url}/first"') + "property int frames; onFrameSwapped: frames++")
    eventually(shows(program, RED, 200, 150))
    frames = program.eval(f'(image.source = "{origin.url}/second", frames)')
    eventually(lambda: program.eval("frames") > frames)
    assert RED not in program.counts()
    assert program.eval("[image.status, image.sourceWidth, image.frameCount, image.progress]") == [LOADING, 0, 0, 0]
    gate.set()
    eventually(shows(program, BLUE, 200, 150))
    program.eval('image.source = ""')
    assert program.eval("image.status") == NULL
    eventually(lambda: BLUE not in program.counts())


def test_kept(screen: Screen, broker: Broker, origin: Origin) -> None:
    """An image that was requested twice is there with the first frame, without a request."""
    url = origin.add("/kept", plain(RED))
    program = screen.show(broker, IMAGE.format(f'source: "{url}"') + """
        Loader { id: loader; x: 300; active: false; sourceComponent: BrokerImage { width: 200; height: 150; source: image.source } }
        property var statuses: []
        onAfterAnimating: if (loader.item) statuses.push(loader.item.status)""")
    eventually(shows(program, RED, 200, 150))
    # An image from the network is not kept, one from the broker's memory is.
    program.eval(f'(image.source = "", image.source = "{url}")')
    eventually(is_ready(program))
    before = requests(broker)
    program.eval("loader.active = true")
    eventually(shows(program, RED, 400, 150))
    assert requests(broker) == before
    # afterAnimating comes before the frame in which the item requests its image.
    eventually(lambda: READY in program.eval("statuses.slice(0, 2)"))


# Errors

def test_error(screen: Screen, broker: Broker, origin: Origin, tmp_path: pathlib.Path) -> None:
    (tmp_path / "error.png").write_bytes(plain(GREY))
    origin.pages["/missing"] = Page(b"", 404)
    program = screen.show(broker, IMAGE.format(f'source: "{origin.url}/missing"; errorSource: "error.png"'))
    eventually(shows(program, GREY, 200, 150))
    assert program.eval("[image.status, image.errorCode]") == [ERROR, "http-status"]
    assert "404" in program.eval("image.errorString")
    assert program.eval("(image.retry(), [image.status, image.errorCode])") == [LOADING, ""]
    eventually(lambda: program.eval("image.status") == ERROR)
    # Although it has failed recently.
    origin.add("/missing", plain(RED))
    program.eval("image.retry()")
    eventually(shows(program, RED, 200, 150))
    assert program.eval("[image.status, image.errorCode, image.errorString, image.progress]") == [READY, "", "", 1]

    for source, code in [("ftp://a/b", "unsupported-scheme"), ("/nowhere.png", "file"), ("qrc:/nowhere.png", "file"), ("data:image/png;base64,!", "invalid-argument")]:
        program.eval(f'image.source = "{source}"')
        eventually(lambda: program.eval("[image.status, image.errorCode]") == [ERROR, code])
    program.eval(f'(image.steps = "nonsense", image.source = "{origin.url}/missing")')
    eventually(lambda: program.eval("image.errorCode") == "bad-request")


def test_no_broker(screen: Screen, tmp_path: pathlib.Path, origin: Origin) -> None:
    """Images come by themselves when the broker starts."""
    url = origin.add("/late", plain(RED))
    broker = Broker(tmp_path)
    broker.stop()
    try:
        program = screen.show(broker, IMAGE.format(f'source: "{url}"'))
        eventually(lambda: program.eval("[image.status, image.errorCode]") == [ERROR, "no-broker"])
        broker.start()
        eventually(shows(program, RED, 200, 150))
        assert program.eval("[image.status, image.errorCode]") == [READY, ""]
    finally:
        broker.stop()


# Sizes

def test_resize(screen: Screen, broker: Broker, origin: Origin) -> None:
    """Only an item that has become larger than its image requests another one, when its size has settled."""
    url = origin.add("/resize", plain(RED, 800, 600))
    clock = origin.add("/clock", plain(BLUE, 800, 600))
    # Counts the pauses of the animation after which the size may have settled.
    pauses = """
        property real resized; property int pauses
        onWidthChanged: { if (resized > 0 && Date.now() - resized > 100) pauses++; resized = Date.now() }"""
    program = screen.show(broker, IMAGE.format(f'source: "{url}"; fillMode: BrokerImage.PreserveAspectFit' + pauses) + f"""
        BrokerImage {{
            id: clock; y: 550; width: 50; height: 50; fillMode: Image.PreserveAspectFit; source: "{clock}"
            property int images; onImageChanged: images++
        }}
        NumberAnimation {{ id: grow; target: image; properties: "width,height"; duration: 600 }}""")
    eventually(shows(program, RED, 200, 150))
    eventually(is_ready(program, "clock"))
    before = requests(broker)
    program.eval("image.resized = image.pauses = 0, grow.to = 500, grow.start()")
    while program.eval("grow.running"):
        assert program.eval("image.status") == READY
        assert program.counts().get(RED, 0) >= 150 * 112
    eventually(shows(program, RED, 500, 375))
    # The request of an item that is resized afterwards comes after the last one of the image.
    images = program.eval("(clock.width = clock.height = 55, clock.images)")
    eventually(lambda: program.eval("clock.images") > images)
    assert before + 2 <= requests(broker) <= before + 2 + program.eval("image.pauses")
    before = requests(broker)
    # Less, or more in a direction without effect, needs no request.
    for side, size in enumerate(["width = 100", "height = 100", "width = 600", "height = 550"], 60):
        program.eval(f"(image.{size}, clock.width = clock.height = {side})")
        before += 1 if size != "height = 550" else 2
        eventually(lambda: requests(broker) >= before)
        eventually(is_ready(program, "clock"))
        assert requests(broker) == before, size
    # An original of 64 × 48 pixels has no more.
    small = origin.add("/small", plain(GREEN))
    program.eval(f'(image.source = "{small}", image.width = 64, image.height = 48)')
    eventually(shows(program, GREEN, 64, 48))
    program.eval("(image.width = 400, image.height = 300, clock.width = clock.height = 70)")
    eventually(lambda: requests(broker) >= before + 2)
    eventually(shows(program, GREEN, 400, 300))
    assert requests(broker) == before + 2


def test_implicit_size(screen: Screen, broker: Broker, origin: Origin) -> None:
    url = origin.add("/implicit", plain(RED, 300, 200))
    program = screen.show(broker, f"""
        BrokerImage {{ id: image; source: "{url}" }}
        BrokerImage {{ id: narrow; y: 250; width: 150; fillMode: BrokerImage.PreserveAspectFit; source: "{url}" }}
        BrokerImage {{ id: part; y: 400; source: "{url}"; crop: Qt.rect(10, 20, 30, 40) }}
        BrokerImage {{ id: small; x: 400; source: "{url}"; sourceSize: Qt.size(60, 0) }}""")
    for name in ["image", "narrow", "part", "small"]:
        eventually(is_ready(program, name))
    sizes = "[image, narrow, part, small].map(item => [item.width, item.height, item.paintedWidth, item.paintedHeight])"
    assert program.eval(sizes) == [[300, 200] * 2, [150, 100] * 2, [30, 40] * 2, [60, 40] * 2]
    assert program.eval("[image.sourceWidth, image.sourceHeight, image.frameCount]") == [300, 200, 1]
    eventually(shows(program, RED, 1, 300 * 200 + 150 * 100 + 30 * 40 + 60 * 40))


def test_fill_modes(screen: Screen, broker: Broker, tmp_path: pathlib.Path) -> None:
    """The item draws what Image draws."""
    picture = PIL.Image.new("RGB", (80, 40), RED)
    picture.paste(GREEN, (40, 0, 80, 40))
    picture.paste(BLUE, (20, 0, 60, 40))
    picture.save(tmp_path / "picture.png")
    both = "width: {w}; height: {h}; fillMode: {type}.{mode}; source: 'file://{file}'; x: {x}; y: {y}"
    content = ""
    for row, mode in enumerate(["Stretch", "PreserveAspectFit", "PreserveAspectCrop", "Pad"]):
        for column, (width, height) in enumerate([(90, 90), (40, 60), (100, 30)]):
            for type, x in [("BrokerImage", 0), ("Image", 400)]:
                values = dict(type=type, mode=mode, w=width, h=height, file=tmp_path / "picture.png",
                              x=x + column * 110 + 5, y=row * 110 + 5)
                extra = "smooth: false;" if type == "Image" else ""
                content += type + " {" + extra + both.format(**values) + "}\n"
    program = screen.show(broker, content)

    def is_same() -> bool:
        left, right = program.picture().crop((0, 0, 400, 440)), program.picture().crop((400, 0, 800, 440))
        size = left.width * left.height
        different = sum(a != b for a, b in zip(left.getdata(), right.getdata()))
        # Scaling blends colours next to an edge.
        return len(set(left.getdata())) > 4 and different < size * 0.02

    eventually(is_same)


def test_two_pixels_for_one(screen: Screen, broker: Broker, tmp_path: pathlib.Path) -> None:
    """With a scale factor of 2, the pixels of an image are pixels of the screen, also where it is smaller than its item."""
    stripes = PIL.Image.new("RGB", (201, 300))
    stripes.putdata([RED if x % 2 else BLUE for _ in range(300) for x in range(201)])
    stripes.save(tmp_path / "stripes.png")
    mode = 'fillMode: BrokerImage.PreserveAspectFit; source: "stripes.png"'
    program = screen.show(broker, IMAGE.format(mode), QT_SCALE_FACTOR="2")
    eventually(lambda: (program.counts().get(RED), program.counts().get(BLUE)) == (100 * 300, 101 * 300))
    assert program.eval("[image.paintedWidth, image.paintedHeight]") == [100.5, 150]


# Visibility

def test_hidden(screen: Screen, broker: Broker, origin: Origin) -> None:
    """An item that is hidden for three seconds releases its image, and loads it again."""
    url = origin.add("/hidden", plain(RED, 800, 600))
    # Images of `refresh` are not kept by the connection.
    program = screen.show(broker, IMAGE.format(f'source: "{url}"; refresh: true'))
    eventually(lambda: shows(program, RED, 200, 150)() and broker.stats()["leases"] > 0)
    for hide, show in [("image.visible = false", "image.visible = true"), ("hide()", "show()")]:
        before = broker.stats()["leases"]
        program.eval(hide)
        eventually(lambda: broker.stats()["leases"] == before - 1)
        program.eval(show)
        eventually(shows(program, RED, 200, 150))
        eventually(lambda: broker.stats()["leases"] == before)


# Animations

COLORS: List[Color] = [(255 - 30 * index, 20 * index, 255) for index in range(8)]


def animation(width: int, height: int, delay: int, loop: int = 0) -> bytes:
    """Returns eight frames of one colour each."""
    frames = [PIL.Image.new("RGB", (width, height), color) for color in COLORS]
    return encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:], duration=delay, loop=loop, lossless=True)


FRAMES = """
    property var frames: []
    Connections { target: image; function onCurrentFrameChanged() { frames.push(image.currentFrame) } }
"""


def test_animation(screen: Screen, broker: Broker, origin: Origin) -> None:
    url = origin.add("/animation", animation(200, 150, 50), headers={"Cache-Control": "max-age=3600"})
    program = screen.show(broker, IMAGE.format(f'source: "{url}"; playing: false') + FRAMES
                          + f'BrokerImage {{ id: other; x: 300; width: 200; height: 150; source: "{url}" }}')
    eventually(shows(program, COLORS[0], 200, 150))
    eventually(lambda: program.eval("other.currentFrame") > 3)
    assert program.eval("[image.status, image.frameCount, image.currentFrame]") == [READY, 8, 0]
    program.eval("image.playing = true")
    seen = set()

    def sees_all() -> bool:
        seen.update(color for color in COLORS if program.picture().getpixel((100, 75)) == color)
        return len(seen) == len(COLORS)

    eventually(sees_all)
    eventually(lambda: len(program.eval("frames")) > 20)
    # A hidden animation stops.
    frame = program.eval("(image.visible = false, frames = [], image.currentFrame)")
    last = program.eval("other.currentFrame")
    eventually(lambda: program.eval("other.currentFrame") == (last + 6) % 8)
    assert program.eval("[frames.length, image.currentFrame]") == [0, frame]
    program.eval("image.visible = true")
    eventually(lambda: len(program.eval("frames")) > 3)
    # A new source begins again.
    origin.pages["/animation?2"] = origin.pages["/animation"]
    assert program.eval(f'(image.source = "{url}?2", [image.currentFrame, image.frameCount])') == [0, 0]


def test_loops(screen: Screen, broker: Broker, origin: Origin) -> None:
    # Slow, so that a late frame does not skip the end of a loop.
    url = origin.add("/loops", animation(64, 48, 200, loop=2))
    origin.pages["/loops?endless"] = Page(animation(64, 48, 200))
    program = screen.show(broker, IMAGE.format(f'source: "{url}"') + FRAMES + f"""
        BrokerImage {{ id: clock; source: "{url}?endless"; property int ticks; onCurrentFrameChanged: ticks++ }}""")

    def repeats() -> int:
        frames = program.eval("frames")
        return sum(1 for before, after in zip(frames, frames[1:]) if after < before)

    eventually(lambda: repeats() == 1 and program.eval("image.currentFrame") == 7)
    # A third loop would begin with the next frame.
    ticks = program.eval("clock.ticks")
    eventually(lambda: program.eval("clock.ticks") > ticks + 4)
    assert repeats() == 1 and program.eval("image.currentFrame") == 7


def test_parts(screen: Screen, broker: Broker, origin: Origin) -> None:
    """An animation of 21 MiB is played in parts, of which two are held."""
    url = origin.add("/parts", animation(960, 720, 60))
    program = screen.show(broker, f'BrokerImage {{ id: image; sourceSize: Qt.size(960, 720); anchors.fill: parent; source: "{url}" }}'
                          + FRAMES)
    eventually(lambda: len(program.eval("frames")) > 30)
    frames = program.eval("frames")
    # A late frame is skipped.
    assert set(frames) >= set(range(0, 8, 2)) or len(set(frames)) > 5, frames
    eventually(lambda: program.picture().getpixel((400, 300)) in COLORS)
    assert program.status("RssShmem") < 64 << 10


def test_new_size_without_broker(screen: Screen, tmp_path: pathlib.Path, origin: Origin) -> None:
    """A new size is requested when there is a broker again, although a part of the animation has failed after it."""
    url = origin.add("/sizes", animation(960, 720, 1000))
    with Broker(tmp_path) as broker:
        program = screen.show(broker, f'BrokerImage {{ id: image; sourceSize: Qt.size(800, 600); source: "{url}" }}')
        # The parts have four frames. The second one is there, and the third one is requested with its first frame.
        eventually(lambda: program.eval("image.currentFrame") in (1, 2) and broker.stats()["running"] == 0)
        broker.stop("kill")
        program.eval("image.sourceSize = Qt.size(960, 720)")
        eventually(lambda: program.eval("image.currentFrame") >= 4)
        # The frames of an animation that plays would have the new size, too.
        program.eval("image.playing = false")
        eventually(lambda: program.eval("image.errorCode") == "no-broker")
        broker.start()
        eventually(lambda: program.eval("image.implicitWidth") == 960)


# Sources and options

def test_sources(screen: Screen, broker: Broker, origin: Origin, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a file.png").write_bytes(plain(RED))
    program = screen.show(broker, IMAGE.format(""))
    origin.pages["/query?a={1}&b=%7e"] = Page(plain(BLUE))
    data = plain(GREEN)
    for source, color in [
        (f"{tmp_path}/a file.png", RED), (f"{origin.url}/query?a={{1}}&b=%7e", BLUE),
        ("data:image/png;base64," + base64.b64encode(data).decode(), GREEN), (f"file://{tmp_path}/a%20file.png", RED),
    ]:
        program.eval(f"image.source = {json.dumps(source)}")
        eventually(shows(program, color, 200, 150))
    program.eval('image.source = ""')
    eventually(lambda: RED not in program.counts())
    # A value of type url, relative to the file.
    program.eval('image.source = Qt.resolvedUrl("a file.png")')
    eventually(shows(program, RED, 200, 150))
    program.eval('image.source = "a file.png"')
    eventually(shows(program, RED, 200, 150))


def test_options(screen: Screen, broker: Broker, origin: Origin) -> None:
    halves = PIL.Image.new("RGB", (400, 300), RED)
    halves.paste(BLUE, (200, 0, 400, 300))
    url = origin.add("/options", encoded(halves))
    program = screen.show(broker, IMAGE.format(f'source: "{url}"'))
    # Scaling blends the colours next to the edge.
    eventually(lambda: program.counts().get(BLUE, 0) > 90 * 150)
    program.eval("image.crop = Qt.rect(250, 0, 100, 300)")
    eventually(shows(program, BLUE, 200, 150))
    program.eval('image.crop = Qt.rect(0, 0, 0, 0), image.steps = "rotate:degrees=180"')
    eventually(lambda: program.picture().getpixel((10, 10)) == BLUE and program.picture().getpixel((190, 10)) == RED)
    program.eval('image.steps = "", image.preset = "tiny", image.fillMode = BrokerImage.Pad')
    eventually(lambda: program.eval("image.paintedWidth") == 40)
    eventually(lambda: 15 * 30 < program.counts().get(BLUE, 0) <= 20 * 30)


def test_placeholder(
    screen: Screen, broker: Broker, origin: Origin, tmp_path: pathlib.Path, gate: threading.Event
) -> None:
    (tmp_path / "wait.png").write_bytes(plain(GREY))
    (tmp_path / "red.png").write_bytes(plain(RED))
    origin.pages["/wait"] = Page(plain(BLUE), gate=gate)
    program = screen.show(broker, IMAGE.format('source: "red.png"; placeholder: "wait.png"'))
    eventually(shows(program, RED, 200, 150))
    hash = program.eval("image.imageThumbHash")
    assert hash
    program.eval(f'image.source = "{origin.url}/wait"')
    eventually(shows(program, GREY, 200, 150))
    program.eval(f'image.thumbHash = "{hash}"')

    def is_red() -> bool:
        red, green, blue = program.picture().getpixel((100, 75))
        return red > 200 and green < 60 and blue < 60

    eventually(is_red)
    program.eval('image.thumbHash = "nonsense"')
    eventually(shows(program, GREY, 200, 150))
    gate.set()
    eventually(shows(program, BLUE, 200, 150))


class HalfServer:
    """A server that sends half of a body, and the rest later."""

    def __init__(self, body: bytes) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/half.jpg"
        self.gate = threading.Event()
        self._body = body
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(self._body))
            connection.sendall(self._body[:len(self._body) // 2])
            self.gate.wait(30)
            connection.sendall(self._body[len(self._body) // 2:])
        self._socket.close()


def test_progress(screen: Screen, broker: Broker) -> None:
    noise = PIL.Image.effect_noise((800, 600), 90).convert("RGB")
    server = HalfServer(encoded(noise, "JPEG", quality=90, progressive=True))
    try:
        program = screen.show(broker, IMAGE.format(f'source: "{server.url}"; progressive: true'))
        eventually(lambda: 0.3 < program.eval("image.progress") < 0.7)
        # A partial image, while it is being loaded.
        eventually(lambda: len(program.counts()) > 20)
        assert program.eval("image.status") == LOADING
        server.gate.set()
        eventually(is_ready(program))
        assert program.eval("image.progress") == 1
    finally:
        server.gate.set()


def test_refresh(screen: Screen, broker: Broker, origin: Origin, gate: threading.Event) -> None:
    """The cached image is shown while the origin is asked whether it has changed."""
    url = origin.add("/refresh", plain(RED))
    program = screen.show(broker, IMAGE.format(f'source: "{url}"'))
    eventually(shows(program, RED, 200, 150))
    origin.pages["/refresh"] = Page(plain(BLUE), gate=gate)
    program.eval(f'(image.source = "", image.refresh = true, image.source = "{url}")')
    eventually(shows(program, RED, 200, 150))
    eventually(is_ready(program))
    gate.set()
    eventually(shows(program, BLUE, 200, 150))
    # A failed validation leaves the image.
    origin.pages["/refresh"] = Page(b"", 500)
    program.eval(f'(image.source = "", image.source = "{url}")')
    eventually(lambda: program.eval("image.errorCode") == "http-status")
    assert program.eval("image.status") == READY
    eventually(shows(program, BLUE, 200, 150))


# image://imgbroker

PROVIDED = 'Image {{ id: image; width: 200; height: 150; {} }}'


def test_provider(screen: Screen, broker: Broker, origin: Origin, tmp_path: pathlib.Path) -> None:
    (tmp_path / "a file.png").write_bytes(plain(GREEN))
    origin.add("/provided?a=b&c=%20d", plain(RED, 400, 300))
    url = f"{origin.url}/provided?a=b&c=%20d"
    program = screen.show(broker, PROVIDED.format(f'source: "image://imgbroker/{url}"'))
    eventually(shows(program, RED, 200, 150))
    assert program.eval("[image.implicitWidth, image.implicitHeight]") == [400, 300]
    program.eval('image.source = ""')
    eventually(lambda: RED not in program.counts())
    program.eval(f'(image.sourceSize = Qt.size(100, 0), image.source = "image://imgbroker/" + encodeURIComponent("{url}"))')
    eventually(shows(program, RED, 200, 150))
    assert program.eval("[image.implicitWidth, image.implicitHeight]") == [100, 75]
    assert origin.requests.count("/provided?a=b&c=%20d") == 1
    program.eval(f'image.source = "image://imgbroker/{tmp_path}/a file.png"')
    eventually(shows(program, GREEN, 200, 150))
    program.eval(f'image.source = "image://imgbroker/{origin.url}/nothing"')
    eventually(lambda: program.eval("image.status") == ERROR)
    assert "404" in program.errors()


def test_provider_cancels(screen: Screen, broker: Broker, origin: Origin, gate: threading.Event) -> None:
    origin.pages["/provided/gated"] = Page(plain(RED), gate=gate)
    program = screen.show(broker, PROVIDED.format(f'source: "image://imgbroker/{origin.url}/provided/gated"'))
    eventually(lambda: "/provided/gated" in origin.requests)
    before = broker.stats()["cancelled"]
    program.eval('image.source = ""')
    eventually(lambda: broker.stats()["cancelled"] == before + 1)


# The example

def test_feed(screen: Screen, broker: Broker, origin: Origin, tmp_path: pathlib.Path) -> None:
    for number, color in enumerate(COLORS):
        (tmp_path / f"{number}.png").write_bytes(plain(color, 960, 400))
    origin.pages["/feed.png"] = Page(b"", 404)
    files = [str(tmp_path / f"{number}.png") for number in range(8)]
    program = screen.run(broker.socket, FEED, "--", files[0], origin.url + "/feed.png", *files[1:])
    eventually(lambda: program.counts().get(COLORS[0], 0) > 430 * 170)
    eventually(lambda: program.eval("feed.itemAtIndex(1).image.status") == ERROR)
    # A click loads it again.
    origin.add("/feed.png", plain(RED))
    screen.press("mousemove", "200", "350", "click", "1")
    eventually(lambda: program.counts().get(RED, 0) > 430 * 170)
    # The wheel scrolls.

    def scrolled() -> bool:
        screen.press("click", "--repeat", "10", "--delay", "5", "5")
        return program.counts().get(COLORS[7], 0) > 430 * 170

    eventually(scrolled)
    assert COLORS[0] not in program.counts()
