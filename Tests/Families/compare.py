"""Compares the families of formats with other decoders, and draws all of them on one sheet.

All files are made here. Pixels are compared in eight bits with straight alpha, where neither side is transparent:

- HEIC without loss: exactly, with the pixels before encoding; with loss: within 1 with pillow-heif. Profiles: within 2 with Little CMS.
- JPEG XL without loss: exactly, with the pixels before encoding; with loss: within 1 with djxl.
- JPEG 2000 without loss: exactly, with the pixels before encoding; with loss: within 1 with Pillow.
- TIFF without loss: exactly, with the pixels before encoding; with JPEG: within 1 with Pillow.
- SVG: the size exactly, and pixels over white with headless Chromium, at the natural size and at half of it. The mean of all
  channels differs by at most 1.5 of 255, of text, noise and patterns 6; and at most 2 % of all pixels differ by more than 48, of
  these 8 %: antialiasing differs.
- BMP and icons exactly, with the pixels that were stored and with headless Chromium; PNM, QOI and TGA with Pillow.
- Thumbnails of HEIC and AVIF (`embedded: fast`): exactly, with the pixels before encoding.
- Rarer files with two other decoders, each with limits of its own (`rare`): AVIF grids with alpha of each cell, AVIF with light brighter than
  white, HEIC with other brands, JPEG 2000 of two encoders, CIELab in TIFF.

Bombs of each format fail with a code within seconds. OUTPUT is the sheet's name.
"""

import io
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import imagecodecs
import numpy
import pillow_heif
import tifffile
from PIL import Image, ImageCms

import avif
import documents
import heic
import jp2
import simple
from drawing import all_drawn
from pictures import Sheet, saved
from setting import Setting

pillow_heif.register_heif_opener()
LOSSLESS = {"quality": -1, "chroma": 444, "matrix_coefficients": 0}


