#!/usr/bin/env python3
"""fuzz-seeds.py DIRECTORY: writes a seed corpus for each target of Fuzz into DIRECTORY/TARGET.

Messages come from the committed samples of the wire format, images are made here, without loss of time: small, of every
kind that the codecs know. Needs Pillow (Debian: python3-pil). The same files every time.
"""

import base64
import gzip
import hashlib
import io
import json
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

from PIL import Image

root = pathlib.Path(__file__).resolve().parent.parent
output = pathlib.Path(sys.argv[1])


def write(target, name, data):
    folder = output / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def packed(value):
    """JSON in the packed form of JSONForm."""
    match value:
        case None | bool():
            return b"n" if value is None else b"ft"[value : value + 1]
        case str():
            return b'"' + struct.pack("<I", len(value.encode())) + value.encode()
        case int():
            return b"#" + struct.pack("<q", value)
        case float():
            return b"~" + struct.pack("<d", value)
        case list():
            return b"[" + b"".join(map(packed, value)) + b"]"
        case dict():
            return b"{" + b"".join(packed(name) + packed(member) for name, member in value.items()) + b"}"


# Messages

for path in sorted(root.glob("Tests/*/Golden/*.json")):
    text = path.read_bytes().rstrip(b"\n")
    write("json", path.stem, text)
    frame = struct.pack(">I", len(text)) + text
    # Two pieces; behind the frame, as much payload as its first byte says.
    write("frames", path.stem, bytes([2, 1, 5]) + frame + bytes(ord("{")) + frame)
    if path.stem.startswith("client-"):
        write("client-messages", path.stem, text)
    elif path.stem.startswith("reply-"):
        write("replies", path.stem, text)
    elif path.stem.startswith(("decode-", "fetch-", "store-")):
        write("worker-messages", path.stem, text)
        write("worker-messages", path.stem + "-packed", packed(json.loads(text)))

steps = [
    b'{"crop":{"x":1,"y":2,"width":3,"height":4},"width":5,"steps":[{"op":"rotate","degrees":90},{"op":"flip","axis":"vertical"}]}',
    b'{"steps":[{"op":"round","circle":true},{"op":"sharpen","sigma":1.5},{"op":"pad","width":9,"height":11,"color":"#01020304"}]}',
    b'{"steps":[{"op":"blur","sigma":0.7},{"op":"blur","sigma":20},{"op":"round","radius":2.5},{"op":"background","color":"#abcdef"}]}',
    b'{"steps":[{"op":"sepia"},{"op":"contrast","amount":2},{"op":"hue-rotate","degrees":-30},{"op":"tint","color":"#ff000080"}]}',
]
for index, text in enumerate(steps):
    write("steps", f"list-{index}", text)

response = b'"response":{"status":200,"requestedAt":1,"receivedAt":2,"etag":"\\"a\\"","cacheControl":"max-age=60"}'
digest = b'"' + b"0" * 64 + b'"'
write("disk-entries", "original", b"\1" + b'{"created":1,"original":{"key":"abc","url":"http://h/","owner":7,"digest":'
      + digest + b',"bytes":3,' + response + b',"varyKey":"accept: x\\n"}}')
write("disk-entries", "raster", b"\1" + b'{"created":1,"digest":' + digest + b',"raster":{"original":' + digest
      + b',"form":"full","format":"png","sourceWidth":4,"sourceHeight":2,"frameCount":1,"width":2,"height":1}}')
write("disk-entries", "footer", b"\0" + b"body{}" + b"0" * 64 + struct.pack(">II", 2, 2) + b"imgcache")

write("shared-records", "unshared", b"\1" + b'{"key":' + digest + b',"expires":9}')
write("shared-records", "failure", b"\1" + b'{"key":' + digest + b',"expires":9,"status":404}')
# The digest of three bytes of 7, which the target adds.
seven = hashlib.sha256(b"\7" * 3).hexdigest().encode()
write("shared-records", "original", b"\1" + b'{"key":' + digest + b',"expires":9,"digest":"' + seven + b'","bytes":3,' + response + b"}")

dates = ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
controls = ["max-age=60, s-maxage=70", 'no-cache="set-cookie", private', "no-store, must-understand, public",
            "stale-while-revalidate=5,stale-if-error=6,must-revalidate", "immutable, max-age=\"9\", max-age=9"]
for index, control in enumerate(controls):
    date = dates[index % 3]
    lines = [date, "12, 5", control, date, '"tag"', date, "Accept, Cookie" if index else "*", "image/png", "a b,  c"]
    write("http-caching", f"response-{index}", bytes([50, index, 7, index, 9]) + "\n".join(lines).encode())
