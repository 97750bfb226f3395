"""WebVision 1.0, mini (Li et al. 2017; Jiang et al. 2018): the first 50 classes of the Google part.

65,944 images found by a search for their class, about 20 % of them of something else; the 2,500
verified ones of the validation part of WebVision are the test part. Images are cut to a square by
their short edge of 320, to be cropped to 299.
"""

from __future__ import annotations

from pathlib import Path

import torch

from labelnoise.data.dataset import Dataset
from labelnoise.data.layout import Layout
from labelnoise.data.listed import Labelled, files_of, ids_of, present, read_labels, words_of
from labelnoise.errors import LabelNoiseError

TRAIN, TEST = "info/train_filelist_google.txt", "info/val_filelist.txt"
NAMES = "info/synsets.txt"  # "n01440764 tench, Tinca tinca", a line a class
LAYOUT = Layout(
    name="webvision-mini",
    places=("webvision", "WebVision", "webvision1.0"),
    files=(TRAIN, TEST),
    folders=("google", "val_images_256"),
    origin="unpack WebVision 1.0 (resized images, Google) from https://data.vision.ee.ethz.ch/cvl/webvision/",
)
CLASSES = 50
FORM = (3, 320, 320)


def read_webvision(data_dir: Path | None = None) -> Dataset:
    """Read the 50 classes of WebVision that everyone compares on."""
    found = LAYOUT.find(data_dir)
    listed = (
        _first(read_labels(found.files[TRAIN], None), found.files[TRAIN]),
        _first(read_labels(found.files[TEST], None, b"val_images_256/"), found.files[TEST]),
    )
    kept, skipped = zip(*(present(found.root, part, LAYOUT.origin) for part in listed), strict=True)
    inputs, test_inputs = files_of(found.root, kept, FORM, "cover")
    return Dataset(
        name="webvision-mini",
        inputs=inputs,
        labels=kept[0].labels,
        classes=_classes(found.root / NAMES),
        test_inputs=test_inputs,
        test_labels=kept[1].labels,
        ids=ids_of(inputs),
        skipped=tuple(name for part in skipped for name in part),
    )


def _first(labels: dict[bytes, int], path: Path) -> Labelled:
    """The files of the first classes."""
    kept = {name: label for name, label in labels.items() if label < CLASSES}
    if not kept:
        raise LabelNoiseError(f"{path}: no file has a label below {CLASSES}")
    return Labelled(list(kept), torch.tensor(list(kept.values())))


def _classes(path: Path) -> tuple[str, ...]:
    """What the classes are called, if it is said; else they have numbers."""
    if not path.is_file():
        return tuple(map(str, range(CLASSES)))
    return tuple(line.partition(" ")[2] or line for line in words_of(path)[:CLASSES])
