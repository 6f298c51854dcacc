#!/usr/bin/python3
"""Loads the same images again and again, as several clients, until a file exists. Prints the failures.

usage: test-load.py URL-PREFIX IMAGES STOP-FILE
"""
import os
import sys
import threading
import time

import imgbroker

prefix, images, stop = sys.argv[1], int(sys.argv[2]), sys.argv[3]
failures, counts, slowest = [], [0] * 4, [0.0] * 4


def load(worker):
    # Without kept images, each get is a request.
    client = imgbroker.Client(keep_images=0, reconnect=20)
    number = worker
    while not os.path.exists(stop):
        begun = time.monotonic()
        try:
            client.get(f"{prefix}/{number % images}.png")
            counts[worker] += 1
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")
        slowest[worker] = max(slowest[worker], time.monotonic() - begun)
        number += 1
        time.sleep(0.002)


threads = [threading.Thread(target=load, args=(worker,)) for worker in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"{sum(counts)} requests, {len(failures)} failed, the slowest took {max(slowest):.2f} s")
print(*failures[:5], sep="\n", file=sys.stderr)
sys.exit(1 if failures or not sum(counts) else 0)
