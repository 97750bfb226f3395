"""Food-101N (Lee et al., CVPR 2018): 310,009 photographs of food from the web, 101 classes.

About 20 % of the labels are wrong. The test part is that of Food-101, which has the same classes.
Of a small part it was verified whether the label is right; those of `verified_val.tsv` that are
right validate, and none of that list trains. Images are cut to a square by their short edge of 256,
to be cropped to 224.
"""

from __future__ import annotations

from pathlib import Path

import torch

from labelnoise.data.dataset import Dataset
from labelnoise.data.layout import Layout, find_all
from labelnoise.data.listed import (
    Labelled,
    files_of,
    ids_of,
    inside,
    lines_of,
    once,
    present,
    read_paths,
    shown,
    words_of,
)
from labelnoise.errors import LabelNoiseError

CLASSES, IMAGES, VERIFIED = "meta/classes.txt", "meta/imagelist.tsv", "meta/verified_val.tsv"
LAYOUT = Layout(
    name="food101n",
    places=("Food-101N_release", "food-101n", "Food-101N"),
    files=(CLASSES, IMAGES, VERIFIED),
    folders=("images",),
    origin="unpack Food-101N from https://kuanghuei.github.io/Food-101N/",
)
TEST = "meta/test.txt"
TEST_LAYOUT = Layout(
    name="food101n",
    places=("food-101", "food101"),
    files=(TEST,),
    folders=("images",),
    origin="unpack http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz, the test part",
)
FORM = (3, 256, 256)
FOLDER = b"images/"


def read_food101n(data_dir: Path | None = None) -> Dataset:
    """Read Food-101N with the test part of Food-101."""
    found, tested = find_all(data_dir, LAYOUT, TEST_LAYOUT)
    classes = words_of(found.files[CLASSES])[1:]  # the first line is a heading
    place = {name.encode(): number for number, name in enumerate(classes)}
    everything = _by_folder(read_paths(found.files[IMAGES], FOLDER, heading=1), place, IMAGES)
    right = _verified(found.files[VERIFIED])
    trains = torch.tensor([name not in right for name in everything.names])
    validates = torch.tensor([right.get(name, False) for name in everything.names])
    test = _by_folder(read_paths(tested.files[TEST], FOLDER, b".jpg"), place, TEST)
    listed = (everything.where(trains), everything.where(validates), test)
    places = (
        (found.root, LAYOUT.origin),
        (found.root, LAYOUT.origin),
        (tested.root, TEST_LAYOUT.origin),
    )
    kept, skipped = zip(
        *(present(root, part, origin) for (root, origin), part in zip(places, listed, strict=True)),
        strict=True,
    )
    inputs, validation = files_of(found.root, kept[:2], FORM, "cover")
    (test_inputs,) = files_of(tested.root, kept[2:], FORM, "cover")
    return Dataset(
        name="food101n",
        inputs=inputs,
        labels=kept[0].labels,
        classes=classes,
        validation_inputs=validation,
        validation_labels=kept[1].labels,
        test_inputs=test_inputs,
        test_labels=kept[2].labels,
        ids=ids_of(inputs),
        skipped=tuple(name for part in skipped for name in part),
    )


def _by_folder(names: list[bytes], place: dict[bytes, int], where: str) -> Labelled:
    """Files whose class is the folder that they lie in."""
    try:
        labels = [place[name.split(b"/")[1]] for name in names]
    except KeyError as error:
        raise LabelNoiseError(
            f"{where} has the class {shown(error.args[0])}, which {CLASSES} has not"
        ) from None
    return Labelled(names, torch.tensor(labels, dtype=torch.long))


def _verified(path: Path) -> dict[bytes, bool]:
    """Files whose label was verified, and whether it was found right."""
    pairs = [line.rsplit(b"\t", 1) for line in lines_of(path)[1:]]
    for number, pair in enumerate(pairs, 2):
        if len(pair) != 2 or pair[1].strip() not in {b"0", b"1"}:
            raise LabelNoiseError(f"{path}, line {number}: a path, a tab and 0 or 1 expected")
    names = inside([pair[0] for pair in pairs], path, heading=1)
    once(names, path)
    return {FOLDER + name: pair[1].strip() == b"1" for name, pair in zip(names, pairs, strict=True)}
