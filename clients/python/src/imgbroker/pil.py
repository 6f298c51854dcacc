"""`PIL.Image` with another `open`: the broker decodes the image, once for all processes.

    from imgbroker import pil as Image
    with Image.open("photograph.jpg") as image:
        image.thumbnail((256, 256))

All other names are those of `PIL.Image`.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import functools
import io
import os
import re
import stat
import struct
import sys
import types
from typing import (
    IO, TYPE_CHECKING, Any, BinaryIO, Dict, Iterator, List, Literal, Optional, Sequence, Tuple, Union, cast,
)

try:
    import PIL.Image
    import PIL.ImageFile
except ImportError as error:
    raise ImportError("imgbroker.pil requires Pillow: pip install Pillow") from error

from . import get as _get
from ._errors import ErrorCode, FeatureMissingError, ImageBrokerError, RefusedError
from ._frames import next_range
from ._image import Image as _BrokerImage
from ._memory import sealed_copy

if TYPE_CHECKING:
    _Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

#: The names of formats for which Pillow's is not the broker's in upper case.
_FORMATS = {"pnm": "PPM", "jp2": "JPEG2000"}
_ORIENTATION = 0x0112
#: Where Pillow keeps the mode; before version 10.1 in the attribute itself.
_MODE = "_mode" if isinstance(getattr(PIL.Image.Image, "mode", None), property) else "mode"
#: The error codes that say that the bytes are no image, if the header cannot be read.
_NO_IMAGE = (ErrorCode.UNSUPPORTED_FORMAT, ErrorCode.TRUNCATED, ErrorCode.DECODE_FAILED, ErrorCode.EMPTY_IMAGE)


def open(
    fp: "Union[_Path, IO[bytes]]", mode: Literal["r"] = "r", formats: Optional[Sequence[str]] = None
) -> "ImageFile":
    """Opens an image: a path, a binary file, or an `http` or `https` URL as a `str`. Its pixels are decoded when they are needed.

    Raises as `PIL.Image.open`: `UnidentifiedImageError`, `FileNotFoundError` and other `OSError`, whose `__cause__` is the
    `ImageBrokerError` if the broker has refused the image.
    """
    if mode != "r":
        raise ValueError(f"bad mode {mode!r}")
    if isinstance(fp, io.StringIO):
        raise ValueError("StringIO cannot be used to open an image. Binary data must be used instead.")
    if formats is not None and not isinstance(formats, (list, tuple)):
        raise TypeError("formats must be a list or tuple")
    file: Optional[BinaryIO] = None
    name: Union[str, bytes] = ""
    is_owned = True
    if isinstance(fp, str) and re.match("https?://", fp, re.IGNORECASE):
        name = fp
    else:
        if isinstance(fp, (str, bytes, os.PathLike)):
            name = os.fspath(fp)
            file = builtins.open(name, "rb")
        else:
            file, is_owned = cast(BinaryIO, fp), False
        file, is_owned = _regular(file, is_owned)
    try:
        image = ImageFile(file, name, fp)
        image._exclusive_fp = is_owned
        PIL.Image._decompression_bomb_check(image.size)
        if formats is not None and image.format not in [format.upper() for format in formats]:
            raise PIL.UnidentifiedImageError(f"cannot identify image file {name or fp!r}")
    except BaseException:
        if is_owned and file is not None:
            file.close()
        raise
    return image


def _regular(file: BinaryIO, is_owned: bool) -> Tuple[BinaryIO, bool]:
    """Returns the file, or a copy of its bytes if it is no regular file, and whether it is to be closed with the image."""
    with contextlib.suppress(AttributeError, io.UnsupportedOperation):
        file.seek(0)
    # The descriptor of a GzipFile, for example, is that of other bytes.
    if isinstance(getattr(file, "raw", file), io.FileIO) and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file, is_owned
    try:
        return os.fdopen(sealed_copy(file.read()), "rb"), True
    finally:
        if is_owned:
            file.close()


class ImageFile(PIL.ImageFile.ImageFile):
    """An image that `open` returns. Its orientation was applied, and its pixels are in sRGB."""

    # Those of an image that was pickled, too.
    n_frames = 1
    is_animated = False
    fp = None
    _exclusive_fp = False
    _source: Union[str, BinaryIO, None] = None
    _needs_pixels = False
    _frame = 0
    #: The frames that were received last, and the index of the first.
    _part: Optional[_BrokerImage] = None
    _part_start = 0

    def __init__(self, fp: Optional[BinaryIO], filename: Union[str, bytes], title: object) -> None:
        self._source = cast(str, filename) if fp is None else fp
        self._title = filename or title
        super().__init__(cast(BinaryIO, fp), filename)

    def _open(self) -> None:
        with self._errors(is_header=True):
            try:
                # The header of a file whose pixels have failed is read again; that of a URL would be loaded again.
                header = self._request(delivery="header", metadata=("exif", "icc"), retry_failed=self.fp is not None)
            except FeatureMissingError:
                self._open_without_header()
                return
        described = header.description
        assert described is not None
        self.format = _FORMATS.get(described.format, described.format.upper())
        self.custom_mimetype = header.content_type
        self._whole_size = self._size = header.width, header.height
        self.n_frames, self.is_animated = header.frame_count, header.frame_count > 1
        is_gray = self.fp is not None and _is_gray(self.fp.fileno(), self.format)
        setattr(self, _MODE, ("L" if is_gray else "RGB") + ("A" if described.has_alpha else ""))
        self._needs_pixels = True
        if described.density is not None:
            self._info["dpi"] = tuple(described.density)
        if "exif" in header.metadata:
            self._info["exif"] = b"Exif\0\0" + _without_orientation(header.metadata["exif"])
        if "icc" in header.metadata:
            self._info["icc_profile"] = _srgb()
        loops = described.loops
        # A GIF states the repetitions after the first.
        if self.is_animated and loops is not None and not (self.format == "GIF" and loops == 1):
            self._info["loop"] = loops - 1 if self.format == "GIF" and loops else loops

    def _open_without_header(self) -> None:
        """Loads the pixels at once, with a broker that does not describe images by their headers."""
        image = self._request(alpha="straight")
        self.format = (image.content_type or "").rpartition("/")[2].upper()
        self._whole_size = self._size = image.width, image.height
        core = _core(image, 0, "RGBA")
        setattr(self, _MODE, "RGB" if core.getband(3).getextrema() == (255, 255) else "RGBA")
        # A copy, because this memory is read-only.
        self.im = core.convert(self.mode, 0) if self.mode == "RGB" else core.copy()
        self.readonly = 0

    @property
    def info(self) -> Dict[Any, Any]:
        """As Pillow's. That of an animation loads the current frame, for its `duration`."""
        if self._needs_pixels and self.is_animated and self._source is not None:
            self._received_frame()
        return self._info

    @info.setter
    def info(self, info: Dict[Any, Any]) -> None:
        self._info = info

    # Requests

    def _request(self, **options: Any) -> _BrokerImage:
        if self._source is None:
            raise ValueError("Operation on closed image")
        return _get(self._source, **options)

    def _form(self) -> Dict[str, Any]:
        """Returns the options for the pixels."""
        form: Dict[str, Any] = {}
        if self.mode == "L":
            form["pixel_format"] = "gray8"
        elif self.mode != "RGB":
            form["alpha"] = "straight"
        if self.size != self._whole_size:
            form.update(width=self.size[0], height=self.size[1], fit="fill")
        if PIL.ImageFile.LOAD_TRUNCATED_IMAGES:
            form["damaged"] = "accept"
        return form

    def _received_frame(self) -> Tuple[_BrokerImage, int]:
        """Returns frames with the current one, and its position among them. After the first they come in parts."""
        part, position = self._part, self._frame - self._part_start
        if part is None or not 0 <= position < len(part.frames) or (part.width, part.height) != self.size:
            count = 1
            if part is not None and position == len(part.frames):
                count = max(1, next_range(self._part_start, part)[1])
            with self._errors():
                part = self._request(frames=(self._frame, count), **self._form())
            self._part, self._part_start, position = part, self._frame, 0
        self._info["duration"] = part.frames[position].delay_ms
        return part, position

    @contextlib.contextmanager
    def _errors(self, is_header: bool = False) -> Iterator[None]:
        """Raises the errors of Pillow for those of the broker."""
        try:
            yield
        except ImageBrokerError as error:
            refused = error if isinstance(error, RefusedError) else None
            # The second request of an image that has failed has the code of the first as its cause.
            code = (refused and refused.cause) or error.code
            if is_header and code in _NO_IMAGE:
                raise PIL.UnidentifiedImageError(f"cannot identify image file {self._title!r}") from error
            if refused and refused.http_status in (404, 410):
                raise FileNotFoundError(errno.ENOENT, str(error), self._title) from error
            if code is ErrorCode.TOO_MANY_PIXELS:
                raise PIL.Image.DecompressionBombError(str(error)) from error
            if code is ErrorCode.TRUNCATED:
                raise OSError(f"image file is truncated ({error.message})") from error
            raise OSError(str(error)) from error

    # Pillow's methods

    def load(self) -> Any:
        """Loads the pixels, unless they are loaded. Those of a still image in the modes L, RGB and RGBA are the broker's memory,
        of which changed pages are copied."""
        if self._needs_pixels:
            if self.is_animated:
                image, position = self._received_frame()
            else:
                with self._errors():
                    image, position = self._request(writable=True, **self._form()), 0
            core = _core(image, position, self.mode)
            # Other frames of a part are not to change.
            self.im = core.copy() if self.is_animated else core
            self._size = image.width, image.height
            self.readonly = 0
            self._needs_pixels = False
            if not self.is_animated:
                self._release()
        return PIL.Image.Image.load(self)

    def draft(
        self, mode: Optional[str], size: Optional[Tuple[int, int]]
    ) -> Optional[Tuple[str, Tuple[int, int, float, float]]]:
        """Chooses the size of a JPEG's draft, which is at least `size`, for an image of any format; and `L` for `RGB`."""
        if not self._needs_pixels or self.decoderconfig:
            return None
        scale = 1
        width, height = self.size
        if self.format == "JPEG" and self.mode == "RGB" and mode == "L":
            setattr(self, _MODE, mode)
        if size:
            most = min(width // size[0], height // size[1])
            scale = next((scale for scale in (8, 4, 2) if most >= scale), 1)
            self._size = -(-width // scale), -(-height // scale)
        self.decoderconfig = (scale, 0)
        return self.mode, (0, 0, width / scale, height / scale)

    def thumbnail(
        self, size: Tuple[float, float], resample: Any = PIL.Image.Resampling.BICUBIC, reducing_gap: Optional[float] = 2.0
    ) -> None:
        """Makes a thumbnail, as Pillow does. The broker scales an image that is not loaded, unless `resample` is `NEAREST`."""
        if not self._needs_pixels or resample == PIL.Image.Resampling.NEAREST:
            super().thumbnail(size, resample, reducing_gap)
            return
        x, y = int(size[0]), int(size[1])
        width, height = self.size
        if x < width or y < height:
            # Of two sizes, that which is closer to the aspect ratio.
            aspect = width / height
            if x / y >= aspect:
                x = max(1, min((int(y * aspect), int(y * aspect) + 1), key=lambda x: abs(aspect - x / y)))
            else:
                y = max(1, min((int(x / aspect), int(x / aspect) + 1), key=lambda y: abs(aspect - x / y) if y else 0))
            self._size = x, y
        self.load()

    def seek(self, frame: int) -> None:
        """Seeks to a frame of an animation. Raises `EOFError` outside of it."""
        if not 0 <= frame < self.n_frames:
            raise EOFError("attempt to seek outside sequence")
        if frame != self._frame:
            self._frame, self._size, self._needs_pixels, self.decoderconfig = frame, self._whole_size, True, ()

    def tell(self) -> int:
        """Returns the index of the current frame."""
        return self._frame

    def verify(self) -> None:
        """Has the broker decode the image. Raises `OSError` if it is damaged; otherwise the image must be opened again."""
        if self._needs_pixels and self._source is not None:
            with self._errors():
                self._request(delivery="none", **self._form())
        self._release()

    def _getexif(self) -> Optional[Dict[int, Any]]:
        # Programs still use that of Pillow's JPEG images.
        return self.getexif()._get_merged_dict() if "exif" in self._info else None

    def _release(self) -> None:
        if self._exclusive_fp and self.fp is not None:
            self.fp.close()
        self.fp = self._source = self._part = None

    def __exit__(self, *_: object) -> None:
        self._release()

    def close(self) -> None:
        """Closes the file, and releases the pixels."""
        self._release()
        PIL.Image.Image.close(self)

    def __del__(self) -> None:
        self._release()

    def __getstate__(self) -> List[Any]:
        return [*super().__getstate__(), self.format]

    def __setstate__(self, state: List[Any]) -> None:
        super().__setstate__(state[:-1])
        self.format = state[-1]


def _core(image: _BrokerImage, position: int, mode: str) -> Any:
    """Returns Pillow's object of a frame's pixels: without a copy, except of LA."""
    offset, stride, _ = image._layout(position)
    rows = image.buffer[offset:offset + stride * image.height]
    stored = "RGBA" if mode == "LA" else mode
    # As `frombuffer`, which refuses RGB, although Pillow stores four bytes for its pixels, too.
    core = cast(Any, PIL.Image).core.map_buffer(rows, (image.width, image.height), "raw", 0, (stored, stride, 1))
    return core.convert(mode, 0) if stored != mode else core


def _is_gray(descriptor: int, format: str) -> bool:
    """Returns whether a JPEG, PNG or PNM file has no colours, which the broker's description does not say."""
    if format == "PNG":
        return os.pread(descriptor, 1, 25) in (b"\0", b"\4")
    if format == "PPM":
        return os.pread(descriptor, 2, 0) in (b"P1", b"P2", b"P4", b"P5")
    position = 2
    while format == "JPEG":
        segment = os.pread(descriptor, 10, position)
        if len(segment) < 10 or segment[0] != 0xFF:
            break
        marker = segment[1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return segment[9] == 1
        # Bytes 0xFF before a marker are padding.
        position += 1 if marker == 0xFF else 2 + int.from_bytes(segment[2:4], "big")
    return False


def _without_orientation(exif: bytes) -> bytes:
    """Returns an EXIF block without the tag Orientation in its first directory. The positions of all values remain."""
    order = "<" if exif[:2] == b"II" else ">"
    with contextlib.suppress(struct.error):
        start, = struct.unpack_from(order + "I", exif, 4)
        count, = struct.unpack_from(order + "H", exif, start)
        end = start + 2 + 12 * count + 4
        for entry in range(start + 2, end - 4, 12):
            if struct.unpack_from(order + "H", exif, entry) == (_ORIENTATION,):
                return b"".join([
                    exif[:start], struct.pack(order + "H", count - 1), exif[start + 2:entry], exif[entry + 12:end], bytes(12), exif[end:]])
    return exif


@functools.lru_cache(maxsize=None)
def _srgb() -> bytes:
    """Returns a profile of the colour space that all pixels have."""
    import PIL.ImageCms

    return PIL.ImageCms.ImageCmsProfile(PIL.ImageCms.createProfile("sRGB")).tobytes()


if TYPE_CHECKING:
    from PIL.Image import *  # type: ignore[assignment]
else:

    class _Module(types.ModuleType):
        def __setattr__(self, name, value):
            # For settings such as MAX_IMAGE_PIXELS.
            target = PIL.Image if name not in self.__dict__ and hasattr(PIL.Image, name) else super()
            target.__setattr__(name, value)

    def __getattr__(name):
        return getattr(PIL.Image, name)

    def __dir__():
        return sorted({*globals(), *dir(PIL.Image)})

    sys.modules[__name__].__class__ = _Module
