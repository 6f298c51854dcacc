#!/usr/bin/env python3
"""Trains a ResNet with images of torchvision's ImageFolder and of imgbroker.torch, on a GPU or on processors, in less than ten minutes.

training.py [--broker PROGRAM] [--images N] [--epochs N] [--model NAME] [--workers N] [--memory-limit SIZE]
    prints for each loader and epoch the images a second, the processor time of all processes of the loader and of training for each
    image, and the utilization of the GPU. Before, the images a second of the model alone, the limit of all loaders.
"""
import argparse
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients" / "python" / "src"))

BEGUN = time.monotonic()
#: The seconds after which no further epoch is begun.
LONGEST = 480


def say(*words):
    print(f"[{time.monotonic() - BEGUN:4.0f} s]", *words, flush=True)


def make(job):
    """Writes every `step`th photograph-like JPEG of 500 × 400 from `first` on: smooth colours with some noise, of about 60 KB."""
    folder, first, step, count = job
    for number in range(first, count, step):
        random = numpy.random.default_rng(number)
        smooth = Image.fromarray(random.integers(0, 256, (8, 10, 3), numpy.uint8)).resize((500, 400), Image.Resampling.BICUBIC)
        pixels = numpy.asarray(smooth, numpy.int16) + random.integers(-12, 13, (400, 500, 1))
        Image.fromarray(pixels.clip(0, 255).astype(numpy.uint8)).save(f"{folder}/{number % 10}/{number}.jpg", quality=90)


def processor_seconds():
    """Returns the processor time of this process and its descendants, those that have ended included."""
    parents, times = {}, {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # It has ended.
            continue
        pid = int(path.parent.name)
        parents[pid], times[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    total, own = 0, {os.getpid()}
    for pid in sorted(times):
        # Children have higher numbers than their parents, but for a wrap-around.
        if pid in own or parents[pid] in own:
            own.add(pid)
            total += times[pid]
    return total / os.sysconf("SC_CLK_TCK")


class Utilization:
    """The mean utilization of the GPU since the last call; a dash without one."""

    def __init__(self):
        self.values = []
        self.process = None
        if torch.cuda.is_available() and shutil.which("nvidia-smi"):
            self.process = subprocess.Popen(
                ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-i", "0", "-lms", "200"],
                stdout=subprocess.PIPE, text=True)
            threading.Thread(target=lambda: self.values.extend(map(int, self.process.stdout)), daemon=True).start()

    def take(self):
        values, self.values[:] = list(self.values), []
        return f"{sum(values) / len(values):.0f} %" if values else "–"

    def close(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait()


class Training:
    """A model, and what is done with each batch."""

    def __init__(self, torchvision, name):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.batch = 256 if self.device == "cuda" else 32
        torch.backends.cudnn.benchmark = True
        self.model = torchvision.models.get_model(name, weights=None, num_classes=10)
        self.model = self.model.to(self.device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01)
        self.loss = torch.nn.CrossEntropyLoss()

    def step(self, images, targets):
        images = images.to(self.device, non_blocking=True).float().sub(118).div(58).contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            loss = self.loss(self.model(images), targets.to(self.device, non_blocking=True))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def limit(self, steps):
        """Returns the images a second without a loader."""
        images, targets = torch.zeros((self.batch, 3, 224, 224), dtype=torch.uint8, device=self.device), torch.zeros(self.batch).long()
        for count in (2, steps):
            begun = time.monotonic()
            for _ in range(count):
                self.step(images, targets)
            self.wait()
        return steps * self.batch / (time.monotonic() - begun)


def measure(name, loader, prepare, training, epochs, utilization):
    for epoch in range(epochs):
        if time.monotonic() - BEGUN > LONGEST:
            say(f"{name}: no time for epoch {epoch + 1}")
            return
        count, used, begun = 0, processor_seconds(), time.monotonic()
        utilization.take()
        for images, targets in loader:
            training.step(prepare(images), targets)
            count += len(targets)
        training.wait()
        seconds = time.monotonic() - begun
        say(f"{name}: epoch {epoch + 1}: {count / seconds:.0f} images/s, {(processor_seconds() - used) * 1000 / count:.2f} ms of "
            f"processors an image, GPU {utilization.take()}")


def main():
    cores = os.cpu_count() or 1
    parser = argparse.ArgumentParser()
    parser.add_argument("--broker", default="imgbroker")
    parser.add_argument("--images", type=int, default=12000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--workers", type=int, default=max(1, cores - 2), help="of torchvision's loader, and of the broker")
    parser.add_argument("--memory-limit", default="8G", help="full-size images take 0.6 MB each, small ones 0.2 MB")
    arguments = parser.parse_args()
    import torchvision
    from torchvision import transforms
    from imgbroker import Client
    from imgbroker.torch import BatchLoader, ImageFolder, random_resized_crop

    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/data"
        for number in range(10):
            os.makedirs(f"{data}/{number}")
        with multiprocessing.get_context("fork").Pool(cores) as pool:
            pool.map(make, [(data, first, cores, arguments.images) for first in range(cores)])
        training, utilization = Training(torchvision, arguments.model), Utilization()
        say(f"{arguments.images} images, {cores} cores, {arguments.model} on "
            f"{torch.cuda.get_device_name() if training.device == 'cuda' else 'the processors'}, batches of {training.batch}")
        say(f"without a loader: {training.limit(30 if training.device == 'cuda' else 2):.0f} images/s")
        try:
            dataset = torchvision.datasets.ImageFolder(data, transforms.Compose([
                transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.PILToTensor()]))
            loader = DataLoader(
                dataset, training.batch, shuffle=True, num_workers=arguments.workers, pin_memory=training.device == "cuda",
                persistent_workers=True, prefetch_factor=4)
            measure("torchvision", loader, lambda images: images, training, arguments.epochs, utilization)
            del loader

            def crop(images):
                return random_resized_crop(images.to(training.device, non_blocking=True), 224, flip=0.5)

            for name, options, prepare in (
                ("imgbroker, images of 256 × 256 cropped by the device", {"width": 256, "height": 256, "fit": "cover"}, crop),
                ("imgbroker, images in full size cropped by the loader", {"crop_size": 224}, lambda images: images),
            ):
                socket = f"{folder}/socket"
                broker = subprocess.Popen([
                    arguments.broker, "--socket", socket, "--cache-dir", f"{folder}/cache", "--disk-limit", "0", "--raster-limit", "0",
                    "--workers", str(arguments.workers), "--memory-limit", arguments.memory_limit, "--log-level", "warning"])
                try:
                    while not os.path.exists(socket):
                        time.sleep(0.02)
                    with Client(socket) as client:
                        loader = BatchLoader(ImageFolder(data, client=client, **options), training.batch, shuffle=True)
                        measure(name, loader, prepare, training, arguments.epochs, utilization)
                finally:
                    broker.terminate()
                    broker.wait()
        finally:
            utilization.close()


if __name__ == "__main__":
    main()
