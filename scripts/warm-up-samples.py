#!/usr/bin/env python3
"""warm-up-samples.py: writes Sources/imgworker/WarmUpSamples.swift, the images that a decode worker decodes before it
enters its sandbox. Encoding them at each start would take longer than the rest of it. Needs Pillow (Debian: python3-pil).
"""

import io
import pathlib

from PIL import Image

SIDE = 16

target = pathlib.Path(__file__).resolve().parent.parent / "Sources/imgworker/WarmUpSamples.swift"


def sample_image(mode):
    image = Image.new(mode, (SIDE, SIDE))
    channels = len(mode)
    values = [(x * 16, y * 16, (x * y) % 256, 255 - x * y)[:channels] for y in range(SIDE) for x in range(SIDE)]
    image.putdata(values)
    return image


def encoded(mode, name, **options):
    output = io.BytesIO()
    sample_image(mode).save(output, name, **options)
    return output.getvalue()


samples = [
    ("JPEG with subsampled chroma.", "jpeg", encoded("RGB", "JPEG", quality=20, subsampling=2, optimize=True)),
    ("PNG with alpha.", "png", encoded("RGBA", "PNG")),
    ("Lossy WebP.", "lossyWebP", encoded("RGB", "WEBP", quality=20)),
    ("Lossless WebP.", "losslessWebP", encoded("RGBA", "WEBP", lossless=True)),
]

lines = [
    "// Written by scripts/warm-up-samples.py.",
    "",
    "import ImageDecoding",
    "",
    f"/// Images of {SIDE} × {SIDE} pixels, one for each decoder.",
    "enum WarmUpSamples {",
    "    /// All samples.",
    "    static let all = [" + ", ".join(name for _, name, _ in samples) + "]",
]
for comment, name, data in samples:
    lines += ["", f"    /// {comment}", f"    static let {name} = [UInt8](", '        hexadecimal: """']
    lines += ["            " + data[start : start + 52].hex() for start in range(0, len(data), 52)]
    lines.append('            """)')
lines.append("}")
target.write_text("\n".join(lines) + "\n")
