"""Frames and messages: values without descriptors, sockets and clocks."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple, Type

from ._errors import ErrorCode, ProtocolViolationError, RefusedError

VERSION = "0.1.0"

HEADER_LENGTH = 4
MAXIMUM_FRAME = 1 << 20
MAXIMUM_INTEGER = (1 << 53) - 1
MAXIMUM_SIDE = 65_535
#: The protocol's maximum of an inline image, `maxInlineBytes`.
MAXIMUM_INLINE_BYTES = 64 << 20
#: The most bytes of a metadata block that is delivered.
MAXIMUM_BLOCK = 1 << 20
#: The maximum of buffers in one `release` or `touch`.
BUFFERS_IN_ONE_FRAME = 10_000
#: The maximum of segments in one `forgetSegments`.
SEGMENTS_IN_ONE_FRAME = 16_384

#: The bytes of a pixel in each pixel format.
CHANNELS: Mapping[str, int] = {"rgba8": 4, "bgra8": 4, "rgb8": 3, "gray8": 1}
ALPHAS = ("premultiplied", "straight", "none")

Fields = Dict[str, Any]

# `json.dumps` and `json.loads` would make new ones for each message.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode_frame(fields: Mapping[str, Any]) -> bytes:
    """Returns a message as a frame.

    Raises `MessageError` if it is too long, and `TypeError` or `ValueError` if a value has no JSON form.
    """
    return _frame(_encode(fields).encode("utf-8"))


def encode_fields(fields: Mapping[str, Any]) -> bytes:
    """Returns the fields of a `get` besides `type` and `id`, for `encode_get`. Raises as `encode_frame`."""
    text = _encode(fields).encode("utf-8")
    return b"," + text[1:] if fields else text[1:]


def encode_get(number: int, encoded: bytes) -> bytes:
    """Returns the frame of a `get` whose other fields were encoded before. Raises `MessageError`."""
    return _frame(b'{"type":"get","id":%d%b' % (number, encoded))


def _frame(text: bytes) -> bytes:
    if len(text) > MAXIMUM_FRAME:
        raise RefusedError.of(ErrorCode.BAD_REQUEST, f"The request of {len(text)} bytes is too long for a frame.")
    return len(text).to_bytes(HEADER_LENGTH, "big") + text


class Frame(NamedTuple):
    """A received message."""

    fields: Fields
    #: The position of its first byte in the stream.
    position: int


class FrameDecoder:
    """Cuts a stream of bytes into frames and the payloads between them."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        #: The position in the stream of the buffer's first byte.
        self.position = 0

    def append(self, data: bytes) -> None:
        """Appends received bytes."""
        self._buffer += data

    @property
    def end(self) -> int:
        """The position in the stream after the last received byte."""
        return self.position + len(self._buffer)

    def next(self) -> Optional[Frame]:
        """Takes the next complete frame; None until all of it has arrived.

        Raises `ProtocolViolationError`; the stream is then unusable.
        """
        if len(self._buffer) < HEADER_LENGTH:
            return None
        length = int.from_bytes(self._buffer[:HEADER_LENGTH], "big")
        if not 1 <= length <= MAXIMUM_FRAME:
            raise violation(f"a frame of {length} bytes")
        end = HEADER_LENGTH + length
        if len(self._buffer) < end:
            return None
        text = self._buffer[HEADER_LENGTH:end]
        position = self.position
        self._consume(end)
        return Frame(_object(text), position)

    def take_payload(self, count: int) -> Optional[bytes]:
        """Takes the `count` bytes of payload after the frame last returned; None until all of them have arrived."""
        if len(self._buffer) < count:
            return None
        payload = bytes(memoryview(self._buffer)[:count])
        self._consume(count)
        return payload

    def _consume(self, count: int) -> None:
        del self._buffer[:count]
        self.position += count


def _object(data: bytearray) -> Fields:
    try:
        text = data.decode("utf-8")
        try:
            # `decode` would look for space around it, which takes as long as reading a short message.
            value, end = _decoder.raw_decode(text)
        except ValueError:
            end = -1
        if end != len(text):
            value = _decoder.decode(text)
    except (ValueError, RecursionError) as error:
        raise violation("a frame is not JSON") from error
    if not isinstance(value, dict):
        raise violation("a frame is not an object")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)


