"""Batches of images in memory, and the requests for them."""

from __future__ import annotations

import ctypes
import math
import mmap
import threading
import weakref
from collections import deque
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING, Any, Deque, Dict, Iterator, List, Optional, Sequence, Tuple, Union, cast

import torch
from torch.utils.data import default_collate

from ._client import Client, Source, Wish, title_of
from ._errors import ConnectionLostError, ProcessLimitError, RefusedError
from ._image import Image
from ._kept import Entry
from ._memory import in_pages, populate
from ._region import Region
from ._session import Form

if TYPE_CHECKING:
    from .torch import ImageList

#: In a larger batch, images are copied: each that is not takes a descriptor, also in the batch before.
_MOST_IN_MAPPED_BATCH = 256
#: The seconds after which an image that failed for a reason that may pass is requested again.
_PAUSES = (0.1, 1.0, 3.0)
#: The longest such time, whatever the broker says.
_LONGEST_PAUSE = 10.0


class _Memory:
    """The memory of an earlier batch, to be used again: the kernel has to supply and clear each page of new memory.

    Any thread may take a block. It comes back when the last tensor with it has ended, in whichever thread that is.
    """

    def __init__(self) -> None:
        # At most one: a loop that holds any number of batches ends one for each that it loads.
        self._unused: "Deque[mmap.mmap]" = deque(maxlen=1)

    def take(self, size: int) -> "memoryview[int]":
        """Returns a block of `size` bytes or more, with any contents."""
        try:
            block: Optional[mmap.mmap] = self._unused.pop()
        except IndexError:
            block = None
        if block is None or len(block) < size:
            block = _new_block(size)
        # A tensor refers to this object, whose end can be noticed while the block goes on.
        view = memoryview(block)
        weakref.finalize(view, self._unused.append, block).atexit = False
        return view


def _new_block(size: int) -> mmap.mmap:
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        block.madvise(mmap.MADV_HUGEPAGE)
    except OSError:  # The kernel has none.
        pass
    return block


_memory = _Memory()


def new_batch(shape: Tuple[int, ...], is_pinned: bool) -> "torch.Tensor":
    """Returns memory for a batch: pinned, from which a GPU copies while the processor goes on, or that of an earlier batch."""
    if is_pinned:
        return torch.empty(shape, dtype=torch.uint8, pin_memory=True)
    size = math.prod(shape)
    return torch.frombuffer(_memory.take(size), dtype=torch.uint8, count=size).view(shape)


class _PyBuffer(ctypes.Structure):
    """CPython's `Py_buffer`."""

    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_void_p), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.c_void_p]
_release_buffer.restype = None


class _Bytes(ctypes.c_ubyte * (1 << 40)):  # type: ignore[misc]
    """Bytes from an address on: one type for all lengths, because a type for each would take longer than the rest."""

    __slots__ = ("owner",)


def pixels_of(image: Image) -> "torch.Tensor":
    """Returns the pixels (height, width, channels) without a copy. They must not be changed, which PyTorch does not prevent."""
    offset, stride, channels = image._layout(0)
    found = _PyBuffer()
    _get_buffer(image.buffer, ctypes.addressof(found), 0)
    pixels = _Bytes.from_address(found.buf)
    _release_buffer(ctypes.addressof(found))
    pixels.owner = image.buffer
    rows = torch.frombuffer(pixels, dtype=torch.uint8, count=len(image))
    return rows.as_strided((image.height, image.width, channels), (stride, channels, 1), offset)


def _pixels_of_kept(entry: Entry) -> "torch.Tensor":
    if entry.tensor is None:
        entry.tensor = pixels_of(entry.image)
    return cast("torch.Tensor", entry.tensor)


class _Batch:
    """Images of one size."""

    def __init__(self, first: Image, count: int) -> None:
        #: Numbers of images, rows, pixels and channels.
        self._shape = (count, first.height, first.width, first._channels)
        self._row = self._shape[2] * self._shape[3]
        self._size = self._shape[1] * self._row

    def add(self, image: Image, source: Source) -> None:
        """Adds the next image. Raises `ValueError` for one of another size."""
        if (image.height, image.width, image._channels) != self._shape[1:]:
            raise ValueError(
                f"{title_of(source)} has {image.width} × {image.height} pixels, and the first image of the batch "
                f"{self._shape[2]} × {self._shape[1]}: request one size by width, height and fit='cover' or 'fill'")

    def images(self) -> "torch.Tensor":
        """Returns all images: (count, height, width, channels)."""
        raise NotImplementedError


