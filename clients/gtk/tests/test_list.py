"""A list of 5,000 rows that scrolls: each row has a stripe of the colour that its image must have."""

from __future__ import annotations

import threading
from typing import List, Tuple

import pytest

from conftest import Screen, Viewer, color_of, image, private_memory
from support import Broker, Origin, Page, eventually

ROWS = 5000
COLORS = {color_of(number): number for number in range(ROWS)}
#: The column of the stripes, and one of the images.
STRIPE, PICTURE = 20, 200


def rows(screen: Screen) -> List[Tuple[int, int, int]]:
    """Returns the number, the matching and the wrong pixels of each visible row, along a line of the screen."""
    picture = screen.picture()
    found: List[List[int]] = []
    for y in range(600):
        number = COLORS.get(picture.getpixel((STRIPE, y)), -1)
        if number < 0:
            continue
        if not found or found[-1][0] != number:
            found.append([number, 0, 0])
        shown = picture.getpixel((PICTURE, y))
        if shown == color_of(number):
            found[-1][1] += 1
        elif shown in COLORS:
            found[-1][2] += 1
    return [(number, matching, wrong) for number, matching, wrong in found]


def is_complete(screen: Screen) -> bool:
    """Whether all visible rows show their images."""
    found = rows(screen)
    return len(found) > 2 and all(matching > 0 and wrong == 0 for _, matching, wrong in found)


def scroll_to_end(viewer: Viewer, step: int) -> int:
    """Scrolls through the list, and checks screenshots meanwhile. Returns the number of rows that showed their images."""
    viewer.do(f"viewer.scroll({step})")
    seen = set()
    while viewer.get("viewer.is_scrolling"):
        for number, matching, wrong in rows(viewer.screen):
            assert wrong == 0, f"row {number} shows another image"
            if matching > 0:
                seen.add(number)
    return len(seen)


@pytest.mark.parametrize("restarts", [False, True])
def test_scrolling(viewer: Viewer, broker: Broker, origin: Origin, restarts: bool) -> None:
    """No row shows the image of another one, also while the broker is killed and started again."""
    viewer.do(f"viewer.show_list('{origin.url}/n/%d', {ROWS}, 60)")
    eventually(lambda: is_complete(viewer.screen))
    viewer.do("viewer.scroll(1500)")
    if restarts:
        broker.stop("kill")
        broker.start()
    scroll_to_end(viewer, 500)
    eventually(lambda: is_complete(viewer.screen))
    assert max(number for number, _, _ in rows(viewer.screen)) == ROWS - 1
    # Rows that have left were cancelled, most of them before their download.
    eventually(lambda: broker.stats()["queued"] + broker.stats()["running"] == 0)
    figures = broker.stats()
    assert restarts or 0 < figures["cancelled"] <= figures["requests"]


def test_rows_that_left(viewer: Viewer, broker: Broker, origin: Origin, gate: threading.Event) -> None:
    """Requests that the origin does not answer end when their rows have left."""
    for number in range(40):
        origin.add(f"/slow/{number}", image(color_of(number)), gate=gate)
    for number in range(40, 200):
        origin.add(f"/slow/{number}", image(color_of(number)))
    viewer.do(f"viewer.show_list('{origin.url}/slow/%d', 200, 60)")
    eventually(lambda: broker.stats()["running"] > 2)
    scroll_to_end(viewer, 3000)
    eventually(lambda: is_complete(viewer.screen))
    eventually(lambda: broker.stats()["running"] + broker.stats()["queued"] == 0)
    figures = broker.stats()
    assert figures["cancelled"] >= 10 and figures["failed"] == 0


