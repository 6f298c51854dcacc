"""Memory in which images are mapped side by side."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import List

from ._memory import Lease

_MAP_FIXED = 0x10
_MAP_NORESERVE = 0x4000

_libc = ctypes.CDLL(None, use_errno=True)
# `mmap.mmap` maps at no given address.
_mmap = _libc.mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_munmap = _libc.munmap
_munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Region(mmap.mmap):
    """Memory of which parts are those of sealed buffers. What is written to becomes private memory; so are all other parts.

    Views of its bytes keep it alive, and it keeps the leases alive.
    """

    __slots__ = ("_leases",)

    _leases: List[Lease]

    def __new__(cls, size: int) -> "Region":
        """Reserves the addresses. Raises `OSError`."""
        region = super().__new__(cls, -1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
        region._leases = []
        return region

    def map(self, position: int, descriptor: int, offset: int, size: int, lease: Lease) -> None:
        """Maps `size` bytes of a buffer, which the buffer must have. `position` and `offset` are multiples of the size of a page.

        Raises `OSError`; the region is then of no more use.
        """
        if position < 0 or size <= 0 or position + size > len(self):
            raise ValueError("a place outside of the region")
        begin = ctypes.addressof(ctypes.c_char.from_buffer(self))
        where = begin + position
        flags, protection = mmap.MAP_PRIVATE | _MAP_FIXED, mmap.PROT_READ | mmap.PROT_WRITE
        if _mmap(where, size, protection, flags, descriptor, offset) != where:
            code = ctypes.get_errno()
            self._abandon(begin, position, position + _pages(size))
            raise OSError(code, os.strerror(code))
        self._leases.append(lease)

    def _abandon(self, begin: int, low: int, high: int) -> None:
        """Unmaps all but the part at which mapping failed: the kernel may have removed what was there, and another thread may
        have got the addresses, which must not be unmapped when this object ends."""
        _abandoned.append(self)
        _munmap(begin, low)
        _munmap(begin + high, _pages(len(self)) - high)
        self._leases.clear()


_abandoned: List[Region] = []


def _pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
