"""Random crops with the distribution of torchvision's `RandomResizedCrop`, of each image by itself."""

from __future__ import annotations

import math
from typing import List, NamedTuple, Optional, Sequence, Tuple, Union

import torch

Size = Union[int, Tuple[int, int]]

#: The attempts to find a crop that fits into the image, before the largest one in its centre is used.
_ATTEMPTS = 10


class Box(NamedTuple):
    """A part of an image, in pixels."""

    top: int
    left: int
    height: int
    width: int


class Crop:
    """Where crops are, and their size."""

    def __init__(self, size: Size, scale: Sequence[float], ratio: Sequence[float]) -> None:
        """Raises `ValueError`.

        size: height and width of the results; a number is both.
        scale: the least and the greatest share of an image's area.
        ratio: the least and the greatest aspect ratio, width divided by height.
        """
        self.size: Tuple[int, int] = (size, size) if isinstance(size, int) else (size[0], size[1])
        if min(self.size) < 1:
            raise ValueError(f"crops of {self.size[1]} × {self.size[0]} pixels")
        if len(scale) != 2 or not 0 < scale[0] <= scale[1] or len(ratio) != 2 or not 0 < ratio[0] <= ratio[1]:
            raise ValueError(f"scale={scale!r} and ratio={ratio!r}: each is a least and a greatest number above 0")
        self.scale = scale
        self.ratio = ratio

    def draws(self, count: int, generator: Optional["torch.Generator"] = None) -> List[List[float]]:
        """Draws the random numbers for `count` boxes, by default with PyTorch's global generator."""
        numbers: List[List[float]] = torch.rand((count, 2 * _ATTEMPTS + 2), dtype=torch.float64, generator=generator).tolist()
        return numbers

    def box(self, height: int, width: int, draws: Sequence[float]) -> Box:
        """Returns the part of an image that random numbers choose."""
        low, high = self.ratio
        for attempt in range(0, 2 * _ATTEMPTS, 2):
            area = height * width * (self.scale[0] + (self.scale[1] - self.scale[0]) * draws[attempt])
            aspect = low * (high / low) ** draws[attempt + 1]
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                return Box(int((height - h + 1) * draws[-2]), int((width - w + 1) * draws[-1]), h, w)
        w, h = min(width, max(1, round(height * high))), min(height, max(1, round(width / low)))
        return Box((height - h) // 2, (width - w) // 2, h, w)

    def apply(self, image: "torch.Tensor", draws: Sequence[float]) -> "torch.Tensor":
        """Returns a crop of an image (height, width, channels)."""
        box = self.box(image.shape[0], image.shape[1], draws)
        return _resized_crop(image.permute(2, 0, 1), box, self.size).permute(1, 2, 0)


def _resized_crop(image: "torch.Tensor", box: Box, size: Tuple[int, int]) -> "torch.Tensor":
    """Returns a part of an image (channels, height, width), scaled bilinearly with antialiasing."""
    part = image[None, :, box.top:box.top + box.height, box.left:box.left + box.width]
    return torch.nn.functional.interpolate(part, size, mode="bilinear", antialias=True)[0]


def random_resized_crop(
    images: "torch.Tensor", size: Size, scale: Sequence[float] = (0.08, 1.0), ratio: Sequence[float] = (3 / 4, 4 / 3), *,
    flip: float = 0.0, generator: Optional["torch.Generator"] = None,
) -> "torch.Tensor":
    """Returns a random crop of each image of a batch (count, channels, height, width), scaled to one size, on the batch's device.

    Each image has a crop of its own, where torchvision's transform has one for the whole batch. The crops have the distribution
    and, but for rounding, the pixels of torchvision's `RandomResizedCrop` of each image.

    size, scale, ratio: as of `RandomResizedCrop`.
    flip: the probability with which each image is mirrored from left to right.
    generator: of the processor; by default PyTorch's global one.
    """
    crop = Crop(size, scale, ratio)
    count, _, height, width = images.shape
    boxes = [crop.box(height, width, draws) for draws in crop.draws(count, generator)]
    mirrored = torch.rand(count, generator=generator) < flip
    if images.device.type != "cpu" or not count:
        return resized_crops_by_matrices(images, boxes, crop.size, mirrored)
    crops = [_resized_crop(image, box, crop.size) for image, box in zip(images, boxes)]
    return torch.stack([image.flip(2) if is_mirrored else image for image, is_mirrored in zip(crops, mirrored.tolist())])


def resized_crops_by_matrices(
    images: "torch.Tensor", boxes: Sequence[Box], size: Tuple[int, int], mirrored: "torch.Tensor"
) -> "torch.Tensor":
    """Returns what `_resized_crop` does for each image, by a multiplication of matrices for each direction: for a GPU, on which one
    operation for each image would take longer."""
    top, left, height, width = torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4).to(images.device).unbind(1)
    vertical = _weights(top, height, images.shape[2], size[0])
    horizontal = _weights(left, width, images.shape[3], size[1])
    horizontal = torch.where(mirrored.to(images.device)[:, None, None], horizontal.flip(1), horizontal)
    pixels = vertical[:, None] @ images.float() @ horizontal.transpose(1, 2)[:, None]
    return pixels.round().clamp(0, 255).to(torch.uint8) if images.dtype == torch.uint8 else pixels.to(images.dtype)


def _weights(start: "torch.Tensor", length: "torch.Tensor", source: int, target: int) -> "torch.Tensor":
    """Returns the share of each of `source` pixels in each of `target` ones, for each crop."""
    scale = length[:, None] / target
    centers = (torch.arange(target, device=start.device) + 0.5) * scale
    places = torch.arange(source, device=start.device) + 0.5 - start[:, None]
    weights = 1 - (places[:, None] - centers[:, :, None]).abs() / scale.clamp(min=1)[:, :, None]
    weights = weights.clamp(min=0) * ((places > 0) & (places < length[:, None]))[:, None]
    return weights / weights.sum(2, keepdim=True)
