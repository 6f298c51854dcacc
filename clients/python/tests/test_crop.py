"""Random crops for PyTorch, beside torchvision's. Skipped where PyTorch is not installed, as `test_torch.py`."""

from __future__ import annotations

import pathlib
import time
from typing import Any, List, Tuple

import numpy
import PIL.Image
import pytest

import imgbroker

torch: Any = pytest.importorskip("torch")

from imgbroker._crop import Box, Crop, resized_crops_by_matrices  # noqa: E402
from imgbroker.torch import BatchLoader, ImageFolder, random_resized_crop  # noqa: E402


def textured(height: int, width: int, seed: int = 0) -> Any:
    """Returns pixels (height, width, 3) with edges and waves."""
    y, x = numpy.mgrid[:height, :width]
    waves = numpy.stack([numpy.sin(x / (5 + seed)), numpy.cos(y / 7), numpy.sin((x + y) / 11)], 2)
    return (127 + 100 * waves + 27 * numpy.sign(waves[..., ::-1])).clip(0, 255).astype(numpy.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with one class and six images that differ in size."""
    path = tmp_path_factory.mktemp("data")
    (path / "class").mkdir()
    for number in range(6):
        PIL.Image.fromarray(textured(120 + 10 * number, 150, number)).save(path / "class" / f"{number}.png")
    time.sleep(0.05)
    return path


def measures(boxes: Any) -> List[Any]:
    """Returns places, sizes, areas and aspect ratios, each sorted."""
    top, left, height, width = boxes.double().unbind(1)
    return [each.sort()[0] for each in (top, left, height, width, height * width, width / height)]


@pytest.mark.parametrize("size", [(400, 500), (60, 900), (900, 60), (3, 5)])
@pytest.mark.parametrize("arguments", [{}, {"scale": (0.5, 0.9), "ratio": (0.4, 3.0)}])
def test_boxes_have_the_distribution_of_torchvision(size: Tuple[int, int], arguments: Any, torchvision: Any) -> None:
    count = 3000
    torch.manual_seed(3)
    arguments = {"scale": (0.08, 1.0), "ratio": (3 / 4, 4 / 3), **arguments}
    crop = Crop(8, **arguments)
    ours = torch.tensor([crop.box(*size, draws) for draws in crop.draws(count)])
    image = torch.empty((3, *size), dtype=torch.uint8)
    get = torchvision.transforms.RandomResizedCrop.get_params
    theirs = torch.tensor([get(image, list(arguments["scale"]), list(arguments["ratio"])) for _ in range(count)])
    for a, b in zip(measures(ours), measures(theirs)):
        # The statistic of Kolmogorov and Smirnov, of which equal distributions exceed 0.05 in one of 1,000 cases.
        at = torch.cat([a, b])
        distance = (torch.searchsorted(a, at, right=True) - torch.searchsorted(b, at, right=True)).abs().max() / count
        assert distance < 0.05


BOXES = [Box(0, 0, 97, 131), Box(5, 9, 64, 64), Box(40, 3, 20, 100), Box(96, 130, 1, 1), Box(0, 60, 97, 30)]


@pytest.mark.parametrize("size", [(64, 64), (16, 40), (150, 160)])
def test_crops_of_a_batch_equal_those_of_torchvision(size: Tuple[int, int], torchvision: Any) -> None:
    functional = torchvision.transforms.v2.functional
    images = torch.stack([torch.from_numpy(textured(97, 131, seed)).permute(2, 0, 1) for seed in range(len(BOXES))])
    mirrored = torch.tensor([False, True, False, True, False])
    crops = resized_crops_by_matrices(images, BOXES, size, mirrored)
    assert crops.dtype == torch.uint8 and crops.shape == (len(BOXES), 3, *size)
    for image, box, crop, is_mirrored in zip(images, BOXES, crops, mirrored):
        expected = functional.resized_crop(image, *box, list(size), antialias=True)
        expected = expected.flip(2) if is_mirrored else expected
        assert (crop.int() - expected.int()).abs().max() <= 1
        exact = functional.resized_crop(image.float() / 255, *box, list(size), antialias=True)
        floats = resized_crops_by_matrices(image[None].float() / 255, [box], size, torch.tensor([False]))
        assert floats.dtype == torch.float32 and (floats[0] - exact).abs().max() < 1e-4


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_processors_and_other_devices_have_equal_crops(dtype: Any) -> None:
    images = torch.stack([torch.from_numpy(textured(97, 131, seed)).permute(2, 0, 1) for seed in range(20)]).to(dtype)
    crops = random_resized_crop(images, (40, 30), flip=0.5, generator=torch.Generator().manual_seed(1))
    generator, crop = torch.Generator().manual_seed(1), Crop((40, 30), (0.08, 1.0), (3 / 4, 4 / 3))
    boxes = [crop.box(97, 131, draws) for draws in crop.draws(20, generator)]
    others = resized_crops_by_matrices(images, boxes, (40, 30), torch.rand(20, generator=generator) < 0.5)
    assert crops.dtype == others.dtype == dtype and (crops.float() - others.float()).abs().max() <= 1


def test_each_image_of_a_batch_has_a_crop_of_its_own() -> None:
    x = torch.arange(200).expand(3, 100, 200)
    images = x.to(torch.uint8).expand(64, 3, 100, 200)
    crops = random_resized_crop(images, 32, flip=0.5, generator=torch.Generator().manual_seed(1))
    assert crops.shape == (64, 3, 32, 32)
    assert len({tuple(crop[0, 0].tolist()) for crop in crops}) > 50
    rises = (crops[:, 0, 0, -1] > crops[:, 0, 0, 0]).sum()
    assert 16 < rises < 48
    # A device without pixels takes the other way.
    assert random_resized_crop(images.to("meta"), 32, flip=0.5).shape == crops.shape
    assert (random_resized_crop(images, (10, 20))[:, 0, 0].diff().float().mean(1) > 0).all()
    assert random_resized_crop(images[:0], 32).shape == (0, 3, 32, 32)


def test_arguments(client: imgbroker.Client, folder: pathlib.Path) -> None:
    for wrong in ({"crop_size": 0}, {"crop_size": 8, "crop_scale": (0.0, 1.0)}, {"crop_size": 8, "crop_ratio": (2.0, 1.0)}):
        with pytest.raises(ValueError):
            ImageFolder(folder, client=client, **wrong)


def shapes(batches: Any) -> List[Tuple[int, ...]]:
    return [tuple(images.shape) for images, _ in batches]


@pytest.mark.parametrize("layout, shape", [("CHW", (3, 32, 48)), ("HWC", (32, 48, 3))])
def test_crops_of_a_dataset(layout: Any, shape: Tuple[int, ...], client: imgbroker.Client, folder: pathlib.Path) -> None:
    dataset = ImageFolder(folder, client=client, layout=layout, crop_size=(32, 48))
    assert dataset[0][0].shape == shape and shapes([dataset[[0, 1, 5]]]) == [(3, *shape)]
    assert not (dataset[0][0] == dataset[0][0]).all()
    assert shapes(torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=1)) == [(4, *shape), (2, *shape)]
    loader = BatchLoader(dataset, 4, generator=torch.Generator().manual_seed(1))
    first = list(loader)
    assert shapes(first) == [(4, *shape), (2, *shape)]
    second = list(loader)
    assert not (first[0][0] == second[0][0]).all()
    again = list(BatchLoader(dataset, 4, generator=torch.Generator().manual_seed(1)))
    assert all((a == b).all() for (a, _), (b, _) in zip(first, again))
    assert first[0][0].is_contiguous()


def test_crops_of_a_dataset_equal_those_of_torchvision(
    client: imgbroker.Client, folder: pathlib.Path, torchvision: Any
) -> None:
    dataset = ImageFolder(folder, client=client, crop_size=40, crop_scale=(0.2, 0.7), crop_ratio=(0.5, 2.0))
    files = [PIL.Image.open(str(path)) for path, _ in dataset.samples]
    for _ in range(3):
        state = torch.get_rng_state()
        batch = dataset[list(range(6))][0]
        torch.set_rng_state(state)
        assert dataset.crop is not None
        for image, file, draws in zip(batch, files, dataset.crop.draws(6)):
            box = dataset.crop.box(file.height, file.width, draws)
            pixels = torch.from_numpy(numpy.array(file)).permute(2, 0, 1)
            expected = torchvision.transforms.v2.functional.resized_crop(pixels, *box, [40, 40], antialias=True)
            assert (image.int() - expected.int()).abs().max() <= 1


def test_crops_and_transforms(client: imgbroker.Client, folder: pathlib.Path, torchvision: Any) -> None:
    v2 = torchvision.transforms.v2
    transform = v2.Compose([
        v2.RandomHorizontalFlip(), v2.ColorJitter(0.4, 0.4, 0.4, 0.1), v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.5] * 3, [0.5] * 3)])
    dataset = ImageFolder(folder, transform, client=client, crop_size=32)
    for batches in (BatchLoader(dataset, 3), torch.utils.data.DataLoader(dataset, batch_size=3), [dataset[[0, 1, 2]], dataset[[3, 4, 5]]]):
        for images, targets in batches:
            assert images.shape == (3, 3, 32, 32) and images.dtype == torch.float32 and -1 <= images.min() < images.max() <= 1


def test_batches_equal_the_decoding_of_torchvision(
    client: imgbroker.Client, tmp_path: pathlib.Path, torchvision: Any
) -> None:
    (tmp_path / "class").mkdir()
    for number in range(8):
        PIL.Image.fromarray(textured(180, 240, number)).save(tmp_path / "class" / f"{number}.jpg", quality=70 + 3 * number)
    theirs = torchvision.datasets.ImageFolder(tmp_path, torchvision.transforms.PILToTensor())
    ours = ImageFolder(tmp_path, client=client)
    assert [str(path) for path, _ in ours.samples] == [path for path, _ in theirs.samples]
    expected = next(iter(torch.utils.data.DataLoader(theirs, batch_size=8)))
    (batch,) = list(BatchLoader(ours, 8))
    assert (batch[0].float() - expected[0].float()).abs().mean() < 1 and (batch[1] == expected[1]).all()
