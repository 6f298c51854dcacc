"""The loader of batches for PyTorch. Skipped where that is not installed, as `test_torch.py`."""

from __future__ import annotations

import gc
import os
import pathlib
import random
import signal
import threading
import time
import warnings
from typing import Any, Dict, List, Tuple

import PIL.Image
import pytest

import imgbroker
from support import Broker, Origin, Picture, eventually, open_descriptors, run_python

torch: Any = pytest.importorskip("torch")

from imgbroker.torch import BatchLoader, ImageFolder, ImageList  # noqa: E402


#: The number of images of `folder`. Image n has the colour (n, 100, 50) and the target n % 3.
COUNT = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with three classes."""
    return make_folder(tmp_path_factory.mktemp("data"))


def make_folder(path: pathlib.Path, size: Tuple[int, int] = (32, 24)) -> pathlib.Path:
    for number in range(COUNT):
        (path / str(number % 3)).mkdir(exist_ok=True)
        PIL.Image.new("RGB", size, (number, 100, 50)).save(path / str(number % 3) / f"{number:02}.png")
    # The broker keeps no results of files that were changed just now.
    time.sleep(0.05)
    return path


def workers_of(broker: Broker) -> List[int]:
    """Returns the process ids of a broker's workers that decode."""
    with imgbroker.Client(broker.socket) as client:
        return [worker["pid"] for worker in client.stats()["workerProcesses"] if worker["kind"] == "decode"]


def numbers_of(batch: Tuple[Any, Any]) -> List[int]:
    """Returns the numbers of the images of a batch, whose colours and targets must be right."""
    images, targets = batch
    assert images.dtype == torch.uint8 and images.shape[1:] == (3, 24, 32)
    assert (images == images[:, :, :1, :1]).all() and (images[:, 1:, 0, 0] == torch.tensor([100, 50])).all()
    numbers: List[int] = images[:, 0, 0, 0].tolist()
    assert [number % 3 for number in numbers] == targets.tolist()
    return numbers


def epoch(loader: Any) -> List[List[int]]:
    return [numbers_of(batch) for batch in loader]


def flat(batches: List[List[int]]) -> List[int]:
    return [number for batch in batches for number in batch]


