"""One connection to the broker: its frames, its requests in flight, its leases.

A session has no thread and no lock. The engine calls it under its lock.
"""

from __future__ import annotations

import array
import enum
import errno
import os
import socket
import threading
import time
import weakref
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple

from ._errors import (
    ConnectionLostError, ErrorCode, FeatureMissingError, ImageBrokerError, NoBrokerError, ProcessLimitError,
    RefusedError, forget_frames,
)
from ._image import Image
from ._memory import IMAGE_SEALS, Lease, Mapping, Releases, Unmapped, ValidityPage, map_buffer, verify_sealed
from ._segment import Connection, Segment
from ._wire import (
    BUFFERS_IN_ONE_FRAME, SEGMENTS_IN_ONE_FRAME, Fields, Frame, FrameDecoder, ImageReply, encode_frame, encode_get, error_of,
    image_of, integer, request_id, string, violation,
)

if TYPE_CHECKING:
    from ._region import Region

#: The maximum number of descriptors in one message of a Unix socket.
_MOST_DESCRIPTORS = 253
_SPACE_FOR_DESCRIPTORS = socket.CMSG_SPACE(4 * _MOST_DESCRIPTORS)
# Not an `IntFlag`, whose operators take microseconds.
_TRUNCATED = int(socket.MSG_CTRUNC)
#: The maximum number of messages with descriptors that no complete frame has taken.
_MOST_ARRIVALS = 2
_RECEIVED_AT_ONCE = 1 << 16
#: Errors of sending that pass: too many descriptors of the user are in flight, or the kernel lacks memory.
_PASSING = (errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM)


class Form(enum.Enum):
    """How an image has its bytes."""

    #: Read-only. Images of one buffer have one mapping.
    SHARED = 0
    #: In a mapping or copy of its own, which may be written to.
    WRITABLE = 1
    #: Not at all: its user has its buffer mapped, into a region. Inline bytes may be written to; those in a segment are shared.
    UNMAPPED = 2


class RequestFuture(Future):  # type: ignore[type-arg]
    """The result of a request. Cancelling it sends the protocol's `cancel`."""

    #: The request, which is alive while it is in flight. Not a reference, because the request has one to its future, and
    #: an image in a cycle would live until it is collected.
    request: "weakref.ref[Request]"
    on_cancel: "Optional[Callable[[Request], None]]" = None

    def cancel(self) -> bool:
        """Cancels the request, unless it has ended."""
        is_cancelled = super().cancel()
        request = self.request()
        if is_cancelled and request is not None and self.on_cancel is not None:
            self.on_cancel(request)
        return is_cancelled

    def reset_after_fork(self) -> None:
        """Replaces the locks that another thread of the parent process may have held, and forgets its waiters."""
        self._condition = threading.Condition()
        self._waiters: List[Any] = []
        self._done_callbacks: List[Any] = []


