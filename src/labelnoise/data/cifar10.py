"""CIFAR-10 in its official binary layout, `cifar-10-batches-bin/`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelnoise.data.content import content
from labelnoise.data.dataset import Dataset
from labelnoise.data.directory import data_directory
from labelnoise.data.download import Download, fetch_all, locked, unpack
from labelnoise.data.split import paper_split
from labelnoise.errors import LabelNoiseError

FOLDER = "cifar-10-batches-bin"
PICKLED = "cifar-10-batches-py"
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = ("test_batch.bin",)
FILES = TRAIN + TEST
ARCHIVE = Download(
    name="cifar-10-binary.tar.gz",
    urls=("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    md5="c32a1d4ab5d03f1284b67883e8d87530",
)

CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
FLIPS = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
IMAGE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32  # the label, then the red, green and blue planes row by row


def read_cifar10(data_dir: Path | None = None, archive: Download = ARCHIVE) -> Dataset:
    """Read CIFAR-10, unpacking or downloading its archive when the files are not there."""
    directory = data_directory(data_dir)
    folder = directory / FOLDER
    if _missing(folder):
        _complete(directory, archive)
    inputs, labels = _read_part([folder / name for name in TRAIN])
    test_inputs, test_labels = _read_part([folder / name for name in TEST])
    return Dataset(
        name="cifar10",
        inputs=inputs,
        labels=labels,
        classes=CLASSES,
        test_inputs=test_inputs,
        test_labels=test_labels,
        flips=FLIPS,
        verified=True,
        split=paper_split,
    )


def _missing(folder: Path) -> list[str]:
    return [name for name in FILES if not (folder / name).is_file()]


def _complete(directory: Path, archive: Download) -> None:
    """Bring in the files that are not there yet."""
    path = directory / archive.name
    if (directory / PICKLED).is_dir() and not (directory / FOLDER).exists() and not path.is_file():
        # Unpickling runs whatever code the file holds, so no reader of ours does it.
        raise LabelNoiseError(
            f"{directory / PICKLED}: pickled files are not read, because they can run code: "
            f"unpack {archive.urls[0]} into {directory}"
        )
    remedy = (
        f"put {', '.join(_missing(directory / FOLDER))} into {directory / FOLDER} "
        f"or {archive.name} into {directory}"
    )
    with locked(directory, remedy):
        missing = _missing(directory / FOLDER)  # another run may have just brought them
        own = path.is_file()
        if missing and not own:
            fetch_all("cifar10", [archive], directory, remedy)
        if missing:
            _take_out(path, directory / FOLDER, missing)
            if not own:
                path.unlink()


def _take_out(archive: Path, folder: Path, names: Sequence[str]) -> None:
    """Move files of the archive to `folder`, each whole or not at all."""
    with TemporaryDirectory(dir=folder.parent) as scratch:
        unpack(archive, Path(scratch))
        folder.mkdir(exist_ok=True)
        for name in names:
            unpacked = Path(scratch) / FOLDER / name
            if not unpacked.is_file():
                raise LabelNoiseError(f"{archive}: holds no {FOLDER}/{name}")
            unpacked.replace(folder / name)


def _read_part(paths: Sequence[Path]) -> tuple[Tensor, Tensor]:
    records = [_read_records(path) for path in paths]
    longest = max(map(len, records))
    for path, part in zip(paths, records, strict=True):
        if len(part) != longest:  # all official files are alike
            raise LabelNoiseError(
                f"{path}: {longest} records expected as in its sister files, found {len(part)}"
            )
    pixels = np.concatenate([part[:, 1:] for part in records]).reshape(-1, *IMAGE)
    labels = np.concatenate([part[:, 0] for part in records]).astype(np.int64)
    return torch.from_numpy(pixels), torch.from_numpy(labels)


def _read_records(path: Path) -> NDArray[np.uint8]:
    """The records of one file, (rows, 3073) uint8, the label first."""
    data = content(path)
    if not data or len(data) % RECORD:
        raise LabelNoiseError(
            f"{path}: records of {RECORD} bytes expected, found {len(data)} bytes"
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, RECORD)
    highest = records[:, 0].max()
    if highest >= len(CLASSES):
        raise LabelNoiseError(f"{path}: labels 0 to {len(CLASSES) - 1} expected, found {highest}")
    return records