@pytest.mark.parametrize("segments", ["on", "off"])
@pytest.mark.parametrize("contiguous", [True, False])
def test_epochs(segments: str, contiguous: bool, tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    with Broker(tmp_path, "--segments", segments) as broker, imgbroker.Client(broker.socket) as client:
        dataset = ImageFolder(folder, client=client, contiguous=contiguous, in_flight=5)
        in_order = BatchLoader(dataset, 16)
        assert len(in_order) == 3 and [len(batch) for batch in epoch(in_order)] == [16, 16, 8]
        assert flat(epoch(in_order)) == [int(os.path.basename(str(path))[:2]) for path, _ in dataset.samples]
        whole = BatchLoader(dataset, 16, drop_last=True)
        assert len(whole) == 2 and [len(batch) for batch in epoch(whole)] == [16, 16]
        shuffled = BatchLoader(dataset, 7, shuffle=True, generator=torch.Generator().manual_seed(1))
        first, second = flat(epoch(shuffled)), flat(epoch(shuffled))
        assert sorted(first) == sorted(second) == list(range(COUNT)) and first != second
        again = BatchLoader(dataset, 7, shuffle=True, generator=torch.Generator().manual_seed(1))
        assert flat(epoch(again)) == first
        torch.manual_seed(5)
        third = flat(epoch(BatchLoader(dataset, 7, shuffle=True)))
        torch.manual_seed(5)
        assert flat(epoch(BatchLoader(dataset, 7, shuffle=True))) == third


def test_batches_equal_those_of_a_data_loader(client: imgbroker.Client, folder: pathlib.Path) -> None:
    for settings in ({}, {"layout": "HWC"}, {"transform": lambda image: image.neg_()}, {"target_transform": float}):
        dataset = ImageFolder(folder, client=client, **settings)
        for _ in range(2):
            expected = list(torch.utils.data.DataLoader(dataset, batch_size=16))
            for (images, targets), (others, other_targets) in zip(BatchLoader(dataset, 16), expected):
                assert (images == others).all() and (targets == other_targets).all() and targets.dtype == other_targets.dtype


def test_arguments(client: imgbroker.Client, folder: pathlib.Path) -> None:
    dataset = ImageFolder(folder, client=client)
    for wrong in ({"shuffle": True, "sampler": [1]}, {"prefetch": 0}, {"batch_size": 0}):
        with pytest.raises(ValueError):
            BatchLoader(dataset, **wrong)
    with pytest.raises(ValueError, match="errors='raise'"):
        iter(BatchLoader(ImageFolder(folder, client=client, errors="return"), 4))
    assert epoch(BatchLoader(dataset, 2, sampler=[3, 3, 39])) == [[9, 9], [38]]


def test_empty_dataset(client: imgbroker.Client) -> None:
    for shuffle in (False, True):
        loader = BatchLoader(ImageList([], client=client), 8, shuffle=shuffle)
        assert len(loader) == 0 and list(loader) == []
    assert ImageList([], client=client).memory_needed() == 0


def test_distributed_sampler(client: imgbroker.Client, folder: pathlib.Path) -> None:
    dataset = ImageFolder(folder, client=client)
    loaders = [
        BatchLoader(dataset, 6, sampler=torch.utils.data.DistributedSampler(dataset, num_replicas=2, rank=rank)) for rank in (0, 1)]
    epochs = []
    for number in range(2):
        for loader in loaders:
            loader.set_epoch(number)
        parts = [flat(epoch(loader)) for loader in loaders]
        assert sorted(parts[0] + parts[1]) == list(range(COUNT))
        epochs.append(parts)
    assert epochs[0] != epochs[1]
    loaders[0].set_epoch(0)
    assert flat(epoch(loaders[0])) == epochs[0][0]
    # A sampler without epochs.
    BatchLoader(dataset, 6).set_epoch(3)


def test_next_batches_are_requested_while_one_is_used(client: imgbroker.Client, broker: Broker, folder: pathlib.Path) -> None:
    dataset = ImageFolder(folder, client=client, width=30, height=20, fit="fill")
    batches = iter(BatchLoader(dataset, 8, prefetch=2))
    next(batches)
    with imgbroker.Client(broker.socket) as other:
        for path, _ in dataset.samples[8:32]:
            eventually(lambda: other.query(path, **dataset.options).memory)
    assert len(list(batches)) == 4


def test_pinned_memory(client: imgbroker.Client, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With CUDA, which is simulated here, all tensors are in pinned memory, unless that is not wanted."""
    pinned: List[Tuple[int, ...]] = []

    def pin(tensor: Any) -> Any:
        pinned.append(tuple(tensor.shape))
        return tensor

    def make(*shape: Any, pin_memory: bool = False, **named: Any) -> Any:
        tensor = empty(*shape, **named)
        return pin(tensor) if pin_memory else tensor

    empty = torch.empty
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch, "empty", make)
    for settings, shape in (({}, (8, 24, 32, 3)), ({"crop_size": 5}, (8, 3, 5, 5)), ({"transform": torch.clone}, (8, 3, 24, 32))):
        dataset = ImageFolder(folder, client=client, **settings)
        # The second pass has kept images.
        for _ in range(2):
            pinned.clear()
            assert len(list(BatchLoader(dataset, 8))) == 5
            assert sorted(pinned) == sorted(5 * [shape, (8,)])
        pinned.clear()
        assert len(list(BatchLoader(dataset, 8, pin_memory=False))) == 5 and not pinned


# Kept images


def test_first_images_are_kept(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    with Broker(tmp_path) as broker:
        with imgbroker.Client(broker.socket) as client, imgbroker.Client(broker.socket) as other:
            loader = BatchLoader(ImageFolder(folder, client=client), 8, shuffle=True, keep_first=10 * 32 * 24 * 3 + 100)
            for _ in range(3):
                before = other.stats()["requests"]
                assert sorted(flat(epoch(loader))) == list(range(COUNT))
                requests = other.stats()["requests"] - before
            # All of the others are requested, in an order in which the client would find none of the images used last.
            assert requests == COUNT - 10
            everything = BatchLoader(loader.dataset, 8, shuffle=True)
            epoch(everything)
            before = other.stats()["requests"]
            epoch(everything)
            assert other.stats()["requests"] == before


def test_changed_and_removed_files_are_noticed(client: imgbroker.Client, tmp_path: pathlib.Path, picture: Picture) -> None:
    dataset = ImageFolder(make_folder(tmp_path), client=client)
    loader = BatchLoader(dataset, 8)
    assert sorted(flat(epoch(loader))) == list(range(COUNT))
    path = tmp_path / "0" / "00.png"
    path.write_bytes(picture(32, 24, (99, 100, 50)))
    assert flat(epoch(loader))[0] == 99
    path.unlink()
    with pytest.raises(FileNotFoundError):
        epoch(loader)


def test_keeping_is_bounded_by_the_leases_of_a_client(client: imgbroker.Client) -> None:
    client.keep_first(1 << 50)
    assert client._kept._maximum_size == client.hello().limits["maxLeasedBytes"] // 2


def test_no_more_descriptors_are_kept_than_permitted(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    with Broker(tmp_path, "--segments", "off") as broker, imgbroker.Client(broker.socket, keep_descriptors=6) as client:
        loader = BatchLoader(ImageFolder(folder, client=client, in_flight=4), 16, shuffle=True)
        client.stats()
        before = open_descriptors()
        for _ in range(3):
            assert sorted(flat(epoch(loader))) == list(range(COUNT))
        gc.collect()
        eventually(lambda: client.stats() and open_descriptors() <= before + 2 * 6)
        assert len(client._kept.entries) == 6


# Ends


def threads() -> List[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "imgbroker-batches"]


@pytest.mark.parametrize("segments", ["on", "off"])
def test_abandoned_iterators_leave_nothing(segments: str, tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    with Broker(tmp_path, "--segments", segments) as broker:
        # Without kept images, whose leases stay.
        with imgbroker.Client(broker.socket, keep_images=0) as client, imgbroker.Client(broker.socket) as other:
            client.stats(), other.stats()
            before = open_descriptors()
            for contiguous in (True, False):
                loader = BatchLoader(ImageFolder(folder, client=client, contiguous=contiguous), 4, shuffle=True)
                for taken in (0, 1, 4):
                    batches = iter(loader)
                    for _ in range(taken):
                        batch = next(batches)
                        numbers_of(batch)
                        del batch
                    del batches
                closed = iter(loader)
                numbers_of(next(closed))
                closed.close()
                assert list(closed) == []
                del closed
            eventually(lambda: not threads())
            eventually(lambda: client.stats() and other.stats()["leasedBytes"] == 0)
            eventually(lambda: client.stats() and open_descriptors() <= before)


def test_abandoned_while_the_broker_does_not_answer(
    client: imgbroker.Client, origin: Origin, picture: Picture, gate: threading.Event
) -> None:
    url = origin.add("/loader-waits.png", picture(8, 8), gate=gate)
    batches = iter(BatchLoader(ImageList([(url, 0)], client=client, total_timeout_ms=60_000), 1))
    eventually(lambda: "/loader-waits.png" in origin.requests)
    begun = time.monotonic()
    batches.close()
    assert time.monotonic() - begun < 10 and not threads()


def test_iterators_of_one_loader_are_independent(client: imgbroker.Client, folder: pathlib.Path) -> None:
    loader = BatchLoader(ImageFolder(folder, client=client), 8, shuffle=True)
    found: Dict[int, List[int]] = {0: [], 1: []}
    for first, second in zip(loader, loader):
        found[0] += numbers_of(first)
        found[1] += numbers_of(second)
    assert sorted(found[0]) == sorted(found[1]) == list(range(COUNT)) and found[0] != found[1]


def test_batches_outlast_their_loader(client: imgbroker.Client, folder: pathlib.Path) -> None:
    batches = list(BatchLoader(ImageFolder(folder, client=client), 8))
    client.close()
    gc.collect()
    assert sorted(flat([numbers_of(batch) for batch in batches])) == list(range(COUNT))


#: Ends of a program, after which threads would still use PyTorch.
ENDS = {
    "in use": "batches = iter(loader); next(batches)",
    "abandoned": "batches = iter(loader); next(batches); del batches",
    "client closed": "sum(1 for _ in loader); del loader",
}


@pytest.mark.parametrize("end", ENDS)
def test_end_of_the_interpreter(end: str, broker: Broker, folder: pathlib.Path) -> None:
    script = f"""
import time
from imgbroker import Client, _memory
from imgbroker.torch import BatchLoader, ImageFolder
release = _memory.Lease.__del__
def release_slowly(lease):
    time.sleep(0.005)
    release(lease)
_memory.Lease.__del__ = release_slowly
loader = BatchLoader(ImageFolder({str(folder)!r}, client=Client()), 4, shuffle=True)
# Those that are kept, as tensors.
for _ in range(2):
    print(sum(len(targets) for _, targets in loader))
{ENDS[end]}
"""
    run = run_python("-c", script, socket=broker.socket)
    assert (run.returncode, run.stdout, run.stderr) == (0, 2 * f"{COUNT}\n", "")


def test_fork(client: imgbroker.Client, folder: pathlib.Path) -> None:
    loader = BatchLoader(ImageFolder(folder, client=client), 8)
    batches = iter(loader)
    next(batches)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with pytest.raises(RuntimeError, match="parent process"):
                next(batches)
            batches.close()
            if sorted(flat(epoch(loader))) == list(range(COUNT)):
                status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(batches)) == 4


# Errors


def test_errors(client: imgbroker.Client, tmp_path: pathlib.Path, picture: Picture) -> None:
    dataset = ImageFolder(make_folder(tmp_path), client=client)
    (tmp_path / "1" / "04.png").write_bytes(picture(32, 24)[:90])
    (tmp_path / "2" / "05.png").write_bytes(picture(16, 16))
    loader = BatchLoader(dataset, 5)
    batches = iter(loader)
    assert len(numbers_of(next(batches))) == 5 and len(numbers_of(next(batches))) == 5
    next(batches)
    with pytest.raises(imgbroker.ImageError):
        next(batches)
    # That was the end.
    assert list(batches) == []
    assert not threads()
    (tmp_path / "1" / "04.png").unlink()
    dataset.samples = [sample for sample in dataset.samples if not str(sample[0]).endswith("04.png")]
    with pytest.raises(ValueError, match="05.png has 16 × 16 pixels"):
        list(loader)

    def fail(_: Any) -> Any:
        raise KeyError("of a transform")

    with pytest.raises(KeyError, match="of a transform"):
        list(BatchLoader(ImageFolder(tmp_path, fail, client=client), 5))
    with pytest.raises(imgbroker.NoBrokerError):
        list(BatchLoader(ImageFolder(tmp_path, client=imgbroker.Client(str(tmp_path / "missing"))), 5))


@pytest.mark.parametrize("failures", [3, 4])
def test_errors_that_may_pass(
    failures: int, client: imgbroker.Client, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imgbroker._batch._PAUSES", (0.001,) * 3)
    load, failing, calls = imgbroker.Client.load, str(folder / "1" / "04.png"), []
    error = imgbroker.RefusedError.of(imgbroker.ErrorCode.DECODER_UNAVAILABLE, "too many have died", retry_after_ms=1)

    def fail(self: imgbroker.Client, source: Any, wish: Any) -> Any:
        if source == failing:
            calls.append(source)
            if len(calls) <= failures:
                return error
        return load(self, source, wish)

    monkeypatch.setattr(imgbroker.Client, "load", fail)
    batches = BatchLoader(ImageFolder(folder, client=client), 8)
    if failures == 3:
        assert sorted(flat(epoch(batches))) == list(range(COUNT))
    else:
        with pytest.raises(imgbroker.RefusedError, match="too many have died"):
            epoch(batches)
    assert len(calls) == 4


def test_restart_of_the_broker_within_an_epoch(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    with Broker(tmp_path) as broker, imgbroker.Client(broker.socket) as client:
        loader = BatchLoader(ImageFolder(folder, client=client), 4, shuffle=True)
        epoch(loader)
        for how in ("terminate", "kill"):
            found: List[int] = []
            for number, batch in enumerate(loader):
                if number == 2:
                    broker.stop(how)
                    broker.start()
                found += numbers_of(batch)
            assert sorted(found) == list(range(COUNT))


def test_workers_killed_at_random(tmp_path: pathlib.Path) -> None:
    """All images are right, although the processes that decode them are killed. Each epoch decodes most, for lack of memory."""
    (tmp_path / "data").mkdir()
    folder = make_folder(tmp_path / "data", (600, 450))
    broker = Broker(tmp_path, "--workers", "2", "--memory-limit", "64K", "--disk-limit", "0", "--raster-limit", "0")
    is_over = threading.Event()
    killed: List[int] = []

    def kill() -> None:
        order = random.Random(7)
        while not is_over.wait(0.1 + 0.2 * order.random()):
            workers = workers_of(broker)
            if workers:
                killed.append(order.choice(workers))
                os.kill(killed[-1], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    try:
        with imgbroker.Client(broker.socket) as client, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader = BatchLoader(ImageFolder(folder, client=client, width=32, height=24), 8, shuffle=True, keep_first=0)
            thread.start()
            for _ in range(20):
                assert sorted(flat(epoch(loader))) == list(range(COUNT))
            decodes = client.stats()["decodes"]
    finally:
        is_over.set()
        thread.join()
        broker.stop()
    assert len(killed) > 3 and decodes > 10 * COUNT, (killed, decodes)


# Memory


def test_memory_needed(client: imgbroker.Client, folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    exact = ImageFolder(folder, client=client, width=64, height=50, fit="cover")
    assert exact.memory_needed() == COUNT * 12288
    for number in range(100):
        (tmp_path / "a").mkdir(exist_ok=True)
        PIL.Image.new("L", (64, 64 + 64 * (number % 2))).save(tmp_path / "a" / f"{number}.png")
    (tmp_path / "a" / "0.png").write_bytes(b"damaged")
    estimate = ImageFolder(tmp_path, client=client).memory_needed()
    assert estimate == pytest.approx(100 * 64 * 96 * 3, rel=0.05)
    with pytest.raises(imgbroker.ImageError):
        ImageList([(tmp_path / "a" / "0.png", 0)], client=client).memory_needed()


def test_warning_of_memory(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    with Broker(tmp_path, "--memory-limit", "64M") as broker, imgbroker.Client(broker.socket) as client:
        large = ImageFolder(folder, client=client, width=1000, height=1000, fit="fill")
        loader = BatchLoader(large, 2, sampler=[0, 1])
        with pytest.warns(UserWarning, match=r"take about 0.12 GB.*memory-limit is 0.067 GB.*raster-limit") as found:
            list(loader)
            list(loader)
        assert len(found) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            epoch(BatchLoader(ImageFolder(folder, client=client), 8))
