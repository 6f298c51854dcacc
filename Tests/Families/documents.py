"""SVG documents, and files that demand more than they should get."""

import base64
import gzip
import struct

from PIL import Image

from pictures import saved

NAMES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
SHAPES = (
    '<rect x="10%" y="10%" width="80%" height="80%" fill="#c33" rx="5"/>'
    '<circle cx="50%" cy="50%" r="20" fill="#39f" fill-opacity=".6" stroke="#000" stroke-width="2"/>')


def document(content, size='width="160" height="100"'):
    """Returns a document."""
    return f"<svg {NAMES} {size}>{content}</svg>"


IMAGES = {
    "size": document(SHAPES, 'width="120" height="80"'),
    "size-and-box": document(SHAPES, 'width="120" height="80" viewBox="0 0 60 60"'),
    "box": document(SHAPES, 'viewBox="0 0 100 100"'),
    "box-wide": document(SHAPES, 'viewBox="0 0 400 100"'),
    "no-size": document(SHAPES, ""),
    "percent": document(SHAPES, 'width="100%" height="100%" viewBox="0 0 200 100"'),
    "percent-50": document(SHAPES, 'width="50%" height="50%"'),
    "width": document(SHAPES, 'width="90"'),
    "width-and-box": document(SHAPES, 'width="90" viewBox="0 0 30 60"'),
    "height-and-box": document(SHAPES, 'height="90" viewBox="0 0 30 60"'),
    "millimetres": document(SHAPES, 'width="50mm" height="1in"'),
    "points": document(SHAPES, 'width="72pt" height="6pc"'),
    "em": document(SHAPES, 'width="10em" height="5em"'),
    "fraction": document(SHAPES, 'width="24.5" height="30.4"'),
    "stretched": document(SHAPES, 'viewBox="0 0 100 100" preserveAspectRatio="none"'),
    "gradient": document(
        '<defs><linearGradient id="g"><stop offset="0" stop-color="#f00"/><stop offset="1" stop-color="#00f" stop-opacity=".3"/>'
        '</linearGradient><radialGradient id="r"><stop offset="0" stop-color="#ff0"/><stop offset="1" stop-color="#080"/></radialGradient>'
        '<clipPath id="c"><circle cx="80" cy="50" r="40"/></clipPath><mask id="m"><rect width="160" height="50" fill="#fff"/></mask></defs>'
        '<rect width="160" height="100" fill="url(#g)"/><rect width="160" height="100" fill="url(#r)" clip-path="url(#c)"/>'
        '<g mask="url(#m)" opacity=".5"><path d="M0 0L160 100L0 100Z"/></g>'),
    "filter": document(
        '<filter id="f"><feGaussianBlur stdDeviation="4"/></filter><filter id="s"><feGaussianBlur in="SourceAlpha" stdDeviation="2"/>'
        '<feOffset dx="3" dy="3"/><feMerge><feMergeNode/><feMergeNode in="SourceGraphic"/></feMerge></filter>'
        '<rect x="20" y="20" width="60" height="60" fill="#c0c" filter="url(#f)"/>'
        '<rect x="100" y="20" width="40" height="60" fill="#0c6" filter="url(#s)"/>'),
    "noise": document(
        '<filter id="f" x="0" y="0" width="1" height="1"><feTurbulence baseFrequency=".05" numOctaves="3"/><feDiffuseLighting '
        'lighting-color="#fff"><feDistantLight azimuth="45" elevation="60"/></feDiffuseLighting></filter>'
        '<rect width="160" height="100" filter="url(#f)"/>'),
    "text": document('<text x="10" y="40" font-family="DejaVu Sans" font-size="32">Hamburg 42</text>', 'width="200" height="60"'),
    "style": document(
        "<style>.a{fill:#0a0;stroke:#00a;stroke-width:4} #b{fill:none;stroke:#a00;stroke-dasharray:6 3}</style>"
        '<circle class="a" cx="50" cy="50" r="30"/><rect id="b" x="5" y="5" width="90" height="90"/>', 'width="100" height="100"'),
    "use": document(
        '<symbol id="s" viewBox="0 0 10 10"><path d="M0 5L5 0L10 5L5 10Z"/></symbol><use xlink:href="#s" x="10" y="10" width="30" '
        'height="30" fill="red"/><use href="#s" x="50" y="50" width="40" height="40" fill="blue" transform="rotate(10 70 70)"/>'),
    "entity": '<?xml version="1.0"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd" '
    '[<!ENTITY c "#336699">]>' + document('<rect width="50" height="50" fill="&c;"/>', 'width="50" height="50"'),
    "reference-free": document('<rect width="10" height="10" fill="lime"/>', 'width="60" height="60"'),
    "pattern": document(
        '<pattern id="p" width="20" height="20" patternUnits="userSpaceOnUse"><circle cx="10" cy="10" r="6" fill="#a30"/></pattern>'
        '<rect width="100" height="100" fill="url(#p)"/>', 'width="100" height="100"'),
}



