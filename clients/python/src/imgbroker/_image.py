"""Images in memory that is shared with the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Tuple

from ._wire import CHANNELS, FrameTiming, ImageReply, TraceSpan

if TYPE_CHECKING:
    import numpy
    import numpy.typing
    import PIL.Image

    Pixels = numpy.typing.NDArray[numpy.uint8]

_CPU = (1, 0)


class Image:
    """An image from the broker. Its bytes are shared with every process that requested the same, and cannot change, except
    by the owner of an image that was requested with `writable=True`, whose changes are private to this object.

    They stay valid as long as this object, an array or a view of it exists, even after the broker has exited.
    """

    __slots__ = ("_reply", "_bytes", "__weakref__")

    def __init__(self, reply: ImageReply, data: "memoryview[int]") -> None:
        self._reply = reply
        self._bytes = data

    def __repr__(self) -> str:
        form = self.pixel_format or self.content_type
        return f"<imgbroker.Image {self.width}x{self.height} {form} from {self.source}>"

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

    # Bytes

    @property
    def buffer(self) -> "memoryview[int]":
        """The bytes, read-only unless requested otherwise, and without a copy: rows of `stride` bytes, or the encoded image.
        Empty if it was not delivered."""
        return self._bytes

    def __buffer__(self, flags: int) -> "memoryview[int]":
        """The buffer protocol, from Python 3.12 on: as `buffer`."""
        return self._bytes

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
        return numpy.ndarray(shape, numpy.uint8, buffer=self._bytes, offset=offset, strides=strides)

    def pil(self, frame: int = 0) -> "PIL.Image.Image":
        """Returns a Pillow image: `RGBA` with straight alpha, `RGB` or `L`. Its pixels are a copy, except for `rgba8` with
        straight alpha and `gray8`, which are read-only.

        An encoded image is decoded by Pillow. Raises `ImportError` without Pillow.
        """
        import PIL.Image

        if self._reply.stride is None:
            import io

            return PIL.Image.open(io.BytesIO(self._bytes))
        offset, stride, _ = self._layout(frame)
        size = (self.width, self.height)
        rows: Any = self._bytes[offset:offset + stride * self.height]
        mode, raw = _PIL_MODES[str(self.pixel_format)]
        if self.premultiplied:
            # Pillow has premultiplied pixels only in this order.
            pixels = PIL.Image.frombuffer("RGBa", size, rows, "raw", "RGBa", stride, 1).convert("RGBA")
            if raw == "BGRA":
                blue, green, red, alpha = pixels.split()
                pixels = PIL.Image.merge("RGBA", (red, green, blue, alpha))
            return pixels
        return PIL.Image.frombuffer(mode, size, rows, "raw", raw, stride, 1)

    def __dlpack__(self, **arguments: Any) -> Any:
        """Returns a DLPack capsule of `numpy()`, with the arguments of the array API.

        The capsule of a read-only image is read-only, which a consumer of DLPack before 1.0 cannot express: such a consumer
        gets a `BufferError`, unless it passes `copy=True`. Needs numpy, of read-only images from 2.1 on.
        """
        # Made in C, so that it can be released while an error is raised; a ctypes callback cannot.
        return self.numpy().__dlpack__(**arguments)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return _CPU


_PIL_MODES = {"rgba8": ("RGBA", "RGBA"), "bgra8": ("RGBA", "BGRA"), "rgb8": ("RGB", "RGB"), "gray8": ("L", "L")}
