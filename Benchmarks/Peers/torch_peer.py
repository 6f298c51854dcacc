"""A training process that loads its images with PyTorch: by the broker, or with Pillow.

torch_peer.py LOADER FOLDER COUNT EPOCHS SEED WORKERS
    says "ready", waits for a line, loads FOLDER/0 ... FOLDER/COUNT-1 in random order, EPOCHS times, in batches of 32 with
    WORKERS processes (0: itself), says "done", waits for the end of its input.
    LOADER is "pillow"; "cached", Pillow whose images each process keeps; "memory", images that the process has already;
    the path of a broker's socket, for batches of mapped images from the dataset, which the process keeps; or such a path
    after "contiguous:", for contiguous ones, or after "loader:", for those of a `BatchLoader`, of a client with its usual settings.
"""
import gc
import pathlib
import resource
import sys
import warnings

import numpy
import torch
from PIL import Image
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

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


class InMemory(Dataset):
    """Images that need no decoding, in batches that are each copied once, into memory that PyTorch allocates for it."""

    def __init__(self, samples):
        self.targets = torch.tensor([target for _, target in samples])
        self.images = torch.randint(256, (len(samples), 400, 500, 3), dtype=torch.uint8)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, indices):
        batch = torch.empty((len(indices), *self.images.shape[1:]), dtype=torch.uint8)
        for number, index in enumerate(indices):
            batch[number].copy_(self.images[index])
        return batch.permute(0, 3, 1, 2), self.targets[indices]


def main(loader, folder, count, epochs, seed, workers):
    # As a DataLoader sets it in its workers.
    torch.set_num_threads(1)
    # More workers than processors.
    warnings.simplefilter("ignore", UserWarning)
    torch.manual_seed(int(seed))
    samples = [(f"{folder}/{number}", number % 10) for number in range(int(count))]
    if loader in ("pillow", "cached"):
        dataset = WithPillow(samples, loader == "cached")
    elif loader == "memory":
        dataset = InMemory(samples)
    else:
        from imgbroker import Client
        from imgbroker.torch import BatchLoader, ImageList

        # Each kept image takes a descriptor.
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        kind, _, socket = loader.rpartition(":")
        keeps = {"keep_images": 2 * len(samples), "keep_bytes": 1 << 40, "keep_descriptors": 2 * len(samples)}
        client = Client(socket, **({} if kind == "loader" else keeps))
        dataset = ImageList(samples, client=client, contiguous=kind == "contiguous")
    if loader.startswith("loader:"):
        batches = BatchLoader(dataset, 32, shuffle=True)
    else:
        size = {"batch_size": 32, "shuffle": True}
        if not isinstance(dataset, WithPillow):
            size = {"batch_size": None, "sampler": BatchSampler(RandomSampler(dataset), 32, drop_last=False)}
        batches = DataLoader(dataset, **size, num_workers=int(workers), persistent_workers=int(workers) > 0)
    # A program with a model has long since collected the objects that loading PyTorch makes, which takes 0.1 s.
    gc.collect()
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(epochs)):
        loaded = sum(len(images) for images, _ in batches)
        assert loaded == len(samples), loaded
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
