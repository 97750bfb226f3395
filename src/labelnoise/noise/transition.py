"""Transition matrices: how often each true label is given as each label.

`transition[i, j]` is the probability that a sample of true class i is given the label j, so that
every row sums to 1.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from labelnoise.errors import LabelNoiseError, unknown

Rows = tuple[tuple[float, ...], ...]

TOLERANCE = 1e-6  # how far a row's sum may be from 1
TIE = 1e-9  # entries this close are equal; 1 - rate and rate / (classes - 1) round differently

NAMED: dict[str, Rows] = {
    "mnist-arbitrary": (
        (1, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (0, 1, 0, 0, 0, 0, 0, 0, 0, 0),
        (0, 0, 0.6, 0, 0, 0, 0, 0.3, 0, 0.1),
        (0, 0, 0, 0.5, 0, 0.1, 0, 0, 0.4, 0),
        (0, 0, 0, 0, 1, 0, 0, 0, 0, 0),
        (0, 0, 0, 0, 0.15, 0.55, 0.3, 0, 0, 0),
        (0, 0, 0, 0, 0, 0.35, 0.55, 0.1, 0, 0),
        (0, 0.25, 0, 0, 0, 0, 0, 0.5, 0, 0.25),
        (0, 0, 0, 0, 0, 0, 0, 0, 1, 0),
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 1),
    ),
    "cifar10-arbitrary": (
        (1, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (0, 1, 0, 0, 0, 0, 0, 0, 0, 0),
        (0.2, 0, 0.7, 0, 0, 0, 0.1, 0, 0, 0),
        (0.1, 0, 0, 0.6, 0, 0.1, 0, 0, 0.2, 0),
        (0, 0.1, 0.1, 0, 0.7, 0, 0, 0.1, 0, 0),
        (0, 0, 0, 0.1, 0, 0.6, 0, 0, 0, 0.3),
        (0, 0, 0, 0, 0, 0, 1, 0, 0, 0),
        (0, 0, 0, 0, 0, 0, 0, 1, 0, 0),
        (0, 0, 0, 0, 0, 0, 0, 0, 1, 0),
        (0, 0.1, 0, 0, 0, 0, 0, 0.1, 0, 0.8),
    ),
}
"""The two arbitrary matrices of the BARE paper (Patel and Sastry, WACV 2023), by name."""


class NotDominantWarning(UserWarning):
    """Some class keeps its true label no more often than it gets a certain wrong one."""


def symmetric(rate: float, num_classes: int) -> Tensor:
    """Every label is wrong with probability `rate`, each wrong class equally likely."""
    check_rate(rate)
    _check_classes(num_classes)
    transition = _full(rate / (num_classes - 1), num_classes)
    return transition.fill_diagonal_(1 - rate)


def symmetric_inclusive(rate: float, num_classes: int) -> Tensor:
    """Every label is redrawn with probability `rate`, over all classes, the true one included.

    The share of wrong labels is therefore rate * (classes - 1) / classes, less than `rate`.
    """
    check_rate(rate)
    _check_classes(num_classes)
    transition = _full(rate / num_classes, num_classes)
    return transition.fill_diagonal_(1 - rate + rate / num_classes)


def pair(rate: float, num_classes: int) -> Tensor:
    """Every class is given as the next one with probability `rate`, the last as the first."""
    _check_classes(num_classes)
    flips = {label: (label + 1) % num_classes for label in range(num_classes)}
    return class_conditional(rate, flips, num_classes)


def class_conditional(rate: float, flips: Mapping[int, int], num_classes: int) -> Tensor:
    """Every class in `flips` is given as the class it maps to with probability `rate`.

    Args:
        rate: The flip probability of the classes in `flips`; the others are never flipped.
        flips: True label to confused label.
        num_classes: How many classes there are.
    """
    check_rate(rate)
    _check_classes(num_classes)
    transition = torch.eye(num_classes, dtype=torch.float64)
    for true, confused in flips.items():
        _check_flip(true, confused, num_classes)
        transition[true, true] = 1 - rate
        transition[true, confused] = rate
    return transition


def named(name: str) -> Tensor:
    """The matrix of a paper, by its name in `NAMED`."""
    if name not in NAMED:
        raise unknown("matrix", name, NAMED)
    return torch.tensor(NAMED[name], dtype=torch.float64)


def read_matrix(path: str | os.PathLike[str]) -> Tensor:
    """Read a matrix from a .npy, .csv, .txt or .json file.

    Text holds one row a line, separated by commas or by white space; JSON holds a list of lists.
    What the numbers must satisfy is left to `check`, which knows the number of classes.
    """
    file = Path(os.path.expanduser(path))
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise _unreadable(file, f"a matrix is a {', '.join(_READERS)} file")
    try:
        matrix = reader(file)
    except OSError as error:
        raise _unreadable(file, error.strerror or "cannot be read") from error
    # What a damaged file makes the parsers raise, besides their own ValueError.
    except (ValueError, TypeError, EOFError, OverflowError, MemoryError, RecursionError) as error:
        raise _unreadable(file, str(error) or "cannot be read") from error
    return torch.from_numpy(matrix)


def check(transition: Tensor, num_classes: int) -> None:
    """Refuse what is not a transition matrix of `num_classes`; warn when it is not dominant.

    Raises:
        LabelNoiseError: Not square, of another size, a negative entry, or a row whose sum is not 1.

    Warns:
        NotDominantWarning: Some class is given as another at least as often as it is kept.
    """
    if transition.dim() != 2 or transition.shape[0] != transition.shape[1]:
        shape = " x ".join(str(size) for size in transition.shape) or "a single number"
        raise LabelNoiseError(f"a transition matrix is square, one row a class; this is {shape}")
    if len(transition) != num_classes:
        raise LabelNoiseError(
            f"the transition matrix is for {len(transition)} classes, the data has {num_classes}"
        )
    _check_rows(transition.double())
    _warn_unless_dominant(transition.double())


def check_rate(rate: float) -> None:
    """Refuse a rate outside of [0, 1], and NaN."""
    if not 0 <= rate <= 1:  # false for NaN
        raise LabelNoiseError(f"a noise rate is a fraction in [0, 1], not {rate}")


def _check_classes(num_classes: int) -> None:
    if num_classes < 2:
        raise LabelNoiseError(f"noise needs at least 2 classes to confuse, not {num_classes}")


def _check_flip(true: int, confused: int, num_classes: int) -> None:
    if not (0 <= true < num_classes and 0 <= confused < num_classes):
        raise LabelNoiseError(f"flip {true} -> {confused} is outside of the {num_classes} classes")
    if true == confused:
        raise LabelNoiseError(f"flip {true} -> {confused} goes to the same class")


def _check_rows(transition: Tensor) -> None:
    for row, entries in enumerate(transition):
        total = entries.sum().item()
        if (entries < 0).any():
            column = int(entries.argmin())
            raise LabelNoiseError(
                f"row {row} of the transition matrix has a negative entry: "
                f"{entries[column].item():g} in column {column}"
            )
        if not abs(total - 1) <= TOLERANCE:  # true for NaN
            raise LabelNoiseError(
                f"row {row} of the transition matrix must sum to 1, not {total:.8g}"
            )


def _warn_unless_dominant(transition: Tensor) -> None:
    kept = transition.diagonal()
    others = transition - torch.diag(kept)
    largest, confused = others.max(dim=1)
    failing = (kept <= largest + TIE) if len(transition) > 1 else torch.zeros(1, dtype=torch.bool)
    if not failing.any():
        return
    first = int(failing.nonzero()[0])
    more = int(failing.sum()) - 1
    also = f" ({more} more like it)" if more else ""
    warnings.warn(
        f"class {first} keeps its label with probability {kept[first].item():.3g} and is given as "
        f"class {int(confused[first])} with {largest[first].item():.3g}{also}: the right label is "
        "then not the most frequent one of its class, so no method that relies on the majority "
        "can recover it",
        NotDominantWarning,
        stacklevel=3,
    )


def _full(value: float, num_classes: int) -> Tensor:
    return torch.full((num_classes, num_classes), value, dtype=torch.float64)


def _unreadable(file: Path, why: str) -> LabelNoiseError:
    return LabelNoiseError(f"{file}: {' '.join(why.split())}")


def _read_npy(file: Path) -> np.ndarray:
    with file.open("rb") as handle:
        # Not `np.load`: it would also open archives, whose content has no one matrix.
        matrix = np.lib.format.read_array(handle, allow_pickle=False)
    if matrix.dtype.kind not in "biuf" or matrix.ndim != 2:
        raise ValueError(f"expected a matrix of real numbers, not {matrix.dtype} {matrix.shape}")
    return matrix.astype(np.float64)


def _read_text(file: Path) -> np.ndarray:
    rows = []
    for number, line in enumerate(file.read_text(encoding="utf-8-sig").splitlines(), start=1):
        fields = line.split(",") if "," in line else line.split()
        if not line.strip():
            continue
        try:
            rows.append([float(field) for field in fields])
        except ValueError:
            raise ValueError(f"line {number} is not a row of numbers: {line.strip()!r}") from None
    return _rectangle(rows)


def _read_json(file: Path) -> np.ndarray:
    rows = json.loads(file.read_text(encoding="utf-8-sig"))
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise ValueError("expected a list of lists of numbers")
    for number, row in enumerate(rows):
        # By exact type: `true` is an int to isinstance.
        if not all(type(entry) in (int, float) for entry in row):
            raise ValueError(f"row {number} is not a list of numbers")
    return _rectangle(rows)


def _rectangle(rows: list[list[float]]) -> np.ndarray:
    if not rows:
        raise ValueError("holds no numbers")
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise ValueError(f"row {number} has {len(row)} numbers, row 0 has {len(rows[0])}")
    return np.array(rows, dtype=np.float64)


_READERS: dict[str, Callable[[Path], np.ndarray]] = {
    ".npy": _read_npy,
    ".csv": _read_text,
    ".txt": _read_text,
    ".json": _read_json,
}
