"""Trains a model of timm for one epoch, with its loader that normalizes and erases on the GPU, and with images from the broker.

    python timm_loader.py photographs resnet50
"""

from __future__ import annotations

import sys

import timm
import torch
from timm.data.loader import PrefetchLoader
from torchvision.transforms import v2

from imgbroker.torch import BatchLoader, ImageFolder


def main(folder: str, name: str, batch_size: int = 64) -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    # Crops of each image, from those that the broker keeps in full size, mirrored and coloured one by one.
    transform = v2.Compose([v2.RandomHorizontalFlip(), v2.ColorJitter(0.4, 0.4, 0.4)])
    dataset = ImageFolder(folder, transform, crop_size=224)
    model = timm.create_model(name, num_classes=len(dataset.classes)).to(device)
    config = timm.data.resolve_data_config(model=model)
    batches = BatchLoader(dataset, batch_size, shuffle=True, drop_last=True)
    loader = PrefetchLoader(batches, mean=config["mean"], std=config["std"], device=device, re_prob=0.25)
    measure_loss = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for images, targets in loader:
        loss = measure_loss(model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
