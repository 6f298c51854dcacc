"""Images that a client keeps mapped, each with the word of the validity page that tells whether it is still valid."""

from __future__ import annotations

import itertools
import sys
from typing import Any, Dict, List, Optional, Tuple

from ._image import Image
from ._memory import Lease, ValidityPage, now
from ._wire import BUFFERS_IN_ONE_FRAME, Fields, ImageReply

#: The minimum time between reports, in tenths of a second.
_TENTHS_BETWEEN_REPORTS = 10


class Entry:
    """An image, and the place that tells whether a request would return it."""

    __slots__ = (
        "buffer", "ceiling", "floor", "image", "index", "is_unreported", "is_used", "lease", "numbers", "owner", "reply",
        "size", "tensor", "words",
    )

    def __init__(
        self, image: Image, reply: ImageReply, page: ValidityPage, slot: int, lease: Optional[Lease]
    ) -> None:
        #: Without bytes for images that are not shared, each of which has a mapping or copy of its own.
        self.image = image
        self.reply = reply
        #: That of images that are not shared, while none of them may exist.
        self.lease = lease
        #: The pixels as PyTorch's tensor, made by the first batch that has them.
        self.tensor: Any = None
        self.size = reply.total
        self.buffer = reply.buffer
        self.words = page.words
        self.numbers = page.numbers
        self.owner = page.owner
        self.index = page.index(slot)
        #: The slot is valid while its word is above `floor` plus the clock, and not above `ceiling`.
        self.floor = reply.generation << 32
        self.ceiling = self.floor | 0xFFFFFFFF
        self.is_used = False
        self.is_unreported = False

    def is_valid(self, tenth: int) -> bool:
        """Returns whether a request would return the image. `Client.get` contains the same expression."""
        return self.floor + tenth < self.words[self.index] <= self.ceiling and self.numbers[4] == self.owner


class KeptImages:
    """The images. Changed under the engine's lock; `entries` is read without it."""

    def __init__(self, images: int, size: int, descriptors: int) -> None:
        self._maximum_images = images
        self._maximum_size = size
        self._maximum_descriptors = descriptors
        self.is_enabled = images > 0
        #: Whether images that find no room are not kept, instead of those that were used least recently: a program that uses all
        #: images in turn, more than there is room for, would find none.
        self.keeps_first = False
        self._size = 0
        #: By the URL or the identity of a file, and options, in the order of the eviction algorithm (CLOCK).
        self.entries: Dict[Tuple[Any, ...], Entry] = {}
        #: Those of `entries` that take a descriptor, likewise.
        self._descriptors: Dict[Tuple[Any, ...], Entry] = {}
        #: Counts hits; `next` is atomic.
        self.hits = itertools.count(1)
        self._reported_hits = 0
        #: The tenth of a second from which the next report is due.
        self.report_at = 0

    def keep(
        self, key: Tuple[Any, ...], image: Image, reply: ImageReply, page: ValidityPage, lease: Optional[Lease]
    ) -> None:
        """Keeps the image of a request, if it has a slot, instead of an earlier image of the same request."""
        if key in self.entries:
            self._remove(key)
        size = reply.total
        takes_descriptor = reply.segment is None
        if (
            reply.slot is None or reply.slot >= page.slots or reply.buffer is None or not self._maximum_images
            or size > self._maximum_size or (takes_descriptor and not self._maximum_descriptors)
        ):
            return
        has_descriptor = not takes_descriptor or len(self._descriptors) < self._maximum_descriptors
        while len(self.entries) >= self._maximum_images or self._size + size > self._maximum_size:
            if self.keeps_first:
                return
            self._evict_one(self.entries)
        if self.keeps_first and not has_descriptor:
            return
        entry = self.entries[key] = Entry(image, reply, page, reply.slot, lease)
        self._size += size
        if takes_descriptor:
            if not has_descriptor:
                self._evict_one(self._descriptors)
            self._descriptors[key] = entry

    def keep_first(self, size: int) -> None:
        """Keeps the first images that fit into `size` bytes, of any number, until they are invalid."""
        self.keeps_first = True
        self._maximum_size = size
        if self.is_enabled:
            self._maximum_images = sys.maxsize

    def _evict_one(self, among: Dict[Tuple[Any, ...], Entry]) -> None:
        while True:
            key = next(iter(among))
            if not among[key].is_used:
                self._remove(key)
                return
            entry = among.pop(key)
            entry.is_used = False
            among[key] = entry

    def _remove(self, key: Tuple[Any, ...]) -> None:
        self._size -= self.entries.pop(key).size
        self._descriptors.pop(key, None)

    def make_room(self) -> bool:
        """Removes half of the images, unused ones first. Returns whether there were any."""
        count = (len(self.entries) + 1) // 2
        # Not by `_evict_one`: a dictionary searches its first entry among all that were removed.
        for key in sorted(self.entries, key=lambda key: self.entries[key].is_used)[:count]:
            self._remove(key)
        return count > 0

    def remove_segment(self, number: int) -> None:
        """Removes the images in a segment."""
        for key, entry in list(self.entries.items()):
            if entry.reply.segment == number:
                self._remove(key)

    def clear(self) -> None:
        """Removes all images, whose leases are then released."""
        self.entries.clear()
        self._descriptors.clear()
        self._size = 0

    def take_report(self) -> Optional[Fields]:
        """Takes the report of uses that the broker did not see; None if there were none, or within a second of the last
        report. Also removes the images that are no longer valid."""
        tenth = now()
        if tenth < self.report_at:
            return None
        self.report_at = tenth + _TENTHS_BETWEEN_REPORTS
        for key, entry in list(self.entries.items()):
            if not entry.is_valid(tenth):
                self._remove(key)
        # Reading the counter counts, too.
        count = next(self.hits) - 1
        hits = count - self._reported_hits
        self._reported_hits = count + 1
        if not hits:
            return None
        buffers: List[Optional[int]] = []
        for entry in self.entries.values():
            if entry.is_unreported and len(buffers) < BUFFERS_IN_ONE_FRAME:
                entry.is_unreported = False
                buffers.append(entry.buffer)
        return {"type": "touch", "buffers": buffers, "hits": min(hits, 1_000_000_000)}