def image(data, kind, size='width="120" height="80"'):
    """Returns an image in a `data:` URL."""
    return f'<image {size} href="data:{kind};base64,{base64.b64encode(data).decode()}"/>'


def encoded(kind):
    """Returns a small image of another format."""
    return saved(Image.linear_gradient("L").resize((120, 80)).convert("P" if kind == "GIF" else "RGB"), kind)


SMALL = document(SHAPES, 'width="120" height="80"')
IMAGES |= {
    "entity-elements": '<!DOCTYPE svg [<!ENTITY s "<circle cx=\'60\' cy=\'40\' r=\'&r;\' fill=\'#369\'/>"><!ENTITY r "1&#x32;">]>' + document(
        "&s;", 'width="120" height="80"'),
    "nested": document(image(SMALL.encode(), "image/svg+xml"), 'width="120" height="80"'),
    "nested-twice": document(image(document(image(SMALL.encode(), "image/svg+xml"), 'width="120" height="80"').encode(), "image/svg+xml")),
    "nested-gif": document(image(encoded("GIF"), "image/gif"), 'width="120" height="80"'),
    "nested-png-untyped": document(image(encoded("PNG"), ""), 'width="120" height="80"'),
    "octaves-negative": document(
        '<filter id="f"><feTurbulence baseFrequency=".1" numOctaves="-1"/></filter><rect width="9" height="9" filter="url(#f)"/>'),
    "octaves-zero": document(
        '<filter id="f"><feTurbulence baseFrequency=".1" numOctaves="0"/></filter><rect width="9" height="9" filter="url(#f)"/>'),
    "matrix-negative": document(
        '<filter id="f"><feConvolveMatrix order="-3" kernelMatrix="1 1 1 1 1 1 1 1 1"/></filter>'
        '<rect width="50" height="50" fill="lime"/><rect width="9" height="9" filter="url(#f)"/>'),
    "prologue": "<!--" + " -" * 30000 + " -->" + SMALL,
}

# A rule that applies to an element with the same name in any encoding.
NAMED = '<?xml version="1.0" encoding="{}"?>' + document(
    '<style>#é{{fill:#369}}</style><rect id="é" width="120" height="80"/>', 'width="120" height="80"')
IMAGES["small"], IMAGES["utf-8"] = SMALL, NAMED.format("utf-8")
# Files that Chromium does not draw, and the documents that they contain.
CONVERTED = {"svgz": (gzip.compress(SMALL.encode()), "small")} | {
    name: (NAMED.format(name).encode(name), "utf-8")
    for name in ["iso-8859-1", "windows-1252", "iso-8859-2", "iso-8859-15", "windows-1254", "gb18030", "utf-16"]
} | {"utf-16-unmarked": (NAMED.format("UTF-16").encode("utf-16-le"), "utf-8")}

# Documents with percentages of a size that they do not state.
UNSIZED = ["no-size", "percent-50", "width"]

