"""Compares crop, position and steps with Pillow, libvips and headless Chromium.

Each result is loaded with `imgbroker get`, all frames of an animation with the Python client. The largest difference of a channel,
with multiplied colour, is at most 2 of 255.
"""

import contextlib
import io
import json
import pathlib
import sys
import tempfile

import numpy
import pyvips
from PIL import Image, ImageDraw, ImageOps, ImageSequence

from browser import Browser
from drawing import drawn
from pictures import multiplied, saved
from setting import Setting

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients" / "python" / "src"))

import imgbroker

WIDTH, HEIGHT = 61, 43
# Everything is an edge, lies beside one, or is too narrow for a kernel.
SMALL = ((1, 1), (1, 9), (7, 1), (2, 3), (5, 64))


def scene(has_alpha, width=WIDTH, height=HEIGHT, seed=5):
    """Returns noise, stripes, flat parts and several levels of alpha, of an odd size. All colours multiplied by alpha are whole
    numbers: the browser stores them so, and functions would multiply its rounding."""
    random = numpy.random.default_rng(seed)
    pixels = random.integers(0, 18, (height, width, 4), dtype=numpy.uint8) * 15
    pixels[..., 3] = random.choice([0, 51, 85, 102, 153, 170, 204, 255], (height, width))
    pixels[:, 20:40] = [255, 0, 120, 255]
    pixels[:12, :, :3] = numpy.where(numpy.arange(width)[None, :, None] % 6 < 3, 255, 0)
    if not has_alpha:
        pixels[..., 3] = 255
    return Image.fromarray(pixels, "RGBA")


def animation(has_alpha):
    """Returns frames of different content as a WebP file without losses. The last is the usual scene."""
    frames = [scene(has_alpha, seed=seed) for seed in (6, 7, 5)]
    return saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], duration=100, lossless=True, exact=True)


# Pillow and libvips.


def mask(image, size, shape):
    """Returns the middle of the image with the alpha of a shape that Pillow draws 64 times larger."""
    left, top = (image.width - size[0]) // 2, (image.height - size[1]) // 2
    part = image.crop((left, top, left + size[0], top + size[1]))
    large = Image.new("L", (size[0] * 64, size[1] * 64))
    shape(ImageDraw.Draw(large), large.size)
    cover = numpy.asarray(large).reshape(size[1], 64, size[0], 64).mean((1, 3)) / 255
    pixels = numpy.asarray(part).copy()
    pixels[..., 3] = numpy.rint(pixels[..., 3] * cover)
    return Image.fromarray(pixels, "RGBA")


