"""The examples of training, on a small data set. Skipped where PyTorch, torchvision or timm is not installed."""

from __future__ import annotations

import io
import pathlib
import re
import runpy
import sys
import tarfile
from typing import Any, Callable

import PIL.Image
import pytest

from support import PRODUCTS, ROOT, Broker, run_python

pytest.importorskip("torch")

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with two classes, of red and of blue images that differ in size."""
    for number in range(32):
        path = tmp_path / "data" / str(number % 2) / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        color = (200, number, 0) if number % 2 else (0, number, 200)
        PIL.Image.new("RGB", (100 + number, 90), color).save(path)
    return tmp_path / "data"


@pytest.fixture
def run(
    torchvision: Any, broker: Broker, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Runs a program with arguments in this process, because of `torchvision`. Returns its output."""
    import torch

    # More take longer on busy processors, because each waits for all.
    torch.set_num_threads(1)
    monkeypatch.setenv("IMGBROKER_SOCKET", broker.socket)

    def run(path: pathlib.Path, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [path.name, *map(str, arguments)])
        runpy.run_path(str(path), run_name="__main__")
        return capfd.readouterr().out

    return run


def test_train(run: Callable[..., str], folder: pathlib.Path) -> None:
    arguments = ["--model", "resnet18", "--epochs", 2, "--batch-size", 16, "--size", 32, "--rate", 0.05]
    lines = run(EXAMPLES / "train.py", folder, *arguments).splitlines()
    losses = [float(re.fullmatch(r"epoch \d: loss ([\d.]+), \d+ images/s", line)[1]) for line in lines]  # type: ignore[index]
    assert len(losses) == 2 and max(losses) < 10


def test_train_with_torchrun(run: Callable[..., str], folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("PyTorch has no torch.distributed")
    for name, value in {"LOCAL_RANK": "0", "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    arguments = ["--model", "resnet18", "--epochs", 1, "--batch-size", 16, "--size", 32]
    assert "epoch 1: loss" in run(EXAMPLES / "train.py", folder, *arguments)


def test_timm_loader(run: Callable[..., str], folder: pathlib.Path) -> None:
    pytest.importorskip("timm")
    output = run(EXAMPLES / "timm_loader.py", folder, "resnet10t", 16)
    assert len(re.findall(r"loss [\d.]+\n", output)) == 2


def test_benchmark(run: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend("")
    arguments = ["--broker", PRODUCTS / "imgbroker", "--images", 40, "--epochs", 1, "--model", "mobilenet_v3_small", "--workers", 1,
                 "--memory-limit", "64M"]
    lines = run(ROOT / "Benchmarks" / "Peers" / "training.py", *arguments).splitlines()
    rows = [line for line in lines if re.search(r": epoch 1: \d+ images/s, [\d.]+ ms of processors an image, GPU (–|\d+ %)$", line)]
    assert len(rows) == 3 and len(lines) == 5, lines


def test_shards(broker: Broker, folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    files = sorted(folder.glob("*/*.jpg"))
    for part in range(2):
        with tarfile.open(tmp_path / f"{part}.tar", "w") as shard:
            for path in files[part::2]:
                shard.add(path, f"{path.stem}.jpg")
                data = path.parent.name.encode()
                entry = tarfile.TarInfo(f"{path.stem}.cls")
                entry.size = len(data)
                shard.addfile(entry, io.BytesIO(data))
    arguments = [str(EXAMPLES / "shards.py"), str(tmp_path / "0.tar"), str(tmp_path / "1.tar")]
    run = run_python(*arguments, socket=broker.socket)
    assert (run.returncode, run.stdout) == (0, 2 * f"(16, 3, 224, 224) {8 * [0] + 8 * [1]}\n"), run.stderr
