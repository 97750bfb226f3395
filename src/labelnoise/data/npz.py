"""One's own arrays: a `.npz` file with `x`, `y` and perhaps `x_test`, `y_test`.

`x` holds one sample a row: features (rows, features), grey images (rows, height, width), or images
with 1, 3 or 4 channels, first or last. `y` holds integers or text, one label a row.
"""

from __future__ import annotations

import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from labelnoise.data.columns import Columns
from labelnoise.data.content import errors_naming
from labelnoise.data.dataset import Dataset, Known, Rows
from labelnoise.errors import LabelNoiseError

Array = NDArray[Any]

CHANNELS = (1, 3, 4)
SHAPES = "(rows, features), (rows, height, width), or images with 1, 3 or 4 channels first or last"
DAMAGE = (  # what the readers of zip and npy raise on files that are not what they seem
    EOFError,
    KeyError,
    MemoryError,
    OverflowError,
    RuntimeError,
    SyntaxError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_npz(path: Path, columns: Columns | None = None) -> Dataset:
    """Read `x` and `y` for training, and `x_test` and `y_test` if the file has them."""
    (columns or Columns()).refuse(str(path))
    with errors_naming(path):
        arrays = _load(path, required=("x", "y"), optional=("x_test", "y_test"))
        classes = _classes(arrays["y"])
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
        return Rows(_inputs("x", arrays["x"]), None)


def _load(path: Path, required: Sequence[str], optional: Sequence[str]) -> dict[str, Array]:
    """The arrays asked for, without ever unpickling."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            # Check sums first: numpy believes an array's header before the zip is verified.
            if damaged := archive.testzip():
                raise LabelNoiseError(f"{damaged!r} is damaged, its checksum is wrong")
        _require(required, names)
        with np.load(path, allow_pickle=False) as arrays:
            wanted = (*required, *optional)
            return {key: _array(key, arrays[key]) for key in wanted if key in names}
    except LabelNoiseError:
        raise
    except OSError as error:
        raise LabelNoiseError(f"cannot be read ({error.strerror or _one_line(error)})") from error
    except DAMAGE as error:
        if "allow_pickle" in str(error):  # numpy's word for an array of Python objects
            raise LabelNoiseError(
                "arrays of Python objects are not read, because they can run code: "
                "save x as numbers and y as integers or text"
            ) from error
        raise LabelNoiseError(f"no readable .npz file ({_one_line(error)})") from error


def _require(keys: Sequence[str], names: Sequence[str]) -> None:
    # Quoted, because a name in a damaged file may hold anything, a new line too.
    found = ", ".join(map(repr, sorted(names))) or "nothing"
    for key in keys:
        if key not in names:
            lower = {name.lower(): name for name in names if name not in keys}
            nearest = get_close_matches(key, lower, n=1, cutoff=0.25)
            hint = f": rename {lower[nearest[0]]!r} to {key!r}?" if nearest else ""
            raise LabelNoiseError(f"no array {key!r}, found {found}{hint}")


def _array(key: str, value: object) -> Array:
    # Numpy hands out the raw bytes of a zip member that is not an array.
    if not isinstance(value, np.ndarray):
        raise LabelNoiseError(f"{key} is not an array")
    if value.size == 0:
        raise LabelNoiseError(f"{key} is empty, its shape is {value.shape}")
    return value


def _rows(
    arrays: Mapping[str, Array], x: str, y: str, classes: Sequence[str]
) -> tuple[Tensor, Tensor]:
    """Inputs and labels that belong together."""
    inputs, labels = _inputs(x, arrays[x]), _labels(y, arrays[y], classes)
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


def _inputs(key: str, array: Array) -> Tensor:
    """Features or channel-first images: uint8 as it is, other numbers as float32."""
    if array.dtype.kind not in "biuf":
        raise LabelNoiseError(f"{key} holds {array.dtype}: numbers expected")
    array = _channels_first(key, array)
    if array.dtype == np.uint8:
        return torch.from_numpy(np.ascontiguousarray(array))
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, caught below
        numbers = np.ascontiguousarray(array, dtype=np.float32)
    bad = np.any(~np.isfinite(numbers.reshape(len(numbers), -1)), axis=1)
    if bad.any():
        raise LabelNoiseError(
            f"{key} has NaN or infinite values in {bad.sum()} of {len(bad)} rows, "
            f"the first is row {bad.argmax()}"
        )
    return torch.from_numpy(numbers)


def _channels_first(key: str, array: Array) -> Array:
    if array.ndim == 2:
        return array
    if array.ndim == 3:
        return array[:, np.newaxis]
    if array.ndim == 4:
        first, last = array.shape[1] in CHANNELS, array.shape[3] in CHANNELS
        if first and last:
            raise LabelNoiseError(
                f"{key} of shape {array.shape} may have its channels first or last: "
                "only one of the two sizes may be 1, 3 or 4"
            )
        if first:
            return array
        if last:
            return np.moveaxis(array, 3, 1)
    raise LabelNoiseError(f"{key} has shape {array.shape}: expected {SHAPES}")


def _classes(y: Array) -> tuple[str, ...]:
    """The labels that occur, in their order as numbers or as text."""
    _check_labels("y", y)
    classes = tuple(str(value) for value in np.unique(y).tolist())
    if len(classes) == 1:
        raise LabelNoiseError(f"y has only one class, {classes[0]!r}: at least two are needed")
    return classes


def _labels(key: str, y: Array, classes: Sequence[str]) -> Tensor:
    """Each label's position in `classes`, (rows,) int64."""
    _check_labels(key, y)
    values, inverse = np.unique(y, return_inverse=True)
    names = [str(value) for value in values.tolist()]
    position = {name: index for index, name in enumerate(classes)}
    for name in names:
        if name not in position:
            raise LabelNoiseError(f"{key} has the label {name!r}, which is none of the classes")
    return torch.from_numpy(np.array([position[name] for name in names], dtype=np.int64)[inverse])


def _check_labels(key: str, y: Array) -> None:
    if y.ndim != 1:
        raise LabelNoiseError(f"{key} has shape {y.shape}: one label a row expected, (rows,)")
    if y.dtype.kind == "f":
        raise LabelNoiseError(f"{key} holds {y.dtype}: convert labels with {key}.astype(int)")
    if y.dtype.kind == "S":
        raise LabelNoiseError(f"{key} holds bytes: convert labels with {key}.astype(str)")
    if y.dtype.kind not in "biuU":
        raise LabelNoiseError(f"{key} holds {y.dtype}: integers or text expected")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
