"""A copy of a `.npz` file with another `y`; what is not touched stays byte for byte.

Rows that are left out leave `x`, `y` and every array with as many rows (weights, names of samples);
`x_test` and `y_test` stay whole.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelnoise.audit.writers.correction import Correction
from labelnoise.errors import LabelNoiseError

Array = NDArray[Any]
WHOLE = ("x_test", "y_test")


def write_npz(correction: Correction, out: Path) -> None:
    """Write the archive anew, array by array."""
    stays = np.array([row not in correction.bad for row in range(len(correction.before))])
    with zipfile.ZipFile(correction.path) as before, zipfile.ZipFile(out, "x") as after:
        for entry in before.infolist():
            content = before.read(entry)
            name = entry.filename.removesuffix(".npy")
            if name == "y":
                labels = _corrected(_load(name, content), correction)
                content = _saved(labels[stays])
            elif correction.bad and name not in WHOLE and _rows(content) == len(stays):
                content = _saved(_load(name, content)[stays])
            after.writestr(entry, content, entry.compress_type)


def _corrected(y: Array, correction: Correction) -> Array:
    """`y` with some labels changed, wide enough for them; all are labels that it had."""
    value = {str(one): one for one in np.unique(y).tolist()}
    new = y.copy()
    for row, label in correction.changed.items():
        new[row] = value[label]
    return new


def _load(name: str, content: bytes) -> Array:
    try:
        loaded: Array = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except ValueError as error:
        raise LabelNoiseError(
            f"rows cannot be taken out of {name!r} ({error}): decide 'keep' instead of 'bad'"
        ) from error
    return loaded


def _rows(content: bytes) -> int | None:
    """How many rows an array has, by its header alone."""
    stream = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(stream)
        header = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape = header(stream)[0]
    except ValueError:  # no array at all
        return None
    return shape[0] if shape else None


def _saved(array: Array) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()
