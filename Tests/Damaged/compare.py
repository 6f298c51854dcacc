"""Compares damaged images with headless Chromium, and draws both on one sheet.

Images of each format are truncated at a quarter, half and three quarters, and loaded with `imgbroker get --accept-damage`. Where
both have decoded a row:

- PNG, WebP and GIF: no channel differs by more than 2 of 255;
- JPEG: by more than 4, except in the last 16 rows before the damage, which are decoded together;
- JPEG with several scans and interlaced PNG, whose missing parts are estimated: the mean of all channels differs by at most 6.

And it has decoded at least as many rows as Chromium, except for the last 16 of a JPEG and the last 2 of another format. Chromium draws
no WebP that is truncated, so its rows are compared with those of the whole file: at least as many, less 24, as there are bytes. Files
of a folder given in IMAGES that the broker refuses are drawn only. OUTPUT is the sheet's name.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import pyvips
from PIL import Image, ImageDraw

from drawing import all_drawn
from pictures import Sheet, multiplied, saved
from setting import Setting

WIDTH, HEIGHT = 160, 120
TYPES = {"jpg": "jpeg", "jpeg": "jpeg", "png": "png", "apng": "png", "webp": "webp", "gif": "gif", "avif": "avif"}


def scene():
    """Returns a picture with smooth colours, edges, and some noise."""
    random = numpy.random.default_rng(5)
    y, x = numpy.mgrid[0:HEIGHT, 0:WIDTH]
    pixels = numpy.stack([255 * x / WIDTH, 255 * y / HEIGHT, 128 + 100 * numpy.sin(x / 9) * numpy.cos(y / 7)], axis=-1)
    image = Image.fromarray(numpy.clip(pixels + random.normal(0, 6, pixels.shape), 0, 255).astype(numpy.uint8), "RGB")
    draw = ImageDraw.Draw(image)
    for index in range(6):
        left = 8 + 25 * index
        draw.ellipse((left, 10 + 12 * index, left + 30, 40 + 12 * index), fill=(40 * index, 255 - 40 * index, 90))
    for line in range(0, HEIGHT, 15):
        draw.line((0, line, WIDTH, HEIGHT - line), fill=(255, 255, 255))
    return image


def files():
    """Returns complete files by name."""
    image = scene()
    indices = image.quantize(64)
    transparent = image.convert("RGBA")
    transparent.putalpha(Image.linear_gradient("L").resize(image.size).point(lambda value: 55 + value * 200 // 255))
    vips = pyvips.Image.new_from_memory(image.tobytes(), WIDTH, HEIGHT, 3, "uchar")
    return {
        "jpeg": saved(image, "JPEG", quality=90),
        "jpeg-444": saved(image, "JPEG", quality=90, subsampling=0),
        "jpeg-scans": saved(image, "JPEG", quality=90, progressive=True),
        "png": saved(image, "PNG"),
        "png-alpha": saved(transparent, "PNG"),
        "png-palette": saved(indices, "PNG"),
        "png-interlaced": vips.pngsave_buffer(interlace=True),
        "webp": saved(image, "WEBP", quality=85),
        "webp-lossless": saved(image, "WEBP", lossless=True),
        "gif": saved(indices, "GIF", interlace=0),
        "gif-interlaced": saved(indices, "GIF", interlace=1),
    }


def decoded_rows(pixels, kind):
    """Returns which rows are decoded: those that are neither transparent nor libjpeg's gray."""
    present = pixels[..., 3].min(axis=1) > 0
    if kind == "jpeg":
        present &= (abs(pixels[..., :3] - 128).max(axis=2) > 1).mean(axis=1) > 0.05
    return present


def compare(name, kind, ours, theirs):
    """Returns what is wrong with a result, or None, and a short account of the difference."""
    if theirs is None:
        return "Chromium draws nothing", "Chromium draws nothing"
    if ours is None:
        return "Chromium draws it", "refused"
    if ours.size != theirs.size:
        return f"{ours.size} instead of {theirs.size}", "size"
    first, second = multiplied(ours), multiplied(theirs)
    mine, other = decoded_rows(first, kind), decoded_rows(second, kind)
    account = f"{mine.sum()} rows, Chromium {other.sum()}"
    if not other.any():
        return None, account
    last = numpy.flatnonzero(other).max()
    margin = 16 if kind == "jpeg" else 2
    if name.startswith(("jpeg-scans", "png-interlaced")):
        mean = abs(first - second)[mine & other].mean()
        return (f"mean difference {mean:.1f}" if mean > 6 else None), f"{account}, mean {mean:.2f}"
    # Chromium's is the whole image.
    if kind == "webp":
        last = int(name[-4]) * HEIGHT // 4 - 24
    missing = ~mine[:max(0, last - margin)]
    # Chromium shows the rows that an interlaced GIF lacks as those above them.
    if name.startswith("gif-interlaced"):
        missing = missing & False
    common = mine & other
    if kind == "jpeg":
        common[max(0, min(last, numpy.flatnonzero(mine).max(initial=0)) - margin + 1):] = False
    largest = abs(first - second)[common].max(initial=0)
    account += f", largest {largest:.0f}"
    if missing.any():
        return f"{missing.sum()} rows are missing", account
    if not common.any() and last > margin:
        return "no row is decoded", account
    return (f"differs by {largest:.0f}" if largest > (4 if kind == "jpeg" else 2) else None), account


def main():
    sources = {}
    for name, data in files().items():
        for quarters in (1, 2, 3):
            sources[f"{name}-{quarters}of4"] = (name.split("-")[0], data[:len(data) * quarters // 4])
    trials = {}
    if os.environ.get("IMAGES"):
        for path in sorted(pathlib.Path(os.environ["IMAGES"]).iterdir()):
            if path.suffix[1:].lower() in TYPES:
                trials[path.name.replace(" ", "_")] = (TYPES[path.suffix[1:].lower()], path.read_bytes())
    failures, sheet = 0, Sheet(3, 2, (WIDTH, HEIGHT))
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(folder, {name: data for name, (_, data) in (sources | trials).items()})
        try:

            def loaded(name, *options):
                try:
                    return Image.open(setting.get(name, *options)).convert("RGBA")
                except subprocess.CalledProcessError:
                    return None

            trials = {name: source for name, source in trials.items() if loaded(name) is None}
            whole = {name: (name.split("-")[0], data) for name, data in files().items()}
            drawn = all_drawn(sources | trials | whole)
            for name, (kind, _) in sources.items():
                if kind == "webp":
                    assert drawn[name] is None, "Chromium draws truncated WebP by now"
                    drawn[name] = drawn[name.rsplit("-", 1)[0]]
            for name, (kind, _) in (sources | trials).items():
                ours, theirs = loaded(name, "--accept-damage"), drawn[name]
                problem, account = compare(name, kind, ours, theirs)
                if name in trials:
                    problem = None
                failures += problem is not None
                print(f"{'FAILED' if problem else 'ok'}: {name}: {problem or account}")
                sheet.add(f"{name}\n{account}", ours, theirs, is_wrong=problem is not None)
        finally:
            setting.stop()
    output = os.environ.get("OUTPUT") or ".build/damaged/sheet.png"
    sheet.save(output)
    print(f"{len(sources) - failures} passed, {failures} failed; the sheet is {output}: here on the left, Chromium on the right")
    sys.exit(1 if failures else 0)


main()