class _CopiedBatch(_Batch):
    """One after the other in memory of their own."""

    def __init__(self, first: Image, count: int, is_pinned: bool) -> None:
        super().__init__(first, count)
        self._images = new_batch(self._shape, is_pinned)
        self._count = 0

    def add(self, image: Image, source: Source) -> None:
        super().add(image, source)
        self._images[self._count].copy_(pixels_of(image))
        self._count += 1

    def images(self) -> "torch.Tensor":
        return self._images


class _MappedBatch(_Batch):
    """Each mapped at the next beginning of a page."""

    def __init__(self, first: Image, count: int, client: Client, options: Dict[str, Any]) -> None:
        super().__init__(first, count)
        self._client = client
        self._options = options
        self._distance = in_pages(self._size)
        try:
            self._region = Region(count * self._distance)
        except OSError as error:
            raise _no_addresses(error) from error
        self._end = 0

    def add(self, image: Image, source: Source) -> None:
        super().add(image, source)
        begin = self._end
        self._end += self._distance
        try:
            if self._is_mappable(image) and self._client.map_into(self._region, begin, image, self._size):
                return
        except OSError as error:
            raise _no_addresses(error) from error
        found = self._client.with_bytes(image)
        if found is None:
            found = self._client.get(source, **cast(Any, self._options))
            super().add(found, source)
        rows = torch.frombuffer(self._region, dtype=torch.uint8, count=self._size, offset=begin)
        rows.view(self._shape[1:]).copy_(pixels_of(found))

    def _is_mappable(self, image: Image) -> bool:
        reply = image._reply
        return reply.stride == self._row and reply.offset % mmap.PAGESIZE == 0

    def images(self) -> "torch.Tensor":
        populate(self._region)
        pixels = torch.frombuffer(self._region, dtype=torch.uint8)
        return pixels.as_strided(self._shape, (self._distance, self._row, self._shape[3], 1))


def _no_addresses(error: OSError) -> ProcessLimitError:
    return ProcessLimitError(f"this process cannot map the images of a batch ({error})")


class _Plan:
    """A batch, and what was requested of it."""

    def __init__(self, dataset: "ImageList", indices: Sequence[int], shared: Wish, unmapped: Wish) -> None:
        self.samples = [dataset.samples[index] for index in indices]
        is_mapped = not (dataset.contiguous or dataset.has_items or len(indices) > _MOST_IN_MAPPED_BATCH)
        self.wish = unmapped if is_mapped else shared
        #: Of each image: that which is kept, its request or its result. None before its request, and after its use.
        self.loads: List[Any] = [
            None if is_mapped else dataset.client.kept_entry(source, shared) for source, _ in self.samples]