REFERENCES = document(
    '<image xlink:href="file:///usr/share/pixmaps/debian-logo.png" width="60" height="60"/><image href="http://127.0.0.1:1/x.png" '
    'width="60" height="60"/><rect width="10" height="10" fill="lime"/>', 'width="60" height="60"')

# Documents whose antialiasing or arithmetic differs more.
LOOSE = ["text", "noise", "pattern"]


def bombs():
    """Returns SVG documents with large demands."""
    square, large = 'width="50" height="50"', 'width="1000" height="1000"'
    whole = '<rect width="1000" height="1000" filter="url(#f)"/>'
    nested = "".join(f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(9))
    found = {
        "entities": f'<!DOCTYPE svg [<!ENTITY a "aaaaaaaaaa">{nested}]>' + document("<text>&j;</text>", square),
        "expansion": f'<!DOCTYPE svg [<!ENTITY a "{"a" * 10000}">]>' + document(f"<text>{'&a;' * 1000}</text>", square),
        "external-entity": '<!DOCTYPE svg [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + document("<text>&a;</text>", square),
        "elements": document("<g/>" * 300000, square),
        "depth": document("<g>" * 5000 + "</g>" * 5000, square),
        "filters": document(f'<filter id="f">{"<feOffset/>" * 2000}</filter>{whole}', large),
        "groups": document('<g opacity=".9">' * 200 + '<rect width="9" height="9"/>' + "</g>" * 200, 'width="4000" height="4000"'),
        "uses": document('<rect id="a0" width="1" height="1"/>' + "".join(
            f'<g id="a{i + 1}">{f"""<use href="#a{i}"/>""" * 10}</g>' for i in range(9)), square),
        "side": document(SHAPES, 'width="100000" height="5"'),
        "octaves": document(f'<filter id="f"><feTurbulence baseFrequency=".05" numOctaves="100000"/></filter>{whole}', large),
        "matrix": document(f'<filter id="f"><feConvolveMatrix order="100" kernelMatrix="{"1 " * 10000}"/></filter>{whole}', large),
        "encoding": '<?xml version="1.0" encoding="UTF-7"?>' + document("", square),
        "entity-loop": '<!DOCTYPE svg [<!ENTITY a "&b;"><!ENTITY b "&a;">]>' + document("&a;", square),
        "nested": document("".join(image(gzip.compress(document(" " * (9 << 20)).encode()), "image/svg+xml") for _ in range(20)), square),
        "nested-side": document(image(document("", 'width="30000" height="30000"').encode(), "image/svg+xml", ""), square),
        "pattern-loop": document(
            '<pattern id="p" width="5" height="5"><rect width="50" height="50" fill="url(#p)"/></pattern>'
            '<rect width="50" height="50" fill="url(#p)"/>', square),
        "dashes": document('<path d="M0 0L500000 500000" stroke="#000" stroke-dasharray=".0001"/>', large),
    }
    return {f"svg-{name}": text.encode() for name, text in found.items()} | {
        "svg-compressed": gzip.compress(document(" " * (200 << 20), square).encode())}


# Bombs that are decoded in a bounded time.
HARMLESS = ["svg-pattern-loop", "svg-dashes"]


def grid_bomb(heic):
    """Returns a grid of 65,280 references to one tile of 64 × 64 pixels, which declares few pixels of its own."""
    configuration, data = heic.coded(Image.new("RGB", (64, 64), "red"), quality=50)
    shape = struct.pack(">BBBBHH", 0, 0, 254, 255, 640, 640)
    properties = [heic.size(640, 640), heic.size(64, 64), heic.box("hvcC", configuration)]
    return heic.file(
        [("grid", shape), ("hvc1", data)], properties, [[1], [2, 3]], references=[("dimg", 1, [2] * 65280)])


def tiff_bomb(width, height):
    """Returns a TIFF of this size in one strip, whose directory is its own successor."""
    tags = [(256, width), (257, height), (258, 8), (259, 1), (262, 1), (273, 8), (278, height), (279, 4)]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    return struct.pack("<2sHI", b"II", 42, 8) + struct.pack("<H", len(tags)) + entries + struct.pack("<I", 8)
