"""The client for threads."""

from __future__ import annotations

import base64
import contextlib
import errno
import functools
import io
import itertools
import os
import queue
import re
import stat
import time
import weakref
from concurrent.futures import Future, InvalidStateError
from typing import (
    TYPE_CHECKING, Any, BinaryIO, Callable, Dict, FrozenSet, Generator, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple,
    Union, cast,
)
from urllib.parse import unquote_to_bytes

from . import _memory
from ._engine import Engine
from ._errors import ConnectionLostError, ImageBrokerError
from ._frames import Frame, next_range
from ._image import Image
from ._kept import Entry
from ._options import prefetch_parts, wire_options
from ._session import Form, Request, RequestFuture
from ._wire import (
    CHANNELS, Fields, boolean, encode_fields, integer, objects, optional_integer, optional_string, string, violation,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._image import Pixels
    from ._options import GetOptions
    from ._region import Region

#: A URL, `data:` URLs included; the path of a local file: another string, or an `os.PathLike`; encoded bytes; an open binary file;
#: or the descriptor of a regular file or a memfd.
Source = Union[str, "os.PathLike[str]", _memory.Bytes, BinaryIO, int]

#: The most bytes that are read of a file without a descriptor, and of a pipe; the broker's own limit is lower by default.
_LONGEST = 1 << 30

#: The events that `events` reports by default.
EVENTS = ("started", "responded", "finished", "failed", "evicted", "worker")

# On Linux, that of CLOCK_MONOTONIC, in less time than `clock_gettime_ns`.
_clock = time.monotonic_ns


class CacheStatus(NamedTuple):
    """The state of a cached image."""

    #: Whether the variant is in memory.
    memory: bool
    #: Whether the original is on disk.
    disk: bool
    #: Whether a `get` would not contact the origin.
    fresh: bool
    average_color: Optional[str]
    thumb_hash: Optional[str]


class PrefetchResult(NamedTuple):
    """The numbers of URLs that were loaded, and that failed."""

    done: int
    failed: int


class ClearResult(NamedTuple):
    """The number of originals removed, and of their bytes with those of their variants."""

    removed: int
    bytes: int


class FailedEntry(NamedTuple):
    """A recently failed URL."""

    url: str
    code: str
    #: The time until which it is not requested again, in Unix seconds.
    expires: int


class SettingChange(NamedTuple):
    """A setting of the broker that has another value in its sources than before."""

    #: Its key in the configuration file.
    key: str
    #: The value before, as in the file; empty for none.
    old: str
    #: The value in the sources.
    new: str
    #: Why the broker keeps the old value; None if it uses the new one.
    reason: Optional[str] = None


class ReloadResult(NamedTuple):
    """The settings that have changed, and those that keep their values until the broker is started again."""

    changed: Tuple[SettingChange, ...]
    refused: Tuple[SettingChange, ...]


class Event(NamedTuple):
    """An event of the broker."""

    name: str
    url: Optional[str]
    pid: Optional[int]
    reason: Optional[str]
    #: The name of a local file; empty for one without a name, None for other events.
    file: Optional[str] = None


class Hello(NamedTuple):
    """The broker's version, formats, limits and additions to the protocol."""

    server: str
    formats: Tuple[str, ...]
    limits: Dict[str, int]
    features: Tuple[str, ...]
    #: The names of the variants in its configuration.
    presets: Tuple[str, ...] = ()


class Result(NamedTuple):
    """The result of one of many requests: an image or an error."""

    #: The place of the source in the sequence, from 0.
    number: int
    source: Source
    image: Optional[Image]
    #: An `OSError` or `ValueError` if a local file cannot be opened, or a `data:` URL has no data.
    error: Union[ImageBrokerError, OSError, ValueError, None]

    def get(self) -> Image:
        """Returns the image, or raises the error."""
        if self.error is not None:
            raise self.error
        assert self.image is not None
        return self.image


def is_url(source: Source) -> bool:
    """Returns whether a source is a URL that the broker loads."""
    return isinstance(source, str) and "://" in source and not is_data_url(source)


def is_data_url(source: Source) -> bool:
    """Returns whether a source is a `data:` URL, whose bytes this client decodes."""
    return isinstance(source, str) and source[:5].lower() == "data:"


def title_of(source: Source) -> str:
    """Returns what messages call a source."""
    return str(source) if isinstance(source, (str, os.PathLike)) else f"an image of {type(source).__name__}"


def open_file(source: Source) -> int:
    """Opens a local file for a request, or returns the descriptor of a copy of bytes, of which all clients share the image. Raises
    `OSError`, and `ValueError` for a path with a null character and a `data:` URL without data."""
    if isinstance(source, str) and is_data_url(source):
        return _memory.sealed_copy(data_of_url(source))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _memory.sealed_copy(source)
    if isinstance(source, int):
        return os.dup(source)
    if isinstance(source, (str, os.PathLike)):
        # Without waiting for the writer of a pipe, which the broker refuses.
        return os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    read = getattr(source, "read", None)
    if read is None:
        raise TypeError(f"a source is a URL, a path, bytes, an open binary file or a descriptor, not {type(source).__name__}")
    try:
        descriptor: Optional[int] = source.fileno()
    except (AttributeError, OSError):
        descriptor = None
    if descriptor is not None and stat.S_ISREG(os.fstat(descriptor).st_mode):
        # The descriptor of a GzipFile, for example, is that of other bytes.
        if isinstance(getattr(source, "raw", source), io.FileIO):
            return os.dup(descriptor)
        source.seek(0)
    data = read(_LONGEST + 1)
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError("a file must be opened in binary mode, as open(path, 'rb')")
    if len(data) > _LONGEST:
        raise OSError(errno.EFBIG, f"the file is longer than {_LONGEST} bytes")
    return _memory.sealed_copy(data)


def data_of_url(url: str) -> bytes:
    """Returns the bytes of a `data:` URL (RFC 2397), whose media type is ignored. Raises `ValueError`."""
    head, comma, body = url[5:].partition(",")
    if not comma:
        raise ValueError("a data: URL needs a comma before its data")
    data = unquote_to_bytes(body.split("#", 1)[0])
    if not re.search(r"; *base64 *$", head, re.IGNORECASE):
        return data
    # Without white space, and with or without padding (the forgiving decoding of the WHATWG Infra Standard).
    text = re.sub(rb"[ \t\n\f\r]+", b"", data)
    text = re.sub(rb"={1,2}$", b"", text) if len(text) % 4 == 0 else text
    if len(text) % 4 == 1 or re.search(rb"[^A-Za-z0-9+/]", text):
        raise ValueError("the base64 text of a data: URL is damaged")
    return base64.b64decode(text + b"=" * (-len(text) % 4))


def file_identity(descriptor: int) -> Optional[Tuple[int, ...]]:
    """Returns the identity of an open file and of its contents, which each change changes in a local file system. Images of
    other file systems are not kept, nor are those of bytes, because each copy of them is another file."""
    status = os.fstat(descriptor)
    return None if status.st_nlink == 0 else _identity(status)


def _identity(status: os.stat_result) -> Tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def form_of(writable: bool) -> Form:
    """Returns the form of an image that has its bytes."""
    return Form.WRITABLE if writable else Form.SHARED


class Wish:
    """How images are wanted: what requests have in common that differ in their sources only."""

    __slots__ = ("_encoded", "_options", "_parts", "form")

    def __init__(self, options: Dict[str, Any], form: Form) -> None:
        self.form = form
        self._options = tuple(options.items())
        #: The fields, and the features that requests of URLs and of files need.
        self._parts: Optional[Tuple[Fields, FrozenSet[str], FrozenSet[str]]] = None
        self._encoded: Optional[bytes] = None

    def key(self, name: Any) -> Tuple[Any, ...]:
        """Returns the key of a kept image, by its URL or the identity of its file. It may not be hashable. `Client.get` contains
        the same expression for a shared one."""
        return (name, *self._options) if self.form is Form.SHARED else ("unshared", name, *self._options)

    def request(self, source: Source, descriptor: Optional[int]) -> Request:
        """Returns a `get`: of a URL, or of a local file, whose descriptor it owns. Raises `TypeError`."""
        try:
            if self._parts is None:
                fields, features = wire_options(dict(self._options))
                self._parts = fields, features, features | {"files"}
        except BaseException:
            if descriptor is not None:
                os.close(descriptor)
            raise
        fields, features, features_of_files = self._parts
        if descriptor is None:
            return Request({"type": "get", "url": source, **fields}, features=features)
        return Request({"type": "get", **fields}, features=features_of_files, descriptors=(descriptor,))

    def encoded_request(self, source: Source, descriptor: Optional[int]) -> Request:
        """Returns the same request, with the fields of all local files encoded once. No field may be added to it."""
        request = self.request(source, descriptor)
        if descriptor is not None:
            if self._encoded is None:
                try:
                    fields = {name: value for name, value in request.fields.items() if name != "type"}
                    self._encoded = encode_fields({**fields, "fds": 1})
                except BaseException:
                    request.close()
                    raise
            request.encoded = self._encoded
        return request


def source_request(
    kind: str, source: Source, options: Dict[str, Any], *, descriptor: Optional[int] = None, **callbacks: Any
) -> Request:
    """Returns a request of type `kind` for a URL, or for a local file that is opened or given."""
    try:
        fields, features = wire_options(options)
    except BaseException:
        if descriptor is not None:
            os.close(descriptor)
        raise
    if is_url(source):
        return Request({"type": kind, "url": source, **fields}, features=features, **callbacks)
    if descriptor is None:
        descriptor = open_file(source)
    return Request({"type": kind, **fields}, features=features | {"files"}, descriptors=(descriptor,), **callbacks)


def hello_of(fields: Fields) -> Hello:
    """Reads a `hello`."""
    limits = fields.get("limits", {})
    if not isinstance(limits, dict):
        raise violation("limits is not an object")
    return Hello(
        server=string(fields, "server", ""), formats=_strings(fields, "formats"),
        limits={name: integer(limits, name) for name in limits}, features=_strings(fields, "features"),
        presets=_strings(fields, "presets"))


def _strings(fields: Fields, name: str) -> Tuple[str, ...]:
    value = fields.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise violation(f"{name} is not a list of strings")
    return tuple(value)


def status_of(fields: Fields) -> CacheStatus:
    """Reads the reply to a `query`."""
    return CacheStatus(
        boolean(fields, "memory", False), boolean(fields, "disk", False), boolean(fields, "fresh", False),
        optional_string(fields, "averageColor"), optional_string(fields, "thumbHash"))


def event_of(fields: Fields) -> Event:
    """Reads an `event`."""
    return Event(
        string(fields, "event"), optional_string(fields, "url"), optional_integer(fields, "pid"),
        optional_string(fields, "reason"), optional_string(fields, "name"))


def failed_of(fields: Fields) -> List[FailedEntry]:
    """Reads the reply to a `failed` with the action `list`."""
    return [
        FailedEntry(string(entry, "url"), string(entry, "code"), integer(entry, "expires"))
        for entry in objects(fields, "entries")
    ]


def failed_request(action: str, url: Optional[str]) -> Request:
    """Returns a `failed`: for a URL, or for all."""
    return Request({"type": "failed", "action": action, **({} if url is None else {"url": url})})


def clear_request(tier: str, older_than_seconds: Optional[int]) -> Request:
    """Returns a `clear`."""
    fields: Fields = {"type": "clear", "tier": tier}
    if older_than_seconds is not None:
        fields["olderThanSeconds"] = older_than_seconds
    return Request(fields)


def clear_of(fields: Fields) -> ClearResult:
    """Reads the reply to a `clear`."""
    return ClearResult(integer(fields, "removed"), integer(fields, "bytes"))


def reload_of(fields: Fields) -> ReloadResult:
    """Reads the reply to a `reload`."""
    return ReloadResult(_settings(fields, "changed"), _settings(fields, "refused"))


def _settings(fields: Fields, name: str) -> Tuple[SettingChange, ...]:
    return tuple(
        SettingChange(
            string(entry, "key"), string(entry, "old", ""), string(entry, "new", ""), optional_string(entry, "reason"))
        for entry in objects(fields, name))


def stats_of(fields: Fields) -> Dict[str, Any]:
    """Reads a `stats`."""
    value = fields.get("stats")
    if not isinstance(value, dict):
        raise violation("stats is not an object")
    return value


def progress_of(fields: Fields) -> Tuple[int, Optional[int]]:
    """Reads the `progress` of a `get`."""
    return integer(fields, "received"), optional_integer(fields, "expected")


def prefetch_progress_of(fields: Fields) -> PrefetchResult:
    """Reads the `progress` of a `prefetch`."""
    return PrefetchResult(integer(fields, "done"), integer(fields, "failed"))


def report_prefetch(report: Callable[..., None], done: int, failed: int, total: int, part: PrefetchResult) -> None:
    """Calls `report` with the numbers of a `prefetch` of which a part is in flight after others."""
    report(done + part.done, failed + part.failed, total)


def store_request(
    url: str, data: Union["Pixels", _memory.Bytes, int], content_type: Optional[str] = None,
    size: Optional[Tuple[int, int]] = None, pixel_format: str = "rgba8", alpha: str = "straight",
    storage: str = "memory",
) -> Request:
    """Returns a `store`: of a descriptor, or of a copy of encoded bytes or of pixels in a sealed memfd."""
    fields: Fields = {"type": "store", "url": url}
    if isinstance(data, int):
        layout = None if size is None else _layout(size, pixel_format)
    else:
        rows = memoryview(cast(Any, data))
        layout = _layout_of(rows, size, pixel_format)
    features: FrozenSet[str] = frozenset()
    if layout is not None:
        fields["pixels"] = {
            **layout, "pixelFormat": pixel_format, "alpha": alpha if CHANNELS[pixel_format] == 4 else "none"}
        fields["storage"] = storage
        features = frozenset({"store-pixels"} | ({pixel_format} & {"rgb8", "gray8"}))
    if content_type is not None:
        fields["contentType"] = content_type
    if isinstance(data, int):
        descriptor = os.dup(data)
    else:
        descriptor = _memory.sealed_copy(rows if rows.c_contiguous else rows.tobytes())
    return Request(fields, features=features, descriptors=(descriptor,))


def _layout(size: Tuple[int, int], pixel_format: str) -> Dict[str, int]:
    width, height = size
    return {"width": width, "height": height, "stride": width * CHANNELS[pixel_format]}


def _layout_of(rows: memoryview, size: Optional[Tuple[int, int]], pixel_format: str) -> Optional[Dict[str, int]]:
    """Returns the layout of pixels: of an array (height, width, channels), or of bytes with a size. None for encoded bytes."""
    if size is None:
        shape = rows.shape or ()
        if len(shape) < 2:
            return None
        if rows.itemsize != 1 or (shape[2:] or (1,)) != (CHANNELS[pixel_format],):
            raise ValueError(f"an array of the shape {shape} and items of {rows.itemsize} bytes, for {pixel_format}")
        size = shape[1], shape[0]
    layout = _layout(size, pixel_format)
    if rows.nbytes != layout["stride"] * layout["height"]:
        raise ValueError(f"{rows.nbytes} bytes for {size[0]} × {size[1]} pixels of {pixel_format}")
    return layout


class Client:
    """A connection to the broker that any number of threads share.

    It is opened with the first request. A forked process opens one of its own. All methods raise `ImageBrokerError`.
    """

    def __init__(
        self, socket: Optional[str] = None, *, patience: Optional[float] = 30.0, reconnect: float = 5.0,
        keep_images: int = 4096, keep_bytes: int = 256 << 20, keep_descriptors: int = 128,
    ) -> None:
        """Creates a client.

        socket: the broker's path; by default `$IMGBROKER_SOCKET`, then `$XDG_RUNTIME_DIR/imgbroker.sock` if it exists, then
            `/run/imgbroker.sock`.
        patience: the seconds of silence after which the broker is asked for a sign of life; after as long again without
            one, requests fail with `NotAnsweringError`. None waits without a limit.
        reconnect: the seconds for which a broker that exited may take to come back.
        keep_images, keep_bytes: the limits of images that are kept mapped, so that a repeated `get` sends no message
            while the image is valid. 0 images: none.
        keep_descriptors: the limit of those that are in no segment, each of which takes a descriptor, before Python 3.13 two.
        """
        self._socket = socket
        self._settings: Dict[str, Any] = {
            "patience": patience, "reconnect": reconnect, "keep_images": keep_images, "keep_bytes": keep_bytes,
            "keep_descriptors": keep_descriptors}
        self._engine = Engine(socket, **self._settings)
        kept = self._engine.kept
        self._kept = kept
        self._find = kept.entries.get
        self._hits = kept.hits
        self._finalizer = weakref.finalize(self, self._engine.close)
        # A thread that waits for the broker need not be ended before the interpreter is.
        self._finalizer.atexit = False

    def __reduce__(self) -> Tuple[Any, ...]:
        # For processes that `spawn` starts: they get a client with a connection of its own.
        return functools.partial(Client, self._socket, **self._settings), ()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. Images stay valid. Requests in flight end with `ClosedError`."""
        self._engine.close()
        self._engine.join()

    # Images

    def get(
        self, source: Source, *, preview: Optional[Callable[[Image], None]] = None,
        partial: Optional[Callable[[Image], None]] = None,
        progress: Optional[Callable[[int, Optional[int]], None]] = None, writable: bool = False,
        **options: "Unpack[GetOptions]",
    ) -> Image:
        """Loads an image and waits for it.

        writable: the bytes may be changed. Nobody else sees the changes: each changed page of memory is copied first.
        preview: called with the cached image before it is revalidated; not called if none is cached.
        partial: called with the image as far as it has been downloaded, if the format permits that.
        progress: called with the number of bytes downloaded so far, and with their total or None.
        The callbacks run on another thread.
        """
        # A kept image takes no message. `Entry.is_valid` explains the condition.
        try:
            entry = self._find((source, *options.items()))
        except TypeError:  # An option is not hashable.
            entry = None
        if entry is not None and preview is None and not writable:
            tenth = _clock() // 100_000_000
            if entry.floor + tenth < entry.words[entry.index] <= entry.ceiling and entry.numbers[4] == entry.owner:
                entry.is_used = entry.is_unreported = True
                next(self._hits)
                if tenth >= self._kept.report_at:
                    self._engine.report()
                return entry.image
        wish = Wish(cast(Dict[str, Any], options), form_of(writable))
        image, descriptor, key = self.kept_or_open(source, wish, preview is None)
        if image is not None:
            return image
        request = self.get_request(source, wish, descriptor, key, preview, partial, progress)
        return cast(Image, self._engine.ask(request))

    def kept_image(self, source: Source, **options: "Unpack[GetOptions]") -> Optional[Image]:
        """Returns the image that a `get` would return without a message to the broker; None if it needs one."""
        try:
            image, descriptor, _ = self.kept_or_open(source, Wish(cast(Dict[str, Any], options), Form.SHARED))
        except OSError:
            return None
        if descriptor is not None:
            os.close(descriptor)
        return image

    def kept_or_open(
        self, source: Source, wish: Wish, may_be_kept: bool = True
    ) -> Tuple[Optional[Image], Optional[int], Optional[Tuple[Any, ...]]]:
        """Returns the image if it is kept, otherwise the descriptor of a local file, and the key by which the image may be kept.
        Raises `OSError`."""
        descriptor: Optional[int] = None
        name: Any = source
        if not is_url(source):
            descriptor = open_file(source)
        if not may_be_kept or not self._kept.is_enabled:
            return None, descriptor, None
        try:
            if descriptor is not None:
                # If the file is changed before the broker sees it, this identity never comes back.
                name = file_identity(descriptor)
                if name is None:
                    return None, descriptor, None
            key = wish.key(name)
            entry = self._find(key)
            image = None if entry is None else self._kept_image(entry, wish.form)
        except TypeError:  # An option is not hashable.
            return None, descriptor, None
        except BaseException:
            if descriptor is not None:
                os.close(descriptor)
            raise
        if image is not None and descriptor is not None:
            os.close(descriptor)
            descriptor = None
        return image, descriptor, key

    def kept_entry(self, source: Source, wish: Wish) -> Optional[Entry]:
        """Returns the kept image that a `get` would return without a message, without opening its file. A part of this package's
        interior."""
        name: Any = source
        try:
            if not is_url(source):
                if not isinstance(source, (str, os.PathLike)):
                    return None
                name = _identity(os.stat(source))
            entry = self._find(wish.key(name))
        except (OSError, TypeError, ValueError):  # Of the request, if one fails.
            return None
        return entry if entry is not None and self._use(entry) else None

    def _use(self, entry: Entry) -> bool:
        """Notes the use of a kept image. Returns whether it is valid."""
        tenth = _memory.now()
        if not entry.is_valid(tenth):
            return False
        entry.is_used = entry.is_unreported = True
        next(self._hits)
        if tenth >= self._kept.report_at:
            self._engine.report()
        return True

    def _kept_image(self, entry: Entry, form: Form) -> Optional[Image]:
        if not self._use(entry):
            return None
        if form is Form.SHARED:
            return entry.image
        return None if entry.lease is None else self._engine.map_again(entry.reply, entry.lease, form)

    def keep_first(self, size: Optional[int] = None) -> None:
        """From now on keeps the first images that fit into `size` bytes, of any number, in place of those that were used last: for
        a program that uses all of a large set in turn. At most half of what the broker lets a client lease.

        size: by default the client's `keep_bytes`.
        """
        most = self.hello().limits.get("maxLeasedBytes", 0) // 2
        self._kept.keep_first(min(self._settings["keep_bytes"] if size is None else size, most))

    def submit(
        self, source: Source, *, preview: Optional[Callable[[Image], None]] = None,
        partial: Optional[Callable[[Image], None]] = None,
        progress: Optional[Callable[[int, Optional[int]], None]] = None, writable: bool = False,
        **options: "Unpack[GetOptions]",
    ) -> "Future[Image]":
        """Requests an image without waiting; see `get`. Cancelling the future cancels the request."""
        wish = Wish(cast(Dict[str, Any], options), form_of(writable))
        image, descriptor, key = self.kept_or_open(source, wish, preview is None)
        if image is not None:
            future: "Future[Image]" = Future()
            future.set_result(image)
            return future
        return self.send(self.get_request(source, wish, descriptor, key, preview, partial, progress))

    def send(self, request: Request) -> "Future[Any]":
        """Sends a request; a part of this package's interior."""
        request.future.on_cancel = self._engine.cancel
        self._engine.submit(request)
        return request.future

    def cancel(self, future: "Future[Any]") -> None:
        """Cancels a request of `submit`, which then ends with the code `cancelled`, unless it has ended before."""
        request = future.request() if isinstance(future, RequestFuture) else None
        if request is not None:
            self._engine.cancel(request)

    def update(self, future: "Future[Any]", *, priority: Optional[str] = None, detach: bool = False) -> None:
        """Changes a request of `submit` that the broker has not answered: its `priority`, or with `detach` that its downloads go on
        for the cache although it is cancelled or this client is closed. Needs the addition `update`.

        A request that has ended, or that waits for a connection, is left as it is.
        """
        if priority is None and not detach:
            raise ValueError("update needs a priority or detach")
        request = future.request() if isinstance(future, RequestFuture) else None
        if request is not None:
            self._engine.update(request, priority, detach)

    def get_request(
        self, source: Source, wish: Wish, descriptor: Optional[int], key: Optional[Tuple[Any, ...]],
        preview: Optional[Callable[[Image], None]], partial: Optional[Callable[[Image], None]],
        progress: Optional[Callable[[int, Optional[int]], None]],
    ) -> Request:
        """Returns the request for what `kept_or_open` has not found; a part of this package's interior."""
        request = wish.request(source, descriptor)
        request.form = wish.form
        request.key = key
        if preview is not None:
            request.fields.update(cache="no-cache", staleFirst=True)
        if partial is not None:
            request.fields["progressive"] = True
        if preview is not None or partial is not None:

            def show(image: Image) -> None:
                # A preview comes from the cache.
                callback = partial if image.source == "network" else preview
                if callback is not None:
                    callback(image)

            request.on_image = self._guarded(request, show)
        if progress is not None:
            request.fields["progress"] = True
            request.on_progress = self._guarded(request, lambda fields: progress(*progress_of(fields)))
        return request

    def _guarded(self, request: Request, callback: Callable[[Any], None]) -> Callable[[Any], None]:
        """Returns a callback whose error ends its request, and not the thread that receives."""
        engine = self._engine

        def call(value: Any) -> None:
            if request.future.done():
                return
            try:
                callback(value)
            except BaseException as error:
                with contextlib.suppress(InvalidStateError):  # It was cancelled meanwhile.
                    request.future.set_exception(error)
                    engine.cancel(request)

        return call

    def frames(
        self, source: Source, *, writable: bool = False, **options: "Unpack[GetOptions]"
    ) -> Generator[Frame, None, None]:
        """Plays an animation, once from the first to the last frame, in parts of at most 8 MiB or one frame: a long one takes no
        more memory than a short one. Two parts are held at most, as the next one is requested while one is shown. Closing the
        iterator cancels it. Raises `ImageBrokerError` and `OSError`.
        """
        start, count = 0, 1
        following: "Optional[Future[Image]]" = None
        try:
            while count:
                more = cast(Any, {**options, "frames": (start, count)})
                part = (following or self.submit(source, writable=writable, **more)).result()
                first, (start, count) = start, next_range(start, part)
                if count:
                    more["frames"] = (start, count)
                    following = self.submit(source, writable=writable, **more)
                for position, timing in enumerate(part.frames):
                    yield Frame(first + position, timing.delay_ms, part, position)
                del part
        finally:
            if following is not None:
                following.cancel()

    def get_many(
        self, sources: Iterable[Source], *, ordered: bool = True, in_flight: int = 64, writable: bool = False,
        **options: "Unpack[GetOptions]",
    ) -> Iterator[Result]:
        """Loads images, and returns a result for each: in the order of the sources, or in the order in which they become
        ready. At most `in_flight` are requested beyond those returned. An error, also that of a missing file, ends no other
        request. Closing the iterator cancels the rest.

        writable: see `get`.
        """
        wish = Wish(cast(Dict[str, Any], options), form_of(writable))
        return self.many(sources, wish, ordered=ordered, in_flight=in_flight)

    def many(
        self, sources: Iterable[Source], wish: Wish, *, ordered: bool, in_flight: int, together: bool = False
    ) -> Iterator[Result]:
        """As `get_many`; a part of this package's interior.

        together: all results are needed before any is of use. A result that is not ready is then waited for together with those
            after it, so that this thread is woken for many at once.
        """
        forks = self._engine.forks
        # Those that need no request are ready at once.
        pending: Dict[int, Tuple[Source, "Union[Future[Image], Image, ImageBrokerError, OSError, ValueError]"]] = {}
        ready: "queue.SimpleQueue[int]" = queue.SimpleQueue()
        numbered = enumerate(sources)
        most = max(1, in_flight)
        try:
            while True:
                for index, source in itertools.islice(numbered, most - len(pending)):
                    load = self.load(source, wish)
                    pending[index] = (source, load)
                    if not ordered:
                        # Without a reference to the future, so that its image lives no longer than its user wants.
                        if isinstance(load, Future):
                            load.add_done_callback(functools.partial(_put, ready, index))
                        else:
                            ready.put(index)
                if not pending:
                    return
                if self._engine.forks != forks:
                    raise ConnectionLostError("the request belongs to the parent process")
                index = next(iter(pending)) if ordered else ready.get()
                source, load = pending[index]
                if isinstance(load, Future):
                    if together and not load.done():
                        # All that were requested, or the half that leaves the broker some while others are requested.
                        more = len(pending) // 2 if len(pending) == most else 0
                        later = next(itertools.islice(reversed(pending.values()), more, None))
                        if isinstance(later[1], Future):
                            later[1].exception()
                        del later
                    try:
                        load = load.result()
                    except (ImageBrokerError, OSError, ValueError) as error:
                        load = error
                del pending[index]
                result = Result(index, source, load, None) if isinstance(load, Image) else Result(index, source, None, load)
                del load
                yield result
                del result
        finally:
            for _, load in pending.values():
                if isinstance(load, Future):
                    load.cancel()

    def load(self, source: Source, wish: Wish) -> "Union[Future[Image], Image, ImageBrokerError, OSError, ValueError]":
        """Returns an image that is kept, an error, or the future of a request; a part of this package's interior."""
        try:
            image, descriptor, key = self.kept_or_open(source, wish)
            if image is not None:
                return image
            request = wish.encoded_request(source, descriptor)
            request.form = wish.form
            request.key = key
            return self.send(request)
        except (ImageBrokerError, OSError, ValueError) as error:
            return error

    def map_into(self, region: "Region", position: int, image: Image, size: int) -> bool:
        """Maps the first `size` bytes of an image whose form is `UNMAPPED` into a region. Returns false if it has its bytes, or
        if its connection was lost. Raises `OSError`. A part of this package's interior."""
        nothing = image.buffer.obj
        return isinstance(nothing, _memory.Unmapped) and self._engine.map_into(
            region, position, image._reply, size, nothing.lease)

    def with_bytes(self, image: Image) -> Optional[Image]:
        """Returns an image that has its bytes for one whose form is `UNMAPPED`; None if its connection was lost. A part of this
        package's interior."""
        nothing = image.buffer.obj
        if not isinstance(nothing, _memory.Unmapped):
            return image
        return self._engine.map_again(image._reply, nothing.lease, Form.WRITABLE)

    # The cache

    def query(self, source: Source, **options: "Unpack[GetOptions]") -> CacheStatus:
        """Queries whether an image is cached, in which tier, and whether it is fresh."""
        return status_of(self._engine.ask(source_request("query", source, cast(Dict[str, Any], options))))

    def prefetch(
        self, urls: Sequence[str], *, progress: Optional[Callable[[int, int, int], None]] = None,
        **options: "Unpack[GetOptions]",
    ) -> PrefetchResult:
        """Loads images into the cache, at low priority by default, and waits for the last one.

        Continues after URLs that fail. progress: called after each URL with the numbers of URLs loaded, failed and in all,
        on another thread.
        """
        done = failed = 0
        for part in prefetch_parts(urls):
            request, last = self.prefetch_request(
                part, cast(Dict[str, Any], options),
                None if progress is None else functools.partial(report_prefetch, progress, done, failed, len(urls)))
            self._engine.ask(request)
            done += last[-1].done
            failed += last[-1].failed
        return PrefetchResult(done, failed)

    def prefetch_request(
        self, urls: Sequence[str], options: Dict[str, Any], progress: Optional[Callable[[PrefetchResult], None]]
    ) -> Tuple[Request, List[PrefetchResult]]:
        """Returns the request for a part, and a list whose last element is its state; a part of this package's
        interior."""
        fields, features = wire_options(options)
        request = Request({"type": "prefetch", "urls": list(urls), **fields}, features=features)
        last = [PrefetchResult(0, 0)]

        def note(fields: Fields) -> None:
            last[:] = [prefetch_progress_of(fields)]
            if progress is not None:
                progress(last[0])

        request.on_progress = self._guarded(request, note)
        return request, last

    def store(
        self, url: str, data: Union["Pixels", _memory.Bytes, int], *, content_type: Optional[str] = None,
        size: Optional[Tuple[int, int]] = None, pixel_format: str = "rgba8", alpha: str = "straight",
        storage: str = "memory",
    ) -> None:
        """Stores an image in the cache as if it had been loaded from `url`, and waits until it is validated.

        data: encoded bytes; an array (height, width, channels) of `uint8` with pixels; with `size` also the bytes of their
            rows. All are copied. Or the descriptor of a memfd or of a file on a tmpfs; one with all four seals is used without
            a copy, and pixels must be in such a memfd.
        size: the width and height of pixels that are no array, in rows without padding.
        pixel_format, alpha: the form of pixels. Requests in this form at full size get them without decoding, others variants
            made of them.
        storage: `disk` keeps pixels in the disk tier, too.
        """
        self._engine.ask(store_request(url, data, content_type, size, pixel_format, alpha, storage))

    def remove(self, source: Source) -> int:
        """Removes an image in all its variants from the cache. Returns the number of originals removed."""
        return integer(self._engine.ask(source_request("remove", source, {})), "removed")

    # The broker

    def hello(self) -> Hello:
        """Requests the broker's version, formats and limits."""
        return hello_of(self._engine.ask(Request({"type": "hello", "protocol": 1})))

    def stats(self) -> Dict[str, Any]:
        """Requests the broker's counters and gauges."""
        return stats_of(self._engine.ask(Request({"type": "stats"})))

    def events(self, names: Sequence[str] = EVENTS) -> "Events":
        """Subscribes to events of this user's requests, for administrators of all, over a connection of its own."""
        engine = Engine(
            self._socket, patience=self._settings["patience"], reconnect=0.0, keep_images=0, keep_bytes=0, keep_descriptors=0)
        return Events(engine, names)

    # Administration

    def clear(self, tier: str = "all", *, older_than_seconds: Optional[int] = None) -> ClearResult:
        """Empties a tier of the cache: `memory`, `disk` or `all`. Administrators only."""
        return clear_of(self._engine.ask(clear_request(tier, older_than_seconds)))

    def failed(self, url: Optional[str] = None) -> List[FailedEntry]:
        """Lists the recently failed URLs. Administrators only."""
        return failed_of(self._engine.ask(failed_request("list", url)))

    def clear_failed(self, url: Optional[str] = None) -> int:
        """Removes a URL, or all, from the recently failed. Returns the number removed. Administrators only."""
        return integer(self._engine.ask(failed_request("clear", url)), "removed")

    def suspend(self) -> None:
        """Suspends new loads of all clients; hits are served. Administrators only."""
        self._engine.ask(Request({"type": "suspend"}))

    def resume(self) -> None:
        """Ends `suspend`. Administrators only."""
        self._engine.ask(Request({"type": "resume"}))

    def cancel_all(self) -> None:
        """Cancels all pending requests of all clients. Administrators only."""
        self._engine.ask(Request({"type": "cancelAll"}))

    def reload(self) -> ReloadResult:
        """Has the broker read its settings again. Those that may change while it runs change at once; if one is wrong,
        none does, and the error is a `MessageError`. Administrators only."""
        return reload_of(self._engine.ask(Request({"type": "reload"})))

    def upgrade(self) -> None:
        """Has the installed program take the place of the running broker, which keeps its connections, leases and images
        in memory. If it cannot, the broker goes on as before. Administrators only."""
        self._engine.ask(Request({"type": "upgrade"}))

    def flush(self) -> None:
        """Releases the leases of images that this process no longer uses now; otherwise within a second."""
        self._engine.report()


def _put(ready: "queue.SimpleQueue[int]", index: int, _: object) -> None:
    ready.put(index)


def _weakly(method: Callable[[Any], None]) -> Callable[[Any], None]:
    """Returns a callback that calls a method as long as its object exists, and does not keep it."""
    weak = weakref.WeakMethod(method)

    def call(value: Any) -> None:
        found = weak()
        if found is not None:
            found(value)

    return call


class Events:
    """An iterator over events, and a context manager. It ends with `ConnectionLostError` when the broker exits, and when
    `close` is called in another thread."""

    #: The maximum number of events that were not read.
    LIMIT = 100_000

    def __init__(self, engine: Engine, names: Sequence[str]) -> None:
        self._engine = engine
        self._queue: "queue.SimpleQueue[Union[Event, ImageBrokerError]]" = queue.SimpleQueue()
        self._notify: Callable[[], object] = lambda: None
        # The connection has the request, which would keep this object, and with it the connection.
        request = Request(
            {"type": "subscribe", "events": list(names)}, on_event=_weakly(self._take), is_repeatable=False)
        request.on_end = _weakly(self._put)
        engine.ask(request)

    def _take(self, fields: Fields) -> None:
        self._put(event_of(fields))
        if self._queue.qsize() > self.LIMIT:
            self._engine.close()

    def _put(self, event: Union[Event, ImageBrokerError]) -> None:
        self._queue.put(event)
        self._notify()

    def notify(self, callback: Callable[[], object]) -> None:
        """Calls `callback`, on any thread, now and when there are further events."""
        self._notify = callback
        callback()

    @property
    def is_empty(self) -> bool:
        """Whether the next event has not arrived yet."""
        return self._queue.empty()

    def __iter__(self) -> "Events":
        return self

    def __next__(self) -> Event:
        event = self._queue.get()
        if isinstance(event, ImageBrokerError):
            # For the next call, too.
            self._queue.put(event)
            raise event
        return event

    def __enter__(self) -> "Events":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the subscription."""
        self._engine.close()
        self._engine.join()

    def __del__(self) -> None:
        self._engine.close()
