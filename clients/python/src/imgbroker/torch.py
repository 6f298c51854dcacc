"""Training data for PyTorch: datasets whose images the broker decodes, once for all processes.

    from imgbroker.torch import ImageFolder
    dataset = ImageFolder("photographs", width=224, height=224, fit="cover")
    for images, targets in torch.utils.data.DataLoader(dataset, batch_size=64, shuffle=True, num_workers=4):
        ...
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterable, List, Literal, Optional, Sequence, Tuple, Union, cast

from ._client import Client, Result, Source, Wish, title_of
from ._errors import ProcessLimitError
from ._image import Image
from ._memory import populate
from ._region import Region
from ._session import Form

try:
    import torch
    from torch.utils.data import Dataset, default_collate
except ImportError as error:
    raise ImportError("imgbroker.torch requires PyTorch: pip install torch") from error

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import GetOptions

__all__ = ["EXTENSIONS", "ImageFolder", "ImageList", "tensor"]

#: The names' ends, in lower case, of the files that `ImageFolder` takes by default.
EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".avif")

#: In a larger list of items, images are copied: each that is not takes one or two of the process's descriptors.
_MOST_WITHOUT_COPY = 128
#: In a larger batch, images are copied: each that is not takes a descriptor, also in the batch before.
_MOST_IN_MAPPED_BATCH = 256


def tensor(image: Image, *, layout: Literal["CHW", "HWC"] = "CHW") -> "torch.Tensor":
    """Returns the pixels as a tensor of `uint8`, without a copy if the image was requested with `writable=True`.

    PyTorch has no read-only tensors, so that of another image is a copy. The tensor keeps the memory valid. `CHW` has the
    strides of `torch.channels_last`.
    """
    offset, stride, channels = image._layout(0)
    pixels = bytearray(image.buffer) if image.buffer.readonly else image.buffer
    rows = torch.frombuffer(pixels, dtype=torch.uint8).as_strided(
        (image.height, image.width, channels), (stride, channels, 1), offset)
    return rows if layout == "HWC" else rows.permute(2, 0, 1)


class ImageList(Dataset[Tuple[Any, Any]]):
    """A dataset of local files and URLs.

    An item is an image and a target. The image is a tensor of `uint8` over the memory that the broker shares, without a
    copy. It may be changed: the changed pages become private memory of the tensor. It is valid as long as it exists.

    Workers of a `DataLoader`, forked or spawned, and processes that unpickle the dataset connect to the broker themselves.
    """

    def __init__(
        self, samples: Iterable[Tuple[Source, Any]], transform: Optional[Callable[[Any], Any]] = None,
        target_transform: Optional[Callable[[Any], Any]] = None, *, layout: Literal["CHW", "HWC"] = "CHW",
        errors: Literal["raise", "return"] = "raise", contiguous: bool = True, client: Optional[Client] = None,
        in_flight: int = 64, **options: "Unpack[GetOptions]",
    ) -> None:
        """Creates a dataset of pairs of a source and a target.

        transform, target_transform: called with each image and each target; an item has their results.
        layout: the order of an image's dimensions: channels, height and width, or as in memory height, width and channels.
        errors: `raise` raises the error of an image, an `ImageBrokerError` or `OSError`; with `return`, the item has the
            error instead of the image.
        contiguous: whether the images of a batch that is requested by a list of indices follow each other without a gap, for
            which each is copied. See `__getitem__`.
        client: the connection; by default one to the default socket.
        in_flight: the maximum of concurrent requests for one batch.
        options: of `Client.get`, for pixels of one frame; `pixel_format` is by default `rgb8`.
        """
        if layout not in ("CHW", "HWC"):
            raise ValueError(f"layout={layout!r}: use 'CHW' or 'HWC'")
        if errors not in ("raise", "return"):
            raise ValueError(f"errors={errors!r}: use 'raise' or 'return'")
        if options.get("as_", "pixels") != "pixels" or options.get("frame") == "all" or options.get("delivery") == "none":
            raise ValueError("a tensor requires the pixels of one frame: omit as_, delivery='none' and frame='all'")
        self.samples: List[Tuple[Source, Any]] = list(samples)
        self.transform = transform
        self.target_transform = target_transform
        self.layout: Literal["CHW", "HWC"] = layout
        self.errors = errors
        self.contiguous = contiguous
        self.in_flight = in_flight
        self.options: Dict[str, Any] = {"pixel_format": "rgb8", **options}
        self.client = Client() if client is None else client

    @property
    def targets(self) -> List[Any]:
        """The target of each sample."""
        return [target for _, target in self.samples]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: Union[int, List[int]]) -> Tuple[Any, Any]:
        """Returns an item, or for a list of indices a batch: the images as one tensor, and the targets.

        A `DataLoader` with `batch_size=None` and a `BatchSampler` as its `sampler` requests batches in this way. Each image is
        copied once, from the shared memory into the batch.

        With `contiguous=False` and at most 256 images, images are not copied, except small ones in segments: each is mapped,
        from the beginning of a page on. Between two images are up to a page of other bytes, so that `view` cannot join the
        first dimension with others, and PyTorch makes a contiguous copy where it needs one, as for a GPU. As long as the batch
        or a part of it exists, the broker keeps its images in memory, and each takes a descriptor: do not collect them. A
        changed page becomes private memory of the batch. From a worker of a `DataLoader`, PyTorch copies the batch to the other
        process, with the bytes between the images.

        With a `transform`, single items are put together as by a `DataLoader`.
        """
        return self._batch(index) if isinstance(index, list) else self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> List[Tuple[Any, Any]]:
        """Returns the items of a batch, which are requested together; PyTorch 2 calls it."""
        chosen = [self.samples[index] for index in indices]
        copies = len(chosen) > _MOST_WITHOUT_COPY
        results = self.client.get_many(
            [source for source, _ in chosen], in_flight=self.in_flight, writable=True, **cast(Any, self.options))
        return [self._item(result, target, copies) for result, (_, target) in zip(results, chosen)]

    def _batch(self, indices: List[int]) -> Tuple[Any, Any]:
        if self.errors == "return":
            raise ValueError("a batch has no room for errors: use errors='raise', or a collate_fn with single items")
        if not indices:
            raise ValueError("a batch of no items")
        if self.transform is not None:
            return cast(Tuple[Any, Any], tuple(default_collate(self.__getitems__(indices))))
        chosen = [self.samples[index] for index in indices]
        batch: Optional[_Batch] = None
        copies = self.contiguous or len(chosen) > _MOST_IN_MAPPED_BATCH
        wish = Wish(self.options, Form.SHARED if copies else Form.UNMAPPED)
        results = self.client.many(
            [source for source, _ in chosen], wish, ordered=True, in_flight=self.in_flight, together=True)
        for result in results:
            image = result.get()
            if batch is None:
                if copies:
                    batch = _CopiedBatch(image, len(chosen), _memory)
                else:
                    batch = _MappedBatch(image, len(chosen), self.client, self.options)
            batch.add(image, result.source)
            del image, result
        targets = [
            target if self.target_transform is None else self.target_transform(target) for _, target in chosen]
        assert batch is not None
        return batch.tensor(self.layout), default_collate(targets)

    def _item(self, result: Result, target: Any, copies: bool) -> Tuple[Any, Any]:
        if self.target_transform is not None:
            target = self.target_transform(target)
        if result.error is not None and self.errors == "return":
            return result.error, target
        image: Any = tensor(result.get(), layout=self.layout)
        if copies:
            image = image.clone()
        return (image if self.transform is None else self.transform(image)), target


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

    def tensor(self, layout: str) -> "torch.Tensor":
        """Returns all images. `CHW` has the strides of `torch.channels_last`."""
        images = self._images()
        return images if layout == "HWC" else images.permute(0, 3, 1, 2)

    def _images(self) -> "torch.Tensor":
        raise NotImplementedError

    def _copy(self, image: Image, memory: "memoryview[int]", begin: int) -> None:
        offset, stride, _ = image._layout(0)
        # At once, unless rows have padding.
        rows, step = (1, self._size) if stride == self._row else (image.height, self._row)
        pixels = image.buffer
        for source in range(offset, offset + rows * stride, stride):
            memory[begin:begin + step] = pixels[source:source + step]
            begin += step


class _CopiedBatch(_Batch):
    """One after the other in memory of their own."""

    def __init__(self, first: Image, count: int, memory: "_Memory") -> None:
        super().__init__(first, count)
        self._memory = memory.take(count * self._size)
        self._end = 0

    def add(self, image: Image, source: Source) -> None:
        super().add(image, source)
        self._copy(image, self._memory, self._end)
        self._end += self._size

    def _images(self) -> "torch.Tensor":
        size = self._shape[0] * self._size
        return torch.frombuffer(self._memory, dtype=torch.uint8, count=size).view(self._shape)


class _MappedBatch(_Batch):
    """Each mapped at the next beginning of a page."""

    def __init__(self, first: Image, count: int, client: Client, options: Dict[str, Any]) -> None:
        super().__init__(first, count)
        self._client = client
        self._options = options
        self._distance = -(-self._size // mmap.PAGESIZE) * mmap.PAGESIZE
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
        self._copy(found, memoryview(self._region), begin)

    def _is_mappable(self, image: Image) -> bool:
        reply = image._reply
        return reply.stride == self._row and reply.offset % mmap.PAGESIZE == 0

    def _images(self) -> "torch.Tensor":
        populate(self._region)
        pixels = torch.frombuffer(self._region, dtype=torch.uint8)
        return pixels.as_strided(self._shape, (self._distance, self._row, self._shape[3], 1))


def _no_addresses(error: OSError) -> ProcessLimitError:
    return ProcessLimitError(f"this process cannot map the images of a batch ({error})")


class ImageFolder(ImageList):
    """A dataset of the files in a folder that has a folder for each class, as torchvision's `ImageFolder`.

    The target of a file is the index of its class. `samples`, `targets`, `classes` and `class_to_idx` equal torchvision's
    for the same files.
    """

    def __init__(
        self, root: "str | os.PathLike[str]", transform: Optional[Callable[[Any], Any]] = None,
        target_transform: Optional[Callable[[Any], Any]] = None, *,
        is_valid_file: Optional[Callable[[str], bool]] = None, allow_empty: bool = False,
        layout: Literal["CHW", "HWC"] = "CHW", errors: Literal["raise", "return"] = "raise", contiguous: bool = True,
        client: Optional[Client] = None, in_flight: int = 64, **options: "Unpack[GetOptions]",
    ) -> None:
        """Finds the files; see `ImageList` for the other arguments.

        is_valid_file: called with each path; returns whether it is a sample. By default files with an `EXTENSIONS`.
        allow_empty: permits classes without files, otherwise a `FileNotFoundError`.
        """
        self.root = os.fspath(root)
        self.classes = sorted(entry.name for entry in os.scandir(self.root) if entry.is_dir())
        if not self.classes:
            raise FileNotFoundError(f"{self.root} has no folder, and requires one for each class")
        self.class_to_idx = {name: index for index, name in enumerate(self.classes)}
        samples: List[Tuple[Source, Any]] = []
        for name, index in self.class_to_idx.items():
            paths = _files(os.path.join(self.root, name), is_valid_file or _has_extension)
            if not paths and not allow_empty:
                raise FileNotFoundError(f"{os.path.join(self.root, name)} has no image; allow_empty=True permits that")
            samples += [(path, index) for path in paths]
        super().__init__(
            samples, transform, target_transform, layout=layout, errors=errors, contiguous=contiguous, client=client,
            in_flight=in_flight, **options)


def _has_extension(path: str) -> bool:
    return path.lower().endswith(EXTENSIONS)


def _files(folder: str, is_valid: Callable[[str], bool]) -> List[str]:
    """Returns the paths of the files below a folder, in torchvision's order."""
    return [
        path for root, _, names in sorted(os.walk(folder, followlinks=True))
        for path in (os.path.join(root, name) for name in sorted(names)) if is_valid(path)
    ]
