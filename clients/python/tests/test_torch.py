"""Datasets for PyTorch. Skipped where it is not installed: `make test-torch` installs it."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import pathlib
import pickle
import re
import socket
import threading
import time
import warnings
from collections import deque
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy
import PIL.Image
import pytest

import imgbroker
from support import ROOT, Broker, Origin, Picture, eventually, open_descriptors, run_python

torch: Any = pytest.importorskip("torch")

from imgbroker._region import Region  # noqa: E402
from imgbroker.torch import ImageFolder, ImageList, tensor  # noqa: E402


#: The class of each file, whose pixels have the colour (20 × number, 100, 50).
FILES = {
    "cat/1.png": 1, "cat/deep/2.png": 2, "cat/3.PNG": 3, "dog/4.png": 4, "dog/5.png": 5, "dog/6.png": 6, "emu/7.png": 7,
    "emu/8.png": 8,
}


@pytest.fixture
def folder(tmp_path: pathlib.Path, picture: Picture) -> pathlib.Path:
    """A folder with three classes and eight images."""
    for name, number in FILES.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(32, 24, (20 * number, 100, 50)))
    (tmp_path / "data" / "dog" / "notes.txt").write_text("no image")
    return tmp_path / "data"


@pytest.fixture
def memfd_client(memfd_broker: Broker) -> Iterator[imgbroker.Client]:
    with imgbroker.Client(memfd_broker.socket) as client:
        yield client


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    """PyTorch warns of memory that it must not write to."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def number_of(image: Any) -> int:
    """Returns the number of the file of an image, by its first pixel; all pixels must have that colour."""
    assert image.shape == (3, 24, 32) and image.dtype == torch.uint8
    assert (image == image[:, :1, :1]).all() and image[1:, 0, 0].tolist() == [100, 50]
    return int(image[0, 0, 0]) // 20


def epoch(loader: Any) -> Dict[int, int]:
    """Returns the target of each file of an epoch, in its order."""
    found: Dict[int, int] = {}
    for images, targets in loader:
        for image, target in zip(images, targets):
            found[number_of(image)] = int(target)
    return found


EXPECTED = {number: ["cat", "dog", "emu"].index(name.split("/")[0]) for name, number in FILES.items()}


def negative(image: Any) -> Any:
    return image.neg_()


def keep_list(items: List[Any]) -> List[Any]:
    return items


# Files


def test_folder(client: imgbroker.Client, folder: pathlib.Path) -> None:
    dataset = ImageFolder(folder, client=client)
    assert dataset.classes == ["cat", "dog", "emu"] and dataset.class_to_idx == {"cat": 0, "dog": 1, "emu": 2}
    assert [os.path.relpath(str(path), folder) for path, _ in dataset.samples] == [
        "cat/1.png", "cat/3.PNG", "cat/deep/2.png", "dog/4.png", "dog/5.png", "dog/6.png", "emu/7.png", "emu/8.png"]
    assert dataset.targets == [0, 0, 0, 1, 1, 1, 2, 2] and len(dataset) == 8
    assert [(number_of(image), target) for image, target in (dataset[1], dataset[-1])] == [(3, 0), (8, 2)]
    chosen = ImageFolder(folder, is_valid_file=lambda path: path.endswith("4.png"), allow_empty=True, client=client)
    assert len(chosen) == 1 and chosen.targets == [1]
    with pytest.raises(IndexError):
        dataset[8]


def test_folder_without_images(folder: pathlib.Path) -> None:
    (folder / "fox").mkdir()
    with pytest.raises(FileNotFoundError, match="fox has no image"):
        ImageFolder(folder)
    assert ImageFolder(folder, allow_empty=True).class_to_idx["fox"] == 3
    with pytest.raises(FileNotFoundError, match="has no folder"):
        ImageFolder(folder / "fox")


