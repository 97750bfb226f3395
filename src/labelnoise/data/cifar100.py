"""CIFAR-100 in either official layout: `cifar-100-binary/`, or `cifar-100-python/`.

The second is pickled; it is read without running what is in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from labelnoise.data.content import content
from labelnoise.data.dataset import Dataset
from labelnoise.data.directory import data_directory
from labelnoise.data.layout import Layout
from labelnoise.data.listed import words_of
from labelnoise.data.pickled import read_pickled
from labelnoise.data.split import paper_split
from labelnoise.errors import LabelNoiseError

ORIGIN = "unpack https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz (or -python) there"
NAMES = "fine_label_names.txt"
BINARY = Layout("cifar100", ("cifar-100-binary",), ("train.bin", "test.bin", NAMES), (), ORIGIN)
PICKLED = Layout("cifar100", ("cifar-100-python",), ("train", "test", "meta"), (), ORIGIN)
CLASSES = 100
IMAGE = (3, 32, 32)
RECORD = 2 + 3 * 32 * 32  # the label of the group, the label, then the planes row by row


class Part(NamedTuple):
    """(rows, 3072) pixels, (rows,) labels and (rows,) groups of labels."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]
    groups: NDArray[np.int64]


def read_cifar100(data_dir: Path | None = None) -> Dataset:
    """Read CIFAR-100."""
    pickled = (data_directory(data_dir) / PICKLED.places[0]).is_dir()
    if pickled and not (data_directory(data_dir) / BINARY.places[0]).is_dir():
        files = PICKLED.find(data_dir).files
        train, test = (_read_pickled(files[name]) for name in ("train", "test"))
        classes = tuple(map(str, read_pickled(files["meta"]).get("fine_label_names", ())))
    else:
        files = BINARY.find(data_dir).files
        train, test = (_read_binary(files[name]) for name in ("train.bin", "test.bin"))
        classes = words_of(files[NAMES])
    if len(classes) != CLASSES:
        raise LabelNoiseError(f"{CLASSES} names of classes expected, found {len(classes)}")
    return Dataset(
        name="cifar100",
        inputs=torch.from_numpy(train.pixels.reshape(-1, *IMAGE).copy()),
        labels=torch.from_numpy(train.labels),
        classes=classes,
        test_inputs=torch.from_numpy(test.pixels.reshape(-1, *IMAGE).copy()),
        test_labels=torch.from_numpy(test.labels),
        flips=flips(train),
        verified=True,
        split=paper_split,
    )


def flips(part: Part) -> dict[int, int]:
    """Every class to the next one of its group, the last to the first."""
    members: dict[int, list[int]] = {}
    for group, label in np.unique(np.stack([part.groups, part.labels], 1), axis=0).tolist():
        members.setdefault(group, []).append(label)
    return {
        label: group[(place + 1) % len(group)]
        for group in members.values()
        for place, label in enumerate(group)
        if len(group) > 1
    }


def _read_binary(path: Path) -> Part:
    data = content(path)
    if not data or len(data) % RECORD:
        raise LabelNoiseError(
            f"{path}: records of {RECORD} bytes expected, found {len(data)} bytes"
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    labels = records[:, :2].astype(np.int64)
    return _checked(path, Part(records[:, 2:], labels[:, 1], labels[:, 0]))


def _read_pickled(path: Path) -> Part:
    found = read_pickled(path)
    try:
        pixels = np.asarray(found["data"])
        labels, groups = (
            np.asarray(found[name]).astype(np.int64) for name in ("fine_labels", "coarse_labels")
        )
    except (KeyError, ValueError, TypeError) as error:
        raise LabelNoiseError(f"{path}: data, fine_labels and coarse_labels expected") from error
    if pixels.dtype != np.uint8 or pixels.shape != (len(labels), RECORD - 2):
        raise LabelNoiseError(f"{path}: one row of {RECORD - 2} bytes expected for every label")
    return _checked(path, Part(pixels, labels, groups))


def _checked(path: Path, part: Part) -> Part:
    if len(part.labels) != len(part.groups) or not len(part.labels):
        raise LabelNoiseError(f"{path}: as many groups as labels expected, and at least one")
    low, high = part.labels.min(), part.labels.max()
    if low < 0 or high >= CLASSES:
        raise LabelNoiseError(f"{path}: labels 0 to {CLASSES - 1} expected, found {low} to {high}")
    return part
