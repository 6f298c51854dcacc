from __future__ import annotations

import pathlib
import sys
from typing import Any, Callable, Iterator

import PIL.Image
import pytest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parents[1] / "examples")]

import imgbroker  # noqa: E402
from fixtures import broker, gate, memfd_broker, origin, scripted  # noqa: E402, F401
from support import Broker, encoded  # noqa: E402


@pytest.fixture
def client(broker: Broker) -> Iterator[imgbroker.Client]:
    """A client of the broker."""
    with imgbroker.Client(broker.socket) as client:
        yield client


@pytest.fixture(scope="session")
def torchvision() -> Any:
    """torchvision, also a build with CUDA beside a PyTorch without, which lacks its own operators. Skips where it is not installed."""
    torch: Any = pytest.importorskip("torch")
    try:
        import torchvision
    except RuntimeError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    except ImportError:
        pytest.skip("torchvision is not installed")
    import torchvision.transforms.v2

    return torchvision


@pytest.fixture
def picture() -> Callable[..., bytes]:
    """Encodes an image of one colour, or a gradient."""

    def encode(width: int = 64, height: int = 32, color: Any = None, format: str = "PNG") -> bytes:
        if color is None:
            image = PIL.Image.linear_gradient("L").resize((width, height)).convert("RGB")
        else:
            image = PIL.Image.new("RGBA" if len(color) == 4 else "RGB", (width, height), color)
        return encoded(image, format)

    return encode