def test_list_of_files_and_urls(
    client: imgbroker.Client, folder: pathlib.Path, origin: Origin, picture: Picture
) -> None:
    url = origin.add("/torch.png", picture(32, 24, (180, 100, 50)))
    dataset = ImageList([(folder / "cat" / "1.png", "a"), (url, "b")], client=client)
    assert [(number_of(image), target) for image, target in dataset.__getitems__([1, 0])] == [(9, "b"), (1, "a")]


def test_readme(broker: Broker, tmp_path: pathlib.Path, picture: Picture) -> None:
    text = (ROOT / "clients" / "python" / "README.md").read_text()
    block = re.search(r"```python\n(import torch\n.*?)```", text, re.DOTALL)
    assert block is not None
    for number in range(65):
        path = tmp_path / "photographs" / str(number % 2) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(30 + number, 20))
    script = "def train(images, targets): print(tuple(images.shape), sorted(set(targets.tolist())))\n" + block[1]
    run = run_python("-c", script, socket=broker.socket, folder=tmp_path)
    first, last = run.stdout.splitlines()
    assert first == "(64, 3, 224, 224) [0, 1]" and last.startswith("(1, 3, 224, 224)"), run.stderr


# Pixels


def test_equals_pillow(client: imgbroker.Client, tmp_path: pathlib.Path) -> None:
    waves = numpy.add.outer(numpy.sin(numpy.arange(150) / 9), numpy.cos(numpy.arange(201) / 7))[..., None]
    pixels = (128 + waves * numpy.array([60, 40, -50])).astype(numpy.uint8)
    (tmp_path / "class").mkdir()
    PIL.Image.fromarray(pixels).save(tmp_path / "class" / "waves.jpg", quality=90)
    with PIL.Image.open(tmp_path / "class" / "waves.jpg") as image:
        reference = numpy.asarray(image.convert("RGB")).astype(int)
        small = numpy.asarray(image.convert("RGB").resize((100, 75), PIL.Image.Resampling.BOX, reducing_gap=None))
    full = ImageFolder(tmp_path, layout="HWC", client=client)[0][0]
    assert full.shape == (150, 201, 3) and abs(full.numpy().astype(int) - reference).max() <= 3
    half = ImageFolder(tmp_path, width=100, height=75, fit="fill", layout="HWC", client=client)[0][0]
    assert half.shape == (75, 100, 3) and abs(half.numpy().astype(int) - small).mean() <= 3


def test_layouts_and_options(client: imgbroker.Client, folder: pathlib.Path) -> None:
    def shape(**options: Any) -> Tuple[int, ...]:
        return tuple(ImageFolder(folder, client=client, **options)[0][0].shape)

    assert shape() == (3, 24, 32) and shape(layout="HWC") == (24, 32, 3)
    assert shape(width=8, height=8, fit="cover") == (3, 8, 8)
    assert shape(crop=(0, 0, 10, 4)) == (3, 4, 10)
    assert shape(pixel_format="gray8") == (1, 24, 32) and shape(pixel_format="gray8", layout="HWC") == (24, 32, 1)
    assert shape(pixel_format="rgba8") == (4, 24, 32)
    for wrong in ({"layout": "WHC"}, {"errors": "ignore"}, {"as_": "png"}, {"frame": "all"}, {"delivery": "none"}):
        with pytest.raises(ValueError):
            shape(**wrong)
    with pytest.raises(TypeError, match="widht"):
        shape(widht=3)


def test_tensors_share_memory_and_may_be_changed(memfd_client: imgbroker.Client, folder: pathlib.Path) -> None:
    dataset = ImageFolder(folder, client=memfd_client)
    (first, _), (same, _) = dataset.__getitems__([0, 0])
    maps = pathlib.Path("/proc/self/maps").read_text().splitlines()
    line = next(line for line in maps if _contains(line, first.data_ptr()))
    assert "/memfd:" in line and "rw-p" in line
    first.zero_()
    # Neither another tensor nor another request gets the change.
    assert number_of(same) == number_of(dataset[0][0]) == 1
    assert memfd_client.get(dataset.samples[0][0], pixel_format="rgb8").numpy()[0, 0].tolist() == [20, 100, 50]
    memfd_client.close()
    gc.collect()
    assert number_of(same) == 1 and (first == 0).all()


