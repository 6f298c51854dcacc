"""A small image of each family of codecs: those that the workers decode at their start, and others that are made here.

`samples.py FOLDER` writes them into files that are named by their families.
"""

import pathlib
import struct
import sys

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "Sources"


def of_worker(path):
    """Returns the bytes that a Swift source states as hexadecimal digits."""
    return bytes.fromhex((SOURCES / path).read_text().split('"""')[1].replace("\\", ""))


def tiff(side):
    """Returns a TIFF of one colour without compression."""
    pixels = bytes([10, 20, 30]) * side * side
    # Width, height, compression, photometric, strip, samples, rows, bytes of the strip; bits, which are at the end.
    entries = [(256, 4, 1, side), (257, 4, 1, side), (258, 3, 3, 0), (259, 3, 1, 1), (262, 3, 1, 2), (273, 4, 1, 0),
               (277, 3, 1, 3), (278, 4, 1, side), (279, 4, 1, len(pixels))]
    end = 8 + 2 + 12 * len(entries) + 4
    places = {258: end, 273: end + 6}
    fields = b"".join(struct.pack("<HHIHH", tag, kind, count, value, 0) if kind == 3 and count == 1
                      else struct.pack("<HHII", tag, kind, count, places.get(tag, value)) for tag, kind, count, value in entries)
    header = struct.pack("<2sHIH", b"II", 42, 8, len(entries))
    return header + fields + bytes(4) + struct.pack("<3H", 8, 8, 8) + pixels


SAMPLES = {
    "avif": of_worker("imgworker-avif/SmallAVIF.swift"),
    "heif": of_worker("imgworker-heif/SmallHEIF.swift"),
    "jp2": of_worker("imgworker-jp2/SmallJP2.swift"),
    "jxl": of_worker("imgworker-jxl/SmallJXL.swift"),
    "svg": b'<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><rect width="8" height="8" fill="#0a141e"/></svg>',
    "tiff": tiff(8),
    "bmp": struct.pack("<2sIIIIiiHHIIiiII", b"BM", 246, 0, 54, 40, 8, 8, 1, 24, 0, 0, 0, 0, 0, 0) + bytes([30, 20, 10]) * 64,
}


if __name__ == "__main__":
    for family, data in SAMPLES.items():
        pathlib.Path(sys.argv[1], family).write_bytes(data)
