"""The client of imgbroker, a shared image cache for all processes of a Linux machine.

    import imgbroker
    image = imgbroker.get("https://example.org/picture.jpg", width=256)
    pixels = image.numpy()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, Iterator

from ._async import AsyncClient
from ._client import (
    CacheStatus, ClearResult, Client, Event, Events, FailedEntry, Hello, PrefetchResult, ReloadResult,
    Result, SettingChange, Source,
)
from ._errors import (
    BrokerFailure, ClientError, ClosedError, ConnectionLostError, DownloadError, ErrorCode, FeatureMissingError,
    HostError, ImageBrokerError, ImageError, MessageError, NoBrokerError, NotAnsweringError, OutcomeError, PolicyError,
    ProcessLimitError, ProtocolViolationError, RefusedError,
)
from ._frames import Frame
from ._image import Image
from ._options import GetOptions
from ._wire import VERSION as __version__
from ._wire import Density, Description, FrameTiming, TraceSpan

if TYPE_CHECKING:
    from typing_extensions import Unpack

_default = Client()


def default_client() -> Client:
    """Returns the client that the functions of this module use. It connects with the first request."""
    return _default


def get(source: Source, *, writable: bool = False, **options: "Unpack[GetOptions]") -> Image:
    """Loads an image with the default client; see `Client.get`."""
    return _default.get(source, writable=writable, **options)


def get_many(
    sources: Iterable[Source], *, ordered: bool = True, in_flight: int = 64, writable: bool = False,
    **options: "Unpack[GetOptions]",
) -> Iterator[Result]:
    """Loads images with the default client; see `Client.get_many`."""
    return _default.get_many(sources, ordered=ordered, in_flight=in_flight, writable=writable, **options)


__all__ = [
    "AsyncClient", "BrokerFailure", "CacheStatus", "ClearResult", "Client", "ClientError", "ClosedError",
    "ConnectionLostError", "Density", "Description", "DownloadError", "ErrorCode", "Event", "Events", "FailedEntry",
    "FeatureMissingError", "Frame", "FrameTiming", "GetOptions", "Hello", "HostError", "Image", "ImageBrokerError", "ImageError",
    "MessageError",
    "NoBrokerError", "NotAnsweringError", "OutcomeError", "PolicyError", "PrefetchResult", "ProcessLimitError",
    "ProtocolViolationError", "RefusedError", "ReloadResult", "Result", "SettingChange", "Source", "TraceSpan",
    "__version__", "default_client", "get", "get_many",
]
