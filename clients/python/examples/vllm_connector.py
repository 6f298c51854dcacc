"""A media connector of vLLM that loads images with imgbroker: all servers of a machine share one download and one decoding.

vLLM calls `register` in each of its processes if a package declares it:

    [project.entry-points."vllm.general_plugins"]
    imgbroker = "vllm_connector:register"

    VLLM_MEDIA_CONNECTOR=imgbroker vllm serve MODEL
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional

import imgbroker

if TYPE_CHECKING:
    import PIL.Image


def register() -> None:
    """Registers the connector under the name `imgbroker`. Raises `ImportError` without vLLM."""
    try:
        try:
            from vllm.multimodal.media import MEDIA_CONNECTOR_REGISTRY, MediaConnector
        except ImportError:  # Before 0.16.
            from vllm.multimodal.utils import MEDIA_CONNECTOR_REGISTRY, MediaConnector
    except ImportError as error:
        raise ImportError("the media connector requires vLLM from 0.11.2 on: pip install vllm") from error

    class Connector(MediaConnector):
        """Loads images of URLs, in RGB and upright, with imgbroker; everything else as vLLM does."""

        def fetch_image(self, image_url: str, *, image_mode: Optional[str] = "RGB") -> "PIL.Image.Image":
            form = self._form(image_url, image_mode)
            if form is None:
                image: PIL.Image.Image = super().fetch_image(image_url, image_mode=image_mode)
                return image
            with _errors():
                return imgbroker.get(image_url, **form).pil()

        async def fetch_image_async(self, image_url: str, *, image_mode: Optional[str] = "RGB") -> "PIL.Image.Image":
            form = self._form(image_url, image_mode)
            if form is None:
                image: PIL.Image.Image = await super().fetch_image_async(image_url, image_mode=image_mode)
                return image
            with _errors():
                return (await asyncio.wrap_future(imgbroker.default_client().submit(image_url, **form))).pil()

        def _form(self, url: str, mode: Optional[str]) -> Any:
            """Returns the options of the request; None for an image that vLLM loads itself."""
            settings: Dict[str, Any] = self.media_io_kwargs.get("image", {})
            # The broker follows redirects to all domains.
            if not url.startswith(("http://", "https://")) or self.allowed_media_domains or settings.get("image_mode", mode) != "RGB":
                return None
            return {
                "pixel_format": "rgb8",
                "background": "#%02x%02x%02x" % tuple(settings.get("rgba_background_color", (255, 255, 255))),
                "total_timeout_ms": 1000 * int(os.environ.get("VLLM_IMAGE_FETCH_TIMEOUT", "5")),
            }

    MEDIA_CONNECTOR_REGISTRY.register("imgbroker")(Connector)


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Raises `ValueError`, which vLLM reports to its client, for an image that cannot be loaded later either."""
    try:
        yield
    except imgbroker.ImageBrokerError as error:
        if error.retryable:
            raise
        raise ValueError(f"the image cannot be loaded: {error}") from error
