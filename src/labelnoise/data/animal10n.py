"""ANIMAL-10N (Song et al., ICML 2019): 55,000 animals, 64x64, in five pairs that people confuse.

About 8 % of the training labels are wrong. A file is called after its label, `3_0042.jpg`.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch

from labelnoise.data.dataset import Dataset
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


def read_animal10n(data_dir: Path | None = None) -> Dataset:
    """Read ANIMAL-10N."""
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
