"""Memory that processes share: sealed memfds, their mappings, and the broker's validity page."""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
import time
from typing import TYPE_CHECKING, Any, Deque, Dict, Optional, Tuple, Union

from ._wire import violation

if TYPE_CHECKING:
    from ._segment import Segment

# Not all versions of Python name these.
F_ADD_SEALS = 1033
F_GET_SEALS = 1034
F_SEAL_SEAL = 1
F_SEAL_SHRINK = 2
F_SEAL_GROW = 4
F_SEAL_WRITE = 8
F_SEAL_FUTURE_WRITE = 16
_MADV_POPULATE_READ = 22

IMAGE_SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE
PAGE_SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE
SEGMENT_SEALS = PAGE_SEALS

Bytes = Union[bytes, bytearray, memoryview]
#: Leases to be released, to which any thread may append: each a buffer, and its segment or 0.
Releases = Deque[Tuple[int, int]]


def verify_sealed(descriptor: int, seals: int, size: int) -> int:
    """Verifies that a descriptor is a memfd with `seals` and at least `size` bytes. Returns the number of its bytes.

    Raises `ProtocolViolationError`. A file on a tmpfs or an unsealable memfd has a seal too (`F_SEAL_SEAL`), so all
    are required.
    """
    try:
        present = fcntl.fcntl(descriptor, F_GET_SEALS)
    except OSError:
        raise violation("a descriptor is not a memfd") from None
    if present & seals != seals:
        raise violation(f"a buffer has the seals {present:#x} and requires {seals:#x}")
    available = os.fstat(descriptor).st_size
    if available < size:
        raise violation(f"a buffer of {available} bytes for an image that ends at {size}")
    return available


def sealed_copy(data: Bytes) -> int:
    """Returns the descriptor of a memfd with a copy of `data` and all seals."""
    descriptor = os.memfd_create("imgbroker-client", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        rest = memoryview(data).cast("B")
        while rest.nbytes:
            rest = rest[os.write(descriptor, rest):]
        fcntl.fcntl(descriptor, F_ADD_SEALS, IMAGE_SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class Lease:
    """The right of this process to one buffer. It is released when the object is.

    The release is sent with the next message or within a second: this may run in any thread at any time, so it takes
    no lock and makes no system call.
    """

    __slots__ = ("buffer", "releases", "segment")

    def __init__(self, buffer: int, releases: Releases, segment: "Optional[Segment]" = None) -> None:
        self.buffer = buffer
        self.releases = releases
        #: That in which the image lies, which keeps it mapped; None for one with a buffer of its own.
        self.segment = segment

    def __del__(self) -> None:
        self.releases.append((self.buffer, 0 if self.segment is None else self.segment.number))


class Unmapped(bytearray):
    """What the bytes of an image are a view of that is in a buffer, but not mapped: nothing, which keeps the lease alive."""

    lease: Lease


class Mapping(mmap.mmap):
    """The mapping of a buffer. Views of its bytes keep it alive, and it keeps the lease alive."""

    __slots__ = ("lease",)

    lease: Lease


#: For a mapping that keeps no copy of its descriptor, which Python can from 3.13 on.
_WITHOUT_DESCRIPTOR: Dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


def map_buffer(descriptor: int, size: int, *, writable: bool = False) -> Mapping:
    """Maps the first `size` bytes of a sealed buffer, which are at least one.

    The mapping is private because kernels before about 6.7 refuse a shared one of a sealed memfd; the pages are shared
    in either case, until a writable mapping changes one, which copies it. Raises `OSError`.
    """
    prot = mmap.PROT_READ | mmap.PROT_WRITE if writable else mmap.PROT_READ
    mapping = Mapping(descriptor, size, flags=mmap.MAP_PRIVATE, prot=prot, **_WITHOUT_DESCRIPTOR)
    if writable:
        populate(mapping)
    return mapping


def populate(mapping: mmap.mmap) -> None:
    """Maps all pages of a mapping that will be read."""
    # One call costs half the time of a page fault for each 64 KiB; kernels before 5.14 lack it.
    try:
        mapping.madvise(_MADV_POPULATE_READ)
    except OSError:
        pass


_MAGIC = 0x3164696C61766269  # "ibvalid1"
_VERSION = 1
_HEADER = 64
_WORDS_OF_HEADER = _HEADER // 8
_OWNER = 4
_OWNER_DIED = 0x40000000
_MAXIMUM_SLOTS = 1 << 24


class ValidityPage:
    """The broker's validity page, which tells whether a request would get an image again.

    `words` and `numbers` are the page as numbers of 8 and 4 bytes; CPython reads each element in one access.
    """

    def __init__(self, descriptor: int, slots: int) -> None:
        """Maps the page of a broker that reported `slots` slots. Raises `ProtocolViolationError` or `OSError`."""
        if not 1 <= slots <= _MAXIMUM_SLOTS:
            raise violation(f"a validity page with {slots} slots")
        size = _HEADER + 8 * slots
        verify_sealed(descriptor, PAGE_SEALS, size)
        page = mmap.mmap(descriptor, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, **_WITHOUT_DESCRIPTOR)
        self.words: "memoryview[int]" = memoryview(page).cast("Q")
        self.numbers: "memoryview[int]" = memoryview(page).cast("I")
        self.slots = slots
        self.owner: int = self.numbers[_OWNER]
        if self.words[0] != _MAGIC:
            raise violation("the validity page is invalid")
        #: Whether this client knows the page's version; otherwise it does not use the page.
        self.is_known = self.numbers[2] == _VERSION

    @property
    def has_owner(self) -> bool:
        """Whether the broker that made the page is alive."""
        return self.owner != 0 and not self.owner & _OWNER_DIED and self.numbers[_OWNER] == self.owner

    def index(self, slot: int) -> int:
        """Returns the index in `words` of a slot's word."""
        return _WORDS_OF_HEADER + slot


def now() -> int:
    """Returns the monotonic clock in tenths of a second."""
    return time.monotonic_ns() // 100_000_000


def in_pages(size: int) -> int:
    """Returns what `size` bytes take in memory of their own: whole pages."""
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
