"""Writes AVIF files that encoders do not write, from images that libavif has encoded."""

import struct

import imagecodecs
import numpy

from heic import box, boxes, colors, file, pair, size, tiles


def coded(pixels):
    """Returns the configurations and the data of colour and, of four channels, alpha, encoded without loss."""
    file = imagecodecs.avif_encode(pixels, level=100)
    found = dict(boxes(dict(boxes(file))["meta"][4:]))
    properties = [content for kind, content in boxes(dict(boxes(found["iprp"]))["ipco"]) if kind == "av1C"]
    location = found["iloc"]
    assert location[:2] == b"\0\0" and location[4:6] == b"\x44\0", location[:8].hex()
    (count,) = struct.unpack(">H", location[6:8])
    places = [struct.unpack(">II", location[14 + 14 * index:22 + 14 * index]) for index in range(count)]
    return [(configuration, file[start:start + length]) for configuration, (start, length) in zip(properties, places)]


def grid(image, side):
    """Returns a grid of square tiles, each with its alpha."""
    columns, rows = -(-image.width // side), -(-image.height // side)
    cells = [coded(numpy.asarray(tile)) for tile in tiles(image, side)]
    shape = struct.pack(">BBBBHH", 0, 0, rows - 1, columns - 1, image.width, image.height)
    items = [("grid", shape)] + [("av01", cell[0][1]) for cell in cells] + [("av01", cell[1][1]) for cell in cells]
    properties = [
        size(*image.size), size(side, side), box("av1C", cells[0][0][0]), box("av1C", cells[0][1][0]),
        box("auxC", b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha\0", 0), colors(1, 13, 0, True)]
    count = len(cells)
    references = [("dimg", 1, list(range(2, count + 2)))] + [("auxl", count + 2 + index, [2 + index]) for index in range(count)]
    links = [[1, 6]] + [[2, 3, 6]] * count + [[2, 4, 5]] * count
    return file(items, properties, links, references=references, brand=b"avif", compatible=b"avifmif1miaf")


def with_thumbnail(image, thumbnail, *extra):
    """Returns a file of an image and its thumbnail without loss, both with more properties."""
    parts = [(part, *coded(numpy.asarray(part))[0]) for part in (image, thumbnail)]
    return pair("av01", "av1C", parts, colors(1, 13, 0, True), *extra, brand=b"avif", compatible=b"avifmif1miaf")


def with_colors(pixels, primaries, transfer):
    """Returns an image without loss, with these code points of ITU-T H.273."""
    file = imagecodecs.avif_encode(pixels, level=100)
    place = file.index(b"colrnclx") + 8
    return file[:place] + struct.pack(">HHHB", primaries, transfer, 0, 0x80) + file[place + 7:]
