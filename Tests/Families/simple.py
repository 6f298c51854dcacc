"""BMP, icons, PNM, QOI and TGA: files, and what they show."""

import io
import struct

import imagecodecs
import numpy
from PIL import Image

from pictures import saved

MASKS = struct.pack("<4I", 0xFF, 0xFF00, 0xFF0000, 0xFF000000)


def opened(file):
    """Returns a file as Pillow reads it."""
    return numpy.asarray(Image.open(io.BytesIO(file)).convert("RGBA"))


def rows(samples, bits):
    """Returns samples of `bits` as rows from the bottom, padded to four bytes."""
    lines = []
    for line in samples[::-1]:
        if bits >= 8:
            data = b"".join(int(value).to_bytes(bits // 8, "little") for value in line)
        else:
            digits = "".join(f"{value:0{bits}b}" for value in line)
            data = int(digits.ljust(-(-len(digits) // 8) * 8, "0"), 2).to_bytes(-(-len(digits) // 8), "big")
        lines.append(data + bytes(-len(data) % 4))
    return b"".join(lines)


def header(width, height, bits, compression=0, size=40, rest=b""):
    return (struct.pack("<IiiHHIIiiII", size, width, height, 1, bits, compression, 0, 0, 0, 0, 0) + rest).ljust(size, b"\0")


def bmp(head, palette, pixels):
    start = 14 + len(head) + len(palette)
    return b"BM" + struct.pack("<III", start + len(pixels), 0, start) + head + palette + pixels


def numbers(pixels):
    """Returns colours as numbers: blue in the lowest byte, then green, red and alpha."""
    red, green, blue, *alpha = numpy.moveaxis(pixels.astype(numpy.int64), 2, 0)
    return blue | green << 8 | red << 16 | (alpha[0] << 24 if alpha else 0)


def encoded_runs(indices, bits):
    """Returns indices in runs, with the odd lines literally and moves over index 1."""
    steps = bytearray()
    for y, line in enumerate(indices[::-1]):
        x = 0
        while x < len(line):
            end = x
            while end < len(line) and line[end] == line[x] and end - x < 255:
                end += 1
            if line[x] == 1:
                steps += bytes([0, 2, end - x, 0])
            elif y % 2 and len(line) - x >= 4 and 1 not in line[x:x + 4]:
                end = x + 4
                steps += bytes([0, 4]) + (bytes(line[x:end].tolist()) if bits == 8 else bytes([line[x] << 4 | line[x + 1], line[x + 2] << 4 | line[x + 3]]))
            else:
                steps += bytes([end - x, line[x] if bits == 8 else line[x] * 17])
            x = end
        steps += b"\0\0"
    return bytes(steps) + b"\0\1"


def bitmaps(image, clear, profile, shown):
    """Yields names, files and the pixels that they show."""
    pixels, straight = numpy.asarray(image), numpy.asarray(clear)
    height, width = pixels.shape[:2]
    y, x = numpy.mgrid[0:height, 0:width]
    for bits in (1, 2, 4, 8):
        indices = (x // 5 + y // 3) % (1 << bits)
        palette = numpy.random.default_rng(bits).integers(0, 256, (1 << bits, 3)).astype(numpy.uint8)
        colors = b"".join(bytes([*color[::-1], 0]) for color in palette)
        yield f"palette-{bits}", bmp(header(width, height, bits), colors, rows(indices, bits)), palette[indices]
        if bits in (4, 8):
            seen = palette[indices] * (indices != 1)[..., None]
            steps = encoded_runs(indices, bits)
            yield f"rle-{bits}", bmp(header(width, height, bits, 3 - bits // 4), colors, steps), seen
    core = struct.pack("<IHHHH", 12, width, height, 1, 24)
    yield "core-24", bmp(core, b"", rows(numbers(pixels), 24)), pixels
    yield "top-down", bmp(header(width, -height, 24), b"", rows(numbers(pixels)[::-1], 24)), pixels
    yield "32", bmp(header(width, height, 32), b"", rows(numbers(pixels) | 0x7F000000, 32)), pixels
    red, green, blue = [pixels[..., channel].astype(int) for channel in range(3)]
    five = numpy.round(numpy.stack([red >> 3, green >> 3, blue >> 3], axis=2) * 255 / 31)
    yield "555", bmp(header(width, height, 16), b"", rows(red >> 3 << 10 | green >> 3 << 5 | blue >> 3, 16)), five
    six = numpy.stack([five[..., 0], numpy.round((green >> 2) * 255 / 63), five[..., 2]], axis=2)
    masks = struct.pack("<3I", 0xF800, 0x7E0, 0x1F)
    yield "565", bmp(header(width, height, 16, 3), masks, rows(red >> 3 << 11 | green >> 2 << 5 | blue >> 3, 16)), six
    swapped = numbers(straight[..., [2, 1, 0, 3]])
    for size in (56, 108, 124):
        yield f"alpha-{size}", bmp(header(width, height, 32, 3, size, MASKS), b"", rows(swapped, 32)), straight
    yield "alpha-zero", bmp(header(width, height, 32, 3, 108, MASKS), b"", rows(swapped & 0xFFFFFF, 32)), straight * [1, 1, 1, 0]
    head = bytearray(header(width, height, 24, size=124))
    data = rows(numbers(pixels), 24)
    head[56:60], head[112:120] = b"DEBM", struct.pack("<II", 124 + len(data), len(profile))
    yield "icc", bmp(bytes(head), b"", data + profile), shown(pixels, profile)
    for mode in ("1", "L", "P", "RGB"):
        converted = image.convert(mode)
        yield f"pillow-{mode}", saved(converted, "BMP"), numpy.asarray(converted.convert("RGB"))


def icon(pictures, kind=1):
    """Returns an icon of pictures and depths; 0 as a depth is PNG."""
    images, entries = [], b""
    for picture, bits in pictures:
        pixels = numpy.asarray(picture)
        height, width = pixels.shape[:2]
        mask = rows((pixels[..., 3] < 128).astype(int), 1)
        if bits == 0:
            data = saved(picture, "PNG")
        elif bits > 8:
            data = header(width, 2 * height, bits) + rows(numbers(pixels if bits == 32 else pixels[..., :3]), bits) + mask
        else:
            flat = picture.convert("RGB").quantize(1 << bits)
            palette = (flat.getpalette() + [0] * 768)[:3 << bits]
            colors = b"".join(bytes([*palette[3 * index:3 * index + 3][::-1], 0]) for index in range(1 << bits))
            data = header(width, 2 * height, bits) + colors + rows(numpy.asarray(flat), bits) + mask
        images.append(data)
    place = 6 + 16 * len(images)
    for (picture, bits), data in zip(pictures, images):
        entries += struct.pack("<BBBBHHII", picture.width & 255, picture.height & 255, 0, 0, 1, bits or 32, len(data), place)
        place += len(data)
    return struct.pack("<HHH", 0, kind, len(images)) + entries + b"".join(images)


def face(side, color):
    """Returns a picture with a round edge, and a number of stripes that its size tells."""
    y, x = numpy.mgrid[0:side, 0:side]
    distance = numpy.hypot(x - side / 2 + 0.5, y - side / 2 + 0.5)
    pixels = numpy.zeros((side, side, 4), numpy.uint8)
    pixels[..., :3] = color
    pixels[x * side // 64 % 2 == 1, :3] = 255
    pixels[..., 3] = numpy.clip((side / 2 - distance) * 255, 0, 255)
    return Image.fromarray(pixels)


COLORS = {16: (200, 0, 0), 24: (0, 150, 0), 32: (0, 0, 200), 48: (150, 100, 0), 64: (0, 120, 120), 128: (120, 0, 120)}
FACES = {side: face(side, color) for side, color in COLORS.items()}


def icons():
    """Yields names, files, and the width to request with the picture to expect; None as a picture: any of Chromium."""
    mixed = [(FACES[16], 32), (FACES[48], 24), (FACES[32], 0), (FACES[24], 32), (FACES[128], 0), (FACES[64], 32)]

    def masked(picture, bits):
        pixels = numpy.asarray(picture).copy()
        if 0 < bits < 32:
            pixels[..., 3] = numpy.where(pixels[..., 3] < 128, 0, 255)
        return pixels

    for kind, name in [(1, "ico"), (2, "cur")]:
        file = icon(mixed, kind)
        for picture, bits in mixed:
            yield f"{name}-{picture.width}", file, picture.width, masked(picture, bits)
        yield f"{name}-largest", file, None, masked(FACES[128], 0)
    for bits in (1, 4, 8, 24, 32, 0):
        file = icon([(FACES[48], bits)])
        yield f"ico-depth-{bits or 'png'}", file, None, masked(FACES[48], bits) if bits in (0, 24, 32) else None
    yield "ico-depths", icon([(FACES[32], 4), (FACES[32], 24), (FACES[32], 8)]), None, masked(FACES[32], 24)
    file = saved(FACES[64], "ICO", sizes=[(16, 16), (32, 32), (64, 64)], bitmap_format="bmp")
    yield "ico-pillow", file, 64, numpy.asarray(FACES[64])


def others(image, clear):
    """Yields names, files, the pixels that they show, and those of another decoder."""
    pixels, straight = numpy.asarray(image), numpy.asarray(clear)
    height, width = pixels.shape[:2]
    gray, bits = numpy.asarray(image.convert("L")), image.convert("1")
    for name, file, expected in [
        ("pbm", saved(bits, "PPM"), numpy.asarray(bits) * 255), ("pgm", saved(image.convert("L"), "PPM"), gray), ("ppm", saved(image, "PPM"), pixels),
        ("pgm-16", b"P5\n%d %d\n65535\n" % (width, height) + (gray.astype(">u2") * 257).tobytes(), gray),
        ("ppm-text", b"P3\n# text\n%d %d 255\n" % (width, height) + " ".join(map(str, pixels.ravel())).encode() + b"\n", pixels),
        ("pbm-text", b"P1 %d %d\n" % (width, height) + "".join("10"[value] for value in numpy.asarray(bits).astype(int).ravel()).encode(),
         numpy.asarray(bits) * 255),
    ]:
        # Pillow keeps 16 bits, and cuts them.
        yield f"pnm-{name}", file, expected, expected if name == "pgm-16" else opened(file)
    pam = b"P7\nWIDTH %d\nHEIGHT %d\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n" % (width, height) + straight.tobytes()
    yield "pnm-pam", pam, straight, straight
    for name, array in [("rgb", pixels), ("rgba", straight)]:
        file = imagecodecs.qoi_encode(numpy.ascontiguousarray(array))
        yield f"qoi-{name}", file, array, opened(file)
    for mode in ("L", "LA", "P", "RGB", "RGBA"):
        converted = (clear if mode in ("LA", "RGBA") else image).convert(mode)
        for name, options in [("", {}), ("-rle", {"compression": "tga_rle"}), ("-bottom", {"orientation": -1})]:
            file = saved(converted, "TGA", **options)
            yield f"tga-{mode}{name}", file, numpy.asarray(converted.convert("RGBA")), opened(file)


def bombs():
    """Returns files that declare much more than they have, or take long steps over nothing."""
    large = 30000
    icon_file = icon([(FACES[16], 32)])
    return {
        "bmp": bmp(header(large, large, 24), b"", bytes(100)), "bmp-sides": bmp(header(1 << 31 - 1 & 0x7FFFFFFF, 1 << 20, 1), b"", bytes(99)),
        "bmp-runs": bmp(header(large, 9000, 8, 1), bytes(1024), b"\0\1"),
        "bmp-moves": bmp(header(9, 9, 8, 1), bytes(1024), b"\0\2\0\0" * 4_000_000),
        "ico-entries": struct.pack("<HHH", 0, 1, 1024) + (icon_file[6:18] + struct.pack("<I", 6 + 16 * 1024)) * 1024 + header(large, 2 * large, 32),
        "ico-itself": struct.pack("<HHH", 0, 1, 1) + icon_file[6:18] + struct.pack("<I", 22) + icon_file,
        "pnm": b"P6 30000 30000 255\n", "pnm-text": b"P1 7000 7000\n" + b"#\n" * 8_000_000,
        "qoi": b"qoif" + struct.pack(">IIBB", large, large, 4, 0) + b"\xFD" * 100_000,
        "tga": bytes([0, 0, 10] + [0] * 9) + struct.pack("<HHBB", 65535, 65535, 24, 0) + b"\xFFabc" * 100_000,
    }