header = "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 {}\r\nDate: {}\r\nCache-Control: {}\r\nVary: a\r\nvary: b\r\nETag: \"x\"\r\n"
header += "Content-Range: bytes 5-9/10\r\nContent-Length: 5\r\nLocation: {}\r\nRetry-After: 7\r\nAge: 1\r\n\r\n"
header += "#HttpOnly_.h.test\tTRUE\t/\tTRUE\t2000000000\tname\tvalue\nh.test\tFALSE\t/\tFALSE\t0\tn\tv\n"
for index, location in enumerate(["/b?c d", "http://other.test/", "//h.test:8/ü", "data:x", "https://u:p@h.test/#f"]):
    text = header.format("206 Partial" if index else "302 Found", dates[index % 3], controls[index], location)
    write("response-headers", f"header-{index}", text.encode())
for index, text in enumerate([
    "http://example.test/a b?c=\"d\"#e", "HTTPS://EXAMPLE.test:443", "http://[2001:db8::1]:8080/", "http://ä.test/ü",
    "2001:db8::1", "::ffff:192.0.2.1", "64:ff9b::10.0.0.1", "192.0.2.1", "10.0.0.0/8", "fe80::/10", "::/0",
]):
    write("urls", f"text-{index}", text.encode())

# Images

numbers = random.Random(1)
side = 19


def sample(mode):
    bands = len(Image.new(mode, (1, 1)).getbands())
    data = bytes((x * 13 * (band + 1) + y * 7 + numbers.randrange(20)) % 256
                 for y in range(side) for x in range(side) for band in range(bands))
    return Image.frombytes(mode, (side, side), data)


