"""Segments: shared memory of the broker in which images of one user lie side by side."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import select
import socket
import weakref
from typing import Any, Optional, Tuple, Type

from ._memory import SEGMENT_SEALS, Lease, verify_sealed
from ._wire import violation

MAP_FIXED = 0x10

_libc = ctypes.CDLL(None, use_errno=True)
# `mmap.mmap` keeps a copy of the descriptor before Python 3.13, maps at no given address, and does not tell its address.
c_mmap = _libc.mmap
c_mmap.restype = ctypes.c_void_p
c_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
c_munmap = _libc.munmap
c_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_mprotect = _libc.mprotect
_mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_mremap = _libc.mremap
_mremap.restype = ctypes.c_void_p
_mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
_MREMAP_MAYMOVE = 1
_MREMAP_FIXED = 2
_FAILED = ctypes.c_void_p(-1).value

#: The time for which a forking process waits for the copies of the new one, in milliseconds.
_PATIENCE_WITH_CHILD = 10_000


class Connection:
    """The socket of a connection. It is closed when this object ends, because leases end with their connection, and the broker may
    change the bytes of an image after its lease."""

    __slots__ = ("_socket",)

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def __del__(self) -> None:
        self._socket.close()


class Segment:
    """The mapping of a segment. It lasts as long as its connection uses it or a view of it exists."""

    __slots__ = ("_address", "_array", "_connection", "number", "size", "__weakref__")

    def __init__(self, number: int, descriptor: int, size: int, connection: Optional[Connection]) -> None:
        """Maps a segment. Raises `ProtocolViolationError` or `OSError`."""
        self._address: Optional[int] = None
        if verify_sealed(descriptor, SEGMENT_SEALS, size) != size:
            raise violation(f"a segment that does not have {size} bytes")
        address = c_mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        if address == _FAILED:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self._address = address
        self._array = _array_of(size)
        self._connection = connection
        self.number = number
        self.size = size
        _alive.add(self)

    def __del__(self, munmap: Any = c_munmap) -> None:
        if self._address is not None:
            munmap(self._address, self.size)

    def view(self, lease: Lease, offset: int, size: int) -> "memoryview[int]":
        """Returns bytes of the segment, read-only. A view of them keeps `lease`, which is in this segment."""
        array = self._array.from_address(self._address)
        array.lease = lease
        return memoryview(array).toreadonly().cast("B")[offset:offset + size]

    def make_private(self) -> None:
        """Replaces the mapping by private memory with the same bytes at the same address, and leaves the connection. No other
        thread may exist."""
        address, size = self._address, self.size
        assert address is not None
        copy = c_mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if copy != _FAILED:
            ctypes.memmove(copy, address, size)
            _mprotect(copy, size, mmap.PROT_READ)
            _mremap(copy, size, size, _MREMAP_MAYMOVE | _MREMAP_FIXED, address)
        self._connection = None


@functools.lru_cache(maxsize=8)
def _array_of(size: int) -> Type[Any]:
    """Returns the type of an array of `size` bytes that keeps a lease. It is for a whole segment because a type for each size of an
    image would take longer than the rest."""
    return type("SegmentBytes", (ctypes.c_ubyte * size,), {"__slots__": ("lease",)})


_alive: "weakref.WeakSet[Segment]" = weakref.WeakSet()

# A forked process has no leases, so it copies the segments of which it has images. The broker does not change them meanwhile,
# because the parent process releases nothing before.


def before_fork() -> Optional[Tuple[int, int]]:
    """Returns a pipe for the other functions, or None if none is needed. No lease may be released until `wait_for_child` returns."""
    if not _alive:
        return None
    try:
        return os.pipe2(os.O_CLOEXEC)
    except OSError:
        return None


def wait_for_child(pipe: Optional[Tuple[int, int]]) -> None:
    """Waits in the parent process until the child has its copies."""
    if pipe is None:
        return
    reading, writing = pipe
    os.close(writing)
    poller = select.poll()
    poller.register(reading, 0)
    poller.poll(_PATIENCE_WITH_CHILD)
    os.close(reading)


def copy_in_child(pipe: Optional[Tuple[int, int]]) -> None:
    """Makes copies of the segments of which views exist."""
    for segment in list(_alive):
        segment.make_private()
    for descriptor in pipe or ():
        os.close(descriptor)
