"""A loader of batches without processes of its own."""

from __future__ import annotations

import atexit
import itertools
import os
import queue
import threading
import warnings
import weakref
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, List, Optional, Tuple, Union

import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from ._batch import Batches
from ._wire import integer

if TYPE_CHECKING:
    from .torch import ImageList


class BatchLoader:
    """Iterates over batches of a dataset, in place of PyTorch's `DataLoader`: a pair of the images, as one tensor, and the targets.

    A thread requests the next batches from the broker, and puts them together, while the present one is used. No processes are
    started, because the broker's decode; a `transform` runs in the thread. Each `iter` is a pass of its own, and may be abandoned.
    """

    def __init__(
        self, dataset: "ImageList", batch_size: int = 1, shuffle: bool = False, sampler: Optional[Iterable[int]] = None, *,
        drop_last: bool = False, generator: Optional["torch.Generator"] = None, pin_memory: bool = True, prefetch: int = 2,
        keep_first: Optional[int] = None,
    ) -> None:
        """Creates a loader.

        batch_size, shuffle, sampler, drop_last: as of `DataLoader`; a sampler, such as a `DistributedSampler`, has indices.
        generator: of the order and of random crops; by default both are seeded by PyTorch's global one.
        pin_memory: with CUDA, images are copied into pinned memory, from which `to("cuda", non_blocking=True)` does not wait.
        prefetch: the number of batches that are put together before they are needed. One more is requested.
        keep_first: the first images that fit into this number of bytes, at most half of the memory that the broker lets a client
            lease, stay mapped by the dataset's client, and later epochs need no message for them. By default the client's
            `keep_bytes`, 256 MiB.
        """
        if sampler is not None and shuffle:
            raise ValueError("shuffle=True has no effect on a sampler of yours: omit one of them")
        if prefetch < 1:
            raise ValueError(f"prefetch={prefetch}: at least 1")
        if sampler is None:
            sampler = RandomSampler(dataset, generator=generator) if shuffle and len(dataset) else SequentialSampler(dataset)
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.generator = generator
        self.pin_memory = pin_memory
        self.prefetch = prefetch
        self._keep_first = keep_first
        self._is_first = True
        self._is_memory_known = False

    def __len__(self) -> int:
        """Returns the number of batches."""
        return len(self.batch_sampler)

    def set_epoch(self, epoch: int) -> None:
        """Calls `set_epoch` of the sampler, if it has one, as a `DistributedSampler`: another order for each epoch."""
        set_epoch = getattr(self.sampler, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)

    def __iter__(self) -> "Pass":
        if self._is_first and len(self.dataset):
            self._is_first = False
            self.dataset.client.keep_first(self._keep_first)
        crops = torch.Generator()
        crops.manual_seed(int(torch.empty((), dtype=torch.int64).random_(generator=self.generator)))
        # The order is drawn here, not concurrently with what else uses the generator.
        indices: Iterator[List[int]] = iter(self.batch_sampler)
        first = list(itertools.islice(indices, 1))
        is_pinned = self.pin_memory and torch.cuda.is_available()
        batches = Batches(self.dataset, itertools.chain(first, indices), ahead=1, is_pinned=is_pinned, generator=crops)
        return Pass(batches, self.prefetch, self._warn_of_memory)

    def _warn_of_memory(self, count: int, size: int) -> None:
        """Warns once if the broker's memory is too small for all images, by the first ones that were loaded."""
        if self._is_memory_known or not count:
            return
        self._is_memory_known = True
        needed, limit = len(self.dataset) * size / count, integer(self.dataset.client.stats(), "memoryLimitBytes")
        if needed > limit:
            warnings.warn(
                f"the images take about {needed / 1e9:.2g} GB, and the broker's memory-limit is {limit / 1e9:.2g} GB: it decodes images "
                "again in each epoch. Raise memory-limit; or raster-limit, by which it keeps scaled images on disk", stacklevel=3)


_Result = Union[Tuple[Any, Any], BaseException, None]


class Pass:
    """An iterator over the batches of an epoch. Its thread ends with it."""

    def __init__(self, batches: Batches, prefetch: int, note_size: Callable[[int, int], None]) -> None:
        """note_size: called with the number of images that were loaded and their bytes, after each batch."""
        self._batches = batches
        self._note_size = note_size
        self._process = os.getpid()
        self._is_over = False
        #: Batches, and at last an error, or None at the end.
        self._ready: "queue.SimpleQueue[_Result]" = queue.SimpleQueue()
        #: Counts the batches that may be made besides those in `_ready`.
        self._room = threading.Semaphore(prefetch)
        # The thread does not refer to this object.
        self._thread = threading.Thread(
            target=_produce, args=(batches, self._ready, self._room), name="imgbroker-batches", daemon=True)
        self._finalizer = weakref.finalize(self, _stop, batches, self._room, self._process)
        self._finalizer.atexit = False
        self._thread.start()
        _passes.add(self)
        _threads.add(self._thread)

    def __iter__(self) -> "Pass":
        return self

    def __next__(self) -> Tuple[Any, Any]:
        if self._is_over:
            raise StopIteration
        if os.getpid() != self._process:
            raise RuntimeError("this iterator belongs to the parent process: call iter(loader) in this one")
        result = self._ready.get()
        self._room.release()
        if isinstance(result, tuple):
            self._note_size(self._batches.count, self._batches.bytes)
            return result
        self._is_over = True
        self._thread.join()
        if result is None:
            raise StopIteration
        raise result

    def close(self) -> None:
        """Ends the pass, its thread, and its requests."""
        self._is_over = True
        self._finalizer()
        if os.getpid() == self._process:
            self._thread.join()


def _produce(batches: Batches, ready: "queue.SimpleQueue[_Result]", room: threading.Semaphore) -> None:
    result: _Result = None
    try:
        while True:
            room.acquire()
            ready.put(next(batches))
    except (StopIteration, CancelledError):
        pass
    except BaseException as error:
        result = error
    finally:
        batches.close()
    ready.put(result)


def _stop(batches: Batches, room: threading.Semaphore, process: int) -> None:
    # Without waiting for the thread, which may need a lock of the thread that runs this.
    if os.getpid() == process:
        batches.stop()
        room.release()


_passes: "weakref.WeakSet[Pass]" = weakref.WeakSet()
_threads: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Ends all threads, which may not use PyTorch when the interpreter ends."""
    for each in list(_passes):
        each.close()
    for thread in list(_threads):
        thread.join()
