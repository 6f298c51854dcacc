"""The examples, with stubs of the libraries that they extend."""

from __future__ import annotations

import asyncio
import sys
import types
from typing import Any, Callable, Dict, Iterator

import pytest

import imgbroker
import vllm_connector
from support import Origin, Picture



class _MediaConnector:
    """The constructor and methods of vLLM's class that connectors override."""

    def __init__(
        self, media_io_kwargs: Any = None, connection: Any = None, *, allowed_local_media_path: str = "", allowed_media_domains: Any = None
    ) -> None:
        self.media_io_kwargs = media_io_kwargs or {}
        self.allowed_media_domains = allowed_media_domains or []

    def fetch_image(self, image_url: str, *, image_mode: Any = "RGB") -> Any:
        return "vLLM", image_url, image_mode

    async def fetch_image_async(self, image_url: str, *, image_mode: Any = "RGB") -> Any:
        return "vLLM", image_url, image_mode


class _Registry:
    """vLLM's `ExtensionManager`."""

    def __init__(self) -> None:
        self.classes: Dict[str, Any] = {}

    def register(self, name: str) -> Callable[[Any], Any]:
        def add(cls: Any) -> Any:
            self.classes[name] = cls
            return cls

        return add

    def load(self, name: str, *arguments: Any, **named: Any) -> Any:
        return self.classes[name](*arguments, **named)


@pytest.fixture(params=["vllm.multimodal.media", "vllm.multimodal.utils"])
def registry(request: Any, client: imgbroker.Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[_Registry]:
    monkeypatch.setattr(imgbroker, "_default", client)
    registry = _Registry()
    for name in ("vllm", "vllm.multimodal", request.param):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules[request.param].__dict__.update(MEDIA_CONNECTOR_REGISTRY=registry, MediaConnector=_MediaConnector)
    # vLLM loads plugins several times.
    vllm_connector.register()
    vllm_connector.register()
    yield registry


def test_images_of_urls(registry: _Registry, origin: Origin, picture: Picture) -> None:
    url = origin.add("/vllm.png", picture(20, 10, (255, 0, 0, 0)))
    for settings, color in (({}, (255, 255, 255)), ({"rgba_background_color": [1, 2, 3]}, (1, 2, 3))):
        connector = registry.load("imgbroker", media_io_kwargs={"image": settings}, allowed_local_media_path="", allowed_media_domains=None)
        for image in (connector.fetch_image(url), asyncio.run(connector.fetch_image_async(url))):
            assert (image.mode, image.size, image.getpixel((0, 0))) == ("RGB", (20, 10), color)


def test_others_are_loaded_by_vllm(registry: _Registry) -> None:
    connector = registry.load("imgbroker")
    assert connector.fetch_image("data:image/png;base64,AA") == ("vLLM", "data:image/png;base64,AA", "RGB")
    assert asyncio.run(connector.fetch_image_async("http://a/", image_mode="L")) == ("vLLM", "http://a/", "L")
    assert registry.load("imgbroker", {"image": {"image_mode": None}}).fetch_image("http://a/")[0] == "vLLM"
    assert registry.load("imgbroker", allowed_media_domains=["a"]).fetch_image("http://a/")[0] == "vLLM"


def test_errors(registry: _Registry, origin: Origin) -> None:
    connector = registry.load("imgbroker")
    with pytest.raises(ValueError, match="cannot be loaded: .*status 404"):
        connector.fetch_image(origin.url + "/vllm-missing")
    url = origin.add("/vllm-busy", b"", status=500)
    with pytest.raises(imgbroker.DownloadError):
        asyncio.run(connector.fetch_image_async(url))


def test_without_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ImportError, match="requires vLLM from 0.11.2 on: pip install vllm"):
        vllm_connector.register()
