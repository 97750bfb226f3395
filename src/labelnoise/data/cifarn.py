"""CIFAR-10N and CIFAR-100N (Wei et al., ICLR 2022): CIFAR with the labels that people gave.

The given labels are theirs, the truth is CIFAR's own. Images come from `cifar10` and `cifar100`,
labels from the official files, which are pickles and are read without running what is in them.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from labelnoise.data.cifar10 import read_cifar10
from labelnoise.data.cifar100 import read_cifar100
from labelnoise.data.content import content
from labelnoise.data.dataset import Dataset
from labelnoise.data.layout import Layout
from labelnoise.data.pickled import read_pickled
from labelnoise.errors import LabelNoiseError

TRUTH = "clean_label"


@dataclass(frozen=True)
class Human:
    """An official file of labels.

    Attributes:
        file: What it is called.
        md5: Of its bytes.
        images: Reads what was labelled.
    """

    file: str
    md5: str
    images: Callable[[Path | None], Dataset]


CIFAR10N = Human("CIFAR-10_human.pt", "96644db5574813cae939af5f7f2a0aec", read_cifar10)
CIFAR100N = Human("CIFAR-100_human.pt", "a67b45c1d7992051865b5c755bd68bb1", read_cifar100)


def read_human(source: Human, name: str, key: str, data_dir: Path | None = None) -> Dataset:
    """Read the labels called `key` in an official file, and the images."""
    layout = Layout(
        name=name,
        places=("",),
        files=(source.file,),
        folders=(),
        beside=("cifar-10-100n/data", "cifar-n"),
        origin=f"take data/{source.file} from https://github.com/UCSC-REAL/cifar-10-100n",
    )
    path = layout.find(data_dir).files[source.file]
    images = source.images(data_dir)
    if hashlib.md5(content(path), usedforsecurity=False).hexdigest() != source.md5:
        warnings.warn(f"{path}: not the official file, its checksum is another", stacklevel=2)
    found = read_pickled(path)
    given, truth = (_labels(found, each, path, images) for each in (key, TRUTH))
    if not truth.equal(images.labels):
        raise LabelNoiseError(
            f"{path}: its {TRUTH} are not those of {images.name}, in order: take the file that is "
            "not for TFDS"
        )
    return replace(images, name=name, labels=given, truth=truth, flips=None, verified=False)


def _labels(found: dict[str, Any], key: str, path: Path, images: Dataset) -> Tensor:
    labels = np.asarray(found.get(key, ()))
    if labels.shape != (len(images.labels),) or labels.dtype.kind not in "iu":
        raise LabelNoiseError(
            f"{path}: {len(images.labels)} whole numbers expected as {key!r}, one for each image"
        )
    if labels.min() < 0 or labels.max() >= len(images.classes):
        raise LabelNoiseError(f"{path}: {key!r} has labels beyond 0 to {len(images.classes) - 1}")
    return torch.from_numpy(labels.astype(np.int64))
