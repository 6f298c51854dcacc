"""Reads tar shards as WebDataset has them, pairs of KEY.jpg and KEY.cls: processes that read the same image share its decoding.

    python shards.py shards/*.tar
"""

from __future__ import annotations

import os
import sys
import tarfile
from typing import Any, Dict, Iterator, List, Sequence, Tuple

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import imgbroker
from imgbroker.torch import tensor


class Shards(IterableDataset[Tuple[Any, int]]):
    """Images of shards and their classes. The workers of a `DataLoader` divide the shards."""

    def __init__(self, paths: Sequence[str], **options: Any) -> None:
        self.paths, self.options = paths, {"pixel_format": "rgb8", **options}

    def __iter__(self) -> Iterator[Tuple[Any, int]]:
        worker, targets = get_worker_info(), []
        paths = self.paths if worker is None else self.paths[worker.id::worker.num_workers]

        def images() -> Iterator[bytes]:
            files: Dict[str, bytes] = {}
            for path in paths:
                with tarfile.open(path) as shard:
                    for member in filter(tarfile.TarInfo.isfile, shard):
                        key, kind = os.path.splitext(member.name)
                        files[kind] = shard.extractfile(member).read()  # type: ignore[union-attr]
                        if len(files) == 2:
                            targets.append(int(files.pop(".cls")))
                            yield files.popitem()[1]

        for result in imgbroker.Client().get_many(images(), writable=True, **self.options):
            yield tensor(result.get()), targets[result.number]


def main(paths: List[str]) -> None:
    for images, targets in DataLoader(Shards(paths, width=224, height=224, fit="cover"), batch_size=64, num_workers=2):
        print(tuple(images.shape), targets.tolist())


if __name__ == "__main__":
    main(sys.argv[1:])