def violation(problem: str) -> ProtocolViolationError:
    """Returns the error for a violation of the protocol."""
    return ProtocolViolationError(f"the broker does not follow the protocol: {problem}")


# Reading of fields. A field of a wrong type or out of its range is a violation.


def integer(fields: Fields, name: str, least: int = 0, most: int = MAXIMUM_INTEGER) -> int:
    """Returns a required integer."""
    value = optional_integer(fields, name, least, most)
    if value is None:
        raise violation(f"{name} is missing")
    return value


def optional_integer(
    fields: Fields, name: str, least: int = 0, most: int = MAXIMUM_INTEGER
) -> Optional[int]:
    """Returns an integer; None if it is missing or null."""
    value = fields.get(name)
    if value is None:
        return None
    if type(value) is not int or not least <= value <= most:
        raise violation(f"{name} is not an integer from {least} to {most}")
    return value


def string(fields: Fields, name: str, default: Optional[str] = None) -> str:
    """Returns a string, required unless it has a default."""
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise violation(f"{name} is not a string")
    return value


def optional_string(fields: Fields, name: str) -> Optional[str]:
    """Returns a string; None if it is missing or null."""
    return None if fields.get(name) is None else string(fields, name)


def boolean(fields: Fields, name: str, default: bool) -> bool:
    """Returns a bool."""
    value = fields.get(name, default)
    if not isinstance(value, bool):
        raise violation(f"{name} is not a bool")
    return value


def choice(fields: Fields, name: str, choices: Tuple[str, ...]) -> str:
    """Returns a string out of `choices`."""
    value = string(fields, name)
    if value not in choices:
        raise violation(f"{name} is not one of {', '.join(choices)}")
    return value


def request_id(fields: Fields) -> int:
    """Returns the id of a reply that has one."""
    return integer(fields, "id")


def error_of(fields: Fields) -> RefusedError:
    """Reads an `error`."""
    cause = optional_string(fields, "cause")
    return RefusedError.of(
        _code(string(fields, "code")), string(fields, "message", ""),
        http_status=optional_integer(fields, "httpStatus", 0, 999),
        retry_after_ms=optional_integer(fields, "retryAfterMs"),
        cause=None if cause is None else _code(cause), recently_failed=boolean(fields, "blacklisted", False))


def _code(text: str) -> ErrorCode:
    try:
        return ErrorCode(text)
    except ValueError:
        raise violation("code is not an error code") from None


class FrameTiming(NamedTuple):
    """A frame of an animation."""

    #: The position of its pixels, in bytes from the beginning of the image.
    offset: int
    #: The time for which it is shown, in milliseconds.
    delay_ms: int


class TraceSpan(NamedTuple):
    """A part of the time between a request's arrival at the broker and its reply."""

    #: What took the time, such as `download` or `decode`; the protocol has the names.
    name: str
    #: Its start after the arrival; negative for work that another request had begun before.
    start_microseconds: int
    #: Its duration.
    microseconds: int


class Density(NamedTuple):
    """A resolution in dots per inch."""

    x: int
    y: int


class Description(NamedTuple):
    """What the header of an image says, and the response if an origin has sent it. What is unknown is None."""

    #: The format of the original, such as `jpeg`.
    format: str
    #: The value of EXIF's tag Orientation that was applied to the size: 1 to 8.
    orientation: int
    density: Optional[Density]
    #: The name of the ICC profile.
    profile: Optional[str]
    #: The bits of a channel.
    bit_depth: Optional[int]
    has_alpha: bool
    #: The repetitions of an animation, 0 for endless.
    loops: Optional[int]
    #: The status of the response.
    status: Optional[int]
    #: `Last-Modified` of the response.
    last_modified: Optional[str]
    #: The number of bytes of the original.
    length: Optional[int]


class Block(NamedTuple):
    """A metadata block of the original."""

    #: Its length in bytes.
    length: int
    #: Its position, counted from the image's first byte; None if it was not delivered.
    offset: Optional[int]


