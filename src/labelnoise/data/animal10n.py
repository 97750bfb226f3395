"""ANIMAL-10N (Song et al., ICML 2019): 55,000 animals, 64x64, in five pairs that people confuse.

About 8 % of the training labels are wrong. A file is called after its label, `3_0042.jpg`; or all
images are in a few binary files, with a number, the label and the pixels of each.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labelnoise.data.content import content
from labelnoise.data.dataset import Dataset
from labelnoise.data.directory import data_directory
from labelnoise.data.images import SUFFIXES
from labelnoise.data.layout import Layout
from labelnoise.data.listed import Labelled, files_of, ids_of, shown
from labelnoise.errors import LabelNoiseError

CLASSES = (
    *("cat", "lynx", "wolf", "coyote", "cheetah"),
    *("jaguar", "chimpanzee", "orangutan", "hamster", "guinea pig"),
)
TRAIN, TEST = "training", "testing"
LAYOUT = Layout(
    name="animal10n",
    places=("animal10n", "ANIMAL-10N", "Animal-10N", "animal-10n"),
    files=(),
    folders=(TRAIN, TEST),
    origin="request the data at https://dm.kaist.ac.kr/datasets/animal-10n/ and unpack its images",
)
FORM = (3, 64, 64)
BATCHES, TEST_BATCH = "data_batch_*.bin", "test_batch.bin"
FIRST_BATCH = BATCHES.replace("*", "1")
BINARY = replace(LAYOUT, files=(FIRST_BATCH, TEST_BATCH), folders=())
HEAD = 4 + 4  # bytes of a record before its pixels: a number, and the label
RECORD = HEAD + 3 * 64 * 64


def read_animal10n(data_dir: Path | None = None) -> Dataset:
    """Read ANIMAL-10N in either layout."""
    directory = data_directory(data_dir)
    if any((directory / place / FIRST_BATCH).is_file() for place in LAYOUT.places):
        return _read_binary(BINARY.find(data_dir).root)
    root = LAYOUT.find(data_dir).root
    train, test = _listed(root, TRAIN), _listed(root, TEST)
    inputs, test_inputs = files_of(root, (train, test), FORM, "stretch")
    return Dataset(
        name="animal10n",
        inputs=inputs,
        labels=train.labels,
        classes=CLASSES,
        test_inputs=test_inputs,
        test_labels=test.labels,
        ids=ids_of(inputs),
    )


def _read_binary(root: Path) -> Dataset:
    inputs, labels = zip(*map(_records, sorted(root.glob(BATCHES))), strict=True)
    test_inputs, test_labels = _records(root / TEST_BATCH)
    return Dataset(
        name="animal10n",
        inputs=torch.cat(inputs),
        labels=torch.cat(labels),
        classes=CLASSES,
        test_inputs=test_inputs,
        test_labels=test_labels,
    )


def _records(path: Path) -> tuple[Tensor, Tensor]:
    """(rows, 3, 64, 64) pixels and (rows,) labels of a binary file."""
    data = content(path)
    if not data or len(data) % RECORD:
        raise LabelNoiseError(
            f"{path}: records of {RECORD} bytes expected, found {len(data)} bytes"
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    # Which end of a number comes first nobody says; labels are so small that it does not matter.
    written = records[:, HEAD - 4 : HEAD].astype(np.int64)
    labels = written[:, [0, 3]].max(1)
    if (written.sum(1) != labels).any() or labels.max() >= len(CLASSES):
        raise LabelNoiseError(f"{path}: labels 0 to {len(CLASSES) - 1} in four bytes expected")
    pixels = records[:, HEAD:].reshape(-1, *FORM).copy()
    return torch.from_numpy(pixels), torch.from_numpy(labels)


def _listed(root: Path, folder: str) -> Labelled:
    """The images of a folder in the order of their names, and the label that begins each."""
    files = sorted(os.listdir(os.fsencode(root / folder)))
    names = [name for name in files if os.path.splitext(os.fsdecode(name))[1].lower() in SUFFIXES]
    if not names:
        raise LabelNoiseError(f"{root / folder}: there are no images in it: {LAYOUT.origin}")
    labels = []
    for name in names:
        label = name.partition(b"_")[0]
        if not label.isdigit() or int(label) >= len(CLASSES):
            raise LabelNoiseError(
                f"{root / folder}: {shown(name)} does not begin with a label from 0 to 9 and '_'"
            )
        labels.append(int(label))
    return Labelled([os.fsencode(folder) + b"/" + name for name in names], torch.tensor(labels))