class Request:
    """A request: sent again over a new connection if its connection is lost."""

    form = Form.SHARED
    #: What `encode_get` makes a frame of in place of `fields`, if they were encoded before.
    encoded: Optional[bytes] = None
    attempts = 0
    #: Whether it was cancelled: it is then not sent again, and its error has the code `cancelled`.
    is_cancelled = False
    id: Optional[int] = None
    #: The time at which it was sent, of `time.monotonic`.
    sent_at = 0.0
    #: The key under which its image is kept for repeated requests; None for no keeping.
    key: Optional[Tuple[Any, ...]] = None
    #: Called with the error that ends a subscription.
    on_end: Optional[Callable[[ImageBrokerError], None]] = None

    def __init__(
        self, fields: Fields, *, descriptors: Tuple[int, ...] = (), features: FrozenSet[str] = frozenset(),
        on_image: Optional[Callable[[Image], None]] = None, on_progress: Optional[Callable[[Fields], None]] = None,
        on_event: Optional[Callable[[Fields], None]] = None, is_repeatable: bool = True,
    ) -> None:
        self.fields = fields
        #: Descriptors that the request owns until it ends.
        self.descriptors = descriptors
        self.features = features
        self.on_image = on_image
        self.on_progress = on_progress
        self.on_event = on_event
        self.is_repeatable = is_repeatable
        self.future = RequestFuture()
        self.future.request = weakref.ref(self)

    @property
    def may_repeat(self) -> bool:
        """Whether it is sent again if its connection is lost: once."""
        return self.is_repeatable and self.attempts < 2 and not self.is_cancelled

    def close(self) -> None:
        """Closes the request's descriptors."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = ()

    def finish(self, result: Any) -> None:
        """Ends the request with a result or an error."""
        if self.is_cancelled and isinstance(result, ImageBrokerError):
            result = cancellation()
        self.close()
        if self.on_end is not None and isinstance(result, ImageBrokerError):
            self.on_end(result)
        if self.future.done():
            return
        try:
            if isinstance(result, BaseException):
                self.future.set_exception(result)
            else:
                self.future.set_result(result)
        except Exception:  # It was cancelled meanwhile.
            if not self.future.done():
                raise


def cancellation() -> RefusedError:
    """Returns the error of a request that was cancelled."""
    return RefusedError.of(ErrorCode.CANCELLED, "The request was cancelled.")


#: An effect of a received frame, performed without the lock.
Effect = Callable[[], None]


class _Arrival(NamedTuple):
    """Descriptors that came with received bytes."""

    #: The position in the stream after the message that carried them.
    end: int
    #: None if the kernel dropped some of them, because this process may open no more.
    descriptors: Optional[List[int]]


class _Held:
    """A buffer whose descriptor this process has."""

    __slots__ = ("descriptor", "leases", "mapping", "needed_until", "size")

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor = descriptor
        self.size = size
        #: The number of leases that were granted and not released.
        self.leases = 0
        self.mapping: "Optional[weakref.ref[Mapping]]" = None
        #: The last request that was sent before the last lease was released: until its reply, the broker may assume that
        #: this process still has the descriptor.
        self.needed_until = 0


class _Mapped:
    """A segment whose descriptor the broker has sent."""

    __slots__ = ("is_forgettable", "leases", "segment")

    def __init__(self, segment: "Segment | str", leases: int) -> None:
        #: The segment, or the problem that prevented its mapping.
        self.segment = segment
        #: The number of leases in it that were granted and not released.
        self.leases = leases
        #: Whether it is to be forgotten once it has no lease: it has ended, or could not be mapped.
        self.is_forgettable = False


class Session:
    """A connection. All methods except the constructor are called by one thread at a time."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.path = path
        self.pending: Dict[int, Request] = {}
        self.page: Optional[ValidityPage] = None
        self.features: FrozenSet[str] = frozenset()
        self.has_outgoing = False
        self.releases: Releases = deque()
        #: Returns the report of uses through the validity page; sent before releases, which may include its buffers.
        self.take_report: Callable[[], Optional[Fields]] = lambda: None
        #: Offers an image with a slot to the store of kept images.
        self.keep: Callable[
            [Tuple[Any, ...], Image, ImageReply, ValidityPage, Optional[Lease]], None] = lambda *_: None
        self._outgoing: Deque[Tuple[bytes, Tuple[int, ...]]] = deque()
        self._decoder = FrameDecoder()
        self._arrivals: List[_Arrival] = []
        self._waiting_for_payload: Optional[Tuple[Frame, ImageReply]] = None
        self._held: Dict[int, _Held] = {}
        #: Buffers whose descriptor was lost. The broker assumes that it arrived until all leases are released.
        self._lost: Set[int] = set()
        self._has_released = False
        self._segments: Dict[int, _Mapped] = {}
        #: The number of all leases in segments.
        self._leases_in_segments = 0
        #: The segments that are to be forgotten and may have no lease.
        self._forgettable: List[int] = []
        #: Views in segments keep it, too.
        self._connection: Optional[Connection] = Connection(self.socket)
        self._last_id = 0
        #: Whether the stream of messages is damaged, so that nothing is sent any more.
        self.is_abandoned = False
        #: Whether messages wait for a pause, and not for the socket, which is writable.
        self.is_stalled = False
        #: Wakes the thread that receives.
        self.wake: Callable[[], None] = lambda: None
        #: The newest request that was answered.
        self._newest_answered = 0
        #: Releases kept images to make room for requested ones. Returns whether there were any.
        self.make_room: Callable[[], bool] = lambda: False
        #: The newest request when it was last called.
        self._room_made_at = 0
        #: Releases the kept images in a segment.
        self.release_segment: Callable[[int], None] = lambda _: None
        #: Requests that the broker refused because it is shutting down, to be sent again over the next connection.
        self.deferred: List[Request] = []
        #: The effects of handled frames that are to be performed, also after an error of `dispatch`.
        self.effects: List[Effect] = []

    def connect(self, timeout: Optional[float]) -> None:
        """Connects to the broker. Raises `NoBrokerError`."""
        try:
            self.socket.settimeout(timeout)
            self.socket.connect(self.path)
            self.socket.setblocking(False)
        except OSError as error:
            reason = error.strerror or str(error)
            raise NoBrokerError(f"no broker answers at {self.path} ({reason})") from error

    @property
    def holds_leases(self) -> bool:
        """Whether leases will have to be released."""
        return bool(self._held) or self.is_in_segments

    @property
    def is_in_segments(self) -> bool:
        """Whether images in segments exist, which keep the connection open."""
        return self._leases_in_segments > 0

    @property
    def is_flush_due(self) -> bool:
        """Whether `flush` would send something."""
        return self.has_outgoing or bool(self.releases) or bool(self._forgettable)

    def close(self) -> None:
        """Closes all descriptors, that of the socket once no image in a segment exists. Images stay valid; the broker ends their
        leases with the connection."""
        self._segments = {}
        self._connection = None
        for arrival in self._arrivals:
            _close(arrival.descriptors)
        self._arrivals = []
        for held in self._held.values():
            os.close(held.descriptor)
        self._held = {}

    # Sending

    def send(self, request: Request) -> None:
        """Sends a request; what the socket does not accept now is sent by `flush`.

        Raises `FeatureMissingError`, `MessageError`, or `TypeError` and `ValueError` for values without a JSON form.
        Errors of the socket are left to the receiving side.
        """
        if not request.features <= self.features:
            missing = request.features - self.features
            raise FeatureMissingError(
                f"the broker at {self.path} does not have {', '.join(sorted(missing))} among its features")
        self._renew_page()
        number = self._last_id = self._last_id + 1
        if request.encoded is not None:
            frame = encode_get(number, request.encoded)
        else:
            fields = {"type": request.fields["type"], "id": number, **request.fields}
            if request.descriptors:
                fields["fds"] = len(request.descriptors)
            frame = encode_frame(fields)
        request.id = number
        request.attempts += 1
        request.sent_at = time.monotonic()
        self.pending[number] = request
        self._write(frame, request.descriptors)

    def _renew_page(self) -> None:
        """Requests the next validity page if the present one has ended although the connection goes on: another program
        has taken the broker's place. Without an answer that has a page, no further one is requested."""
        if self.page is not None and not self.page.has_owner:
            self.page = None
            self.send(Request({"type": "hello", "protocol": 1, "validity": True, "segments": True}, is_repeatable=False))

    def flush(self) -> None:
        """Sends what is queued, and the leases to be released."""
        self._write(b"", ())

    def _write(self, frame: bytes, descriptors: Tuple[int, ...]) -> None:
        if self.is_abandoned:
            return
        report = self.take_report()
        if report is not None:
            self._outgoing.append((encode_frame(report), ()))
        self._enqueue_releases()
        if frame:
            # Only the descriptors' numbers are queued: the request owns them until it has ended.
            self._outgoing.append((frame, descriptors))
        self.is_stalled = False
        try:
            while self._outgoing:
                data, attached = self._outgoing[0]
                if attached:
                    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", attached))]
                    sent = self.socket.sendmsg([data], rights, socket.MSG_NOSIGNAL)
                else:
                    sent = self.socket.send(data, socket.MSG_NOSIGNAL)
                if sent == len(data):
                    self._outgoing.popleft()
                else:
                    self._outgoing[0] = (data[sent:], ())
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            # The receiving side finds the connection closed.
            self._outgoing.clear()
        except OSError as error:
            self.is_stalled = error.errno in _PASSING
            if not self.is_stalled:
                self.is_abandoned = True
                self.wake()
        except BaseException:
            # A signal handler raised: it is unknown how much was sent. The connection goes on as long as images in segments exist.
            self.is_abandoned = True
            self.wake()
            raise
        self.has_outgoing = bool(self._outgoing)
        if self._has_released:
            self._forget_released()

    def _enqueue_releases(self) -> None:
        released: List[int] = []
        while self.releases:
            buffer, number = self.releases.popleft()
            released.append(buffer)
            if number:
                self._leases_in_segments -= 1
                mapped = self._segments[number]
                mapped.leases -= 1
                if mapped.is_forgettable and not mapped.leases:
                    self._forgettable.append(number)
                continue
            held = self._held.get(buffer)
            if held is not None:
                held.leases -= 1
                held.needed_until = self._last_id
                self._has_released = True
        for start in range(0, len(released), BUFFERS_IN_ONE_FRAME):
            part = released[start:start + BUFFERS_IN_ONE_FRAME]
            self._outgoing.append((encode_frame({"type": "release", "buffers": part}), ()))
        if self._forgettable:
            self._forget_segments()

    def _forget_segments(self) -> None:
        """Unmaps the segments that are not needed any more. After the releases, as the protocol demands."""
        numbers, self._forgettable = self._forgettable, []
        forgotten: List[int] = []
        for number in numbers:
            mapped = self._segments.get(number)
            if mapped is None or mapped.leases:
                continue
            forgotten.append(number)
            # Replies in flight may refer to one that could not be mapped, and none refers to one that has ended.
            if isinstance(mapped.segment, Segment) or not self.pending:
                del self._segments[number]
        for start in range(0, len(forgotten), SEGMENTS_IN_ONE_FRAME):
            part = forgotten[start:start + SEGMENTS_IN_ONE_FRAME]
            self._outgoing.append((encode_frame({"type": "forgetSegments", "segments": part}), ()))

    def _forget_released(self) -> None:
        # The broker reads messages in their order: once it has answered a request that was sent after the release, no reply
        # refers to the buffer without its descriptor.
        oldest = max(next(iter(self.pending), self._last_id + 1), self._newest_answered)
        self._has_released = False
        for buffer, held in list(self._held.items()):
            if held.leases > 0:
                continue
            if held.needed_until >= oldest:
                self._has_released = True
                continue
            os.close(held.descriptor)
            del self._held[buffer]

    # Receiving

    def receive(self) -> bool:
        """Receives the available bytes. Returns whether there were any. Raises `ConnectionLostError`."""
        try:
            data, ancillary, flags, _ = self.socket.recvmsg(
                _RECEIVED_AT_ONCE, _SPACE_FOR_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            raise ConnectionLostError(f"the broker closed the connection ({error.strerror})") from error
        descriptors: List[int] = []
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(content[:len(content) - len(content) % numbers.itemsize])
                descriptors += numbers
        if not data:
            _close(descriptors)
            raise ConnectionLostError("the broker closed the connection")
        self._decoder.append(data)
        if flags & _TRUNCATED:
            # It is unknown which ones are missing, so none is used.
            _close(descriptors)
            self._arrivals.append(_Arrival(self._decoder.end, None))
        elif descriptors:
            self._arrivals.append(_Arrival(self._decoder.end, descriptors))
        return True

    def take_effects(self) -> List[Effect]:
        """Takes the effects of the frames that were handled."""
        effects, self.effects = self.effects, []
        return effects

    def dispatch(self) -> None:
        """Handles the complete frames, and appends what is to be done without the lock to `effects`.

        Raises `ProtocolViolationError`, or the `RefusedError` that the broker sent for the whole connection.
        """
        effects = self.effects
        while True:
            if self._waiting_for_payload is not None:
                frame, reply = self._waiting_for_payload
                payload = self._decoder.take_payload(reply.payload)
                if payload is None:
                    break
                self._waiting_for_payload = None
                is_shared = self.pending[request_id(frame.fields)].form is Form.SHARED
                data = payload if is_shared else bytearray(payload)
                self._finish_image(request_id(frame.fields), reply, Image(reply, memoryview(data)), None, effects)
                continue
            next_frame = self._decoder.next()
            if next_frame is None:
                break
            self._discard_arrivals(next_frame.position)
            self._handle(next_frame, effects)
        self._discard_arrivals(self._decoder.position)
        # Those of the frame that is not complete came with its first byte, in one message.
        if len(self._arrivals) > _MOST_ARRIVALS:
            raise violation("descriptors within a frame")
        if self._has_released:
            self._forget_released()
        if not self.pending:
            self._lost.clear()

    def _handle(self, frame: Frame, effects: List[Effect]) -> None:
        fields = frame.fields
        kind = string(fields, "type")
        if kind == "error" and fields.get("id") is None:
            error = error_of(fields)
            # A broker that ends, or cannot hand the connection over, closes it next.
            if error.code is ErrorCode.SHUTTING_DOWN:
                raise ConnectionLostError("the broker closed the connection")
            raise error
        if kind == "segmentEnded":
            self._end_segment(integer(fields, "segment", 1))
            return
        number = request_id(fields)
        request = self.pending.get(number)
        if request is None:
            raise violation(f"a reply to a request {number} that is not pending")
        expected = _EXPECTED.get(request.fields["type"], ("ok",))
        if kind == "error":
            error = error_of(fields)
            self._remove_pending(number)
            if error.code is ErrorCode.SHUTTING_DOWN and request.may_repeat:
                self.deferred.append(request)
            elif (
                error.code in _FULL and request.fields["type"] == "get" and not request.is_cancelled
                and self._has_room_for(number)
            ):
                # Requested images take precedence over kept ones.
                request.attempts -= 1
                self.send(request)
            else:
                effects.append(lambda: request.finish(error))
        elif kind not in expected:
            raise violation(f"{kind} as the reply to {request.fields['type']}")
        elif kind == "image":
            reply = image_of(fields)
            if reply.payload:
                self._waiting_for_payload = (frame, reply)
                return
            image: "Image | ImageBrokerError"
            lease: Optional[Lease] = None
            try:
                if reply.segment is None:
                    image, lease = self._image(frame, reply, request.form)
                else:
                    image, lease = self._image_in_segment(frame, reply, request.form)
            except ProcessLimitError as limit:
                forget_frames(limit)
                image = limit
            self._finish_image(number, reply, image, lease, effects)
        elif kind == "progress":
            on_progress = request.on_progress
            if on_progress is not None:
                effects.append(lambda: on_progress(fields))
        elif kind == "event":
            on_event = request.on_event
            if on_event is None:
                raise violation("an event without a subscription")
            effects.append(lambda: on_event(fields))
        else:
            if request.on_event is None:
                self._remove_pending(number)
            result: Any = fields
            if kind == "hello":
                self._hello(frame)
            effects.append(lambda: request.finish(result))

    def _remove_pending(self, number: int) -> None:
        del self.pending[number]
        self._newest_answered = max(self._newest_answered, number)

    def _finish_image(
        self, number: int, reply: ImageReply, image: "Image | ImageBrokerError", lease: Optional[Lease],
        effects: List[Effect],
    ) -> None:
        request = self.pending[number]
        if not reply.final:
            on_image = request.on_image
            if on_image is not None and isinstance(image, Image):
                partial = image
                effects.append(lambda: on_image(partial))
            return
        self._remove_pending(number)
        if isinstance(image, Image) and request.key is not None and self.page is not None:
            if request.form is not Form.SHARED:
                empty = Image(reply, memoryview(b""))
                self.keep(request.key, empty, reply, self.page, lease)
            else:
                self.keep(request.key, image, reply, self.page, None)
        effects.append(lambda: request.finish(image))

    def _hello(self, frame: Frame) -> None:
        fields = frame.fields
        integer(fields, "protocol", 1, 1)
        features = fields.get("features", [])
        if not isinstance(features, list):
            raise violation("features is not a list")
        self.features = frozenset(name for name in features if isinstance(name, str))
        if not integer({"fds": 0, **fields}, "fds", 0, 1):
            return
        descriptor = self._take_descriptor(frame)
        # The page is optional: a process without free descriptors keeps no images.
        if descriptor is None:
            return
        try:
            page = ValidityPage(descriptor, integer(fields, "slots", 1))
            self.page = page if page.is_known and page.has_owner else None
        except OSError:
            pass
        finally:
            os.close(descriptor)

    # Images

    def _image(self, frame: Frame, reply: ImageReply, form: Form) -> Tuple[Image, Optional[Lease]]:
        """Combines a reply with its bytes, after verifying the seals of their buffer. Shared images of one buffer have one
        mapping. Returns the lease, too.

        Raises `ProtocolViolationError`, or `ProcessLimitError` if the image exists but cannot be mapped.
        """
        number = reply.buffer
        if number is None:
            return Image(reply, memoryview(b"")), None
        end = reply.offset + reply.total
        if reply.fds:
            descriptor = self._take_descriptor(frame)
            if descriptor is None:
                self._lost.add(number)
            else:
                self._lost.discard(number)
                self._hold(number, descriptor, end)
        held = self._held.get(number)
        if held is None:
            if number not in self._lost:
                raise violation(f"an unknown buffer {number}")
            self.releases.append((number, 0))
            raise ProcessLimitError("this process may open no more descriptors (RLIMIT_NOFILE); the image is lost")
        held.leases += 1
        lease = Lease(number, self.releases)
        mapping = held.mapping() if held.mapping is not None and form is Form.SHARED else None
        if mapping is None or len(mapping) < end:
            if held.size < end:
                raise violation(f"a buffer of {held.size} bytes for an image that ends at {end}")
            if reply.total == 0:
                return Image(reply, memoryview(b"")), None
            if form is Form.UNMAPPED:
                return _unmapped(reply, lease), lease
            try:
                mapping = map_buffer(held.descriptor, held.size, writable=form is Form.WRITABLE)
            except (OSError, ValueError, OverflowError) as error:
                if isinstance(error, OSError) and error.errno == errno.EMFILE:
                    raise ProcessLimitError(
                        "this process may open no more descriptors (RLIMIT_NOFILE); the image is lost") from error
                raise ProcessLimitError(f"this process cannot map an image of {end} bytes ({error})") from error
            mapping.lease = lease
            if form is Form.SHARED:
                held.mapping = weakref.ref(mapping)
        # Otherwise `lease` is released: the mapping has one already.
        return Image(reply, memoryview(mapping)[reply.offset:end]), lease

    def _image_in_segment(self, frame: Frame, reply: ImageReply, form: Form) -> Tuple[Image, Lease]:
        """Combines a reply with its bytes in a segment, which is mapped if its descriptor has come for the first time. Raises as
        `_image`."""
        number, buffer = reply.segment, reply.buffer
        assert number is not None and buffer is not None
        mapped = self._segments.get(number)
        if reply.segment_bytes is not None:
            descriptor = self._take_descriptor(frame)
            try:
                if mapped is None or not isinstance(mapped.segment, Segment):
                    segment = self._map_segment(number, descriptor, reply.segment_bytes)
                    mapped = self._segments[number] = _Mapped(segment, 0 if mapped is None else mapped.leases)
            finally:
                if descriptor is not None:
                    os.close(descriptor)
        if mapped is None:
            raise violation(f"an unknown segment {number}")
        found = mapped.segment
        if isinstance(found, Segment) and reply.offset + reply.total > found.size:
            raise violation(f"a segment of {found.size} bytes for an image that ends at {reply.offset + reply.total}")
        mapped.leases += 1
        self._leases_in_segments += 1
        if isinstance(found, Segment):
            lease = Lease(buffer, self.releases, found)
            return _in_segment(reply, lease, found, form), lease
        # It comes with its descriptor again after the broker has read that it is not mapped.
        mapped.is_forgettable = True
        self.releases.append((buffer, number))
        raise ProcessLimitError(found)

    def _map_segment(self, number: int, descriptor: Optional[int], size: int) -> "Segment | str":
        """Returns the segment, or the problem that prevents its mapping. Raises `ProtocolViolationError`."""
        if descriptor is None:
            return "this process may open no more descriptors (RLIMIT_NOFILE); the image is lost"
        try:
            return Segment(number, descriptor, size, self._connection)
        except OSError as error:
            return f"this process cannot map a segment of {size} bytes ({error})"

    def _end_segment(self, number: int) -> None:
        """Notes that no further image will be in a segment. Kept images in it are released, so that the broker can use its memory
        for others."""
        mapped = self._segments.get(number)
        if mapped is not None:
            self.release_segment(number)
            mapped.is_forgettable = True
            if not mapped.leases:
                self._forgettable.append(number)

    def map_again(self, reply: ImageReply, lease: Lease, form: Form) -> Optional[Image]:
        """Makes another image of an earlier reply, which is not shared. `lease` is that of the reply. None if it cannot be
        mapped, or is of another connection."""
        if lease.segment is not None:
            return _in_segment(reply, lease, lease.segment, form)
        held = self._holding(lease, reply.offset + reply.total)
        if held is None:
            return None
        if form is Form.UNMAPPED:
            return _unmapped(reply, lease)
        try:
            mapping = map_buffer(held.descriptor, held.size, writable=True)
        except (OSError, ValueError, OverflowError):
            return None
        mapping.lease = lease
        return Image(reply, memoryview(mapping)[reply.offset:reply.offset + reply.total])

    def _holding(self, lease: Lease, end: int) -> Optional[_Held]:
        """Returns the buffer of a lease, if it has `end` bytes: a later reply may have brought another descriptor for it."""
        held = self._held.get(lease.buffer) if lease.releases is self.releases else None
        return held if held is not None and held.size >= end else None

    def map_into(self, region: "Region", position: int, reply: ImageReply, size: int, lease: Lease) -> bool:
        """Maps the first `size` bytes of an image that is unmapped into a region. Returns false if its connection was lost.
        Raises `OSError`."""
        held = self._holding(lease, reply.offset + size)
        if held is None:
            return False
        region.map(position, held.descriptor, reply.offset, size, lease)
        return True

    def _hold(self, number: int, descriptor: int, end: int) -> None:
        try:
            size = verify_sealed(descriptor, IMAGE_SEALS, end)
        except BaseException:
            os.close(descriptor)
            raise
        before = self._held.get(number)
        held = _Held(descriptor, size)
        if before is not None:
            held.leases = before.leases
            os.close(before.descriptor)
        self._held[number] = held

    def _has_room_for(self, number: int) -> bool:
        """Returns whether there is more room than when a request was refused for want of it."""
        if number > self._room_made_at:
            if not self.make_room():
                return False
            self._room_made_at = self._last_id
        return True

    def _take_descriptor(self, frame: Frame) -> Optional[int]:
        """Takes the descriptor that came with a frame's first byte; None if the kernel dropped it."""
        if not self._arrivals:
            raise violation("a descriptor is missing")
        arrival = self._arrivals[0]
        if arrival.descriptors is None:
            del self._arrivals[0]
            return None
        descriptor = arrival.descriptors.pop(0)
        if not arrival.descriptors:
            del self._arrivals[0]
        return descriptor

    def _discard_arrivals(self, position: int) -> None:
        """Closes the descriptors of messages that end at or before a position, which no frame expected."""
        while self._arrivals and self._arrivals[0].end <= position:
            _close(self._arrivals.pop(0).descriptors)


def _unmapped(reply: ImageReply, lease: Lease) -> Image:
    nothing = Unmapped()
    nothing.lease = lease
    return Image(reply, memoryview(nothing))


def _in_segment(reply: ImageReply, lease: Lease, segment: Segment, form: Form) -> Image:
    data = segment.view(lease, reply.offset, reply.total)
    return Image(reply, memoryview(bytearray(data)) if form is Form.WRITABLE else data)


_FULL = (ErrorCode.QUOTA_EXCEEDED, ErrorCode.OVERLOADED)
_EXPECTED = {
    "hello": ("hello",), "get": ("image", "progress"), "stats": ("stats",), "prefetch": ("progress", "ok"),
    "subscribe": ("ok", "event"),
}


def _close(descriptors: Optional[List[int]]) -> None:
    for descriptor in descriptors or ():
        os.close(descriptor)
