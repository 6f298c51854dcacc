"""Writes HEIC files with properties that encoders do not write, from images that libheif has encoded."""

import io
import struct

import pillow_heif


def boxes(data):
    """Yields the type and the content of each box."""
    position = 0
    while position + 8 <= len(data):
        size, kind = struct.unpack(">I4s", data[position:position + 8])
        yield kind.decode(), data[position + 8:position + size]
        position += size


def box(kind, content=b"", version=None, flags=0):
    """Returns a box; with a version, a full one."""
    if version is not None:
        content = struct.pack(">I", version << 24 | flags) + content
    return struct.pack(">I4s", 8 + len(content), kind.encode()) + content


def encoded(image, **options):
    """Returns a HEIC of one image."""
    file = io.BytesIO()
    pillow_heif.from_pillow(image).save(file, **options)
    return file.getvalue()


def coded(image, **options):
    """Returns the configuration and the pixels of an encoded image without alpha."""
    file = encoded(image, **options)
    meta = dict(boxes(file))["meta"][4:]
    found = dict(boxes(meta))
    properties = dict(boxes(dict(boxes(found["iprp"]))["ipco"]))
    location = found["iloc"]
    version, bases = location[0], location[5] >> 4
    (count,) = struct.unpack(">H", location[6:8])
    assert version in (0, 1) and location[4] == 0x44 and count == 1, location.hex()
    place = 8 + (6 if version == 1 else 4)
    base = int.from_bytes(location[place:place + bases], "big")
    offset, length = struct.unpack(">II", location[place + bases + 2:place + bases + 10])
    offset += base
    return properties["hvcC"], file[offset:offset + length]


def file(items, properties, links, primary=1, references=(), brand=b"heic", compatible=b"mif1heic"):
    """Returns a file.

    `items` are pairs of type and data, with the numbers 1 and up. `links` are, for each item, the numbers of its `properties`, which
    are boxes. `references` are tuples of type, item, and the items that it refers to.
    """
    first = box("ftyp", brand + struct.pack(">I", 0) + compatible)
    entries = b"".join(
        box("infe", struct.pack(">HH4s", number, 0, kind.encode()) + b"\0", 2) for number, (kind, _) in enumerate(items, 1))
    links_bytes = b"".join(
        struct.pack(">HB", number, len(own)) + bytes(0x80 | index for index in own) for number, own in enumerate(links, 1))

    def meta(start):
        position, location = start, b""
        for number, (_, data) in enumerate(items, 1):
            location += struct.pack(">HHHII", number, 0, 1, position, len(data))
            position += len(data)
        content = box("hdlr", struct.pack(">I4s", 0, b"pict") + bytes(13), 0)
        content += box("pitm", struct.pack(">H", primary), 0)
        content += box("iloc", struct.pack(">BBH", 0x44, 0, len(items)) + location, 0)
        content += box("iinf", struct.pack(">H", len(items)) + entries, 0)
        if references:
            content += box("iref", b"".join(
                box(kind, struct.pack(">HH", item, len(to)) + struct.pack(f">{len(to)}H", *to)) for kind, item, to in references), 0)
        content += box("iprp", box("ipco", b"".join(properties)) + box(
            "ipma", struct.pack(">I", len(items)) + links_bytes, 0))
        return box("meta", content, 0)

    start = len(first) + len(meta(0)) + 8
    return first + meta(start) + box("mdat", b"".join(data for _, data in items))


def size(width, height):
    """The property with the size."""
    return box("ispe", struct.pack(">II", width, height), 0)


def turned(angle):
    """Turns anticlockwise by 90° `angle` times."""
    return box("irot", bytes([angle]))


def mirrored(axis):
    """Mirrors: 0 exchanges top and bottom, 1 left and right."""
    return box("imir", bytes([axis]))


def cropped(width, height, x, y, full_width, full_height):
    """Shows a part."""
    horizontal, vertical = 2 * x + width - full_width, 2 * y + height - full_height
    return box("clap", struct.pack(">IIIIiIiI", width, 1, height, 1, horizontal, 2, vertical, 2))


def colors(primaries, transfer, matrix, full_range):
    """Code points of ITU-T H.273."""
    return box("colr", b"nclx" + struct.pack(">HHHB", primaries, transfer, matrix, 0x80 if full_range else 0))


def with_properties(image, *extra, brand=b"heic", compatible=b"mif1heic", **options):
    """Returns a file of one image with more properties, in their order, and with these brands."""
    configuration, data = coded(image, **options)
    properties = [size(*image.size), box("hvcC", configuration), *extra]
    return file([("hvc1", data)], properties, [list(range(1, len(properties) + 1))], brand=brand, compatible=compatible)


def with_thumbnail(image, thumbnail, *extra, **options):
    """Returns a file of an image and its thumbnail, both with more properties."""
    return pair("hvc1", "hvcC", [(part, *coded(part, **options)) for part in (image, thumbnail)], *extra)


def pair(kind, configuring, parts, *extra, **brands):
    """Returns a file of an image and its thumbnail: each with its configuration and its data, and both with more properties."""
    properties = [found for part, configuration, _ in parts for found in (size(*part.size), box(configuring, configuration))]
    shared = list(range(5, 5 + len(extra)))
    return file(
        [(kind, data) for _, _, data in parts], properties + list(extra), [[1, 2] + shared, [3, 4] + shared],
        references=[("thmb", 2, [1])], **brands)


def tiles(image, side):
    """Yields the square tiles of an image; those at the edges are filled up with a colour."""
    for top in range(0, image.height, side):
        for left in range(0, image.width, side):
            tile = image.crop((0, 0, 1, 1)).resize((side, side))
            tile.paste(image.crop((left, top, min(image.width, left + side), min(image.height, top + side))), (0, 0))
            yield tile


def grid(image, side, *extra, **options):
    """Returns a grid of square tiles; those at the edges extend beyond the image. Alpha of an image is that of each tile."""
    columns, rows = -(-image.width // side), -(-image.height // side)
    colors = [coded(tile.convert("RGB"), **options) for tile in tiles(image, side)]
    alpha = [coded(tile.getchannel("A"), quality=-1) for tile in tiles(image, side)] if "A" in image.getbands() else []
    shape = struct.pack(">BBBBHH", 0, 0, rows - 1, columns - 1, image.width, image.height)
    items = [("grid", shape)] + [("hvc1", data) for _, data in colors + alpha]
    properties = [size(*image.size), size(side, side)] + [box("hvcC", part[0][0]) for part in (colors, alpha) if part]
    if alpha:
        properties.append(box("auxC", b"urn:mpeg:hevc:2015:auxid:1\0", 0))
    own = [1] + list(range(len(properties) + 1, len(properties) + 1 + len(extra)))
    last = 1 + len(colors)
    references = [("dimg", 1, list(range(2, last + 1)))] + [("auxl", last + 1 + index, [2 + index]) for index in range(len(alpha))]
    return file(items, properties + list(extra), [own] + [[2, 3]] * len(colors) + [[2, 4, 5]] * len(alpha), references=references)
