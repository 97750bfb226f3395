"""MNIST and Fashion-MNIST: images and labels in IDX files, gzip or plain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelnoise.data.content import content
from labelnoise.data.dataset import Dataset
from labelnoise.data.directory import data_directory
from labelnoise.data.download import Download, fetch_all, locked
from labelnoise.data.split import paper_split
from labelnoise.errors import LabelNoiseError

TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
FILES = TRAIN + TEST

IMAGES_MAGIC, LABELS_MAGIC = 2051, 2049
SIDE = 28
DIGIT_FLIPS: Mapping[int, int] = {7: 1, 2: 7, 3: 8, 5: 6, 6: 5}
"""Digits that a class-conditional noise confuses, true to given."""


@dataclass(frozen=True)
class IdxSet:
    """A data set in four IDX files.

    Attributes:
        name: What users call it.
        folders: Where its files may lie in the data directory, the first choice first.
        mirrors: Addresses that hold the files, with a slash at the end.
        checksums: The MD5 of each compressed file, in the order of `FILES`.
        classes: What each label is called.
        flips: The published class-conditional map, if there is one.
    """

    name: str
    folders: tuple[str, ...]
    mirrors: tuple[str, ...]
    checksums: tuple[str, ...]
    classes: tuple[str, ...]
    flips: Mapping[int, int] | None = None


MNIST = IdxSet(
    name="mnist",
    folders=("mnist", "MNIST/raw"),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    ),
    checksums=(
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
    classes=tuple("0123456789"),
    flips=DIGIT_FLIPS,
)

FASHION_MNIST = IdxSet(
    name="fashion-mnist",
    folders=("fashion-mnist", "FashionMNIST/raw"),
    mirrors=(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    checksums=(
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
    classes=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
)


def read_idx(source: IdxSet, data_dir: Path | None = None) -> Dataset:
    """Read a data set of IDX files, downloading those that are not there."""
    folder = _folder(source, data_directory(data_dir))
    _complete(source, folder)
    inputs, labels = _read_part(folder, TRAIN, len(source.classes))
    test_inputs, test_labels = _read_part(folder, TEST, len(source.classes))
    return Dataset(
        name=source.name,
        inputs=inputs,
        labels=labels,
        classes=source.classes,
        test_inputs=test_inputs,
        test_labels=test_labels,
        flips=source.flips,
        verified=True,
        split=paper_split,
    )


def read_images(path: Path) -> Tensor:
    """The images in an IDX file, (count, 1, 28, 28) uint8."""
    data = content(path)
    count, height, width = _header(path, data, IMAGES_MAGIC, "images", 3)
    if (height, width) != (SIDE, SIDE):
        raise LabelNoiseError(f"{path}: images of {SIDE}x{SIDE} expected, found {height}x{width}")
    body = _body(path, data, 16, count * SIDE * SIDE, f"{count} images of {SIDE}x{SIDE}")
    return torch.from_numpy(body.reshape(count, 1, SIDE, SIDE))


def read_labels(path: Path, classes: int = 10) -> Tensor:
    """The labels in an IDX file, (count,) int64, each below `classes`."""
    data = content(path)
    (count,) = _header(path, data, LABELS_MAGIC, "labels", 1)
    body = _body(path, data, 8, count, f"{count} labels")
    if body.max() >= classes:
        raise LabelNoiseError(f"{path}: labels 0 to {classes - 1} expected, found {body.max()}")
    return torch.from_numpy(body.astype(np.int64))


def _folder(source: IdxSet, directory: Path) -> Path:
    """The folder that holds most of the files, the first one when they tie."""
    return min((directory / folder for folder in source.folders), key=lambda f: len(_missing(f)))


def _missing(folder: Path) -> list[str]:
    return [name for name in FILES if not _find(folder, name)]


def _find(folder: Path, name: str) -> Path | None:
    # The plain file first: it spares the decompression.
    candidates = (folder / name, folder / f"{name}.gz")
    return next((path for path in candidates if path.is_file()), None)


def _complete(source: IdxSet, folder: Path) -> None:
    """Download the files that are not there yet."""
    missing = _missing(folder)
    if not missing:
        return
    with locked(folder, f"put {', '.join(missing)} into {folder}"):
        downloads = [
            Download(f"{name}.gz", tuple(f"{mirror}{name}.gz" for mirror in source.mirrors), md5)
            for name, md5 in zip(FILES, source.checksums, strict=True)
            if not _find(folder, name)  # again: another run may have just brought it
        ]
        names = ", ".join(download.name for download in downloads)
        fetch_all(source.name, downloads, folder, f"put {names} into {folder}")


def _read_part(folder: Path, names: tuple[str, str], classes: int) -> tuple[Tensor, Tensor]:
    images_path, labels_path = (_find(folder, name) or folder / name for name in names)
    images, labels = read_images(images_path), read_labels(labels_path, classes)
    if len(images) != len(labels):
        raise LabelNoiseError(
            f"{labels_path}: {len(labels)} labels but {len(images)} images in {images_path.name}"
        )
    return images, labels


def _header(path: Path, data: bytes, magic: int, kind: str, dimensions: int) -> tuple[int, ...]:
    """The sizes after the magic number, all of them 4-byte big-endian integers."""
    if len(data) < 4 * (1 + dimensions):
        raise LabelNoiseError(f"{path}: too short for the header of an IDX file of {kind}")
    found, *sizes = np.frombuffer(data, ">u4", 1 + dimensions).tolist()
    if found != magic:
        raise LabelNoiseError(f"{path}: magic number {magic} expected for {kind}, found {found}")
    if sizes[0] == 0:
        raise LabelNoiseError(f"{path}: holds no {kind}")
    return tuple(sizes)


def _body(path: Path, data: bytes, offset: int, expected: int, what: str) -> NDArray[np.uint8]:
    found = len(data) - offset
    if found != expected:
        raise LabelNoiseError(f"{path}: {expected} bytes expected for {what}, found {found}")
    # A copy, because torch shares the memory and must be able to write to it.
    return np.frombuffer(data, np.uint8, offset=offset).copy()
