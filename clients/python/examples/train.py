"""Trains a ResNet of torchvision on a folder that has a folder for each class: on a GPU or on processors, alone or by torchrun.

    imgbroker --memory-limit 16G &
    python train.py photographs --epochs 10
    torchrun --nproc-per-node 4 train.py photographs --epochs 10
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any, Optional

import torch
import torchvision
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler
from torchvision.transforms import v2

from imgbroker.torch import BatchLoader, ImageFolder, random_resized_crop


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a ResNet of torchvision.")
    parser.add_argument("folder")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--size", type=int, default=224, help="the side of the crops in pixels")
    parser.add_argument("--rate", type=float, default=0.1)
    arguments = parser.parse_args()

    is_distributed = "LOCAL_RANK" in os.environ
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    if is_distributed:
        torch.distributed.init_process_group()

    # The broker keeps each image once for all processes and epochs, a little larger than the crops.
    side = arguments.size * 8 // 7
    dataset = ImageFolder(arguments.folder, width=side, height=side, fit="cover")
    sampler: Optional[DistributedSampler[Any]] = DistributedSampler(dataset) if is_distributed else None
    loader = BatchLoader(dataset, arguments.batch_size, shuffle=sampler is None, sampler=sampler, drop_last=True)

    model = torchvision.models.get_model(arguments.model, weights=None, num_classes=len(dataset.classes))
    model = model.to(device, memory_format=torch.channels_last)
    if is_distributed:
        model = DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
    # Colours are changed alike in all images of a batch. To change those of each image, give the dataset a `transform`.
    augment = v2.Compose([
        v2.ColorJitter(0.2, 0.2, 0.2), v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])])
    measure_loss = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), arguments.rate, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, arguments.epochs * len(loader)))

    for epoch in range(arguments.epochs):
        loader.set_epoch(epoch)
        begun, count, losses = time.monotonic(), 0, torch.zeros((), device=device)
        for images, targets in loader:
            images = images.to(device, non_blocking=True)
            images = augment(random_resized_crop(images, arguments.size, flip=0.5))
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = measure_loss(model(images), targets.to(device, non_blocking=True))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            losses += loss.detach()
            count += len(targets)
        mean = losses.item() / max(1, len(loader))
        # With torchrun, those of this process.
        if os.environ.get("RANK", "0") == "0":
            print(f"epoch {epoch + 1}: loss {mean:.3f}, {count / (time.monotonic() - begun):.0f} images/s", flush=True)
    if is_distributed:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
