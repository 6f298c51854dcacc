"""JPEG 2000 files, of codestreams that Pillow and ffmpeg encode."""

import io
import struct
import subprocess

import numpy
from PIL import Image

from heic import box
from pictures import saved


def file(codestream, *header):
    """Returns a file with these boxes in its header, behind the first."""
    first = box("ihdr", struct.pack(">IIHBBBB", 1, 1, 1, 255, 7, 0, 0))
    return b"".join([
        box("jP  ", b"\r\n\x87\n"), box("ftyp", b"jp2 \0\0\0\0jp2 "), box("jp2h", first + b"".join(header)), box("jp2c", codestream)])


def colors(number):
    return box("colr", struct.pack(">BBBI", 1, 0, 0, number))


def profile(data):
    return box("colr", bytes([2, 0, 0]) + data)


def palette(entries):
    """Returns the palette and the map of its columns."""
    count, columns = entries.shape
    head = struct.pack(">HB", count, columns) + bytes([7] * columns)
    return box("pclr", head + entries.astype(numpy.uint8).tobytes()) + box(
        "cmap", b"".join(struct.pack(">HBB", 0, 1, column) for column in range(columns)))


def encoded(image, plain=True, **options):
    """Returns a codestream, or a file of Pillow's; without loss by default."""
    return saved(image, "JPEG2000", no_jp2=plain, **options)


def decoded(data):
    """Returns the picture as Pillow shows it."""
    return numpy.asarray(Image.open(io.BytesIO(data)).convert("RGBA"))


def bomb(width, height, tile, components):
    """Returns a codestream with empty packets."""
    size = struct.pack(">H8IH", 0, width, height, 0, 0, tile, tile, 0, 0, components) + bytes([7, 1, 1] * components)
    parts = [(0x51, size), (0x52, bytes([0, 0, 0, 1, 0, 0, 4, 4, 0, 1])), (0x5C, bytes([0x40, 0x40]))]
    head = b"".join(struct.pack(">BBH", 255, marker, len(content) + 2) + content for marker, content in parts)
    tiles = -(-width // tile) * -(-height // tile)
    empty = bytes(components)
    return b"\xff\x4f" + head + b"".join(
        struct.pack(">HHHIBBH", 0xFF90, 10, index, 14 + len(empty), 0, 1, 0xFF93) + empty for index in range(tiles)) + b"\xff\xd9"


def ffmpeg_encoded(image, pixels, **options):
    """Returns a file with a format of pixels that ffmpeg has encoded without OpenJPEG."""
    width, height = image.size
    words = ["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-i", "-",
             "-vf", "scale=out_range=full", "-pix_fmt", pixels, "-c:v", "jpeg2000", "-f", "image2pipe"]
    words += [word for name, value in options.items() for word in (f"-{name}", str(value))]
    return subprocess.run([*words, "-"], input=image.tobytes(), check=True, stdout=subprocess.PIPE).stdout


def ffmpeg_decoded(data, width, height):
    """Returns the picture as ffmpeg's own decoder shows it."""
    words = ["ffmpeg", "-v", "error", "-c:v", "jpeg2000", "-f", "j2k_pipe", "-i", "-", "-pix_fmt", "rgba", "-f", "rawvideo", "-"]
    result = subprocess.run(words, input=data, check=True, stdout=subprocess.PIPE).stdout
    return numpy.frombuffer(result, numpy.uint8).reshape(height, width, 4)
