"""Data sets by name, files by suffix and folders of images, all read into one `Dataset`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from labelnoise.data.animal10n import read_animal10n
from labelnoise.data.cifar10 import read_cifar10
from labelnoise.data.cifar100 import read_cifar100
from labelnoise.data.cifarn import CIFAR10N, CIFAR100N, Human, read_human
from labelnoise.data.clothing1m import read_balanced, read_clean, read_clothing1m
from labelnoise.data.columns import Columns
from labelnoise.data.dataset import Dataset, Known, Rows
from labelnoise.data.derive import derive, parse_change
from labelnoise.data.digits import read_digits
from labelnoise.data.directory import data_directory
from labelnoise.data.food101n import read_food101n
from labelnoise.data.formats import FORMATS, format_of
from labelnoise.data.glyphs import read_glyphs
from labelnoise.data.idx import FASHION_MNIST, MNIST, read_idx
from labelnoise.data.split import Split, paper_split, stratified_split
from labelnoise.data.tabular import read_breast_cancer, read_hundred, read_rare
from labelnoise.data.webvision import read_webvision
from labelnoise.errors import LabelNoiseError, unknown

__all__ = [
    "DATASETS",
    "FORMATS",
    "Columns",
    "Dataset",
    "Known",
    "Source",
    "Split",
    "data_directory",
    "paper_split",
    "read",
    "read_rows",
    "stratified_split",
]


@dataclass(frozen=True)
class Source:
    """A data set that is known by name.

    Attributes:
        name: What users call it.
        explains: One line about it.
        read: Reads it, given the data directory or None for the usual one.
    """

    name: str
    explains: str
    read: Callable[[Path | None], Dataset]


def _human(name: str, source: Human, key: str, explains: str) -> Source:
    return Source(name, explains, partial(read_human, source, name, key))


DATASETS: dict[str, Source] = {
    source.name: source
    for source in (
        Source("digits", "1,797 handwritten digits, 8x8 grey; comes along", read_digits),
        Source("mnist", "70,000 handwritten digits, 28x28 grey", partial(read_idx, MNIST)),
        Source("fashion-mnist", "70,000 clothes, 28x28 grey", partial(read_idx, FASHION_MNIST)),
        Source("cifar10", "60,000 photographs of ten kinds, 32x32 colour", read_cifar10),
        Source("cifar100", "60,000 photographs of a hundred kinds, 32x32 colour", read_cifar100),
        _human("cifar10n-aggregate", CIFAR10N, "aggre_label", "people's labels, best of three"),
        _human("cifar10n-random1", CIFAR10N, "random_label1", "cifar10 as one person labelled it"),
        _human("cifar10n-random2", CIFAR10N, "random_label2", "likewise, another person"),
        _human("cifar10n-random3", CIFAR10N, "random_label3", "likewise, a third person"),
        _human("cifar10n-worst", CIFAR10N, "worse_label", "people's labels, a wrong one if any is"),
        _human("cifar100n", CIFAR100N, "noisy_label", "cifar100 as people labelled it"),
        Source("animal10n", "55,000 animals of ten kinds that look alike, 64x64", read_animal10n),
        Source("clothing1m", "a million clothes of 14 kinds, labels by text", read_clothing1m),
        Source("clothing1m-balanced", "265,664 of them, as many of a kind", read_balanced),
        Source("clothing1m-clean", "47,570 clothes with verified labels", read_clean),
        Source("food101n", "310,009 dishes of 101 kinds, from the web", read_food101n),
        Source("webvision-mini", "65,944 images of 50 kinds, from the web", read_webvision),
        Source("breast-cancer", "569 tumours, 30 measurements; comes along", read_breast_cancer),
        Source("hundred", "100 classes, 70,000 points of 20 numbers; drawn", read_hundred),
        Source("glyphs", "24,000 characters of 100 kinds, 28x28 grey; drawn", read_glyphs),
        Source("rare", "70,000 points of 20 numbers, one in ten positive; drawn", read_rare),
    )
}


def name_of(data: str) -> str:
    """What a data set is called that is read from `data`."""
    if data in DATASETS:
        return data
    base, change = _derived(data)
    if change:
        return f"{name_of(base)}:{parse_change(change).text}"
    return str(Path(os.path.expanduser(data)))


def base_of(data: str) -> str:
    """What a changed data set is made of; `data` itself where nothing is changed."""
    base, change = _derived(data)
    return base_of(base) if change else data


def read(data: str, data_dir: Path | None = None, columns: Columns | None = None) -> Dataset:
    """Read a data set.

    Args:
        data: The name of a known data set, or the path of a file; what is to be changed of it may
            follow (`mnist:rows=1000`).
        data_dir: Where the known ones lie or are downloaded to; by default the environment
            variable LABELNOISE_DATA, else the user's cache.
        columns: What the user says about the columns of a table.
    """
    columns = columns or Columns()
    if data in DATASETS:
        columns.refuse(data)
        return DATASETS[data].read(data_dir)
    base, change = _derived(data)
    if change:
        return derive(read(base, data_dir, columns), parse_change(change), name_of(data))
    path = Path(name_of(data))
    if form := format_of(path):
        return form.read(path, columns)
    if path.suffix or path.exists() or len(path.parts) > 1:
        problem = "this kind of file is not understood" if path.exists() else "no such file"
        suffixes = f"{', '.join(list(FORMATS)[:-1])} or {list(FORMATS)[-1]}"
        raise LabelNoiseError(
            f"{data}: {problem}; give a {suffixes} file, a folder of class folders, or one of "
            f"{', '.join(DATASETS)}"
        )
    raise unknown("data set", data, DATASETS)


def is_own(data: str) -> bool:
    """Whether `data` is a file or folder of one's own of a kind that is understood."""
    return data not in DATASETS and format_of(Path(os.path.expanduser(data))) is not None


def read_rows(path: Path, known: Known, columns: Columns | None = None) -> Rows:
    """Read the rows of a file or folder for a model, labelled or not, as its own were read."""
    form = format_of(path)
    if form is None:
        raise LabelNoiseError(f"{path}: this kind of file is not understood")
    return form.rows(path, known, columns or Columns())


def _derived(data: str) -> tuple[str, str]:
    """What is read, and what is changed of it; a file's name may have a colon, too."""
    base, _, change = data.rpartition(":")
    if not base or "=" not in change or Path(os.path.expanduser(data)).exists():
        return data, ""
    return base, change