def _contains(line: str, address: int) -> bool:
    begin, end = (int(number, 16) for number in line.split()[0].split("-"))
    return begin <= address < end


def test_tensor_of_one_image(client: imgbroker.Client, folder: pathlib.Path) -> None:
    path = folder / "cat" / "1.png"
    for writable in (True, False):
        image = client.get(path, pixel_format="rgb8", writable=writable)
        pixels = tensor(image)
        assert number_of(pixels) == 1 and tensor(image, layout="HWC").shape == (24, 32, 3)
        pixels.zero_()
        assert (image.numpy().max() == 0) == writable
    with pytest.raises(ValueError, match="encoded"):
        tensor(client.get(path, as_="png"))


def test_transforms(client: imgbroker.Client, folder: pathlib.Path) -> None:
    dataset = ImageFolder(folder, negative, lambda target: -target, client=client)
    for _ in range(2):
        image, target = dataset[3]
        assert (image[:, 0, 0].tolist(), target) == ([256 - 80, 256 - 100, 256 - 50], -1)


# Memory


def test_memory_is_released(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    with Broker(tmp_path, "--segments", "off") as broker:
        # Without kept images, whose leases stay.
        with imgbroker.Client(broker.socket) as other, imgbroker.Client(broker.socket, keep_images=0) as client:
            dataset = ImageFolder(folder, client=client)
            assert client.stats()["leasedBytes"] == other.stats()["leasedBytes"] == 0
            before = open_descriptors()
            items = dataset.__getitems__(range(8))
            part = items[0][0][1:, :4]
            assert other.stats()["leasedBytes"] >= 8 * 32 * 24 * 3
            del items
            eventually(lambda: 0 < other.stats()["leasedBytes"] < 8 * 32 * 24 * 3)
            assert part[0, 0, 0] == 100
            del part
            eventually(lambda: other.stats()["leasedBytes"] == 0)
            eventually(lambda: client.stats() and open_descriptors() <= before)


def test_large_batch_takes_few_descriptors(client: imgbroker.Client, folder: pathlib.Path) -> None:
    dataset = ImageFolder(folder, client=client)
    client.stats()
    before = open_descriptors()
    items = dataset.__getitems__([number % 8 for number in range(400)])
    assert [number_of(image) for image, _ in items[392:]] == [1, 3, 2, 4, 5, 6, 7, 8]
    assert open_descriptors() - before <= 2 * 64 + 16


def test_second_epoch_takes_no_request(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    with Broker(tmp_path) as broker:
        with imgbroker.Client(broker.socket) as other, imgbroker.Client(broker.socket) as client:
            dataset = ImageFolder(folder, client=client)
            numbers = [number_of(image) for image, _ in dataset.__getitems__(range(8))]
            requests = other.stats()["requests"]
            items = dataset.__getitems__(range(8))
            assert [number_of(image) for image, _ in items] == numbers
            assert other.stats()["requests"] == requests
            # Each item may be changed, and no other changes.
            items[0][0][:] = 0
            assert number_of(dataset[0][0]) == numbers[0]


# Loaders


def test_batch_is_requested_together(
    client: imgbroker.Client, origin: Origin, picture: Picture, gate: threading.Event
) -> None:
    names = [f"/together-{number}.png" for number in range(4)]
    urls = [origin.add(name, picture(32, 24, (20, 100, 50)), gate=gate) for name in names]

    def open_gate() -> None:
        eventually(lambda: set(names) <= set(origin.requests))
        gate.set()

    opener = threading.Thread(target=open_gate)
    opener.start()
    loader = torch.utils.data.DataLoader(ImageList([(url, 0) for url in urls], client=client), batch_size=4)
    assert len(epoch(loader)) == 1
    opener.join()


def batches(dataset: Any, size: int, **arguments: Any) -> Any:
    """Returns a loader that requests whole batches of the dataset."""
    data = torch.utils.data
    sampler = data.BatchSampler(data.RandomSampler(dataset), size, drop_last=False)
    return data.DataLoader(dataset, batch_size=None, sampler=sampler, **arguments)


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_equal_collated_items(
    workers: int, contiguous: bool, client: imgbroker.Client, folder: pathlib.Path
) -> None:
    dataset = ImageFolder(folder, client=client, contiguous=contiguous)
    assert [epoch(batches(dataset, 3, num_workers=workers)) for _ in range(2)] == [EXPECTED, EXPECTED]
    assert epoch(batches(torch.utils.data.Subset(dataset, list(range(8))), 8, num_workers=workers)) == EXPECTED
    for options in (
        {}, {"layout": "HWC"}, {"pixel_format": "gray8"}, {"pixel_format": "rgba8"}, {"transform": negative},
        {"in_flight": 1, "width": 32}, {"in_flight": 3, "width": 31}, {"in_flight": 4, "width": 30}, {"delivery": "inline"},
    ):
        dataset = ImageFolder(
            folder, client=client, target_transform=lambda target: target + 5, contiguous=contiguous, **options)
        images, targets = dataset[[7, 0, 3, 0]]
        collated = torch.utils.data.default_collate([dataset[index] for index in (7, 0, 3, 0)])
        assert images.shape == collated[0].shape and (images == collated[0]).all()
        assert targets.tolist() == collated[1].tolist() == [7, 5, 6, 5]


def test_batch_is_memory_of_its_own(client: imgbroker.Client, folder: pathlib.Path) -> None:
    dataset = ImageFolder(folder, client=client)
    images = dataset[[0, 0]][0]
    assert images.is_contiguous(memory_format=torch.channels_last)
    images[0].zero_()
    assert number_of(images[1]) == 1 and number_of(dataset[0][0]) == 1 and number_of(dataset[[0]][0][0]) == 1


def test_mapped_batch(tmp_path: pathlib.Path, picture: Picture) -> None:
    """Its images are the memory of the broker's, which stay leased, and of which a change is seen by no other."""
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for number, path in enumerate(paths):
        path.write_bytes(picture(50, 41, (20 * number, 100, 50)))
    # Files that were changed just now are not kept.
    time.sleep(0.05)
    with Broker(tmp_path, "--segments", "off") as broker:
        with imgbroker.Client(broker.socket) as other, imgbroker.Client(broker.socket, keep_images=2) as client:
            dataset = ImageList([(path, 0) for path in paths], client=client, contiguous=False)
            assert client.stats()["leasedBytes"] == other.stats()["leasedBytes"] == 0
            before = open_descriptors()
            batch = dataset[[0, 1, 2, 1]][0]
            # 6,150 bytes each.
            assert batch.shape == (4, 3, 41, 50) and batch.stride() == (8192, 1, 150, 3)
            assert batch[:, 0, 40, 49].tolist() == [0, 20, 40, 20]
            lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
            for image in batch:
                line = next(line for line in lines if _contains(line, image.data_ptr()))
                assert "/memfd:" in line and " rw-p " in line
            # Only for the image that is not kept.
            requests = other.stats()["requests"]
            again = dataset[[2, 1, 0]][0]
            assert other.stats()["requests"] == requests + 1
            batch[1].zero_()
            assert again[:, 0, 0, 0].tolist() == [40, 20, 0] and batch[:, 1, 0, 0].tolist() == [100, 0, 100, 100]
            assert (dataset[[0, 1]][0][1] == again[1]).all()
            assert other.stats()["leasedBytes"] >= 3 * 41 * 150
            part = batch[2:, :, :3]
            del batch, again, image
            client._engine.kept.clear()
            client.flush()
            assert part[0, 0, 0, 0] == 40 and other.stats()["leasedBytes"] >= 3 * 41 * 150
            del part
            gc.collect()
            eventually(lambda: other.stats()["leasedBytes"] == 0)
            eventually(lambda: client.stats() and open_descriptors() <= before)
            last = dataset[[2]][0]
        gc.collect()
        assert last[0, :, 40, 49].tolist() == [40, 100, 50]


@pytest.mark.parametrize("contiguous", [True, False])
def test_images_in_segments(tmp_path: pathlib.Path, folder: pathlib.Path, contiguous: bool) -> None:
    time.sleep(0.05)
    with Broker(tmp_path) as broker, imgbroker.Client(broker.socket) as client:
        assert client.get(folder / "cat" / "1.png", pixel_format="rgb8")._reply.segment is not None
        dataset = ImageFolder(folder, client=client, contiguous=contiguous)
        numbers = list(range(8))
        before = open_descriptors()
        for _ in range(2):
            items, batch = [item[0] for item in dataset.__getitems__(numbers)], dataset[numbers][0]
            for images in (items, batch):
                assert [number_of(image) for image in images] == [1, 3, 2, 4, 5, 6, 7, 8]
                # Nobody else sees it.
                for image in images:
                    image.zero_()
        assert batch.stride()[0] == (2304 if contiguous else 4096) and open_descriptors() == before
        # Kept ones, in each form.
        requests = client.stats()["requests"]
        assert number_of(dataset[7][0]) == number_of(dataset[[7]][0][0]) == 8
        assert client.stats()["requests"] == requests
        loader = torch.utils.data.DataLoader(dataset, batch_size=4, num_workers=2)
        assert epoch(loader) == EXPECTED


def test_mapped_batch_whose_connection_is_lost(
    memfd_client: imgbroker.Client, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = ImageFolder(folder, client=memfd_client, contiguous=False)
    map_into = imgbroker.Client.map_into
    mapped: List[bool] = []

    def lose_after_two(self: imgbroker.Client, *arguments: Any) -> bool:
        if len(mapped) == 2:
            session = self._engine._session
            assert session is not None
            session.socket.shutdown(socket.SHUT_RDWR)
            eventually(lambda: self._engine._session is not session)
        mapped.append(map_into(self, *arguments))
        return mapped[-1]

    monkeypatch.setattr(imgbroker.Client, "map_into", lose_after_two)
    images = dataset[list(range(8))][0]
    assert [number_of(image) for image in images] == [1, 3, 2, 4, 5, 6, 7, 8]
    assert mapped == [True, True] + 6 * [False]


def test_addresses_of_a_mapped_batch_are_given_back(memfd_client: imgbroker.Client, folder: pathlib.Path) -> None:
    def mappings() -> int:
        gc.collect()
        return len(pathlib.Path("/proc/self/maps").read_text().splitlines())

    dataset = ImageFolder(folder, client=memfd_client, contiguous=False)
    dataset[list(range(8))]
    before = mappings()
    for _ in range(20):
        images, _ = dataset[list(range(8))]
    del images
    assert mappings() <= before + 2


def test_kept_images_serve_items_and_mapped_batches(memfd_client: imgbroker.Client, folder: pathlib.Path) -> None:
    time.sleep(0.05)
    dataset = ImageFolder(folder, client=memfd_client, contiguous=False)
    for first in (0, 4):
        # Items first, then batches, and the other way around.
        numbers = list(range(first, first + 4))
        ways: List[Callable[[], List[Any]]] = [
            lambda: [item[0] for item in dataset.__getitems__(numbers)], lambda: list(dataset[numbers][0])]
        expected = [number_of(image) for image in ways[first > 0]()]
        requests = memfd_client.stats()["requests"]
        images = ways[first == 0]()
        assert [number_of(image) for image in images] == expected and memfd_client.stats()["requests"] == requests
        images[0].zero_()
        assert [number_of(image) for image in ways[0]() + ways[1]()] == 2 * expected


def test_large_mapped_batch_is_copied(
    memfd_client: imgbroker.Client, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imgbroker._batch._MOST_IN_MAPPED_BATCH", 7)
    dataset = ImageFolder(folder, client=memfd_client, contiguous=False)
    assert dataset[list(range(7))][0].stride()[0] == 4096
    assert dataset[list(range(8))][0].is_contiguous(memory_format=torch.channels_last)


def test_buffer_that_became_shorter_is_not_mapped(memfd_client: imgbroker.Client, folder: pathlib.Path) -> None:
    """As a broker that does not follow the protocol can make it: by another descriptor for the same buffer."""
    path = folder / "cat" / "1.png"
    wish = imgbroker._client.Wish({"pixel_format": "rgb8"}, imgbroker._session.Form.UNMAPPED)
    (result,) = memfd_client.many([path], wish, ordered=True, in_flight=1)
    image, region = result.get(), Region(4096)
    session = memfd_client._engine._session
    assert session is not None and image.nbytes == 24 * 32 * 3
    (held,) = session._held.values()
    held.size = image.nbytes - 1
    assert not memfd_client.map_into(region, 0, image, image.nbytes)
    held.size += 1
    assert memfd_client.map_into(region, 0, image, image.nbytes)
    assert region[:image.nbytes] == bytes(memfd_client.get(path, pixel_format="rgb8"))


def mapped_at(region: Region) -> int:
    """Returns the number of mapped pages among the addresses of a region."""
    begin = ctypes.addressof(ctypes.c_char.from_buffer(region))
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return sum(any(_contains(line, address) for line in lines) for address in range(begin, begin + len(region), 4096))


def test_mapped_batch_without_addresses(
    memfd_client: imgbroker.Client, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = imgbroker._memory.sealed_copy(b"x" * 5000)
    region = Region(5 * 4096)
    released: imgbroker._memory.Releases = deque()
    try:
        region.map(4096, memory, 0, 5000, imgbroker._memory.Lease(1, released))
        with pytest.raises(ValueError):
            region.map(4 * 4096, memory, 0, 4097, imgbroker._memory.Lease(2, released))
        assert region[4095:4098] == b"\0xx" and mapped_at(region) == 5
        with pytest.raises(OSError):
            region.map(3 * 4096, -1, 0, 4096, imgbroker._memory.Lease(3, released))
    finally:
        os.close(memory)
    # Only the part at which mapping failed is left, and nothing unmaps that.
    assert mapped_at(region) <= 1 and sorted(released) == [(1, 0), (2, 0), (3, 0)]
    del region
    gc.collect()

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr(Region, "map", fail)
    with pytest.raises(imgbroker.ProcessLimitError, match="cannot map"):
        ImageFolder(folder, client=memfd_client, contiguous=False)[[0, 1]]


def test_abandoned_addresses_are_not_unmapped_at_the_end() -> None:
    """Another mapping, which has got addresses of a region that was given up, outlasts the region and its module."""
    script = """
import ctypes, gc, mmap, sys
from imgbroker import _region
region = _region.Region(3 * mmap.PAGESIZE)
begin = ctypes.addressof(ctypes.c_char.from_buffer(region))
try:
    region.map(mmap.PAGESIZE, -1, 0, mmap.PAGESIZE, None)
    sys.exit("mapped")
except OSError:
    pass
other = _region.c_mmap(begin, mmap.PAGESIZE, 3, 0x100022, -1, 0)
assert other == begin
# As when the interpreter ends.
vars(_region).clear()
del region, _region, sys.modules["imgbroker._region"]
gc.collect()
(ctypes.c_char * 5).from_address(other).value = b"alive"
print((ctypes.c_char * 5).from_address(other).value.decode())
"""
    run = run_python("-c", script)
    assert (run.returncode, run.stdout) == (0, "alive\n"), run.stderr


@pytest.mark.parametrize("contiguous", [True, False])
def test_batch_of_rows_with_padding(contiguous: bool, client: imgbroker.Client) -> None:
    pixels = numpy.arange(7 * 4 * 3, dtype=numpy.uint8).reshape(4, 7, 3)
    padded = numpy.zeros((4, 24), numpy.uint8)
    padded[:, :21] = pixels.reshape(4, 21)
    memory = imgbroker._memory.sealed_copy(padded.tobytes())
    try:
        request = imgbroker._client.store_request("http://stored.example/padded", memory, size=(7, 4), pixel_format="rgb8")
        request.fields["pixels"]["stride"] = 24
        client._engine.ask(request)
    finally:
        os.close(memory)
    dataset = ImageList([("http://stored.example/padded", 3)], client=client, layout="HWC", cache="only-if-cached",
                        contiguous=contiguous)
    images, targets = dataset[[0, 0]]
    assert (images.numpy() == pixels).all() and targets.tolist() == [3, 3]


@pytest.mark.parametrize("contiguous", [True, False])
def test_errors_of_batches(
    contiguous: bool, client: imgbroker.Client, folder: pathlib.Path, picture: Picture
) -> None:
    (folder / "dog" / "4.png").write_bytes(picture(8, 8))
    (folder / "dog" / "5.png").write_bytes(b"other bytes")
    dataset = ImageFolder(folder, client=client, contiguous=contiguous)
    with pytest.raises(ValueError, match=r"4.png has 8 × 8 pixels, and the first image of the batch 32 × 24: request one size"):
        dataset[[0, 3]]
    assert dataset[[3]][0].shape == (1, 3, 8, 8)
    with pytest.raises(imgbroker.ImageError):
        dataset[[0, 4]]
    for each in [dataset, ImageFolder(folder, client=client, contiguous=contiguous, transform=lambda image: image)]:
        with pytest.raises(ValueError, match="no items"):
            each[[]]
    with pytest.raises(ValueError, match="errors='raise'"):
        ImageFolder(folder, client=client, errors="return")[[0]]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(method: str, client: imgbroker.Client, folder: pathlib.Path) -> None:
    dataset = ImageFolder(folder, client=client)
    # A connection in this process, which no worker may use.
    assert number_of(dataset[0][0]) == 1
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=3, shuffle=True, num_workers=2, multiprocessing_context=method, persistent_workers=True)
    assert [epoch(loader) for _ in range(2)] == [EXPECTED, EXPECTED]
    part = torch.utils.data.Subset(dataset, [0, 7])
    loader = torch.utils.data.DataLoader(
        part, batch_size=2, num_workers=1, multiprocessing_context=method, collate_fn=keep_list)
    # Tensors that a worker has not put together.
    assert [number_of(image) for batch in loader for image, _ in batch] == [1, 8]
    mapped = ImageFolder(folder, client=client, contiguous=False)
    assert epoch(batches(mapped, 3, num_workers=2, multiprocessing_context=method)) == EXPECTED
    assert number_of(dataset[0][0]) == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_restart_of_the_broker_between_epochs(
    workers: int, tmp_path: pathlib.Path, folder: pathlib.Path
) -> None:
    with Broker(tmp_path) as broker:
        dataset = ImageFolder(folder, client=imgbroker.Client(broker.socket))
        loader = torch.utils.data.DataLoader(
            dataset, batch_size=2, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
        mapped = batches(ImageFolder(folder, client=dataset.client, contiguous=False), 3, num_workers=workers)
        assert epoch(loader) == epoch(mapped) == EXPECTED
        before = next(iter(mapped))[0] if workers == 0 else None
        broker.stop()
        broker.start()
        assert epoch(loader) == epoch(mapped) == EXPECTED
        # Its pages are those of the broker that has ended.
        assert before is None or all(number_of(image) in EXPECTED for image in before)
        with imgbroker.Client(broker.socket) as other:
            assert other.stats()["requests"] >= len(EXPECTED)
        dataset.client.close()


def test_pickle(client: imgbroker.Client, folder: pathlib.Path) -> None:
    dataset = ImageFolder(folder, negative, width=16, client=client)
    assert dataset[0][1] == 0
    before = open_descriptors()
    copy = pickle.loads(pickle.dumps(dataset))
    assert open_descriptors() == before and copy.samples == dataset.samples and copy.classes == dataset.classes
    assert (copy[5][0] == dataset[5][0]).all() and copy.client is not client
    copy.client.close()


# Errors


def test_errors(client: imgbroker.Client, folder: pathlib.Path) -> None:
    (folder / "dog" / "4.png").write_bytes(b"no image")
    # The broker remembers the failure, unless the file was changed just before.
    dataset = ImageFolder(folder, client=client, retry_failed=True)
    (folder / "dog" / "5.png").unlink()
    with pytest.raises(imgbroker.ImageError):
        dataset[3]
    with pytest.raises(FileNotFoundError):
        dataset[4]
    with pytest.raises(imgbroker.ImageError):
        dataset.__getitems__([0, 3, 1])
    loader = torch.utils.data.DataLoader(dataset, batch_size=8, num_workers=1)
    with pytest.raises(RuntimeError, match="unsupported-format"):
        next(iter(loader))
    dataset = ImageFolder(
        folder, errors="return", client=client, is_valid_file=lambda path: path.endswith((".png", ".PNG")))
    dataset.samples.insert(4, (folder / "dog" / "5.png", 1))
    loader = torch.utils.data.DataLoader(dataset, batch_size=8, num_workers=1, collate_fn=keep_list)
    items = next(iter(loader))
    # Here it does: the loader's worker took longer to start.
    assert isinstance(items[3][0], imgbroker.OutcomeError) and items[3][0].cause == "unsupported-format"
    assert isinstance(items[4][0], FileNotFoundError)
    assert [target for _, target in items] == [0, 0, 0, 1, 1, 1, 2, 2]
    assert [number_of(image) for image, _ in items[:3] + items[5:]] == [1, 3, 2, 6, 7, 8]


def test_memory_of_batches_is_used_again(
    client: imgbroker.Client, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imgbroker._batch, "_memory", imgbroker._batch._Memory())
    dataset = ImageFolder(folder, client=client)

    def address(images: Any) -> int:
        return int(images.untyped_storage().data_ptr())

    first, second = dataset[[0] * 7][0], dataset[[1] * 7][0]
    view, places = first[3], {address(first), address(second)}
    assert len(places) == 2
    del first
    third = dataset[[2] * 7][0]
    # Tensors made of a batch have its memory, too.
    assert address(third) not in places and [number_of(image) for image in (view, second[6], third[0])] == [1, 3, 2]
    del view, second
    fewer, more = dataset[[3] * 2][0], dataset[[3] * 8][0]
    assert address(fewer) in places and address(more) not in places
    assert [number_of(image) for images in (fewer, more) for image in images] == [4] * 10


class Images:
    """A dataset of a user's own, whose items are images."""

    def __init__(self, folder: pathlib.Path, socket: str) -> None:
        self._paths, self._socket = sorted(folder.glob("*/*.png")), socket

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int) -> imgbroker.Image:
        with imgbroker.Client(self._socket) as client:
            return client.get(self._paths[index])


def test_workers_return_images(broker: Broker, folder: pathlib.Path) -> None:
    dataset = Images(folder, broker.socket)
    loader = torch.utils.data.DataLoader(dataset, batch_size=8, num_workers=1, collate_fn=keep_list, timeout=60)
    (images,) = list(loader)
    assert len(images) == 6 and all(
        (image.numpy() == dataset[index].numpy()).all() for index, image in enumerate(images))