def over(image, color, size):
    canvas = Image.new("RGBA", size, color)
    canvas.alpha_composite(image, ((size[0] - image.width) // 2, (size[1] - image.height) // 2))
    return canvas


def vips_blur(sigma):
    """A Gaussian over repeated edges in floating point, with multiplied colour."""

    def blur(image):
        reach = int(5 * sigma) + 2
        pixels = numpy.ascontiguousarray(multiplied(image))
        height, width = pixels.shape[:2]
        source = pyvips.Image.new_from_memory(pixels.astype("float32").tobytes(), width, height, 4, "float")
        wide = source.embed(reach, reach, width + 2 * reach, height + 2 * reach, extend="copy")
        # Its own Gaussians end where their amplitude is still a thousandth.
        weights = numpy.exp(-0.5 * (numpy.arange(-reach, reach + 1) / sigma) ** 2)
        taps = pyvips.Image.new_from_array([(weights / weights.sum()).tolist()])
        smooth = wide.convsep(taps, precision="float").crop(reach, reach, width, height)
        return numpy.ndarray(buffer=smooth.write_to_memory(), dtype="float32", shape=(height, width, 4))

    return blur


def vips_sharpen(sigma, amount):
    """An unsharp mask in floating point, with multiplied colour."""

    def sharpen(image):
        pixels = multiplied(image)
        result = pixels + (pixels - vips_blur(sigma)(image)) * amount
        result[..., 3] = pixels[..., 3]
        return numpy.clip(result, 0, pixels[..., 3:])

    return sharpen


def circle(draw, size):
    # Pillow's corners are pixels, which belong to the shape.
    draw.ellipse((0, 0, size[0] - 1, size[1] - 1), fill=255)


def tinted(image):
    pixels = numpy.asarray(image).astype(float)
    pixels[..., :3] += (numpy.array([255, 128, 0]) - pixels[..., :3]) * 64 / 255
    return Image.fromarray(numpy.rint(pixels).astype(numpy.uint8), "RGBA")


LIBRARIES = {
    "rotate:degrees=90": lambda image: image.transpose(Image.Transpose.ROTATE_270),
    "rotate:degrees=180": lambda image: image.transpose(Image.Transpose.ROTATE_180),
    "rotate:degrees=270": lambda image: image.transpose(Image.Transpose.ROTATE_90),
    "flip:axis=horizontal": ImageOps.mirror,
    "flip:axis=vertical": ImageOps.flip,
    "pad:width=80,height=50,color=#20406080": lambda image: over(
        image, (0x20, 0x40, 0x60, 0x80), (max(image.width, 80), max(image.height, 50))),
    "pad:width=70,height=20": lambda image: over(image, (0, 0, 0, 0), (max(image.width, 70), max(image.height, 20))),
    "background:color=#336699": lambda image: over(image, (0x33, 0x66, 0x99, 255), image.size),
    "tint:color=#ff800040": tinted,
    "round:circle": lambda image: mask(image, (min(image.size),) * 2, circle),
    "round:radius=12": lambda image: mask(
        image, image.size, lambda draw, size: draw.rounded_rectangle((0, 0, size[0] - 1, size[1] - 1), 12 * 64, fill=255)),
    "blur:sigma=1": vips_blur(1),
    "blur:sigma=4.5": vips_blur(4.5),
    "blur:sigma=10": vips_blur(10),
    "blur:sigma=30": vips_blur(30),
    "sharpen:sigma=0.8": vips_sharpen(0.8, 1),
    "sharpen:sigma=3,amount=0.5": vips_sharpen(3, 0.5),
    "sharpen:sigma=12,amount=1.5": vips_sharpen(12, 1.5),
}

# Positions.


def photograph(seed, width, height):
    """Returns soft shapes of several colours, among them skin, over a gradient, as a photograph has them."""
    random = numpy.random.default_rng(seed)
    down = numpy.linspace(0, 1, height)[:, None, None]
    colors = random.integers(20, 200, (2, 3))
    pixels = colors[0] + (colors[1] - colors[0]) * down + numpy.zeros((height, width, 3))
    image = Image.fromarray(pixels.astype(numpy.uint8), "RGB")
    draw = ImageDraw.Draw(image)
    for _ in range(9):
        x, y = (int(random.integers(0, side)) for side in (width, height))
        radius = int(random.integers(5, 40))
        color = (220, 170, 140) if random.random() < 0.3 else tuple(int(value) for value in random.integers(0, 255, 3))
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=color)
    return image.convert("RGBA")


def placed(image, size, position):
    """Returns the left and top of the part that libvips chooses, without scaling."""
    source = pyvips.Image.new_from_memory(numpy.asarray(image.convert("RGB")).tobytes(), *image.size, 3, "uchar")
    part = source.copy(interpretation="srgb").smartcrop(*size, interesting=position)
    return -part.xoffset, -part.yoffset


def share(image, size, place):
    """Returns the score of a place in libvips' own map of `attention`, as a share of the highest score."""
    source = pyvips.Image.new_from_memory(numpy.asarray(image.convert("RGB")).tobytes(), *image.size, 3, "uchar")
    across, down = 32 / image.width, 32 / image.height
    color = source.copy(interpretation="srgb").resize(across, vscale=down).colourspace("xyz")
    luminance = color[1]
    laplacian = pyvips.Image.new_from_array([[0, -1, 0], [-1, 4, -1], [0, -1, 0]])
    edges = (luminance.conv(laplacian, precision="integer") * 5).abs()
    length = (color[0] ** 2 + color[1] ** 2 + color[2] ** 2) ** 0.5
    away = color / length - [0.78, 0.57, 0.44]
    skin = (away[0] ** 2 + away[1] ** 2 + away[2] ** 2) ** 0.5 * -100 + 100
    bright = luminance > 5
    total = edges + bright.ifthenelse(skin, 0) + bright.ifthenelse(color.colourspace("lab")[1], 0)
    smooth = total.gaussblur(max(1, numpy.hypot(size[0] * across, size[1] * down) / 10)).cast("float")
    scores = numpy.ndarray(buffer=smooth.write_to_memory(), dtype="float32", shape=(32, 32))
    # The cells over which the part may be centred: at the border of the image, all beyond.
    centers = []
    for start, side, part in zip(place, image.size, size):
        cells = [int(min(max(0, cell * side / 32 - part // 2), side - part)) for cell in range(32)]
        centers.append([cell for cell in range(32) if abs(cells[cell] - start) <= side / 32])
    return scores[numpy.ix_(centers[1], centers[0])].max() / scores.max()


def found(image, part):
    """Returns where a part of an image is; None if it is no part."""
    whole, piece = numpy.asarray(image.convert("RGB")), numpy.asarray(part.convert("RGB"))
    for top in range(image.height - part.height + 1):
        for left in range(image.width - part.width + 1):
            if (whole[top:top + part.height, left:left + part.width] == piece).all():
                return left, top
    return None


# CSS functions, by the step with the same meaning.
FUNCTIONS = {
    f"{name}:amount={amount}": f"{name}({amount})"
    for name, amounts in {
        "grayscale": (0.4, 1), "sepia": (0.4, 1), "invert": (0.3, 1), "brightness": (0, 0.5, 2.5),
        "contrast": (0, 0.5, 3), "saturate": (0, 0.5, 4), "opacity": (0, 0.35)}.items()
    for amount in amounts
} | {f"hue-rotate:degrees={degrees}": f"hue-rotate({degrees}deg)" for degrees in (-270, -30, 45, 120, 300)}


def in_browser():
    """Returns the scenes with each CSS function, by scene and step: straight alpha, as a canvas gives it."""
    with contextlib.closing(Browser()) as browser:
        return {
            (name, step): drawn(browser, "png", saved(scene(name == "alpha"), "PNG"), function=function)
            for name in ("alpha", "opaque") for step, function in FUNCTIONS.items()}


def parsed(step):
    """Returns a step of the command line as the object of a request."""
    name, _, fields = step.partition(":")
    result = {"op": name}
    for field in fields.split(","):
        key, _, value = field.partition("=")
        result[key] = value if value[:1] == "#" or value.isalpha() else json.loads(value) if value else True
    return result


def frames_of(client, data, step, folder):
    """Returns all frames of an animation after a step."""
    path = pathlib.Path(folder) / "animation.webp"
    path.write_bytes(data)
    image = client.get(path, frame="all", steps=[parsed(step)], alpha="straight")
    return [Image.fromarray(image.numpy(frame), "RGBA") for frame in range(len(image.frames))]


def main():
    failures = passed = 0

    def check(title, result, expected):
        nonlocal failures, passed
        expected = expected if isinstance(expected, numpy.ndarray) else multiplied(expected)
        result = multiplied(result)
        difference = abs(result - expected).max() if result.shape == expected.shape else 255
        passed += difference <= 2
        failures += difference > 2
        print(f"{'ok' if difference <= 2 else 'FAILED'}: {title}: {difference:.2f}")

    with tempfile.TemporaryDirectory() as folder:
        files = {name: saved(scene(name == "alpha"), "PNG") for name in ("alpha", "opaque")}
        files |= {f"{width}x{height}": saved(scene(True, width, height), "PNG") for width, height in SMALL}
        # One side is that of the box, so nothing is scaled.
        photographs = {
            f"photograph-{seed}": (photograph(seed, *sides), size)
            for seed, (sides, size) in enumerate([((320, 120), (120, 120)), ((150, 400), (150, 100)), ((300, 90), (200, 90))] * 6)}
        files |= {name: saved(image, "PNG") for name, (image, _) in photographs.items()}
        setting = Setting(folder, files)
        try:
            cases = []
            for name in ("alpha", "opaque"):
                image = scene(name == "alpha")
                cases.append((name, ("--crop", "7,9,50,30"), image.crop((7, 9, 57, 39))))
                cases += [(name, ("--step", step), make(image)) for step, make in LIBRARIES.items()]
            in_chromium = in_browser()
            cases += [(name, ("--step", step), image) for (name, step), image in in_chromium.items()]
            for width, height in SMALL:
                image = scene(True, width, height)
                cases += [(f"{width}x{height}", ("--step", step), make(image)) for step, make in LIBRARIES.items()]
            for name, options, expected in cases:
                check(f"{name} {options[1]}", Image.open(setting.get(name, *options)), expected)
            others = 0
            for name, (image, size) in photographs.items():
                for position in ("entropy", "attention"):
                    options = ("--width", str(size[0]), "--height", str(size[1]), "--fit", "cover", "--position", position)
                    place = found(image, Image.open(setting.get(name, *options)))
                    expected = placed(image, size, position)
                    # The filters that scale to the grid differ, so that another cell with nearly the same score may win.
                    is_near = place == expected or (
                        position == "attention" and place is not None and share(image, size, place) >= 0.97)
                    others += place != expected
                    passed += is_near
                    failures += not is_near
                    print(f"{'ok' if is_near else 'FAILED'}: {name} {position}: {place}, libvips {expected}")
            passed, failures = (passed, failures + 1) if others > 4 else (passed + 1, failures)
            with imgbroker.Client(setting.socket) as client:
                for name in ("alpha", "opaque"):
                    data = animation(name == "alpha")
                    expected = [frame.convert("RGBA") for frame in ImageSequence.Iterator(Image.open(io.BytesIO(data)))]
                    for step, make in LIBRARIES.items():
                        frames = frames_of(client, data, step, folder)
                        assert len(frames) == len(expected) == 3, len(frames)
                        for number, frame in enumerate(frames):
                            check(f"frame {number} of 3, {name} {step}", frame, make(expected[number]))
                    for step in FUNCTIONS:
                        last = frames_of(client, data, step, folder)[-1]
                        check(f"last frame, {name} {step}", last, in_chromium[name, step])
        finally:
            setting.stop()
    print(f"{passed} passed, {failures} failed")
    sys.exit(1 if failures else 0)


main()
