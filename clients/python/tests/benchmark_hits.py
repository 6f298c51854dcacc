"""Measures a repeated hit through the validity page, and a hit with a message to the broker.

usage: python tests/benchmark_hits.py      uses the programs in $IMGBROKER_TEST_PRODUCTS, or those of the release build
"""

from __future__ import annotations

import io
import pathlib
import statistics
import sys
import tempfile
import time

import PIL.Image

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import imgbroker  # noqa: E402
from support import Broker, eventually  # noqa: E402

URL = "http://127.0.0.1/benchmark.png"


def measure(client: imgbroker.Client, count: int, runs: int) -> None:
    """Prints the time of a `get`, as the median and the least of some runs."""
    get = client.get
    times = []
    for _ in range(runs):
        start = time.perf_counter_ns()
        for _ in range(count):
            get(URL, width=256)
        times.append((time.perf_counter_ns() - start) / count / 1000)
    print(f"median {statistics.median(times):8.2f} µs, least {min(times):8.2f} µs, of {runs} runs of {count}")


def main() -> None:
    """Starts a broker, stores an image and measures."""
    file = io.BytesIO()
    PIL.Image.linear_gradient("L").resize((1024, 768)).convert("RGB").save(file, "PNG")
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(pathlib.Path(folder))
        try:
            with imgbroker.Client(broker.socket) as client:
                client.store(URL, file.getvalue())
                eventually(lambda: client.get(URL, width=256) is client.kept_image(URL, width=256))
                print("page:    ", end="")
                measure(client, 100_000, 15)
            with imgbroker.Client(broker.socket, keep_images=0) as client:
                print("message: ", end="")
                measure(client, 2_000, 15)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
