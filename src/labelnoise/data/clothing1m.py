"""Clothing-1M (Xiao et al., CVPR 2015): a million clothes from shops, labelled by their texts.

About 38 % of the labels are wrong; 72,409 others were verified and are lists of their own. Images
become 256x256 as in PLC (proportions are not kept), to be cropped to 224.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from labelnoise.data.dataset import Dataset
from labelnoise.data.layout import Found, Layout
from labelnoise.data.listed import (
    Labelled,
    files_of,
    ids_of,
    join,
    present,
    read_labels,
    read_paths,
    words_of,
)
from labelnoise.data.split import rank_in_class
from labelnoise.errors import LabelNoiseError
from labelnoise.seeds import stream

CLASSES = "category_names_eng.txt"
NOISY, CLEAN = "noisy_label_kv.txt", "clean_label_kv.txt"
NOISY_TRAIN, CLEAN_TRAIN = "noisy_train_key_list.txt", "clean_train_key_list.txt"
VALIDATION, TEST = "clean_val_key_list.txt", "clean_test_key_list.txt"
LAYOUT = Layout(
    name="clothing1m",
    places=("clothing1M", "clothing1m", "Clothing1M", "Clothing-1M"),
    files=(CLASSES, NOISY, CLEAN, NOISY_TRAIN, CLEAN_TRAIN, VALIDATION, TEST),
    folders=("images",),
    beside=("annotations",),
    origin="request the data from the authors (https://github.com/Cysu/noisy_label) and unpack it",
)
FORM = (3, 256, 256)
EACH = 18_976  # of a class, 265,664 in all: PLC's number, the paper's "260k"

Choose = Callable[[Labelled, int], Tensor]
"""Files and how many classes there are in, the rows to train on out."""


def read_clothing1m(data_dir: Path | None = None) -> Dataset:
    """All noisy labels, verified validation and test parts."""
    return _read("clothing1m", data_dir, NOISY_TRAIN, NOISY)


def read_balanced(data_dir: Path | None = None, each: int = EACH) -> Dataset:
    """The paper's subset: as many noisy labels of every class, drawn once and for all."""
    return _read(
        "clothing1m-balanced",
        data_dir,
        NOISY_TRAIN,
        NOISY,
        lambda found, classes: balanced(found.labels, classes, each),
    )


def read_clean(data_dir: Path | None = None) -> Dataset:
    """The verified training list."""
    return _read("clothing1m-clean", data_dir, CLEAN_TRAIN, CLEAN)


def balanced(labels: Tensor, classes: int, each: int) -> Tensor:
    """`each` rows of every class, or as many as the rarest has, with a warning; in order."""
    counts = torch.bincount(labels, minlength=classes)
    if not counts.all():
        raise LabelNoiseError(f"class {int(counts.argmin())} has no files: no balance is possible")
    order = torch.randperm(len(labels), generator=stream(0, "clothing1m", "balanced"))
    wanted = min(each, int(counts.min()))
    if wanted < each:
        warnings.warn(
            f"clothing1m-balanced: {wanted} files of every class, not {each}: class "
            f"{int(counts.argmin())} has no more",
            stacklevel=2,
        )
    return order[rank_in_class(labels[order]) < wanted].sort().values


def _read(
    name: str, data_dir: Path | None, keys: str, labels: str, choose: Choose | None = None
) -> Dataset:
    found = LAYOUT.find(data_dir)
    classes = words_of(found.files[CLASSES])
    listed = _listed(found, keys, read_labels(found.files[labels], len(classes)))
    clean = read_labels(found.files[CLEAN], len(classes))
    validation, test = (_listed(found, part, clean) for part in (VALIDATION, TEST))
    kept, skipped = zip(
        *(present(found.root, part, LAYOUT.origin) for part in (listed, validation, test)),
        strict=True,
    )
    inputs, *held = files_of(found.root, kept, FORM, "stretch")
    given = kept[0].labels
    if choose is not None:
        rows = choose(kept[0], len(classes))
        inputs, given = inputs[rows], given[rows]
    return Dataset(
        name=name,
        inputs=inputs,
        labels=given,
        classes=classes,
        validation_inputs=held[0],
        validation_labels=kept[1].labels,
        test_inputs=held[1],
        test_labels=kept[2].labels,
        ids=ids_of(inputs),
        skipped=tuple(name for part in skipped for name in part),
    )


def _listed(found: Found, keys: str, labels: dict[bytes, int]) -> Labelled:
    return join(read_paths(found.files[keys]), labels, found.files[keys])
