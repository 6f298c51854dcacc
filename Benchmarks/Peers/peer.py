"""What a program in Python does for itself, with Pillow or pyvips.

peer.py serve                      reads lines "thumbnail LIBRARY PATH SIDE", answers each with milliseconds
peer.py peak LIBRARY PATH SIDE     prints the bytes that one thumbnail adds to this process's memory at most
peer.py alone LIBRARY URL COUNT SIDE
                                   loads URL/0 ... URL/COUNT-1, makes each small, holds all, says "done", waits for
                                   the end of its input
peer.py versions                   prints what there is
"""
import gc
import http.client
import io
import sys
import time
import urllib.parse


class Pillow:
    def __init__(self):
        from PIL import Image, features

        self.image = Image
        self.version = f"Pillow {__import__('PIL').__version__} (libjpeg-turbo {features.version('libjpeg_turbo')})"

    def from_file(self, path, side):
        with self.image.open(path) as picture:
            picture.thumbnail((side, side))  # Calls draft() first.
            return picture

    def from_bytes(self, data, side):
        return self.from_file(io.BytesIO(data), side)


class Vips:
    def __init__(self):
        import pyvips

        pyvips.cache_set_max(0)
        self.image = pyvips.Image
        self.version = "pyvips {} (libvips {}.{}.{})".format(
            pyvips.__version__, *[pyvips.version(part) for part in range(3)]
        )

    def from_file(self, path, side):
        return self.image.thumbnail(path, side, size="down").write_to_memory()

    def from_bytes(self, data, side):
        # Four bytes a pixel, ready to be shown, as Pillow has them and the broker hands them out.
        picture = self.image.thumbnail_buffer(data, side, size="down")
        return picture.addalpha().write_to_memory()


LIBRARIES = {"pillow": Pillow, "pyvips": Vips}


def serve():
    libraries = {}
    for line in sys.stdin:
        _, name, path, side = line.split()
        if name not in libraries:
            libraries[name] = LIBRARIES[name]()
        begun = time.perf_counter()
        picture = libraries[name].from_file(path, int(side))
        taken = time.perf_counter() - begun
        del picture
        print(taken * 1000, flush=True)


def status(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))


def peak(name, path, side):
    library = LIBRARIES[name]()
    gc.collect()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # The peak begins anew.
    before = status("VmRSS")
    library.from_file(path, int(side))
    print(status("VmHWM") - before)


def alone(name, url, count, side):
    library = LIBRARIES[name]()
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port)
    pictures = []
    for number in range(int(count)):
        connection.request("GET", f"{parts.path}/{number}")
        pictures.append(library.from_bytes(connection.getresponse().read(), int(side)))
    connection.close()
    gc.collect()
    print("done", flush=True)
    sys.stdin.read()


def versions():
    for library in LIBRARIES.values():
        try:
            print(library().version)
        except ImportError:
            pass


{"serve": serve, "peak": peak, "alone": alone, "versions": versions}[sys.argv[1]](*sys.argv[2:])
