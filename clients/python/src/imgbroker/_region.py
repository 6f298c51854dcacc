"""Memory in which images are mapped side by side."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import List

from ._memory import Lease, in_pages
from ._segment import MAP_FIXED, c_mmap, c_munmap

_MAP_NORESERVE = 0x4000


class Region(mmap.mmap):
    """Memory of which parts are those of sealed buffers. What is written to becomes private memory; so are all other parts.

    Views of its bytes keep it alive, and it keeps the leases alive.
    """

    __slots__ = ("_begin", "_leases")

    _begin: int
    _leases: List[Lease]

    def __new__(cls, size: int) -> "Region":
        """Reserves the addresses. Raises `OSError`."""
        region = super().__new__(cls, -1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
        region._begin = ctypes.addressof(ctypes.c_char.from_buffer(region))
        region._leases = []
        return region

    def map(self, position: int, descriptor: int, offset: int, size: int, lease: Lease) -> None:
        """Maps `size` bytes of a buffer, which the buffer must have. `position` and `offset` are multiples of the size of a page.

        Raises `OSError`; the region is then of no more use.
        """
        if position < 0 or size <= 0 or position + size > len(self):
            raise ValueError("a place outside of the region")
        where = self._begin + position
        flags, protection = mmap.MAP_PRIVATE | MAP_FIXED, mmap.PROT_READ | mmap.PROT_WRITE
        if c_mmap(where, size, protection, flags, descriptor, offset) != where:
            code = ctypes.get_errno()
            self._abandon(position, position + in_pages(size))
            raise OSError(code, os.strerror(code))
        self._leases.append(lease)

    def _abandon(self, low: int, high: int) -> None:
        """Unmaps all but the part at which mapping failed: the kernel may have removed what was there, and another thread may
        have got the addresses. This object would unmap them all, so it never ends, not even with the interpreter."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        c_munmap(self._begin, low)
        c_munmap(self._begin + high, in_pages(len(self)) - high)
        self._leases.clear()
