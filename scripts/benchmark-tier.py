#!/usr/bin/env python3
"""Measures the shared tier: hits against downloads from origins of 0, 20 and 100 ms, and imgtier's processor time for a hit.

usage: scripts/benchmark-tier.py [BUILT]

BUILT (.build/release) has the programs. Starts a memcached of its own on loopback, an origin, and three brokers: one loads the images and writes
them, one reads them from the tier, and one has no tier. Prints a table in Markdown. Needs memcached and Pillow.
"""
import http.server
import io
import os
import pathlib
import random
import signal
import socketserver
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "clients/python/src"))
import imgbroker  # noqa: E402
from PIL import Image  # noqa: E402

BUILT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / ".build/release").resolve()
COUNT = 300


def picture(number):
    """Returns a JPEG of about 8 KB."""
    noise = random.Random(number)
    small = Image.frombytes("RGB", (40, 30), noise.randbytes(3600))
    file = io.BytesIO()
    small.resize((256, 192)).save(file, "JPEG", quality=80)
    return file.getvalue()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    delay, bodies = 0.0, {}

    def do_GET(self):
        time.sleep(Handler.delay)
        number = int(self.path.rsplit("/", 1)[1])
        body = Handler.bodies.setdefault(number, picture(number))
        self.send_response(200)
        self.send_header("Content-Type", "image/jpeg")
        self.send_header("Cache-Control", "max-age=1000")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads, request_queue_size = True, 512


def children(pid, name):
    """Returns the processes of a name that a process has started."""
    output = subprocess.run(["pgrep", "-P", str(pid), name], capture_output=True, text=True).stdout
    return [int(word) for word in output.split()]


def processor_time(pid):
    """Returns the processor time of a process in microseconds."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def start_memcached(directory):
    """Starts a memcached on a free port, and returns the process and the port."""
    file = directory / "port"
    user = ["-u", "root"] if os.getuid() == 0 else []
    process = subprocess.Popen(
        ["memcached", "-l", "127.0.0.1", "-p", "-1", "-U", "0", "-I", "16m", "-m", "256", *user],
        env={**os.environ, "MEMCACHED_PORT_FILENAME": str(file)}, stderr=subprocess.DEVNULL)
    while not (file.exists() and "INET" in file.read_text()):
        time.sleep(0.01)
    return process, int(file.read_text().split("TCP INET: ")[1].split()[0])


def start_broker(directory, name, *options):
    """Starts a broker with caches of its own, and returns the process and a client."""
    path = directory / name
    process = subprocess.Popen(
        [BUILT / "imgbroker", "--socket", path, "--disk-limit", "0", "--workers", "1", "--allow-address", "127.0.0.0/8",
         "--log-level", "error", *options])
    while True:
        try:
            client = imgbroker.Client(str(path))
            break
        except (OSError, imgbroker.ImageBrokerError):
            time.sleep(0.05)
    time.sleep(1)
    return process, client


def load(client, urls):
    """Returns the median time of requests one after the other, in milliseconds, and the sources of the images."""
    times, sources = [], set()
    for url in urls:
        begun = time.perf_counter()
        image = client.get(url)
        times.append((time.perf_counter() - begun) * 1000)
        sources.add(image.source)
    return statistics.median(times), sources


def main():
    processes = []
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        directory.chmod(0o755)
        try:
            origin = Server(("127.0.0.1", 0), Handler)
            threading.Thread(target=origin.serve_forever, daemon=True).start()
            base = f"http://127.0.0.1:{origin.server_address[1]}"
            memcached, port = start_memcached(directory)
            processes.append(memcached)
            shared = ["--shared-tier", f"memcached:127.0.0.1:{port}"]
            brokers = [start_broker(directory, "writer", *shared), start_broker(directory, "reader", *shared),
                       start_broker(directory, "alone")]
            processes += [process for process, _ in brokers]
            (_, writer), (reading, reader), (_, alone) = brokers
            size = statistics.mean(len(picture(number)) for number in range(20))
            print(f"{COUNT} JPEGs of {size:.0f} bytes, one request after the other:\n")
            print("| origin latency | without tier | first broker | from the tier |\n|---|---|---|---|")
            for index, delay in enumerate([0, 0.02, 0.1]):
                Handler.delay = delay
                urls = [f"{base}/{number + COUNT * index}" for number in range(COUNT)]
                without, _ = load(alone, urls)
                first, _ = load(writer, urls)
                time.sleep(0.5)
                hit, sources = load(reader, urls)
                assert sources == {"shared"}, sources
                print(f"| {delay * 1000:.0f} ms | {without:.2f} ms | {first:.2f} ms | {hit:.2f} ms |")
            # Hits in batches: many requests at once.
            Handler.delay, many = 0, 3000
            urls = [f"{base}/{number + 10_000}" for number in range(many)]
            for client in (writer, reader):
                tier = children(reading.pid, "imgtier")[0]
                begun, before = time.perf_counter(), (processor_time(tier), processor_time(reading.pid))
                for start in range(0, many, 500):
                    for result in client.get_many(urls[start:start + 500], in_flight=500):
                        result.get()
                    time.sleep(0.2)
            after = (processor_time(tier), processor_time(reading.pid))
            print(f"\n{many} hits, 500 requests at once: {(after[0] - before[0]) / many:.0f} µs of imgtier's processor time and "
                  f"{(after[1] - before[1]) / many:.0f} µs of the broker's for each, "
                  f"{(time.perf_counter() - begun) * 1e6 / many:.0f} µs in all")
        finally:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            for process in processes:
                process.wait()


main()