def encoded(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(color, depth, interlace, stored, extra=b""):
    """A PNG of noise; stored data keeps its meaning when its bytes change."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    rows = b""
    for left, top, across, down in passes if interlace else [(0, 0, 1, 1)]:
        width = len(range(left, side, across))
        for _ in range(top, side, down):
            size = (width * channels * depth + 7) // 8
            rows += bytes([numbers.randrange(5)]) + bytes(numbers.randrange(256) for _ in range(size))
    header = struct.pack(">IIBBBBB", side, side, depth, color, 0, 0, interlace)
    palette = chunk(b"PLTE", bytes(numbers.randrange(256) for _ in range(3 << depth))) if color == 3 else b""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + palette + extra
            + chunk(b"IDAT", zlib.compress(rows, 0 if stored else 9)) + chunk(b"IEND", b""))


def exif(orientation):
    return b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0" + bytes([orientation]) + b"\0" * 7


files = {"png": {}, "jpeg": {}, "webp": {}, "gif": {}, "animation": {}}
for color, depths in {0: [1, 2, 4, 8, 16], 2: [8, 16], 3: [1, 2, 4, 8], 4: [8, 16], 6: [8, 16]}.items():
    for depth in depths:
        for interlace in [0, 1]:
            files["png"][f"{color}-{depth}-{interlace}"] = png(color, depth, interlace, depth != 8)
transparent = {0: b"\0\1", 2: b"\0\1\0\2\0\3", 3: b"\0\x80\xff"}
for color, alpha in transparent.items():
    files["png"][f"{color}-trns"] = png(color, 8, 0, True, chunk(b"tRNS", alpha))
extra = (chunk(b"gAMA", struct.pack(">I", 45455)) + chunk(b"iCCP", b"x\0\0" + zlib.compress(b"profile" * 9))
         + chunk(b"tEXt", b"a\0b") + chunk(b"zTXt", b"a\0\0" + zlib.compress(b"text")) + chunk(b"eXIf", exif(6))
         + chunk(b"acTL", struct.pack(">II", 3, 0)) + chunk(b"sBIT", b"\5\5\5"))
files["png"]["chunks"] = png(2, 8, 0, True, extra)

for mode in ["L", "RGB", "CMYK"]:
    for progressive in [False, True]:
        name = f"{mode}-{'progressive' if progressive else 'baseline'}"
        files["jpeg"][name] = encoded(sample(mode), "JPEG", quality=70, progressive=progressive)
for subsampling in [0, 1, 2]:
    files["jpeg"][f"subsampled-{subsampling}"] = encoded(sample("RGB"), "JPEG", quality=30, subsampling=subsampling)
files["jpeg"]["exif"] = encoded(sample("RGB"), "JPEG", exif=b"Exif\0\0" + exif(6), icc_profile=b"profile" * 30)

for mode in ["RGB", "RGBA"]:
    files["webp"][f"{mode}-lossy"] = encoded(sample(mode), "WEBP", quality=50)
    files["webp"][f"{mode}-lossless"] = encoded(sample(mode), "WEBP", lossless=True)
few = sample("RGBA").quantize(5).convert("RGBA")
files["webp"]["palette"] = encoded(few, "WEBP", lossless=True)
files["webp"]["exif"] = encoded(sample("RGB"), "WEBP", exif=exif(8))
for lossless in [False, True]:
    frames = [sample("RGBA") for _ in range(2)]
    files["webp"][f"animation-{lossless}"] = encoded(
        sample("RGBA"), "WEBP", save_all=True, append_images=frames, lossless=lossless, duration=9)

def converted(command, kind, *pictures):
    """Returns what a tool makes of PNG files, for which IN stands in its command, as OUT does for the result."""
    with tempfile.TemporaryDirectory() as folder:
        places = {"IN": [f"{folder}/{number}.png" for number in range(len(pictures))], "OUT": [f"{folder}/result.{kind}"]}
        for place, picture in zip(places["IN"], pictures):
            pathlib.Path(place).write_bytes(picture)
        words = [place for word in command.split() for place in places.get(word, [word])]
        subprocess.run(words, check=True, capture_output=True)
        return pathlib.Path(*places["OUT"]).read_bytes()


# What the worker warms up with, and, where libavif's tools are (Debian: libavif-bin), every kind there is.
for family, name in {"avif": "AVIF", "heif": "HEIF", "jp2": "JP2", "jxl": "JXL"}.items():
    source = (root / f"Sources/imgworker-{family}/Small{name}.swift").read_text()
    files[family] = {"small": bytes.fromhex(source.split('"""')[1].replace("\\", ""))}
if shutil.which("avifenc"):
    picture = encoded(sample("RGBA").resize((64, 64)), "PNG")
    for name, options in {
        "420-8": "-y 420", "422-10": "-y 422 -d 10", "444-12": "-y 444 -d 12", "400-8": "-y 400", "lossless": "-l",
        "premultiplied": "-p", "turned": "--irot 1 --imir 0", "cropped": "--crop 2,4,16,8", "wide": "--cicp 9/16/9",
        "grain": "-a film-grain-test=1", "limited": "-r limited",
    }.items():
        files["avif"][name] = converted(f"avifenc -s 8 {options} IN OUT", "avif", picture)
    pictures = [encoded(sample("RGBA").resize((32, 24)), "PNG") for _ in range(4)]
    for name, options in {"lossy": "-y 420 -s 8", "hidden": "-y 444 -s 6", "keys": "-y 420 -d 10 -s 8 --keyframe 2"}.items():
        sequence = converted(f"avifenc --fps 5 {options} IN OUT", "avif", *pictures)
        files["avif"][f"sequence-{name}"] = files["animation"][f"avif-{name}"] = sequence
    for name, data in files["avif"].items():
        for step in [0, 9]:
            write("avif-samples", f"{name}-{step}", bytes([step]) + data)

# Where their tools are (Debian: libheif-examples, libjxl-tools, libopenjp2-tools), every kind of HEIC, JPEG XL and JPEG 2000.
for mode in ["RGB", "RGBA", "L"]:
    picture = encoded(sample(mode).resize((40, 24)), "PNG")
    for name, options in {"plain": "-q 50", "444": "-q 50 -p chroma=444", "lossless": "-L", "10": "-q 50 -b 10"}.items():
        if shutil.which("heif-enc"):
            files["heif"][f"{mode}-{name}"] = converted(f"heif-enc {options} IN -o OUT", "heic", picture)
    for name, options in {"lossy": "-d 2", "lossless": "-d 0 -e 3", "modular": "-d 1 -m 1 -R 1", "box": "-d 1 --container=1"}.items():
        if shutil.which("cjxl"):
            files["jxl"][f"{mode}-{name}"] = converted(f"cjxl IN OUT {options}", "jxl", picture)
if shutil.which("cjxl"):
    frames = [sample("RGBA").resize((32, 24)) for _ in range(4)]
    picture = encoded(frames[0], "PNG", save_all=True, append_images=frames[1:], duration=[50, 100, 30, 70])
    files["jxl"]["animation"] = files["animation"]["jxl"] = converted("cjxl IN -d 0 OUT", "jxl", picture)
if shutil.which("opj_compress"):
    for mode in ["RGB", "RGBA", "L", "LA"]:
        picture = encoded(sample(mode).resize((40, 24)), "PNG")
        for name, options in {
            "lossless.jp2": "-n 3", "lossy.j2k": "-I -r 5 -n 3", "tiles.jp2": "-t 16,16 -n 2", "layers.j2k": "-r 20,5,1 -p RPCL -n 3",
            "precincts.j2k": "-n 2 -c [16,16] -b 4,4", "offset.jp2": "-d 3,5 -T 1,2 -t 20,20 -n 2", "styles.j2k": "-M 63 -n 3",
        }.items():
            files["jp2"][f"{mode}-{name}"] = converted(f"opj_compress -i IN -o OUT {options}", name[-3:], picture)

files["tiff"] = {}
for mode in ["L", "RGB", "RGBA", "CMYK", "P", "1", "LA", "YCbCr", "LAB", "I;16"]:
    compressions = {"1": ["raw", "group3", "group4", "tiff_ccitt"], "RGB": ["raw", "tiff_lzw", "tiff_deflate", "packbits", "jpeg", "lzma", "zstd"]}
    for compression in compressions.get(mode, ["raw", "tiff_lzw"]):
        picture = sample("L").convert("I;16") if mode == "I;16" else sample("RGBA").convert(mode)
        files["tiff"][f"{mode}-{compression}".replace(";", "")] = encoded(
            picture, "TIFF", compression=compression, tiffinfo={274: 6, 278: 5})

# Without a writer of QOI, chunks of all kinds, of any pixels.
files |= {target: {} for target in ("bmp", "ico", "pnm", "qoi", "tga")}
for mode in ["1", "L", "P", "RGB", "RGBA"]:
    picture = sample("RGBA").convert(mode)
    files["bmp"][mode] = encoded(picture, "BMP")
    if mode != "1": files["tga"][mode] = encoded(picture, "TGA")
    if mode not in ("1", "RGBA"): files["tga"][f"{mode}-packed"] = encoded(picture, "TGA", compression="tga_rle")
    if mode in ("1", "L", "RGB"): files["pnm"][mode] = encoded(picture, "PPM")
header = struct.pack("<IiiHHIIiiII", 40, 9, 4, 1, 8, 1, 0, 0, 0, 4, 0) + bytes(range(16))
files["bmp"]["runs"] = b"BM" + struct.pack("<III", 0, 0, 14 + len(header)) + header + bytes(
    [3, 1, 0, 3, 1, 2, 3, 0, 0, 0, 0, 2, 2, 1, 9, 2, 0, 0, 4, 3, 0, 1])
header = struct.pack("<IiiHHIIiiII4I", 56, 3, -2, 1, 32, 3, 0, 0, 0, 0, 0, 255, 65280, 255 << 16, 255 << 24)
files["bmp"]["masks"] = b"BM" + struct.pack("<III", 0, 0, 14 + len(header)) + header + bytes(range(24))
for form in ["bmp", "png"]:
    files["ico"][form] = encoded(sample("RGBA"), "ICO", sizes=[(4, 4), (8, 8)], bitmap_format=form)
files["ico"]["cursor"] = b"\0\0\2" + files["ico"]["bmp"][3:]
files["pnm"] |= {"P1": b"P1\n# c\n3 2\n101 010", "P2": b"P2 3 1 9 1 2 3 ", "P3": b"P3 1 1 999 1 20 300 ", "P5-16": b"P5 2 1 999\nabcd",
    "P7": b"P7\nWIDTH 2\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\nabcdefgh"}
for channels, space in [(3, 0), (4, 0), (4, 1)]:
    files["qoi"][f"{channels}-{space}"] = b"qoif" + struct.pack(">IIBB", 7, 5, channels, space) + bytes(
        [0xFE, 1, 2, 3, 0xFF, 4, 5, 6, 7, 0x5A, 0x9F, 0x77, 0x35, 0xC5, 0x66, 0xA3, 0x12, 0xD0, 0, 0, 0, 0, 0, 0, 0, 1])

files["svg"] = {}
for name, content in {
    "shapes": '<rect x="10%" width="5" height="7" rx="2"/><circle r="4" style="fill:#0a0"/><path d="M1 2L3 4C1 2 3 4 5 6Z" stroke="red"/>',
    "paints": '<linearGradient id="a"><stop offset=".5" stop-color="red"/></linearGradient><pattern id="p" width="4" height="4">'
    '<rect width="2" height="2"/></pattern><rect fill="url(#a)" width="9" height="9"/><rect fill="url(#p)" width="9" height="9"/>',
    "filter": '<filter id="f"><feGaussianBlur stdDeviation="2"/><feOffset dx="2"/><feMerge><feMergeNode/></feMerge></filter>'
    '<g filter="url(#f)" opacity=".5"><rect width="9" height="9"/></g>',
    "noise": '<filter id="f"><feTurbulence baseFrequency=".1" numOctaves="2"/><feConvolveMatrix order="3" '
    'kernelMatrix="1 2 1 2 3 2 1 2 1"/><feMorphology radius="2"/></filter><rect width="20" height="20" filter="url(#f)"/>',
    "light": '<filter id="f"><feDiffuseLighting lighting-color="red"><fePointLight x="1" y="2" z="3"/></feDiffuseLighting>'
    '<feDisplacementMap in2="SourceGraphic" scale="3"/></filter><rect width="20" height="20" filter="url(#f)"/>',
    "clip": '<clipPath id="c"><circle r="9"/></clipPath><mask id="m"><rect width="9" height="9" fill="#fff"/></mask>'
    '<use href="#u" clip-path="url(#c)" mask="url(#m)"/><symbol id="u" viewBox="0 0 2 2"><path d="M0 0h2v2z"/></symbol>',
    "text": '<style>.a{font-size:9px;fill:blue}</style><text class="a" x="1" y="9">Ab<tspan dx="2">c</tspan></text>',
}.items():
    files["svg"][name] = f'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20" viewBox="0 0 40 20">{content}</svg>'.encode()
files["svg"]["entity"] = b'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY c "#369">]><svg xmlns="http://www.w3.org/2000/svg" width="10mm"><rect width="9" height="9" fill="&c;"/></svg>'

for name, content in {
    "entities": '<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY a "&b;<g>&#38;#60;</g>"><!ENTITY b "<path d=\'M0 0h9\'/>"><!-- c -->'
    '<!ATTLIST g id CDATA "&c;"><!ENTITY c "#3\'69">]><svg xmlns="http://www.w3.org/2000/svg">&a;<g fill="&c;"/><![CDATA[&a;]]></svg>',
    "references": '<svg xmlns="http://www.w3.org/2000/svg"><image width="9" height="9" href="data:image/svg+xml,&lt;svg '
    'xmlns=&quot;http://www.w3.org/2000/svg&quot;>&#60;path d=\'M0 0h9v9z\'/>%3C/svg>"/></svg>',
}.items():
    files["svg"][name] = content.encode()
for encoding in ["iso-8859-1", "windows-1251", "shift_jis", "utf-16"]:
    text = f'<?xml version="1.0" encoding="{encoding}"?><svg xmlns="http://www.w3.org/2000/svg"><text>A</text></svg>'
    files["svg"][encoding] = text.encode(encoding)
files["svg"]["compressed"] = gzip.compress(files["svg"]["paints"], mtime=0)
files["svg"]["images"] = '<svg xmlns="http://www.w3.org/2000/svg">{}</svg>'.format("".join(
    f'<image width="9" height="9" href="data:{kind};base64,{base64.b64encode(data).decode()}"/>' for kind, data in [
        ("image/svg+xml", files["svg"]["shapes"]), ("image/svg+xml", files["svg"]["compressed"]),
        ("", encoded(sample("RGB").resize((9, 9)), "PNG")), ("image/gif", encoded(sample("L").resize((9, 9)), "GIF"))])).encode()

# Animations of all disposals, and of both ways of blending where there are two.
frames = [sample("RGBA") for _ in range(5)]
flat = [frame.quantize(6) for frame in frames]
for index, frame in enumerate(flat):
    files["gif"][f"still-{index}"] = encoded(frame, "GIF", interlace=index % 2)
files["gif"]["animation"] = encoded(
    flat[0], "GIF", save_all=True, append_images=flat[1:], disposal=[0, 1, 2, 3, 1], duration=30, loop=2, transparency=1)
files["animation"]["png"] = encoded(
    frames[0], "PNG", save_all=True, append_images=frames[1:], disposal=[0, 1, 2, 1, 0], blend=[0, 1, 0, 1, 1])
files["animation"]["png-outside"] = encoded(
    frames[0], "PNG", save_all=True, append_images=frames[1:], default_image=True, duration=40, loop=3)
files["animation"]["gif"] = files["gif"]["animation"]
for lossless in [False, True]:
    files["animation"][f"webp-{lossless}"] = files["webp"][f"animation-{lossless}"]

for target, images in files.items():
    for name, data in images.items():
        write(target, name, data)
        write("metadata", f"{target}-{name}", data)
        write("partial", f"{target}-{name}", data)
write("metadata", "exif", exif(3))