def test_memory(viewer: Viewer, broker: Broker, origin: Origin) -> None:
    """Images of more than 64 MiB are shown one after the other, of which the program holds a part."""
    viewer.do(f"viewer.window.set_default_size(340, 600); viewer.show_list('{origin.url}/n/%d', {ROWS}, 200)")
    shown = 0
    before = private_memory(viewer)

    def has_moved() -> bool:
        # The list corrects its estimate of the heights of rows, and with that its place.
        viewer.do("adjustment = viewer.scrolled.get_vadjustment(); adjustment.set_value(adjustment.get_value() + 590)")
        return max((number for number, _, _ in rows(viewer.screen)), default=0) > shown

    # 300 × 200 pixels each: 72 MB.
    while broker.stats()["networkLoads"] < 300:
        eventually(lambda: is_complete(viewer.screen))
        shown = max(number for number, _, _ in rows(viewer.screen))
        eventually(has_moved)
        assert broker.stats()["leasedBytes"] < 64 << 20
    assert private_memory(viewer) - before < 32 << 20


def test_broken_and_slow(viewer: Viewer, broker: Broker, origin: Origin, gate: threading.Event) -> None:
    """Rows with broken images show none, and those that come late their own."""
    for number in range(300):
        page = Page(image(color_of(number)), gate=gate if number % 3 == 1 else None)
        origin.pages[f"/mixed/{number}"] = Page(b"no image") if number % 3 == 2 else page
    viewer.do(f"viewer.show_list('{origin.url}/mixed/%d', 300, 60)")

    def is_shown(*kinds: int) -> bool:
        found = rows(viewer.screen)
        return len(found) > 5 and all(
            wrong == 0 and (matching > 0) == (number % 3 in kinds) for number, matching, wrong in found[1:-1])

    eventually(lambda: is_shown(0))
    scroll_to_end(viewer, 700)
    eventually(lambda: is_shown(0))
    gate.set()
    eventually(lambda: is_shown(0, 1))


def test_far_pictures(viewer: Viewer, broker: Broker, origin: Origin) -> None:
    """In a box that scrolls, in which all widgets are mapped, only those in view or near it are loaded."""
    viewer.do(f"""
box = Gtk.Box(orientation=Gtk.Orientation.VERTICAL)
for number in range(200):
    box.append(ImgbrokerGtk.Picture(uri='{origin.url}/n/%d' % number, height_request=60))
viewer.scrolled = Gtk.ScrolledWindow(child=box)
viewer.window.set_child(viewer.scrolled)
viewer.window.present()
""")
    eventually(lambda: viewer.screen.count(color_of(0)) > 1000 and viewer.screen.count(color_of(9)) > 1000)
    eventually(lambda: broker.stats()["queued"] + broker.stats()["running"] == 0)
    assert broker.stats()["requests"] <= 16
    viewer.do("viewer.scrolled.get_vadjustment().set_value(6000)")
    eventually(lambda: viewer.screen.count(color_of(105)) > 1000)

    # The first ones are released after a while. GTK keeps textures of the last frame until a visible pixel changes.
    def are_released() -> bool:
        viewer.do("adjustment = viewer.scrolled.get_vadjustment(); adjustment.set_value(adjustment.get_value() + 1)")
        return bool(broker.stats()["leases"] <= 25)

    eventually(are_released)


def test_nested_scrolling(viewer: Viewer, broker: Broker, origin: Origin) -> None:
    """Rows that scroll sideways within a list are loaded as far as they are near its view."""
    viewer.do(f"""
column = Gtk.Box(orientation=Gtk.Orientation.VERTICAL)
for line in range(40):
    strip = Gtk.Box()
    for number in range(20):
        strip.append(ImgbrokerGtk.Picture(uri='{origin.url}/n/%d' % (line * 20 + number), width_request=100, height_request=100))
    column.append(Gtk.ScrolledWindow(child=strip, height_request=110))
viewer.window.set_child(Gtk.ScrolledWindow(child=column))
viewer.window.present()
""")
    eventually(lambda: viewer.screen.count(color_of(0)) > 1000 and viewer.screen.count(color_of(103)) > 1000)
    eventually(lambda: broker.stats()["queued"] + broker.stats()["running"] == 0)
    # 9 lines and 7 columns.
    assert broker.stats()["requests"] <= 70
