"""A process that has an image from the broker again and again, through the shipped Python client.

kept_peer.py SOCKET URL ROUNDS
    prints "ready" once the client keeps the image; then, for each line of its input, the processor time of a `get` in
    nanoseconds, as the mean of ROUNDS
"""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients" / "python" / "src"))

import imgbroker


def main(socket, url, rounds):
    rounds = int(rounds)
    with imgbroker.Client(socket) as client:
        for _ in range(1000):
            if client.get(url) is client.kept_image(url):
                break
        else:
            sys.exit("the image is not kept")
        get = client.get
        print("ready", flush=True)
        for _ in sys.stdin:
            begun = time.thread_time_ns()
            for _ in range(rounds):
                get(url)
            print((time.thread_time_ns() - begun) / rounds, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
