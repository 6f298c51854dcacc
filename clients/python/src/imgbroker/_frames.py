"""The frames of long animations, in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Tuple

from ._image import Image

if TYPE_CHECKING:
    import PIL.Image

    from ._image import Pixels

#: The most bytes of a part with several frames.
_PART_BYTES = 8 << 20


class Frame(NamedTuple):
    """A frame of an animation."""

    #: Its index in the animation, from 0 on.
    index: int  # type: ignore[assignment]
    #: How long it is shown, in milliseconds.
    delay_ms: int
    #: The part of the animation that it belongs to.
    part: Image
    #: Its position in the part.
    position: int

    def numpy(self) -> "Pixels":
        """Returns its pixels as an array; see `Image.numpy`."""
        return self.part.numpy(self.position)

    def pil(self) -> "PIL.Image.Image":
        """Returns its pixels as a Pillow image; see `Image.pil`."""
        return self.part.pil(self.position)


def next_range(first: int, part: Image) -> Tuple[int, int]:
    """Returns the first frame after a part that begins at `first`, and the number of frames of the next part: 0 at the end."""
    frames = max(len(part.frames), 1)
    rest = part.frame_count - first - frames
    fitting = max(1, _PART_BYTES // max(part.nbytes // frames, 1))
    return first + frames, max(0, min(rest, fitting))
