"""What a program in Python does for itself, with Pillow or pyvips.

peer.py serve                      reads lines "thumbnail LIBRARY PATH SIDE", answers each with milliseconds; answers
                                   "load LIBRARY" with "loaded"
peer.py peak LIBRARY PATH SIDE     prints the bytes that one thumbnail adds to this process's memory at most
peer.py alone LIBRARY URL COUNT SIDE
                                   loads URL/0 ... URL/COUNT-1, makes each small, holds all, says "done", waits for
                                   the end of its input
peer.py feed LIBRARY BASE FIRST COUNT STEP THREADS SIDE
                                   says "ready", waits for a line, loads BASE/FIRST, BASE/FIRST+STEP ... below COUNT
                                   from a server or files, each within SIDE pixels (0: in full size), keeps none, says
                                   the milliseconds of processor time, waits for the end of its input
peer.py files LIBRARY FOLDER COUNT SIDE EPOCHS SEED KEEPS
                                   reads FOLDER/0 ... FOLDER/COUNT-1 in random order, EPOCHS times, each within SIDE pixels
                                   (0: in full size, as RGB); with KEEPS 1, each only once, and keeps them; says "done",
                                   waits for the end of its input
peer.py steps                      says "ready", reads lines "blur|rounded PATH NUMBER", answers each with milliseconds
peer.py versions                   prints what there is
"""
import gc
import http.client
import io
import random
import resource
import sys
import threading
import time
import urllib.parse


class Pillow:
    def __init__(self):
        from PIL import Image, features

        Image.preinit()
        self.image = Image
        self.version = f"Pillow {__import__('PIL').__version__} (libjpeg-turbo {features.version('libjpeg_turbo')})"

    def from_file(self, path, side):
        with self.image.open(path) as picture:
            picture.thumbnail((side, side))  # Calls draft() first.
            return picture

    def from_bytes(self, data, side):
        return self.from_file(io.BytesIO(data), side)

    def thumbnail(self, path, side):
        return self.from_file(path, side)

    def rgb(self, path):
        import numpy

        with self.image.open(path) as picture:
            return numpy.asarray(picture.convert("RGB"))

    def whole(self, data):
        with self.image.open(io.BytesIO(data)) as picture:
            picture.load()
            return picture


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

    thumbnail = from_file

    def rgb(self, path):
        return self.image.new_from_file(path, access="sequential").write_to_memory()

    def from_bytes(self, data, side):
        # Four bytes a pixel, ready to be shown, as Pillow has them and the broker hands them out.
        picture = self.image.thumbnail_buffer(data, side, size="down")
        return picture.addalpha().write_to_memory()

    def whole(self, data):
        return self.image.new_from_buffer(data, "", access="sequential").addalpha().write_to_memory()


class OpenCV:
    def __init__(self):
        import cv2

        self.cv2 = cv2
        self.version = f"OpenCV {cv2.__version__}"

    def thumbnail(self, path, side):
        # An eighth, the size next to that of the thumbnail that its decoder offers.
        picture = self.cv2.imread(path, self.cv2.IMREAD_REDUCED_COLOR_8)
        scale = side / max(picture.shape[:2])
        if scale >= 1:
            return picture
        size = (round(picture.shape[1] * scale), round(picture.shape[0] * scale))
        return self.cv2.resize(picture, size, interpolation=self.cv2.INTER_AREA)

    def rgb(self, path):
        return self.cv2.cvtColor(self.cv2.imread(path), self.cv2.COLOR_BGR2RGB)


LIBRARIES = {"pillow": Pillow, "pyvips": Vips, "opencv": OpenCV}


def serve():
    libraries = {}
    for line in sys.stdin:
        command, name, *rest = line.split()
        if name not in libraries:
            libraries[name] = LIBRARIES[name]()
        if command == "load":
            print("loaded", flush=True)
            continue
        path, side = rest
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


class Feed:
    """Threads that load a share of the images, each over a persistent connection."""

    def __init__(self, name, base, first, count, step, side):
        self.library, self.base, self.side = LIBRARIES[name](), base, int(side)
        self.numbers = iter(range(int(first), int(count), int(step)))
        self.lock = threading.Lock()
        self.error = None

    def read(self, connection, number):
        if connection is None:
            with open(f"{self.base}/{number}", "rb") as file:
                return file.read()
        connection.request("GET", f"/{number}")
        response = connection.getresponse()
        data = response.read()
        if response.status != 200:
            raise ValueError(f"status {response.status}")
        return data

    def load(self):
        parts = urllib.parse.urlsplit(self.base)
        connection = http.client.HTTPConnection(parts.hostname, parts.port) if parts.scheme else None
        try:
            while True:
                with self.lock:
                    number = next(self.numbers, None)
                if number is None:
                    return
                data = self.read(connection, number)
                self.library.from_bytes(data, self.side) if self.side else self.library.whole(data)
        except Exception as error:
            self.error = error


def feed(name, base, first, count, step, threads, side):
    loaded = Feed(name, base, first, count, step, side)
    print("ready", flush=True)
    sys.stdin.readline()
    before = resource.getrusage(resource.RUSAGE_SELF)
    running = [threading.Thread(target=loaded.load) for _ in range(int(threads))]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if loaded.error:
        raise loaded.error
    after = resource.getrusage(resource.RUSAGE_SELF)
    print((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000, flush=True)
    sys.stdin.read()


def files(name, folder, count, side, epochs, seed, keeps):
    library, kept, order = LIBRARIES[name](), {}, random.Random(int(seed))
    for _ in range(int(epochs)):
        numbers = list(range(int(count)))
        order.shuffle(numbers)
        for number in numbers:
            if number in kept:
                continue
            path = f"{folder}/{number}"
            picture = library.thumbnail(path, int(side)) if side != "0" else library.rgb(path)
            if keeps == "1":
                kept[number] = picture
    gc.collect()
    print("done", flush=True)
    sys.stdin.read()


def steps():
    import pyvips

    pyvips.cache_set_max(0)
    print("ready", flush=True)
    for line in sys.stdin:
        kind, path, number = line.split()
        begun = time.perf_counter()
        if kind == "blur":
            picture = pyvips.Image.new_from_file(path).gaussblur(10 + int(number) / 1000).addalpha()
        else:
            picture = pyvips.Image.thumbnail(path, 256, size="down")
            mask = pyvips.Image.svgload_buffer(
                b'<svg viewBox="0 0 %d %d"><rect width="%d" height="%d" rx="%d"/></svg>'
                % (picture.width, picture.height, picture.width, picture.height, 12 + int(number))
            )
            picture = picture.bandjoin(mask[3])
        picture.write_to_memory()
        print((time.perf_counter() - begun) * 1000, flush=True)


def versions():
    for library in LIBRARIES.values():
        try:
            print(library().version)
        except ImportError:
            pass
    try:
        print("PyTorch", __import__("torch").__version__)
    except ImportError:
        pass


{
    "serve": serve, "peak": peak, "alone": alone, "feed": feed, "files": files, "steps": steps, "versions": versions,
}[sys.argv[1]](*sys.argv[2:])
