"""A training process that loads its images with PyTorch: by the broker, or with Pillow.

torch_peer.py LOADER FOLDER COUNT EPOCHS SEED WORKERS
    says "ready", waits for a line, loads FOLDER/0 ... FOLDER/COUNT-1 in random order, EPOCHS times, in batches of 32 with
    WORKERS processes (0: itself), says "done", waits for the end of its input.
    LOADER is "pillow"; "cached", Pillow whose images each process keeps; or the path of a broker's socket.
"""
import pathlib
import resource
import sys
import warnings

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients" / "python" / "src"))


class WithPillow(Dataset):
    """As torchvision's ImageFolder with its loader for Pillow and the transform PILToTensor."""

    def __init__(self, samples, keeps):
        self.samples = samples
        self.kept = {} if keeps else None

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, target = self.samples[index]
        if self.kept is not None and index in self.kept:
            return self.kept[index], target
        with open(path, "rb") as file:
            picture = Image.open(file).convert("RGB")
        image = torch.from_numpy(numpy.array(picture)).permute(2, 0, 1)
        if self.kept is not None:
            self.kept[index] = image
        return image, target


def main(loader, folder, count, epochs, seed, workers):
    # As a DataLoader sets it in its workers.
    torch.set_num_threads(1)
    # More workers than processors.
    warnings.simplefilter("ignore", UserWarning)
    torch.manual_seed(int(seed))
    samples = [(f"{folder}/{number}", number % 10) for number in range(int(count))]
    if loader in ("pillow", "cached"):
        dataset = WithPillow(samples, loader == "cached")
    else:
        from imgbroker import Client
        from imgbroker.torch import ImageList

        # Each kept image takes a descriptor.
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        dataset = ImageList(samples, client=Client(loader, keep_images=2 * len(samples), keep_bytes=1 << 40))
    batches = DataLoader(
        dataset, batch_size=32, shuffle=True, num_workers=int(workers), persistent_workers=int(workers) > 0)
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(epochs)):
        loaded = sum(len(images) for images, _ in batches)
        assert loaded == len(samples), loaded
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