class ImageReply(NamedTuple):
    """The fields of an `image`."""

    final: bool
    source: str
    url: Optional[str]
    width: int
    height: int
    stride: Optional[int]
    pixel_format: Optional[str]
    alpha: Optional[str]
    bytes: int
    offset: int
    buffer: Optional[int]
    segment: Optional[int]
    segment_bytes: Optional[int]
    slot: Optional[int]
    generation: int
    fds: int
    payload: int
    content_type: Optional[str]
    original_width: int
    original_height: int
    frame_count: int
    frames: Tuple[FrameTiming, ...]
    loops: Optional[int]
    average_color: Optional[str]
    thumb_hash: Optional[str]
    etag: Optional[str]
    expires: Optional[int]
    stale: bool
    damaged: bool
    damage: Optional[str]
    spans: Tuple[TraceSpan, ...]
    embedded: bool
    description: Optional[Description]
    blocks: Mapping[str, Block]

    @property
    def total(self) -> int:
        """The bytes of the image and of the metadata blocks that follow it."""
        blocks = self.blocks
        return self.bytes if not blocks else self.bytes + _delivered(blocks)


def _delivered(blocks: Mapping[str, Block]) -> int:
    return sum(block.length for block in blocks.values() if block.offset is not None)


#: The type of each field of an `image` that has one value.
_IMAGE_FIELDS: Mapping[str, Type[Any]] = {
    **dict.fromkeys(("source", "url", "pixelFormat", "alpha", "contentType", "averageColor", "thumbHash", "etag", "damage", "format", "profile", "lastModified"), str),
    **dict.fromkeys(("final", "stale", "damaged", "embedded", "hasAlpha"), bool),
    **dict.fromkeys(
        ("width", "height", "bytes", "offset", "buffer", "segment", "segmentBytes", "slot", "generation", "fds", "payload",
         "stride", "originalWidth", "originalHeight", "frameCount", "loops", "expires", "orientation", "bitDepth", "status", "length"), int),
}
#: The greatest value of those integers that have another than `MAXIMUM_INTEGER`.
_IMAGE_MAXIMA: Mapping[str, int] = {"width": MAXIMUM_SIDE, "height": MAXIMUM_SIDE, "generation": (1 << 32) - 1, "fds": 1}
_SOURCES = ("memory", "disk", "network", "shared", "file")


def image_of(fields: Fields) -> ImageReply:
    """Reads an `image`, and checks that its pixels lie within its bytes."""
    # One pass over the fields that are there, because this is done for each image of a training set.
    find = _IMAGE_FIELDS.get
    for name, value in fields.items():
        kind = find(name)
        # A bool is no int here.
        if type(value) is kind:
            if kind is int and not 0 <= value <= _IMAGE_MAXIMA.get(name, MAXIMUM_INTEGER):
                raise violation(f"{name} is out of its range")
        elif kind is not None and (value is not None or kind is bool):
            raise violation(f"{name} is not a {kind.__name__}")
    get = fields.get
    width, height, size, source = get("width"), get("height"), get("bytes"), get("source")
    if width is None or height is None or size is None:
        raise violation("width, height or bytes is missing")
    offset = get("offset") or 0
    # No overflow follows in C or in the kernel.
    if offset + size > MAXIMUM_INTEGER:
        raise violation("the sizes are invalid")
    stride = get("stride")
    pixel_format: Optional[str] = None
    alpha: Optional[str] = None
    frames = _frames(fields, offset) if "frames" in fields else ()
    if stride is not None:
        pixel_format, alpha = get("pixelFormat"), get("alpha")
        if pixel_format is None or pixel_format not in CHANNELS or alpha not in ALPHAS:
            raise violation(f"pixels of the format {pixel_format} with alpha {alpha}")
        if stride < width * CHANNELS[pixel_format]:
            raise violation(f"a stride of {stride} bytes for {width} pixels")
        for begin in [frame.offset for frame in frames] or (0,):
            if begin < 0 or begin + stride * height > size:
                raise violation(f"{height} rows of {stride} bytes in an image of {size} bytes")
    buffer, fds, payload = get("buffer"), get("fds") or 0, get("payload") or 0
    blocks = _blocks(fields, offset, size) if "metadata" in fields else _NO_BLOCKS
    whole = size + _delivered(blocks) if blocks else size
    if payload and (buffer is not None or fds or payload != whole or offset or payload > MAXIMUM_INLINE_BYTES):
        raise violation(f"a payload of {payload} bytes for an image of {whole}")
    if buffer == 0 or (fds and buffer is None):
        raise violation("a descriptor without a buffer")
    segment, segment_bytes = get("segment"), get("segmentBytes")
    if segment is not None:
        if not segment or buffer is None or payload or (segment_bytes is not None) != (fds > 0) or segment_bytes == 0:
            raise violation("an image in a segment lacks a field")
    elif segment_bytes is not None:
        raise violation("the size of no segment")
    if source not in _SOURCES:
        raise violation(f"source is not one of {', '.join(_SOURCES)}")
    return ImageReply(
        final=get("final", True), source=source, url=get("url"), width=width, height=height, stride=stride, pixel_format=pixel_format,
        alpha=alpha, bytes=size, offset=offset, buffer=buffer, segment=segment, segment_bytes=segment_bytes,
        slot=get("slot"), generation=get("generation") or 0, fds=fds, payload=payload, content_type=get("contentType"),
        original_width=_or(get("originalWidth"), width), original_height=_or(get("originalHeight"), height),
        frame_count=_or(get("frameCount"), 1), frames=frames, loops=get("loops"), average_color=get("averageColor"),
        thumb_hash=get("thumbHash"), etag=get("etag"), expires=get("expires"), stale=get("stale", False),
        damaged=get("damaged", False), damage=get("damage"), spans=_spans(fields) if "spans" in fields else (),
        embedded=get("embedded", False), description=_description(fields) if "format" in fields else None, blocks=blocks)


