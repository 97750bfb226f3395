"""Arrays of one's own as inputs and labels, and what is wrong with those that are not."""

from __future__ import annotations

import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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


@contextmanager
def damage_told(kind: str) -> Iterator[None]:
    """Say in one line what is wrong with a file of this kind that numpy cannot read."""
    try:
        yield
    except LabelNoiseError:
        raise
    except OSError as error:
        raise LabelNoiseError(f"cannot be read ({error.strerror or _one_line(error)})") from error
    except DAMAGE as error:
        if "allow_pickle" in str(error):  # numpy's word for an array of Python objects
            raise LabelNoiseError(
                "arrays of Python objects are not read, because they can run code: "
                "save inputs as numbers and labels as integers or text"
            ) from error
        raise LabelNoiseError(f"no readable {kind} file ({_one_line(error)})") from error


def filled(key: str, value: object) -> Array:
    """`value`, if it is an array with something in it."""
    # Numpy hands out the raw bytes of a zip member that is not an array.
    if not isinstance(value, np.ndarray):
        raise LabelNoiseError(f"{key} is not an array")
    if value.size == 0:
        raise LabelNoiseError(f"{key} is empty, its shape is {value.shape}")
    return value


def inputs_of(key: str, array: Array) -> Tensor:
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


def array_classes(key: str, y: Array) -> tuple[str, ...]:
    """The labels that occur, in their order as numbers or as text."""
    check_labels(key, y)
    classes = tuple(str(value) for value in np.unique(y).tolist())
    if len(classes) == 1:
        raise LabelNoiseError(f"{key} has only one class, {classes[0]!r}: at least two are needed")
    return classes


def labels_of(key: str, y: Array, classes: Sequence[str]) -> Tensor:
    """Each label's position in `classes`, (rows,) int64."""
    check_labels(key, y)
    values, inverse = np.unique(y, return_inverse=True)
    names = [str(value) for value in values.tolist()]
    position = {name: index for index, name in enumerate(classes)}
    for name in names:
        if name not in position:
            raise LabelNoiseError(f"{key} has the label {name!r}, which is none of the classes")
    return torch.from_numpy(np.array([position[name] for name in names], dtype=np.int64)[inverse])


def check_labels(key: str, y: Array) -> None:
    """Refuse what cannot be labels."""
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
