"""Training data for PyTorch: datasets whose images the broker decodes, once for all processes.

    from imgbroker.torch import BatchLoader, ImageFolder
    dataset = ImageFolder("photographs", width=224, height=224, fit="cover")
    for images, targets in BatchLoader(dataset, 64, shuffle=True):
        ...
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Literal, Optional, Sequence, Tuple, Union, cast

from ._client import Client, Result, Source
from ._image import Image

try:
    import torch
    from torch.utils.data import Dataset
except ImportError as error:
    raise ImportError("imgbroker.torch requires PyTorch: pip install torch") from error

from ._batch import Batches
from ._crop import Crop, Size, random_resized_crop
from ._loader import BatchLoader
from ._memory import in_pages

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import GetOptions

__all__ = ["EXTENSIONS", "BatchLoader", "ImageFolder", "ImageList", "random_resized_crop", "tensor"]

#: The names' ends, in lower case, of the files that `ImageFolder` takes by default.
EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".avif")

#: In a larger list of items, images are copied: each that is not takes one or two of the process's descriptors.
_MOST_WITHOUT_COPY = 128
#: The most images that `memory_needed` loads.
_SAMPLED = 64


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
        errors: Literal["raise", "return"] = "raise", contiguous: bool = True, crop_size: Optional[Size] = None,
        crop_scale: Tuple[float, float] = (0.08, 1.0), crop_ratio: Tuple[float, float] = (3 / 4, 4 / 3),
        client: Optional[Client] = None, in_flight: int = 64, **options: "Unpack[GetOptions]",
    ) -> None:
        """Creates a dataset of pairs of a source and a target.

        transform, target_transform: called with each image and each target; an item has their results.
        layout: the order of an image's dimensions: channels, height and width, or as in memory height, width and channels.
        errors: `raise` raises the error of an image, an `ImageBrokerError`, `OSError` or `ValueError`; with `return`, the item
            has the error instead of the image.
        contiguous: whether the images of a batch that is requested by a list of indices follow each other without a gap, for
            which each is copied. See `__getitem__`.
        crop_size, crop_scale, crop_ratio: with a size, an item has a random part of its image, scaled to that height and width, as
            of torchvision's `RandomResizedCrop(size, scale, ratio)`. It is taken from the cached image, in this process, and
            comes before `transform`.
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
        self.crop = None if crop_size is None else Crop(crop_size, crop_scale, crop_ratio)
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
        return next(Batches(self, iter([index]))) if isinstance(index, list) else self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> List[Tuple[Any, Any]]:
        """Returns the items of a batch, which are requested together; PyTorch 2 calls it."""
        chosen = [self.samples[index] for index in indices]
        copies = len(chosen) > _MOST_WITHOUT_COPY
        results = self.client.get_many(
            [source for source, _ in chosen], in_flight=self.in_flight, writable=True, **cast(Any, self.options))
        draws = self.draws(len(chosen))
        return [self._item(result, target, numbers, copies) for result, (_, target), numbers in zip(results, chosen, draws)]

    def memory_needed(self) -> int:
        """Returns the bytes of the broker's memory that all images take as this dataset requests them. They should be fewer than its
        `memory-limit`: `client.stats()["memoryLimitBytes"]`.

        Exact but for the broker's own 2 % if `width`, `height` and `fit="cover"` or `"fill"` make all images equal. Otherwise an
        estimate by 64 images, evenly spread, which are loaded for it; those that fail are left out.
        """
        exact = {"width", "height"} <= self.options.keys() and self.options.get("fit") in ("cover", "fill")
        count = min(len(self.samples), 1 if exact and not self.options.get("scale_down") else _SAMPLED)
        chosen = [self.samples[number * len(self.samples) // count][0] for number in range(count)]
        options = {**self.options, "delivery": "none"}
        results = list(self.client.get_many(chosen, in_flight=self.in_flight, **cast(Any, options)))
        sizes = [in_pages(result.image.nbytes) for result in results if result.image is not None]
        if results and not sizes:
            results[0].get()
        return sum(sizes) * len(self.samples) // max(1, len(sizes))

    def _item(self, result: Result, target: Any, draws: Sequence[float], copies: bool) -> Tuple[Any, Any]:
        target = self.target(target)
        if result.error is not None and self.errors == "return":
            return result.error, target
        image = self.cropped(tensor(result.get(), layout="HWC"), draws)
        return self.transformed(image.clone() if copies and self.crop is None else image), target

    # The following is for this package's loaders.

    @property
    def has_items(self) -> bool:
        """Whether each image of a batch is made by itself."""
        return self.transform is not None or self.crop is not None

    def target(self, target: Any) -> Any:
        """Returns the target of an item."""
        return target if self.target_transform is None else self.target_transform(target)

    def draws(self, count: int, generator: Optional["torch.Generator"] = None) -> Sequence[Sequence[float]]:
        """Draws the random numbers of the crops of `count` items."""
        return [()] * count if self.crop is None else self.crop.draws(count, generator)

    def cropped(self, image: "torch.Tensor", draws: Sequence[float]) -> "torch.Tensor":
        """Returns the part of an image that random numbers choose, if this dataset has crops. Both are in the layout HWC."""
        return image if self.crop is None else self.crop.apply(image, draws)

    def transformed(self, image: "torch.Tensor") -> Any:
        """Returns the image of an item for one in the layout HWC."""
        image = self.laid_out(image)
        return image if self.transform is None else self.transform(image)

    def laid_out(self, images: "torch.Tensor") -> "torch.Tensor":
        """Returns an image or images of the layout HWC in that of this dataset."""
        return images if self.layout == "HWC" else images.movedim(-1, -3)


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
        crop_size: Optional[Size] = None, crop_scale: Tuple[float, float] = (0.08, 1.0),
        crop_ratio: Tuple[float, float] = (3 / 4, 4 / 3), client: Optional[Client] = None, in_flight: int = 64,
        **options: "Unpack[GetOptions]",
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
            samples, transform, target_transform, layout=layout, errors=errors, contiguous=contiguous, crop_size=crop_size,
            crop_scale=crop_scale, crop_ratio=crop_ratio, client=client, in_flight=in_flight, **options)


def _has_extension(path: str) -> bool:
    return path.lower().endswith(EXTENSIONS)


def _files(folder: str, is_valid: Callable[[str], bool]) -> List[str]:
    """Returns the paths of the files below a folder, in torchvision's order."""
    return [
        path for root, _, names in sorted(os.walk(folder, followlinks=True))
        for path in (os.path.join(root, name) for name in sorted(names)) if is_valid(path)
    ]