class Batches:
    """An iterator over batches of a dataset, for one thread. Images of later batches are requested before they are needed.
    Another thread may stop it."""

    def __init__(
        self, dataset: "ImageList", batches: Iterator[Sequence[int]], *, ahead: int = 0, is_pinned: bool = False,
        generator: Optional["torch.Generator"] = None,
    ) -> None:
        """ahead: the number of batches that are requested besides the next one.
        is_pinned: whether images are copied into pinned memory.
        generator: of random crops.
        """
        if dataset.errors == "return":
            raise ValueError("a batch has no room for errors: use errors='raise', or a collate_fn with single items")
        self._dataset = dataset
        self._batches = batches
        self._ahead = ahead
        self._is_pinned = is_pinned
        self._generator = generator
        self._shared, self._unmapped = (Wish(dataset.options, form) for form in (Form.SHARED, Form.UNMAPPED))
        self._plans: Deque[_Plan] = deque()
        self._unsent: Deque[Tuple[_Plan, int]] = deque()
        self._in_flight = 0
        #: The number of images that were loaded, and their bytes in the broker's memory.
        self.count = self.bytes = 0
        self._stopped = threading.Event()
        #: The request that the thread waits for.
        self._awaited: "Optional[Future[Image]]" = None

    def stop(self) -> None:
        """Ends the iteration with a `CancelledError`."""
        self._stopped.set()
        awaited = self._awaited
        if awaited is not None:
            awaited.cancel()

    def close(self) -> None:
        """Cancels the requests in flight, and releases all images."""
        while self._plans:
            for load in self._plans.popleft().loads:
                if isinstance(load, Future):
                    load.cancel()

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> Tuple[Any, Any]:
        try:
            if self._stopped.is_set():
                raise CancelledError
            self._request()
            if not self._plans:
                raise StopIteration
            plan = self._plans[0]
            if not plan.samples:
                raise ValueError("a batch of no items")
            images = self._items(plan) if self._dataset.has_items else self._images(plan)
            targets = default_collate([self._dataset.target(target) for _, target in plan.samples])
            self._plans.popleft()
            self._request()
            return images, _pinned(targets) if self._is_pinned else targets
        except BaseException:
            self.close()
            raise

    def _request(self) -> None:
        """Sends requests, as many as may be in flight."""
        client = self._dataset.client
        while self._in_flight < max(1, self._dataset.in_flight):
            if self._unsent:
                plan, position = self._unsent.popleft()
                plan.loads[position] = load = client.load(plan.samples[position][0], plan.wish)
                self._in_flight += isinstance(load, Future)
                continue
            indices = next(self._batches, None) if len(self._plans) <= self._ahead else None
            if indices is None:
                return
            plan = _Plan(self._dataset, indices, self._shared, self._unmapped)
            self._plans.append(plan)
            self._unsent.extend((plan, position) for position, load in enumerate(plan.loads) if load is None)

    def _results(self, plan: _Plan) -> Iterator[Tuple[Union[Image, Entry], Source]]:
        for position, (source, _) in enumerate(plan.samples):
            load, plan.loads[position] = plan.loads[position], None
            if isinstance(load, Future):
                if not load.done():
                    # Together with half of those in flight, so that this thread is woken for many at once.
                    later = plan.loads[min(position + self._dataset.in_flight // 2, len(plan.loads) - 1)]
                    if isinstance(later, Future):
                        self._wait(later)
                    del later
                load = self._wait(load)
                self._in_flight -= 1
                self._request()
            for pause in _PAUSES:
                if not isinstance(load, (RefusedError, ConnectionLostError)) or not load.retryable:
                    break
                delay = (load.retry_after_ms if isinstance(load, RefusedError) else None) or 0
                self._stopped.wait(min(max(pause, delay / 1000), _LONGEST_PAUSE))
                load = self._wait(self._dataset.client.load(source, plan.wish))
            if isinstance(load, Exception):
                raise load
            self.count += 1
            self.bytes += in_pages(load.size if isinstance(load, Entry) else load.nbytes)
            yield load, source
            del load

    def _wait(self, load: Any) -> Any:
        """Returns the result of a request, an image or an error. Raises `CancelledError` after `stop`."""
        if not isinstance(load, Future):
            return load
        self._awaited = load
        if self._stopped.is_set():
            load.cancel()
        error = load.exception()
        return load.result() if error is None else error

    def _images(self, plan: _Plan) -> "torch.Tensor":
        """Returns the images of a batch as one tensor, in the dataset's layout."""
        count = len(plan.loads)
        if all(isinstance(load, Entry) for load in plan.loads):
            kept = [_pixels_of_kept(entry) for entry in plan.loads]
            if all(image.shape == kept[0].shape for image in kept):
                return self._dataset.laid_out(torch.stack(kept, out=new_batch((count, *kept[0].shape), self._is_pinned)))
        batch: Optional[_Batch] = None
        for found, source in self._results(plan):
            image = found.image if isinstance(found, Entry) else found
            if batch is None:
                if plan.wish is self._shared:
                    batch = _CopiedBatch(image, count, self._is_pinned)
                else:
                    batch = _MappedBatch(image, count, self._dataset.client, self._dataset.options)
            batch.add(image, source)
            del found, image
        assert batch is not None
        return self._dataset.laid_out(batch.images())

    def _items(self, plan: _Plan) -> Any:
        """Returns the images of a batch after the dataset's crops and transform."""
        dataset = self._dataset
        draws = dataset.draws(len(plan.loads), self._generator)
        items = []
        for (found, _), numbers in zip(self._results(plan), draws):
            image = _pixels_of_kept(found) if isinstance(found, Entry) else pixels_of(found)
            # A copy, because a transform may change what it gets.
            image = dataset.cropped(image, numbers) if dataset.crop is not None else image.clone()
            items.append(dataset.transformed(image))
            del found, image
        if dataset.transform is None:
            return torch.stack(items, out=new_batch((len(items), *items[0].shape), self._is_pinned))
        return _pinned(default_collate(items)) if self._is_pinned else default_collate(items)


def _pinned(batch: Any) -> Any:
    return batch.pin_memory() if isinstance(batch, torch.Tensor) else batch
