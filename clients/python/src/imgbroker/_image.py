"""Images in memory that is shared with the broker."""

from __future__ import annotations

import pickle
import struct
import zlib
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Tuple, Union

from ._wire import CHANNELS, Description, FrameTiming, ImageReply, TraceSpan

if TYPE_CHECKING:
    import numpy
    import numpy.typing
    import PIL.Image

    Pixels = numpy.typing.NDArray[numpy.uint8]
    Array = numpy.typing.NDArray[Any]

_CPU = (1, 0)
#: The flag of the buffer protocol for a consumer that wants to know the shape (`PyBUF_ND`).
_WANTS_SHAPE = 0x8
#: The most bytes of an image that can be pickled.
_MOST_PICKLED = 64 << 20
#: The most pixels of a side that a notebook shows, and the most bytes of an encoded image.
_MOST_SHOWN_SIDE = 1024
_MOST_SHOWN_BYTES = 4 << 20


class Image:
    """An image from the broker. Its bytes are shared with every process that requested the same, and cannot change, except
    by the owner of an image that was requested with `writable=True`, whose changes are private to this object.

    They stay valid as long as this object, an array or a view of it exists, even after the broker has exited.

    `len(image)` and `bytes(image)` are those of `buffer`. `==` compares the identity; compare pixels with `numpy()`.

    An image can be pickled, which copies at most 64 MiB of pixels; the copy needs no broker. `copy.copy` and
    `copy.deepcopy` return the image itself, because it cannot change, or a copy of a writable one.
    """

    __slots__ = ("_reply", "_bytes", "_blocks", "__weakref__")

    def __init__(self, reply: ImageReply, data: "memoryview[int]") -> None:
        self._reply = reply
        self._bytes = data
        self._blocks: Mapping[str, bytes] = _NO_METADATA
        if reply.blocks and data.nbytes == reply.total:
            self._blocks = {
                kind: bytes(data[block.offset:block.offset + block.length])
                for kind, block in reply.blocks.items() if block.offset is not None}
            self._bytes = data[:reply.bytes]

    def __repr__(self) -> str:
        form = self.pixel_format or self.content_type
        frames = f" of {len(self.frames)} frames" if self.frames else ""
        return f"<imgbroker.Image {self.width}x{self.height} {form}{frames} from {self.source}>"

    def __bool__(self) -> bool:
        """True, also of an image that was not delivered and so has no bytes."""
        return True

    # Copies

    def __reduce__(self) -> Any:
        size = self._bytes.nbytes
        if size > _MOST_PICKLED:
            raise pickle.PicklingError(
                f"an image of {size} bytes is more than the {_MOST_PICKLED} that are pickled; pickle image.numpy().copy()")
        # The lease and the broker's page belong to this process.
        reply = self._reply._replace(buffer=None, segment=None, segment_bytes=None, slot=None, fds=0)
        return _unpickled, (reply, self._copied_bytes())

    def __copy__(self) -> "Image":
        return self if self._bytes.readonly else Image(self._reply, memoryview(self._copied_bytes()))

    def __deepcopy__(self, memo: Dict[int, Any]) -> "Image":
        return self.__copy__()

    def _copied_bytes(self) -> Union[bytes, bytearray]:
        copy: Union[bytes, bytearray] = self._bytes.tobytes() if self._bytes.readonly else bytearray(self._bytes)
        return copy + b"".join(self._blocks.values()) if self._blocks else copy

    # Description

    @property
    def width(self) -> int:
        """The width of the image, or of one frame, in pixels."""
        return self._reply.width

    @property
    def height(self) -> int:
        """The height of the image, or of one frame, in pixels. Rows are stored from the top, with the orientation of the
        file applied."""
        return self._reply.height

    @property
    def stride(self) -> Optional[int]:
        """The distance of two rows in bytes; None for an encoded image."""
        return self._reply.stride

    @property
    def pixel_format(self) -> Optional[str]:
        """`rgba8`, `bgra8`, `rgb8` or `gray8`, in sRGB; None for an encoded image."""
        return self._reply.pixel_format

    @property
    def alpha(self) -> Optional[str]:
        """`premultiplied`, `straight` or `none`; None for an encoded image."""
        return self._reply.alpha

    @property
    def premultiplied(self) -> bool:
        """Whether colour is multiplied by alpha."""
        return self._reply.alpha == "premultiplied"

    @property
    def nbytes(self) -> int:
        """The number of bytes of all frames, or of the encoded image; also of an image that was not delivered."""
        return self._reply.bytes

    @property
    def final(self) -> bool:
        """False for a preview or a partial image."""
        return self._reply.final

    @property
    def source(self) -> str:
        """`memory`, `disk`, `network` or `file`: the place where the image was found."""
        return self._reply.source

    @property
    def url(self) -> Optional[str]:
        """The URL in canonical spelling; None for a local file."""
        return self._reply.url

    @property
    def content_type(self) -> Optional[str]:
        """The media type of the original, or of the encoding."""
        return self._reply.content_type

    @property
    def original_size(self) -> Tuple[int, int]:
        """The width and height of the original as shown, in pixels."""
        return (self._reply.original_width, self._reply.original_height)

    @property
    def frame_count(self) -> int:
        """The number of frames of the original."""
        return self._reply.frame_count

    @property
    def frames(self) -> Tuple[FrameTiming, ...]:
        """The frames of an animation that was requested with `frame="all"`; otherwise empty."""
        return self._reply.frames

    @property
    def loops(self) -> Optional[int]:
        """The repetitions of an animation, 0 for endless; None unless all frames were requested."""
        return self._reply.loops

    @property
    def average_color(self) -> Optional[str]:
        """The mean of all pixels, `#rrggbb` or `#rrggbbaa`."""
        return self._reply.average_color

    @property
    def thumb_hash(self) -> Optional[str]:
        """The ThumbHash in Base64."""
        return self._reply.thumb_hash

    @property
    def etag(self) -> Optional[str]:
        """The entity tag of the original."""
        return self._reply.etag

    @property
    def expires(self) -> Optional[int]:
        """The time at which it becomes or became stale, in Unix seconds."""
        return self._reply.expires

    @property
    def stale(self) -> bool:
        """Whether it is not fresh."""
        return self._reply.stale

    @property
    def damaged(self) -> bool:
        """Whether parts of the image could not be decoded, which the request accepted."""
        return self._reply.damaged

    @property
    def damage(self) -> Optional[str]:
        """A sentence about the damage."""
        return self._reply.damage

    @property
    def spans(self) -> Tuple[TraceSpan, ...]:
        """Where the time of the request went, if it had `trace=True`; otherwise empty."""
        return self._reply.spans

    @property
    def embedded(self) -> bool:
        """Whether a preview in the file was decoded instead of the image."""
        return self._reply.embedded

    @property
    def description(self) -> Optional[Description]:
        """What the header says; None unless the image was requested with `delivery="header"`."""
        return self._reply.description

    @property
    def metadata(self) -> Mapping[str, bytes]:
        """The blocks of the file that were requested with `metadata` and are at most 1 MiB long: `exif` (a TIFF structure without
        a prefix), `xmp` and `icc`."""
        return self._blocks

    @property
    def metadata_lengths(self) -> Mapping[str, int]:
        """The lengths in bytes of the requested blocks that the file has, also of those that are too long; with
        `delivery="header"` of all kinds."""
        return {kind: block.length for kind, block in self._reply.blocks.items()}

    @property
    def exif(self) -> "PIL.Image.Exif":
        """The EXIF block as Pillow reads it; empty without one. Raises `ImportError` without Pillow."""
        import PIL.Image

        exif = PIL.Image.Exif()
        block = self._blocks.get("exif")
        if block is not None:
            exif.load(b"Exif\0\0" + block)
        return exif

    # Bytes

    @property
    def buffer(self) -> "memoryview[int]":
        """The bytes, read-only unless requested otherwise, and without a copy: rows of `stride` bytes, or the encoded image.
        Empty if it was not delivered."""
        return self._bytes

    def __buffer__(self, flags: int) -> "memoryview[Any]":
        """The buffer protocol, from Python 3.12 on: as `buffer`; with the shape of `numpy()` for consumers that want one, such
        as `memoryview(image)`. Rows with padding have that only with numpy.
        """
        # numpy prefers this to `__array__`.
        if self._reply.pixel_format is None or not flags & _WANTS_SHAPE:
            return self._bytes
        try:
            offset, stride, channels = self._layout(0)
            if stride != self.width * channels:
                pixels: Any = self.numpy()
                return memoryview(pixels)
        except (ImportError, ValueError) as error:
            raise BufferError(str(error)) from None
        rows = self._bytes[offset:offset + stride * self.height]
        return rows.cast("B", (self.height, self.width, channels)[:2 if channels == 1 else 3])

    def __len__(self) -> int:
        return self._bytes.nbytes

    def __bytes__(self) -> bytes:
        return self._bytes.tobytes()

    @property
    def _channels(self) -> int:
        """The bytes of a pixel. Raises `ValueError` for an encoded image."""
        if self._reply.pixel_format is None:
            raise ValueError(f"the image is encoded as {self._reply.content_type}; request pixels")
        return CHANNELS[self._reply.pixel_format]

    def _layout(self, frame: int) -> Tuple[int, int, int]:
        """Returns the offset of a frame, its stride and the bytes of a pixel."""
        reply, channels = self._reply, self._channels
        assert reply.stride is not None
        if not self._bytes.nbytes:
            raise ValueError("the image was not delivered")
        frames = reply.frames
        if not 0 <= frame < (len(frames) or 1):
            raise IndexError(f"frame {frame} of {len(frames) or 1}")
        return frames[frame].offset if frames else 0, reply.stride, channels

    def numpy(self, frame: int = 0) -> "Pixels":
        """Returns the pixels as an array of shape (height, width, channels), without a copy and read-only unless requested
        otherwise; `gray8` has the shape (height, width).

        Raises `ValueError` for an encoded image, `IndexError` for a missing frame, `ImportError` without numpy.
        """
        import numpy

        offset, stride, channels = self._layout(frame)
        shape: Tuple[int, ...] = (self.height, self.width, channels)
        strides: Tuple[int, ...] = (stride, channels, 1)
        if channels == 1:
            shape, strides = shape[:2], strides[:2]
        # Its base is then a view that is read-only, too, so that no flag can make it writable.
        pixels = numpy.frombuffer(self._bytes, numpy.uint8)
        return numpy.ndarray(shape, numpy.uint8, buffer=pixels, offset=offset, strides=strides)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> "Array":
        """Returns `numpy()`, so that `numpy.asarray(image)` has the pixels without a copy; a copy with `copy=True` or another
        `dtype`. Raises as `numpy()`, and `ValueError` if `copy=False` and `dtype` is another.
        """
        pixels = self.numpy()
        if dtype is not None and pixels.dtype != dtype:
            if copy is False:
                raise ValueError(f"the pixels are {pixels.dtype}; {dtype} needs a copy")
            return pixels.astype(dtype)
        return pixels.copy() if copy else pixels

    def pil(self, frame: int = 0) -> "PIL.Image.Image":
        """Returns a Pillow image: `L` of `gray8`, `RGB` if no pixel is transparent, otherwise `RGBA` with straight alpha. Its
        pixels are a copy, except for `gray8` and transparent `rgba8` with straight alpha, which are read-only.

        An encoded image is decoded by Pillow. Raises `ImportError` without Pillow.
        """
        import PIL.Image

        if self._reply.stride is None:
            import io

            return PIL.Image.open(io.BytesIO(self._bytes))
        offset, stride, _ = self._layout(frame)
        size = (self.width, self.height)
        rows: Any = self._bytes[offset:offset + stride * self.height]

        def image(mode: str, order: str) -> "PIL.Image.Image":
            make = PIL.Image.frombuffer if mode == order else PIL.Image.frombytes
            try:
                return make(mode, size, rows, "raw", order, stride, 1)
            except TypeError:
                # Where it copies, Pillow 9 takes no memoryview.
                return PIL.Image.frombytes(mode, size, bytes(rows), "raw", order, stride, 1)

        if self.pixel_format == "gray8":
            return image("L", "L")
        order = str(self.pixel_format)[:3].upper()
        if self.alpha == "none":
            return image("RGB", order)
        # Without a copy; of `bgra8`, only alpha is right.
        pixels = image("RGBA", "RGBA")
        if pixels.getchannel("A").getextrema() == (255, 255):
            return image("RGB", order + "X")
        if self.premultiplied:
            # Pillow has premultiplied pixels only in this order.
            pixels = image("RGBa", "RGBa").convert("RGBA")
        if order == "BGR":
            blue, green, red, alpha = pixels.split()
            pixels = PIL.Image.merge("RGBA", (red, green, blue, alpha))
        return pixels

    def _repr_png_(self) -> Optional[bytes]:
        """What a notebook shows: the first frame, of which a side over 1024 pixels is reduced to every nth row and column.
        None, for the text of `repr`, if the image was not delivered or is encoded otherwise.
        """
        if self._reply.pixel_format is None:
            return self._encoded("image/png")
        if not self._bytes.nbytes:
            return None
        offset, stride, channels = self._layout(0)
        step = -(-max(self.width, self.height) // _MOST_SHOWN_SIDE)
        width, height = -(-self.width // step), -(-self.height // step)
        # The bytes of each colour, in the order of PNG.
        order = (2, 1, 0, 3) if self._reply.pixel_format == "bgra8" else range(channels)
        rows = bytearray()
        for y in range(0, self.height, step):
            row = self._bytes[offset + y * stride:offset + y * stride + self.width * channels]
            pixels = bytearray(width * channels)
            for place, channel in enumerate(order):
                pixels[place::channels] = row[channel::channels * step]
            if self.premultiplied:
                _unpremultiply(pixels)
            # Before each row, PNG has the number of its filter.
            rows += b"\0" + pixels
        color = {1: 0, 3: 2, 4: 6}[channels]
        return b"".join([
            b"\x89PNG\r\n\x1a\n", _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)),
            _chunk(b"IDAT", zlib.compress(rows, 1)), _chunk(b"IEND", b"")])

    def _repr_jpeg_(self) -> Optional[bytes]:
        """What a notebook shows of an image that is encoded as JPEG; otherwise None."""
        return self._encoded("image/jpeg")

    def _encoded(self, content_type: str) -> Optional[bytes]:
        """The bytes of an image that is encoded so, unless they are too many for a notebook."""
        is_shown = self._reply.pixel_format is None and self.content_type == content_type
        return self._bytes.tobytes() if is_shown and 0 < self._bytes.nbytes <= _MOST_SHOWN_BYTES else None

    def __dlpack__(self, **arguments: Any) -> Any:
        """Returns a DLPack capsule of `numpy()`, with the arguments of the array API.

        The capsule of a read-only image is read-only, which a consumer of DLPack before 1.0 cannot express: such a consumer
        gets a `BufferError`, unless it passes `copy=True`. Needs numpy, of read-only images from 2.1 on.
        """
        # Made in C, so that it can be released while an error is raised; a ctypes callback cannot.
        return self.numpy().__dlpack__(**arguments)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return _CPU


_NO_METADATA: Mapping[str, bytes] = {}


def _unpickled(reply: ImageReply, data: Union[bytes, bytearray]) -> Image:
    """Returns the image of a pickle."""
    return Image(reply, memoryview(data))


def _unpremultiply(pixels: bytearray) -> None:
    """Divides the colours of pixels of four bytes by their alpha."""
    for index, alpha in enumerate(pixels[3::4]):
        if 0 < alpha < 255:
            for place in range(4 * index, 4 * index + 3):
                pixels[place] = min(255, (pixels[place] * 255 + alpha // 2) // alpha)


def _chunk(name: bytes, data: bytes) -> bytes:
    """Returns a chunk of a PNG file."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