def scene(width, height, transparent=False):
    """Returns a picture with smooth colours and edges."""
    y, x = numpy.mgrid[0:height, 0:width]
    pixels = numpy.zeros((height, width, 4 if transparent else 3), numpy.uint8)
    pixels[..., 0], pixels[..., 1] = x * 255 // max(1, width - 1), y * 255 // max(1, height - 1)
    pixels[..., 2] = ((x // 8 + y // 8) % 2) * 180
    if transparent:
        pixels[..., 3] = numpy.clip((x + y) * 300 // (width + height), 0, 255)
    return Image.fromarray(pixels)


def rgba(pixels):
    """Returns an array of red, green, blue and alpha."""
    pixels = numpy.asarray(pixels)
    if pixels.ndim == 2:
        pixels = numpy.stack([pixels] * 3, axis=2)
    if pixels.shape[2] == 2:
        pixels = numpy.concatenate([pixels[..., :1]] * 3 + [pixels[..., 1:]], axis=2)
    if pixels.shape[2] == 3:
        pixels = numpy.concatenate([pixels, numpy.full(pixels.shape[:2] + (1,), 255, pixels.dtype)], axis=2)
    return pixels


def shown(pixels, profile):
    """Converts to sRGB."""
    image = Image.fromarray(numpy.asarray(pixels))
    return numpy.asarray(ImageCms.profileToProfile(
        image, ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB"), outputMode="RGB"))


def wide_profile():
    """Returns a profile other than sRGB: red and green exchanged in its primaries' order would be seen at once."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    entries = {bytes(profile[132 + 12 * i:136 + 12 * i]): int.from_bytes(profile[136 + 12 * i:140 + 12 * i], "big") for i in range(
        int.from_bytes(profile[128:132], "big"))}
    # Display P3's primaries, in the profile's connection space.
    for tag, values in {b"rXYZ": (0.51512, 0.2412, -0.00105), b"gXYZ": (0.29198, 0.69225, 0.04189), b"bXYZ": (0.1571, 0.06657, 0.78407)}.items():
        for index, value in enumerate(values):
            start = entries[tag] + 8 + 4 * index
            profile[start:start + 4] = round(value * 65536).to_bytes(4, "big", signed=True)
    return bytes(profile)


def of_inks(inks):
    """Returns the colours of cyan, magenta, yellow and black."""
    inks = inks.astype(float)
    return numpy.round((255 - inks[..., :3]) * (255 - inks[..., 3:]) / 255)


def heics():
    """Yields names, files, expected pixels and tolerances."""
    plain, odd, clear = scene(96, 64), scene(97, 61), scene(96, 64, True)
    pixels = numpy.asarray(plain)
    yield "lossless", heic.encoded(plain, **LOSSLESS), pixels, 0
    yield "lossless-alpha", heic.encoded(clear, **LOSSLESS), numpy.asarray(clear), 0
    profile = wide_profile()
    for name, image, options in [
        ("420", odd, {"quality": 70}), ("422", odd, {"quality": 70, "chroma": 422}), ("444", odd, {"quality": 70, "chroma": 444}),
        ("gray", odd.convert("L"), {"quality": 80}), ("alpha", clear, {"quality": 70}),
    ]:
        file = heic.encoded(image, **options)
        yield name, file, numpy.asarray(Image.open(io.BytesIO(file)).convert("RGBA")), 1
    for chroma in (420, 444):
        deep = pillow_heif.from_bytes("RGB;16", plain.size, (pixels.astype(numpy.uint16) * 257).tobytes())
        file = io.BytesIO()
        deep.save(file, quality=90, chroma=chroma)
        opened = pillow_heif.open_heif(file, convert_hdr_to_8bit=False)
        assert opened.mode == "RGB;16", opened.mode
        samples = numpy.asarray(opened).astype(float)
        largest = 65472 if samples.max() > 1023 else 1023
        yield f"10-bits-{chroma}", file.getvalue(), numpy.round(numpy.clip(samples / largest, 0, 1) * 255), 1
    full = heic.colors(1, 13, 0, True)
    for name, properties, expected in [
        ("irot-1", [heic.turned(1)], numpy.rot90(pixels)), ("irot-2", [heic.turned(2)], numpy.rot90(pixels, 2)),
        ("irot-3", [heic.turned(3)], numpy.rot90(pixels, 3)), ("imir-0", [heic.mirrored(0)], pixels[::-1]),
        ("imir-1", [heic.mirrored(1)], pixels[:, ::-1]),
        ("clap", [heic.cropped(50, 30, 10, 20, 96, 64)], pixels[20:50, 10:60]),
        ("clap-odd", [heic.cropped(51, 31, 11, 21, 96, 64)], pixels[21:52, 11:62]),
        ("clap-irot-imir", [heic.cropped(50, 30, 10, 20, 96, 64), heic.turned(1), heic.mirrored(1)],
         numpy.rot90(pixels[20:50, 10:60])[:, ::-1]),
    ]:
        yield name, heic.with_properties(plain, full, *properties, **LOSSLESS), expected, 0
    for name, brand, compatible in [
        ("brand-mif1", b"mif1", b"mif1miaf"), ("brands-many", b"isom", b"isom" * 40 + b"mif1heic"),
    ]:
        yield name, heic.with_properties(plain, full, brand=brand, compatible=compatible, **LOSSLESS), pixels, 0
    large = scene(150, 100)
    yield "grid", heic.grid(large, 64, full, **LOSSLESS), numpy.asarray(large), 0
    yield "grid-irot", heic.grid(large, 64, full, heic.turned(3), **LOSSLESS), numpy.rot90(numpy.asarray(large), 3), 0
    glass = scene(150, 100, True)
    yield "grid-alpha", heic.grid(glass, 64, full, **LOSSLESS), numpy.asarray(glass), 0
    yield "icc", heic.encoded(plain, icc_profile=profile, **LOSSLESS), shown(pixels, profile), 2
    p3 = heic.colors(12, 13, 0, True)
    yield "nclx-p3", heic.with_properties(plain, p3, **LOSSLESS), shown(pixels, profile), 2
    # The same samples with other matrices, and with black at 16 and white at 235.
    for matrix in (1, 6, 9):
        for is_full in (False, True):
            file = heic.with_properties(plain, heic.colors(1, 13, matrix, is_full), quality=90, chroma=444)
            name = f"nclx-{matrix}-{'full' if is_full else 'limited'}"
            yield name, file, numpy.asarray(Image.open(io.BytesIO(file)).convert("RGB")), 1


def jxls(folder):
    """Yields names, files, expected pixels and tolerances."""

    def encoded(image, *options, **saving):
        source, result = folder / "a.png", folder / "a.jxl"
        image.save(source, **saving)
        subprocess.run(["cjxl", source, result, *options], check=True, capture_output=True)
        return result.read_bytes()

    def decoded(file):
        source, result = folder / "b.jxl", folder / "b.png"
        source.write_bytes(file)
        subprocess.run(["djxl", source, result], check=True, capture_output=True)
        return numpy.asarray(Image.open(result).convert("RGBA"))

    odd, clear = scene(97, 61), scene(97, 61, True)
    for name, image in [("lossless", odd), ("lossless-alpha", clear), ("lossless-gray", odd.convert("L")), ("lossless-1", odd.convert("1"))]:
        yield name, encoded(image, "-d", "0"), numpy.asarray(image.convert("RGBA")), 0
    yield "container", encoded(odd, "-d", "0", "--container=1"), numpy.asarray(odd), 0
    for name, image, options in [
        ("lossy", odd, ["-d", "1"]), ("lossy-alpha", clear, ["-d", "1"]), ("lossy-gray", odd.convert("L"), ["-d", "2"]),
        ("modular", odd, ["-d", "1", "-m", "1"]), ("progressive", odd, ["-d", "1", "-p"]),
    ]:
        file = encoded(image, *options)
        yield name, file, decoded(file), 1
    profile = wide_profile()
    file = encoded(odd, "-d", "0", icc_profile=profile)
    yield "icc", file, shown(numpy.asarray(odd), profile), 2
    photo = folder / "a.jpg"
    odd.save(photo, quality=85)
    subprocess.run(["cjxl", photo, folder / "c.jxl"], check=True, capture_output=True)
    file = (folder / "c.jxl").read_bytes()
    yield "from-jpeg", file, decoded(file), 1
    deep = numpy.asarray(odd).astype(numpy.uint16) * 256 + 77
    (folder / "d.png").write_bytes(imagecodecs.png_encode(deep))
    subprocess.run(["cjxl", folder / "d.png", folder / "d.jxl", "-d", "0"], check=True, capture_output=True)
    yield "lossless-16", (folder / "d.jxl").read_bytes(), numpy.round(deep / 257), 0


def jp2s():
    """Yields names, files, expected pixels and tolerances."""
    image, clear = scene(97, 61), scene(97, 61, True)
    pixels, gray, straight = numpy.asarray(image), numpy.asarray(image.convert("L")), numpy.asarray(clear)
    yield "file", jp2.encoded(image, False), pixels, 0
    yield "file-alpha", jp2.encoded(clear, False), straight, 0
    yield "file-gray", jp2.encoded(image.convert("L"), False), gray, 0
    yield "file-gray-alpha", jp2.encoded(clear.convert("LA"), False), numpy.asarray(clear.convert("LA")), 0
    yield "file-16-bits", jp2.encoded(Image.fromarray(gray.astype(numpy.uint16) * 257), False), gray, 0
    for name, options in {
        "codestream": {}, "tiles": {"tile_size": (32, 48)}, "offset": {"tile_size": (40, 40), "offset": (7, 5), "tile_offset": (3, 2)},
        "layers": {"quality_mode": "rates", "quality_layers": [20, 5, 0]}, "one-resolution": {"num_resolutions": 1},
        "blocks": {"codeblock_size": (4, 8), "precinct_size": (32, 32)}, "transform": {"mct": 1},
        **{order: {"progression": order, "tile_size": (64, 64), "quality_layers": [9, 0]} for order in ["LRCP", "RLCP", "RPCL", "PCRL", "CPRL"]},
    }.items():
        yield name, jp2.encoded(image, **options), pixels, 0
    for depth in [10, 12, 16]:
        deep = numpy.round(pixels * ((2 ** depth - 1) / 255)).astype(numpy.uint16)
        file = imagecodecs.jpeg2k_encode(deep, level=0, bitspersample=depth, codecformat="jp2", mct=True)
        yield f"{depth}-bits", file, pixels, 0
    for name, options in {"lossy": {}, "lossy-tiles": {"tile_size": (50, 50)}}.items():
        file = jp2.encoded(image, irreversible=True, quality_mode="rates", quality_layers=[15], **options)
        yield name, file, jp2.decoded(file), 1
    colors = numpy.random.default_rng(4).integers(0, 256, (256, 4))
    single = jp2.encoded(image.convert("L"))
    definitions = jp2.box("cdef", bytes([0, 4, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 2, 0, 2, 0, 0, 0, 3, 0, 3, 0, 1, 0, 0]))
    yield "palette", jp2.file(single, jp2.colors(16), jp2.palette(colors[:, :3])), colors[gray][..., :3], 0
    yield "palette-alpha", jp2.file(single, jp2.colors(16), jp2.palette(colors), definitions), colors[gray], 0
    profile = wide_profile()
    yield "icc", jp2.file(jp2.encoded(image), jp2.profile(profile)), shown(pixels, profile), 2
    yield "cmyk", jp2.file(jp2.encoded(clear), jp2.colors(12)), of_inks(straight), 0
    ycc = numpy.asarray(image.convert("YCbCr"))
    yield "sycc", jp2.file(jp2.encoded(Image.fromarray(ycc)), jp2.colors(18)), numpy.asarray(
        Image.fromarray(ycc, "YCbCr").convert("RGB")), 1


def animation(folder):
    """Returns an animated JPEG XL and its frames."""
    frames = [scene(64, 48, True).rotate(30 * index) for index in range(4)]
    frames[0].save(folder / "e.png", save_all=True, append_images=frames[1:], duration=[40, 80, 120, 200])
    subprocess.run(["cjxl", folder / "e.png", folder / "e.jxl", "-d", "0"], check=True, capture_output=True)
    return (folder / "e.jxl").read_bytes(), frames


def written(pixels, **options):
    """Returns pixels as a file of tifffile's."""
    file = io.BytesIO()
    tifffile.imwrite(file, pixels, **options)
    return file.getvalue()


def tiffs():
    """Yields names, files, expected pixels and tolerances."""
    image, clear = scene(97, 61), scene(97, 61, True)
    pixels, gray, straight = numpy.asarray(image), numpy.asarray(image.convert("L")), numpy.asarray(clear)
    for name in ["none", "lzw", "packbits", "deflate", "adobe_deflate", "zstd", "lzma", "lerc", "webp"]:
        options = {"compressionargs": {"lossless": True}} if name == "webp" else {}
        yield name, written(pixels, photometric="rgb", compression=name, **options), pixels, 0
    planes = numpy.moveaxis(pixels, 2, 0)
    cyan = numpy.asarray(image.convert("CMYK"))
    palette = numpy.random.default_rng(3).integers(0, 256, (3, 256)).astype(numpy.uint16)
    deep = pixels.astype(numpy.uint16) * 256 + 99
    multiplied = straight.copy()
    multiplied[..., :3] = numpy.round(straight[..., :3].astype(float) * straight[..., 3:] / 255)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        divided = numpy.nan_to_num(numpy.floor(multiplied[..., :3] * 255.0 / straight[..., 3:] + 0.5))
    divided = numpy.concatenate([numpy.clip(divided, 0, 255), straight[..., 3:]], axis=2)
    for name, file, expected in [
        ("tiled", written(pixels, photometric="rgb", tile=(32, 48), compression="deflate"), pixels),
        ("strips", written(pixels, photometric="rgb", rowsperstrip=7, compression="lzw", predictor=True), pixels),
        ("planes", written(planes, photometric="rgb", planarconfig="separate", compression="lzw"), pixels),
        ("planes-tiled", written(planes, photometric="rgb", planarconfig="separate", tile=(16, 16)), pixels),
        ("big", written(pixels, photometric="rgb", bigtiff=True, byteorder=">"), pixels),
        ("alpha", written(straight, photometric="rgb", extrasamples=["unassalpha"]), straight),
        ("premultiplied", written(multiplied, photometric="rgb", extrasamples=["assocalpha"]), divided),
        ("gray", written(gray, photometric="minisblack"), gray), ("white-0", written(gray, photometric="miniswhite"), 255 - gray),
        ("gray-alpha", saved(clear.convert("LA"), "TIFF"), numpy.asarray(clear.convert("LA"))),
        ("bilevel", written(gray > 100, photometric="minisblack"), (gray > 100) * 255),
        ("palette", written(gray, photometric="palette", colormap=palette * 257), palette.T[gray]),
        ("16-bits", written(deep, photometric="rgb", compression="lzw", predictor=True), numpy.round(deep / 257)),
        ("16-bits-gray", written(gray.astype(numpy.uint16) * 257, photometric="minisblack", byteorder=">"), gray),
        ("cmyk", written(cyan, photometric="separated"), of_inks(cyan)),
        ("cmyk-16", written(cyan.astype(numpy.uint16) * 257, photometric="separated"), of_inks(cyan)),
        ("orientation-6", saved(image, "TIFF", tiffinfo={274: 6}), numpy.rot90(pixels, 3)),
        ("orientation-2", saved(image, "TIFF", tiffinfo={274: 2}), pixels[:, ::-1]),
        ("group-3", saved(image.convert("1"), "TIFF", compression="group3"), numpy.asarray(image.convert("1")) * 255),
        ("group-4", saved(image.convert("1"), "TIFF", compression="group4"), numpy.asarray(image.convert("1")) * 255),
        ("pages", written(numpy.stack([pixels, pixels[::-1]]), photometric="rgb"), pixels),
    ]:
        yield name, file, expected, 0
    for name, file in [
        ("jpeg", saved(image, "TIFF", compression="jpeg")), ("jpeg-tiled", written(pixels, photometric="ycbcr", tile=(32, 48), compression="jpeg")),
        ("ycbcr", saved(image.convert("YCbCr"), "TIFF")),
    ]:
        yield name, file, numpy.asarray(Image.open(io.BytesIO(file)).convert("RGB")), 1
    profile = wide_profile()
    yield "icc", saved(image, "TIFF", icc_profile=profile), shown(pixels, profile), 2


def colorimetry(lab):
    """Returns CIELab as sRGB, computed from its definition with Bradford's adaptation of D50 to D65."""
    lightness, a, b = numpy.moveaxis(lab.astype(float), 2, 0)
    cube = (lightness + 16) / 116
    sums = numpy.stack([cube + a / 500, cube, cube - b / 200], axis=2)
    light = numpy.where(sums > 6 / 29, sums ** 3, 3 * (6 / 29) ** 2 * (sums - 4 / 29)) * [0.9642, 1, 0.8249]
    matrix = [[3.1338561, -1.6168667, -0.4906146], [-0.9787684, 1.9161415, 0.0334540], [0.0719453, -0.2289914, 1.4052427]]
    return numpy.round(255 * of_light(light @ numpy.transpose(matrix))).astype(numpy.uint8)


def of_light(light):
    """Returns the samples of sRGB, from 0 to 1."""
    light = numpy.clip(light, 0, 1)
    return numpy.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


def labs():
    """Yields names, files, and the picture that colorimetry gives, of CIELab in all encodings."""
    y, x = numpy.mgrid[0:64, 0:96]
    # Grays on the left.
    lightness, a, b = 255 - y * 4, numpy.where(x < 16, 0, x - 56), numpy.where(x < 16, 0, (y - 32) * 2)
    shown = colorimetry(numpy.stack([lightness / 2.55, a, b], axis=2))
    signed = numpy.stack([lightness, a & 255, b & 255], axis=2).astype(numpy.uint8)
    wide = numpy.stack([lightness * 257, a * 256 & 65535, b * 256 & 65535], axis=2).astype(numpy.uint16)
    shifted = numpy.stack([lightness, a + 128, b + 128], axis=2)
    for name, pixels, photometric in [
        ("cielab-8", signed, "cielab"), ("cielab-16", wide, "cielab"), ("icclab-8", shifted.astype(numpy.uint8), "icclab"),
        ("icclab-16", (shifted << 8).astype(numpy.uint16), "icclab"),
    ]:
        yield name, written(pixels, photometric=photometric), shown


def magick(file, kind):
    """Returns a file as ImageMagick shows it."""
    words = ["/usr/bin/convert", f"{kind}:-", "-colorspace", "sRGB", "-depth", "8", "png:-"]
    result = subprocess.run(words, input=file, check=True, capture_output=True).stdout
    return numpy.asarray(Image.open(io.BytesIO(result)).convert("RGB"))


def libplacebo(pixels, primaries, transfer):
    """Returns colours with light brighter than white as libplacebo shows them: clipped at white by the largest component."""
    height, width = pixels.shape[:2]
    words = [
        "ffmpeg", "-v", "error", "-init_hw_device", "vulkan=v:llvmpipe", "-filter_hw_device", "v", "-f", "rawvideo", "-pix_fmt", "rgba",
        "-s", f"{width}x{height}", "-i", "-", "-vf",
        f"setparams=color_primaries={primaries}:color_trc={transfer}:colorspace=gbr:range=pc,hwupload,libplacebo=color_primaries=bt709:"
        "color_trc=iec61966-2-1:colorspace=gbr:range=pc:tonemapping=clip:tonemapping_mode=max:tonemapping_crosstalk=0:peak_detect=0:"
        "gamut_mode=clip:dithering=none,hwdownload,format=rgba", "-f", "rawvideo", "-pix_fmt", "rgba", "-"]
    result = subprocess.run(words, input=rgba(pixels).tobytes(), check=True, stdout=subprocess.PIPE).stdout
    return numpy.frombuffer(result, numpy.uint8).reshape(height, width, 4)[..., :3]


def bright():
    """Returns a picture of all hues, pale on the left, and dark at the top, as samples of PQ or HLG."""
    y, x = numpy.mgrid[0:64, 0:192]
    hue, height = x % 64 / 64 * 6, 40 + y * 3
    depth = numpy.array([0.3, 0.6, 1])[x // 64]
    channels = [1 - depth * numpy.clip(2 - abs(hue % 6 - place), 0, 1) for place in (3, 5, 1)]
    return numpy.round(numpy.stack(channels, axis=2) * height[..., None]).astype(numpy.uint8)


def rare():
    """Yields names, files, and for each of two other decoders its picture, and the largest difference and mean difference allowed.

    Pictures are compared over white. None as a picture is that of Chromium.
    """
    everything = float("inf")
    file = avif.grid(scene(150, 100, True), 64)
    # Chromium takes alpha of this encoder for one of a limited range, of a single image, too.
    yield "avif-grid-alpha", file, [("libavif", imagecodecs.avif_decode(file), 0, 0), ("Chromium", None, 20, 5)]
    for name, primaries, transfer, limit in [("pq-709", 1, 16, 5), ("pq-2020", 9, 16, 45), ("hlg-709", 1, 18, 60), ("hlg-2020", 9, 18, 65)]:
        pixels = bright()
        file = avif.with_colors(pixels, primaries, transfer)
        names = {1: "bt709", 9: "bt2020", 16: "smpte2084", 18: "arib-std-b67"}
        theirs = libplacebo(pixels, names[primaries], names[transfer])
        yield f"avif-{name}", file, [("libplacebo", theirs, limit, 12), ("Chromium", None, everything, 40)]
    plain = scene(96, 64)
    for name, brand, compatible in [("mif2", b"mif2", b"mif2mif1heic"), ("MiHB", b"MiHB", b"mif1miafMiHB")]:
        file = heic.with_properties(plain, heic.colors(1, 13, 0, True), brand=brand, compatible=compatible, **LOSSLESS)
        pillow = numpy.asarray(pillow_heif.open_heif(io.BytesIO(file)))
        yield f"heic-brand-{name}", file, [("pillow-heif", pillow, 0, 0), ("ImageMagick", magick(file, "heic"), 5, 2)]
    smooth = scene(96, 64)
    for name, file in {
        "pillow": jp2.encoded(smooth, False), "pillow-lossy": jp2.encoded(
            smooth, False, irreversible=True, quality_mode="rates", quality_layers=[8]),
        "ffmpeg": jp2.ffmpeg_encoded(smooth, "rgb24", pred=1), "ffmpeg-lossy": jp2.ffmpeg_encoded(smooth, "rgb24", pred=0),
        "ffmpeg-gray": jp2.ffmpeg_encoded(smooth, "gray", pred=1), "ffmpeg-palette": jp2.ffmpeg_encoded(smooth, "pal8", pred=1),
        "ffmpeg-420": jp2.ffmpeg_encoded(smooth, "yuv420p", pred=1), "ffmpeg-444": jp2.ffmpeg_encoded(smooth, "yuv444p", pred=1),
    }.items():
        # ffmpeg takes YCC for that of a limited range.
        limits = (everything, 12) if "4" in name else (2, 1)
        yield f"jp2-{name}", file, [
            ("ffmpeg", jp2.ffmpeg_decoded(file, 96, 64), *limits), ("Pillow", jp2.decoded(file), 2, 1)]
    for name, file, expected in labs():
        # ImageMagick knows only one kind of CIELab, which it takes for one of D65.
        others = [("ImageMagick", magick(file, "tif"), everything, 8)] if name.startswith("cielab") else []
        if name == "cielab-8":
            profiles = [ImageCms.createProfile(kind) for kind in ("LAB", "sRGB")]
            pillow = ImageCms.profileToProfile(Image.open(io.BytesIO(file)), *profiles, outputMode="RGB")
            others.append(("Little CMS", numpy.asarray(pillow), 50, 1))
        yield f"tiff-{name}", file, [("colorimetry", expected, 3, 1), *others]


class Results(Sheet):
    """All results of each file, the first of which is imgbroker's."""

    def add(self, name, *pictures):
        super().add(name, *(Image.fromarray(rgba(pixels).astype(numpy.uint8), "RGBA") for pixels in pictures))


def previews():
    """Yields names, files and the pixels of their thumbnails, which show other colours than the images."""
    image, small = scene(192, 128), scene(96, 64).transpose(Image.Transpose.ROTATE_180)
    full = heic.colors(1, 13, 0, True)
    for name, angle in [("", 0), ("-irot", 1)]:
        extra = [heic.turned(angle)] if angle else []
        expected = numpy.rot90(numpy.asarray(small), angle)
        yield f"heic-thumbnail{name}", heic.with_thumbnail(image, small, full, *extra, **LOSSLESS), expected
        yield f"avif-thumbnail{name}", avif.with_thumbnail(image, small, *extra), expected


def difference(ours, theirs):
    """Returns the largest difference; infinite if the sizes differ."""
    ours, theirs = rgba(ours).astype(float), rgba(theirs).astype(float)
    if ours.shape != theirs.shape:
        return float("inf")
    both = numpy.where((ours[..., 3:] == 0) & (theirs[..., 3:] == 0), 0, abs(ours - theirs))
    return both.max()


def last_line(error):
    """Returns the end of what a program that has failed has said."""
    return error.stderr.decode().strip().splitlines()[-1][:150]


def over_white(pixels):
    pixels = rgba(pixels).astype(float)
    return pixels[..., :3] * pixels[..., 3:] / 255 + 255 - pixels[..., 3:]


def main():
    failures, sheet = [], Results(4, 4, (120, 120))

    def report(name, text, is_right):
        print(f"{name:28} {text}{'' if is_right else '   WRONG'}", flush=True)
        if not is_right:
            failures.append(name)

    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        cases = {}
        for kind, found in [("heic", heics()), ("jxl", jxls(work)), ("jp2", jp2s()), ("tiff", tiffs())]:
            for name, file, expected, tolerance in found:
                cases[f"{kind}-{name}"] = (file, expected, tolerance)
        moving, frames = animation(work)
        unusual = {name: (file, others) for name, file, others in rare()}
        files = {name: case[0] for name, case in (cases | unusual).items()} | {"moving": moving}
        bitmaps = {f"bmp-{name}": case for name, *case in simple.bitmaps(scene(97, 61), scene(97, 61, True), wide_profile(), shown)}
        icons = {name: case for name, *case in simple.icons()}
        plain = {name: case for name, *case in simple.others(scene(97, 61), scene(97, 61, True))}
        files |= {name: case[0] for name, case in (bitmaps | icons | plain).items()}
        thumbnails = {name: (file, expected) for name, file, expected in previews()}
        files |= {name: case[0] for name, case in thumbnails.items()}
        files |= {f"svg-{name}": text.encode() for name, text in documents.IMAGES.items()}
        files |= {name: data for name, (data, _) in documents.CONVERTED.items()}
        files["references"] = documents.REFERENCES.encode()
        bombs = documents.bombs() | {"heic-grid": documents.grid_bomb(heic), "tiff-loop": documents.tiff_bomb(65535, 65535)} | simple.bombs()
        bombs |= {"jp2-tiles": jp2.bomb(65535, 1, 1, 16), "jp2-side": jp2.bomb(65535, 65535, 65535, 1), "jp2-flat": jp2.bomb(7000, 7000, 7000, 3)}
        files |= {f"bomb-{name}": data for name, data in bombs.items()}
        setting = Setting(folder, files)

        def load(name, *options):
            return numpy.asarray(Image.open(setting.get(name, *options)).convert("RGBA"))

        def loaded(names):
            """Yields each name and its image; reports those that fail."""
            for name in names:
                try:
                    yield name, load(name)
                except subprocess.CalledProcessError as error:
                    report(name, last_line(error), False)

        try:
            for name, ours in loaded(cases):
                _, expected, tolerance = cases[name]
                found = difference(ours, expected)
                report(name, f"largest difference {found:g} of {tolerance}", found <= tolerance)
                sheet.add(name, ours, expected)
            for name, (_, expected) in thumbnails.items():
                width = str(expected.shape[1])
                ours, whole = load(name, "--embedded", "fast", "--width", width), load(name, "--width", width)
                found, other = difference(ours, expected), difference(whole, expected)
                report(name, f"largest difference {found:g} of 0; the image itself {other:g}", found == 0 and other > 50)
                sheet.add(name, ours, expected)
                larger = load(name, "--embedded", "fast", "--width", str(expected.shape[1] + 1))
                report(f"{name}-larger", "the image itself", difference(larger, load(name, "--width", str(expected.shape[1] + 1))) == 0)
            drawn = all_drawn({name: ("avif", file) for name, (file, _) in unusual.items() if name.startswith("avif")})
            for name, ours in loaded(unusual):
                others = unusual[name][1]
                pictures = [drawn[name] if theirs is None else theirs for _, theirs, _, _ in others]
                for (decoder, _, limit, mean), theirs in zip(others, pictures):
                    found = abs(over_white(ours) - over_white(theirs))
                    text = f"{decoder}: largest difference {found.max():.0f} of {limit:g}, mean {found.mean():.2f} of {mean:g}"
                    report(name, text, found.max() <= limit and found.mean() <= mean)
                sheet.add(f"{name}: imgbroker, {', '.join(other[0] for other in others)}", ours, *pictures)
            compare_simple(load, report, sheet, bitmaps, icons, plain)
            for index, frame in enumerate(frames):
                ours = load("moving", "--frame", str(index))
                found = difference(ours, frame)
                report(f"jxl-frame-{index}", f"largest difference {found:g} of 0", found == 0)
                sheet.add(f"jxl-frame-{index}", ours, frame)
            ours, expected = load("references"), load("svg-reference-free")
            report("svg-references", "nothing is loaded", (ours == expected).all())
            for name, (_, plain) in documents.CONVERTED.items():
                report(name, f"as {plain}", (load(name) == load(f"svg-{plain}")).all())
            sources = {name: ("svg+xml", files[name]) for name in files if name.startswith("svg-")}
            natural = all_drawn(sources)
            for name, theirs in natural.items():
                ours = load(name)
                compare_drawing(name, ours, numpy.asarray(theirs), report, sheet)
            # Half the size, if that keeps the ratio: Chromium would not stretch the others. It does not scale documents without a
            # size of their own either.
            small = {
                name: (image.width // 2, image.height // 2) for name, image in natural.items()
                if image.width % 2 == image.height % 2 == 0 and name[4:] not in documents.UNSIZED}
            reduced = all_drawn({name: sources[name] for name in small}, small)
            for name, theirs in reduced.items():
                width, height = small[name]
                ours = load(name, "--width", str(width), "--height", str(height), "--fit", "fill")
                compare_drawing(f"{name}-half", ours, numpy.asarray(theirs), report, sheet)
            # Twice the size: shapes stay sharp.
            large = {name: (2 * natural[name].width, 2 * natural[name].height) for name in ["svg-size-and-box", "svg-nested", "svg-style"]}
            for name, theirs in all_drawn({name: sources[name] for name in large}, large).items():
                ours = load(name, "--width", str(large[name][0]))
                compare_drawing(f"{name}-double", ours, numpy.asarray(theirs), report, sheet)
            for name in bombs:
                begun = time.monotonic()
                try:
                    load(f"bomb-{name}")
                    text, is_right = "decoded", name in documents.HARMLESS
                except subprocess.CalledProcessError as error:
                    text, is_right = last_line(error)[:110], True
                elapsed = time.monotonic() - begun
                report(f"bomb-{name}", f"{elapsed:.1f} s: {text}", is_right and elapsed < 30)
        finally:
            setting.stop()
    output = os.environ.get("OUTPUT", ".build/families/sheet.png")
    sheet.save(output)
    print(f"{len(sheet.cells)} comparisons, {len(failures)} wrong: {' '.join(failures)}\nsheet: {output}")
    return 1 if failures else 0


def compare_simple(load, report, sheet, bitmaps, icons, plain):
    """Compares BMP and icons with Chromium and what they were made of, and other simple formats with this and Pillow."""
    drawn = all_drawn(
        {name: ("bmp", case[0]) for name, case in bitmaps.items()}
        | {name: ("x-icon", case[0]) for name, case in icons.items() if case[1] is None})
    cases = [(name, (), expected, drawn[name]) for name, (_, expected) in bitmaps.items()]
    cases += [(name, ("--width", str(width)) if width else (), expected, drawn.get(name)) for name, (_, width, expected) in icons.items()]
    cases += [(name, (), expected, theirs) for name, (_, expected, theirs) in plain.items()]
    for name, options, expected, theirs in cases:
        try:
            ours = load(name, *options)
        except subprocess.CalledProcessError as error:
            report(name, last_line(error), False)
            continue
        # A canvas multiplies colours by alpha.
        others = [(expected, 0)] if expected is not None else []
        if theirs is not None:
            others.append((numpy.asarray(theirs), 2))
        found = [(difference(over_white(ours), over_white(other)), most) for other, most in others]
        report(name, "largest differences " + ", ".join(f"{value:g} of {most}" for value, most in found), all(value <= most for value, most in found))
        sheet.add(name, ours, *(other for other, _ in others))


def compare_drawing(name, ours, theirs, report, sheet):
    sheet.add(name, ours, theirs)
    if ours.shape != theirs.shape:
        return report(name, f"{ours.shape[1]} × {ours.shape[0]}, Chromium {theirs.shape[1]} × {theirs.shape[0]}", False)
    differences = abs(over_white(ours) - over_white(theirs))
    mean, share = differences.mean(), (differences.max(axis=2) > 48).mean()
    loose = any(word in name for word in documents.LOOSE)
    report(name, f"mean {mean:.2f}, {100 * share:.1f} % differ", mean <= (6 if loose else 1.5) and share <= (0.08 if loose else 0.02))


sys.exit(main())
