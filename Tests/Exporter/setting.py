"""A broker, an exporter, several origins behind a proxy, and users who load images."""

import http.server
import io
import json
import math
import os
import pathlib
import random
import shutil
import socket
import struct
import subprocess
import threading
import time
import urllib.request

from PIL import Image, ImageDraw, ImageFilter

from samples import SAMPLES

PRODUCTS = pathlib.Path(os.environ["IMGBROKER_TEST_PRODUCTS"])
# The origins: seconds that each takes to answer, at least and at most.
HOSTS = {
    "photos.example": (0.01, 0.05), "maps.example": (0.02, 0.09), "avatars.example": (0.005, 0.02),
    "archive.example": (0.9, 1.8), "shop.example": (0.03, 0.12),
}


def check(condition, what):
    if not condition:
        raise AssertionError(what)
    print(f"ok: {what}")


def wait_until(is_done, process, failure):
    """Waits for at most 30 s, while the process runs."""
    deadline = time.monotonic() + 30
    while not is_done():
        if time.monotonic() > deadline or process.poll() is not None:
            raise TimeoutError(failure())
        time.sleep(0.02)


def picture(number, size):
    """Returns a picture of hills under a sky as a JPEG file; each number has other ones."""
    dice = random.Random(number)
    width, height = size
    image = Image.new("RGB", size)
    pencil = ImageDraw.Draw(image)
    hue = dice.random()
    low, high = [[int(128 + 110 * math.sin(6.3 * (hue + part + shift))) for part in (0, 0.33, 0.67)] for shift in (0, 0.12)]
    for y in range(height):
        share = y / height
        pencil.line([(0, y), (width, y)], fill=tuple(int(a + (b - a) * share) for a, b in zip(high, low)))
    radius = height // 9
    x, y = dice.randrange(width), dice.randrange(height // 3) + radius
    pencil.ellipse([x - radius, y - radius, x + radius, y + radius], fill=(255, 246, 214))
    for layer in range(4):
        base, phase = height * (0.45 + 0.14 * layer), dice.random() * 9
        points = [(x, base - height * 0.11 * math.sin(x / width * (3 + layer) + phase)) for x in range(0, width + 9, 8)]
        shade = tuple(max(0, int(part * (0.72 - 0.16 * layer))) for part in low)
        pencil.polygon(points + [(width, height), (0, height)], fill=shade)
    file = io.BytesIO()
    image.filter(ImageFilter.SMOOTH).save(file, "JPEG", quality=88)
    return file.getvalue()


class Origins:
    """An HTTP proxy that answers for all hosts itself."""

    def __init__(self):
        pictures = [picture(number, (1200 + 40 * number, 800)) for number in range(24)]

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                host, name = self.path.split("/")[2:4]
                least, most = HOSTS[host]
                dice = random.Random(self.path)
                time.sleep(least + (most - least) * dice.random())
                number = int(name.split(".")[0])
                body, status = pictures[number % len(pictures)] + b"%d" % number, 200
                family = name.split(".")[-1]
                if name.endswith(".svg"):
                    body = DRAWING
                elif family in SAMPLES:
                    body = SAMPLES[family]
                elif name.endswith(".missing"):
                    body, status = b"", 404
                elif name.endswith(".bad"):
                    body = b"no image"
                elif name.endswith(".cut"):
                    body = body[:len(body) // 3]
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Cache-Control", "max-age=600")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 128

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.proxy = f"http://127.0.0.1:{self.server.server_port}"


DRAWING = b"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 48"><rect width="64" height="48" fill="#dfe8f5"/>
<circle cx="24" cy="24" r="14" fill="#1f6fd6"/><path d="M30 36L44 12 58 36z" fill="#c77700"/></svg>"""


class SharedServer:
    """A memcached server at a free port."""

    def __init__(self, folder):
        file = pathlib.Path(folder, f"memcached-{id(self)}")
        words = ["memcached", "-l", "127.0.0.1", "-p", "-1", "-U", "0", "-I", "16m", "-m", "64"]
        self.process = subprocess.Popen(
            words + (["-u", "root"] if os.geteuid() == 0 else []), env={**os.environ, "MEMCACHED_PORT_FILENAME": str(file)},
            stderr=subprocess.DEVNULL)
        wait_until(
            lambda: file.exists() and "TCP INET: " in file.read_text(), self.process,
            lambda: "memcached does not listen")
        self.name = "127.0.0.1:" + file.read_text().split("TCP INET: ")[1].split()[0]

    def kill(self):
        self.process.kill()
        self.process.wait(30)


def load(path, uid, seconds, seed, per_second):
    """Requests images for a while, as a user. Runs in a process of its own."""
    if os.geteuid() == 0 and uid:
        os.setgid(uid)
        os.setuid(uid)
    dice = random.Random(seed)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    end, number, due = time.monotonic() + seconds, 0, time.monotonic()

    def read(count):
        data = b""
        while len(data) < count:
            part = connection.recv(count - len(data))
            if not part:
                raise SystemExit
            data += part
        return data

    pending = 0
    while time.monotonic() < end:
        name = str(int(dice.paretovariate(0.7)) % 400)
        name += dice.choices(["", ".svg", ".missing", ".bad", ".cut"], [300, 6, 2, 1, 1])[0]
        host = dice.choices(list(HOSTS), [30, 20, 30, 1, 12])[0]
        message = {"type": "get", "id": number, "url": f"http://{host}/{name}", "delivery": "none",
                   "variant": {"width": dice.choice([160, 320, 640])}, "storage": dice.choice(["memory", "both"])}
        data = json.dumps(message).encode()
        try:
            connection.sendall(struct.pack(">I", len(data)) + data)
        except OSError:
            # The broker has ended.
            return
        number += 1
        pending += 1
        while pending > 24:
            read(struct.unpack(">I", read(4))[0])
            pending -= 1
        # Busier and quieter times.
        due += 1 / (per_second * (1.1 + math.sin(time.monotonic() / 9)))
        time.sleep(max(0, due - time.monotonic()))


class Setting:
    """The processes."""

    def __init__(self, folder):
        self.folder, self.socket, self.broker, self.exporter = folder, f"{folder}/socket", None, None
        self.shared = []
        os.chmod(folder, 0o755)
        self.origins = Origins()
        self.loads = []

    def start_broker(self, memory="64M"):
        options = ["--shared-tier", "memcached:" + ",".join(server.name for server in self.shared)] if self.shared else []
        self.broker = subprocess.Popen(
            [PRODUCTS / "imgbroker", "--socket", self.socket, "--socket-mode", "0666", "--proxy", self.origins.proxy,
             "--cache-dir", f"{self.folder}/cache", "--memory-limit", memory, "--log-level", "error", *options],
            stderr=subprocess.DEVNULL)

        def listens():
            with socket.socket(socket.AF_UNIX) as probe:
                return probe.connect_ex(self.socket) == 0

        wait_until(listens, self.broker, lambda: "the broker does not listen")

    def start_shared_servers(self, count):
        """Starts servers of a shared tier, which the next broker uses."""
        for _ in range(count):
            self.shared.append(SharedServer(self.folder))

    def start_exporter(self, *options):
        """Starts an exporter at a free port."""
        log = f"{self.folder}/exporter.log"
        with open(log, "wb") as file:
            self.exporter = subprocess.Popen(
                [PRODUCTS / "imgbroker", "exporter", "--socket", self.socket, "--listen", "127.0.0.1:0", *options], stderr=file)
        text = pathlib.Path(log).read_text
        wait_until(lambda: "serving " in text(), self.exporter, lambda: "the exporter does not listen: " + text())
        self.url = text().split("serving ")[1].split()[0]

    def fill_shared_servers(self):
        """Lets a former broker with another cache load images, which the shared tier has then."""
        self.start_broker()
        self.start_load(5)
        for process in self.loads:
            process.join(30)
        self.loads = []
        self.stop_broker()
        shutil.rmtree(f"{self.folder}/cache")

    def start_load(self, seconds):
        """Lets users load images: the second one most."""
        import multiprocessing
        context = multiprocessing.get_context("fork")
        for uid, per_second in ((1000, 25), (1001, 90), (1002, 12)):
            process = context.Process(target=load, args=(self.socket, uid, seconds, uid, per_second), daemon=True)
            process.start()
            self.loads.append(process)

    def read(self, path):
        """Returns the status and text of a page."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def stats(self):
        """Returns the broker's statistics."""
        words = [PRODUCTS / "imgbroker", "ctl", "stats", "--json", "--socket", self.socket]
        return json.loads(subprocess.run(words, capture_output=True, check=True, timeout=30).stdout)

    def workers(self, program="imgworker"):
        """Returns the process ids of decode workers, or of those of a family."""
        found = []
        for folder in pathlib.Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                if (folder / "comm").read_text().strip() == program and self.is_mine(folder):
                    found.append(int(folder.name))
            except OSError:
                pass
        return found

    def is_mine(self, folder):
        parent = (folder / "stat").read_text().rsplit(")", 1)[1].split()[1]
        return int(parent) == self.broker.pid

    def stop_broker(self):
        self.broker.terminate()
        self.broker.wait(30)

    def stop(self):
        """Ends all processes."""
        for process in self.loads:
            process.terminate()
            process.join(10)
        for process in (self.exporter, self.broker):
            if process and process.poll() is None:
                process.terminate()
                process.wait(30)
        for server in self.shared:
            server.kill()
        self.origins.server.shutdown()