_NO_BLOCKS: Mapping[str, Block] = {}
#: The kinds of metadata blocks, in their order.
METADATA_KINDS = ("exif", "xmp", "icc")


def _blocks(fields: Fields, offset: int, size: int) -> Mapping[str, Block]:
    """Reads the metadata blocks. Those with an offset follow the image and one another."""
    value = fields["metadata"]
    if not isinstance(value, dict):
        raise violation("metadata is not an object")
    blocks: Dict[str, Block] = {}
    end = size
    for kind in METADATA_KINDS:
        block = value.get(kind)
        if block is None:
            continue
        if not isinstance(block, dict):
            raise violation(f"metadata.{kind} is not an object")
        length, begin = integer(block, "bytes"), optional_integer(block, "offset")
        if begin is not None:
            begin -= offset
            if begin != end or length > MAXIMUM_BLOCK:
                raise violation(f"metadata.{kind} is not where it should be")
            end += length
        blocks[kind] = Block(length, begin)
    return blocks


def _description(fields: Fields) -> Description:
    density = fields.get("density")
    if density is not None and not isinstance(density, dict):
        raise violation("density is not an object")
    get = fields.get
    return Description(
        format=string(fields, "format"), orientation=_or(get("orientation"), 1),
        density=None if density is None else Density(integer(density, "x"), integer(density, "y")),
        profile=get("profile"), bit_depth=get("bitDepth"), has_alpha=get("hasAlpha", False), loops=get("loops"),
        status=get("status"), last_modified=get("lastModified"), length=get("length"))


def _or(value: Optional[int], default: int) -> int:
    return default if value is None else value


def _frames(fields: Fields, offset: int) -> Tuple[FrameTiming, ...]:
    return tuple(
        FrameTiming(integer(frame, "offset") - offset, integer(frame, "delayMs"))
        for frame in objects(fields, "frames"))


def _spans(fields: Fields) -> Tuple[TraceSpan, ...]:
    return tuple(
        TraceSpan(
            string(span, "name"), integer(span, "startMicroseconds", -MAXIMUM_INTEGER), integer(span, "microseconds"))
        for span in objects(fields, "spans"))


def objects(fields: Fields, name: str) -> List[Fields]:
    """Returns a list of objects; an empty one if it is missing."""
    value = fields.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise violation(f"{name} is not a list of objects")
    return value
