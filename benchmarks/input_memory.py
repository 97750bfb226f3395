"""Memory over an epoch of a million images in files: the training process and its workers.

    python benchmarks/input_memory.py [--rows 1000000] [--files 100000] [--train]

Writes 100,000 different JPEG files of 32x32 in folders of 1,000, links that make a million names of
them, and lists in the layout of Clothing-1M (a name a line, a name and a label a line), which are
read by what its reader is made of. One pass of `Train.batches` goes over all of them; with --train
it is an epoch of `fit` with a small MLP and BARE, its record of every sample included.

A line a twentieth of the way: megabytes of this process and of all workers. Memory that processes
share counts in parts (PSS): their sum is what the machine has to have. What the system keeps of
files that were read is not among it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import active_children
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from labelnoise import Learner, Problem
from labelnoise.batch import Batch
from labelnoise.data.listed import files_of, join, present, read_labels, read_paths
from labelnoise.data.scale import unit
from labelnoise.data.stored import Inputs
from labelnoise.data.train import Train
from labelnoise.engine import fit
from labelnoise.learner import Recipe
from labelnoise.methods.bare import BARE
from labelnoise.seeds import stream

SIDE, CLASSES, FOLDER, LINES = 32, 14, 1000, 20


def plant(root: Path, rows: int, files: int) -> None:
    """Write the files, their other names and the lists."""
    chance = np.random.default_rng(0)
    names = [f"images/{row // FOLDER}/{row}.jpg" for row in range(rows)]
    for row, name in enumerate(names):
        if row % FOLDER == 0:
            (root / name).parent.mkdir(parents=True)
        if row < files:
            coarse = Image.fromarray(chance.integers(0, 256, (4, 4, 3), dtype=np.uint8))
            coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(root / name)
        else:
            os.link(root / names[row % files], root / name)
    (root / "keys.txt").write_text("\n".join(names))
    given = chance.integers(0, CLASSES, rows)
    (root / "labels.txt").write_text(
        "\n".join(f"{name} {label}" for name, label in zip(names, given, strict=True))
    )


def listed(root: Path) -> tuple[Inputs, Tensor]:
    """The images and their labels as readers of large data sets find them."""
    keys = root / "keys.txt"
    found = join(read_paths(keys), read_labels(root / "labels.txt", CLASSES), keys)
    there, _ = present(root, found, "write them again")
    (inputs,) = files_of(root, [there], (3, SIDE, SIDE), "stretch")
    return inputs, there.labels


def megabytes(pid: int | str) -> float:
    """What a process takes of the memory, its share of what it has in common with others."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


@dataclass(frozen=True)
class Watched(Train):
    """A training part that says how much memory is taken on the way."""

    def batches(self, number: int, views: int = 1, rows: Tensor | None = None) -> Iterator[Batch]:
        """Those of the part."""
        begin, seen, told = time.perf_counter(), 0, 0
        for batch in super().batches(number, views, rows):
            yield batch
            seen += len(batch.index)
            if seen * LINES >= (told + 1) * len(self) or seen == len(batch.index):
                told = seen * LINES // len(self)
                workers = [megabytes(each.pid or 0) for each in active_children()]
                own = megabytes("self")
                print(
                    f"| {seen:9,} | {own:6.0f} | {sum(workers):6.0f} ({len(workers)}) "
                    f"| {own + sum(workers):6.0f} | {time.perf_counter() - begin:6.0f} |",
                    flush=True,
                )


def new_learner() -> Learner:
    layers = nn.Flatten(), nn.Linear(3 * SIDE**2, 16), nn.ReLU(), nn.Linear(16, CLASSES)
    return Learner(nn.Sequential(*layers), Recipe())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--folder", type=Path, help="where the files are, or go to stay")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as made:
        root: Path = asked.folder or Path(made)
        if not (root / "labels.txt").exists():
            plant(root, asked.rows, asked.files)
        print(f"before anything is read: {megabytes('self'):.0f} MB")
        inputs, labels = listed(root)
        print(f"{len(labels):,} names and labels read: {megabytes('self'):.0f} MB\n")
        train = Watched(inputs, labels, unit(inputs), asked.batch_size, seed=0)
        print("| samples | MB of the training | of the workers | together | seconds |")
        print("|---:|---:|---:|---:|---:|")
        if asked.train:
            problem = Problem(labels, CLASSES, new_learner, stream(0, "method"))
            fit(BARE(), problem, train, epochs=1)
        else:
            for _ in train.batches(0):
                pass
        print(f"\nafter it: {megabytes('self'):.0f} MB")


if __name__ == "__main__":
    main()
