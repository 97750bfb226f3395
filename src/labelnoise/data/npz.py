"""One's own arrays: a `.npz` file with `x`, `y` and perhaps `x_test`, `y_test`.

`x` holds one sample a row: features (rows, features), grey images (rows, height, width), or images
with 1, 3 or 4 channels, first or last. `y` holds integers or text, one label a row.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from torch import Tensor

from labelnoise.data.arrays import (
    Array,
    array_classes,
    damage_told,
    filled,
    inputs_of,
    labels_of,
)
from labelnoise.data.columns import Columns
from labelnoise.data.content import errors_naming
from labelnoise.data.dataset import Dataset, Known, Rows
from labelnoise.errors import LabelNoiseError


def read_npz(path: Path, columns: Columns | None = None) -> Dataset:
    """Read `x` and `y` for training, and `x_test` and `y_test` if the file has them."""
    (columns or Columns()).refuse(str(path))
    with errors_naming(path):
        arrays = _load(path, required=("x", "y"), optional=("x_test", "y_test"))
        classes = array_classes("y", arrays["y"])
        inputs, labels = _rows(arrays, "x", "y", classes)
        test_inputs, test_labels = _test_part(arrays, classes)
    return Dataset(
        name=str(path),
        inputs=inputs,
        labels=labels,
        classes=classes,
        test_inputs=test_inputs,
        test_labels=test_labels,
    )


def npz_rows(path: Path, known: Known, columns: Columns | None = None) -> Rows:
    """Read `x` for a model, and the labels `y` if the file has them.

    Returns:
        The inputs as `read_npz` gives them, and their labels as positions in `known.classes`.
    """
    (columns or Columns()).refuse(str(path))
    with errors_naming(path):
        arrays = _load(path, required=("x",), optional=("y",))
        if "y" in arrays:
            return Rows(*_rows(arrays, "x", "y", known.classes))
        return Rows(inputs_of("x", arrays["x"]), None)


def _load(path: Path, required: Sequence[str], optional: Sequence[str]) -> dict[str, Array]:
    """The arrays asked for, without ever unpickling."""
    with damage_told(".npz"):
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            # Check sums first: numpy believes an array's header before the zip is verified.
            if damaged := archive.testzip():
                raise LabelNoiseError(f"{damaged!r} is damaged, its checksum is wrong")
        _require(required, names)
        with np.load(path, allow_pickle=False) as arrays:
            wanted = (*required, *optional)
            return {key: filled(key, arrays[key]) for key in wanted if key in names}


def _require(keys: Sequence[str], names: Sequence[str]) -> None:
    # Quoted, because a name in a damaged file may hold anything, a new line too.
    found = ", ".join(map(repr, sorted(names))) or "nothing"
    for key in keys:
        if key not in names:
            lower = {name.lower(): name for name in names if name not in keys}
            nearest = get_close_matches(key, lower, n=1, cutoff=0.25)
            hint = f": rename {lower[nearest[0]]!r} to {key!r}?" if nearest else ""
            raise LabelNoiseError(f"no array {key!r}, found {found}{hint}")


def _rows(
    arrays: Mapping[str, Array], x: str, y: str, classes: Sequence[str]
) -> tuple[Tensor, Tensor]:
    """Inputs and labels that belong together."""
    inputs, labels = inputs_of(x, arrays[x]), labels_of(y, arrays[y], classes)
    if len(inputs) != len(labels):
        raise LabelNoiseError(f"{x} has {len(inputs)} rows but {y} has {len(labels)}")
    return inputs, labels


def _test_part(
    arrays: Mapping[str, Array], classes: Sequence[str]
) -> tuple[Tensor | None, Tensor | None]:
    present = [key for key in ("x_test", "y_test") if key in arrays]
    if not present:
        return None, None
    if len(present) == 1:
        raise LabelNoiseError(f"only {present[0]} is there: give both x_test and y_test or neither")
    x, x_test = arrays["x"], arrays["x_test"]
    if x_test.shape[1:] != x.shape[1:]:
        raise LabelNoiseError(f"rows of x are {x.shape[1:]} but rows of x_test {x_test.shape[1:]}")
    if (x_test.dtype == np.uint8) != (x.dtype == np.uint8):  # only bytes are scaled by 255
        raise LabelNoiseError(f"x is {x.dtype} but x_test is {x_test.dtype}: save them alike")
    return _rows(arrays, "x_test", "y_test", classes)
