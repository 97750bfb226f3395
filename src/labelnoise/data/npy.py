"""One's own embeddings: an `.npy` file of inputs, and a file of labels beside it.

The labels are an `.npy` file (integers or text), a `.txt` file (one label a line) or a table with a
line of names first. Rows without a label are left out.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from torch import Tensor

from labelnoise.data.arrays import Array, check_labels, damage_told, filled, inputs_of
from labelnoise.data.cells import READERS, read_cells
from labelnoise.data.columns import Columns
from labelnoise.data.content import content, errors_naming
from labelnoise.data.dataset import Dataset, Known, Rows
from labelnoise.data.labels import LABELS, classes_of, label_name, positions
from labelnoise.errors import LabelNoiseError

BESIDE = ("{}_labels", "{}.labels", "labels")
SUFFIXES = (".npy", ".csv", ".txt")


def read_npy(path: Path, columns: Columns | None = None) -> Dataset:
    """Read inputs and their labels."""
    columns = columns or Columns()
    columns.refuse(str(path), but=("label",))
    inputs = _inputs(path)
    file = _labels_file(path, columns.label)
    names = _names(file)
    _same_length(path, inputs, file, names)
    classes = classes_of(names, str(file))
    labels = positions(names, classes, str(file))
    labelled = labels >= 0
    skipped = int((~labelled).sum())
    if skipped:
        warnings.warn(f"{file}: {skipped} rows without a label are left out", stacklevel=2)
        inputs, labels = inputs[labelled], labels[labelled]
    return Dataset(
        name=str(path),
        inputs=inputs,
        labels=labels,
        classes=classes,
        ids=tuple(map(str, labelled.nonzero().flatten().tolist())) if skipped else (),
    )


def npy_rows(path: Path, known: Known, columns: Columns | None = None) -> Rows:
    """Read inputs for a model, and their labels if a file of them is named."""
    columns = columns or Columns()
    columns.refuse(str(path), but=("label",))
    inputs = _inputs(path)
    if columns.label is None:
        return Rows(inputs, None)
    file = _labels_file(path, columns.label)
    names = _names(file)
    _same_length(path, inputs, file, names)
    return Rows(inputs, positions(names, known.classes, str(file)))


def _inputs(path: Path) -> Tensor:
    with errors_naming(path):
        return inputs_of("the array", _load(path))


def _load(path: Path) -> Array:
    """The array in a file, without ever unpickling."""
    with damage_told(".npy"), path.open("rb") as file:
        return filled("the array", np.lib.format.read_array(file, allow_pickle=False))


def _labels_file(path: Path, named: str | None) -> Path:
    if named is not None:
        file = Path(named).expanduser()
        if not file.is_file():
            raise LabelNoiseError(
                f"--label {named}: no such file; for {path.name} it names a file of labels"
            )
        if file.suffix.lower() not in {*SUFFIXES, *READERS}:
            raise LabelNoiseError(
                f"--label {named}: a file of labels is a {', '.join(SUFFIXES)} file"
            )
        return file
    stems = [beside.format(path.stem) for beside in BESIDE]
    for name in (f"{stem}{suffix}" for stem in stems for suffix in SUFFIXES):
        if (path.parent / name).is_file():
            file = path.parent / name
            warnings.warn(f"{path}: the labels are {file}; --label names another", stacklevel=3)
            return file
    raise LabelNoiseError(
        f"{path} has no labels beside it: pass --label FILE, or call them {stems[0]}.npy"
    )


def _names(file: Path) -> list[str | None]:
    """What each label is called; nothing where it is missing."""
    suffix = file.suffix.lower()
    if suffix == ".npy":
        with errors_naming(file):
            labels = _load(file)
            check_labels("the array", labels)
            return [label_name(str(label)) for label in labels.tolist()]
    if suffix in READERS:
        columns = read_cells(file).columns
        lower = {name.casefold(): name for name in columns}
        called = [lower[word] for word in LABELS if word in lower]
        return [label_name(cell) for cell in columns[(called or list(columns))[-1]].cells]
    try:
        lines = content(file).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise LabelNoiseError(f"{file}: not UTF-8: save the labels as UTF-8") from error
    return [label_name(line) for line in lines]


def _same_length(path: Path, inputs: Tensor, file: Path, names: list[str | None]) -> None:
    if len(names) == len(inputs):
        return
    short = len(names) == len(inputs) - 1 and file.suffix.lower() in READERS
    hint = ": its first line is taken for a name; a .txt file has none" if short else ""
    raise LabelNoiseError(f"{path} has {len(inputs)} rows but {file} has {len(names)} labels{hint}")
