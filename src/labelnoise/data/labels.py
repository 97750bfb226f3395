"""Labels that are written as text: which are missing, what the classes are, in which order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from labelnoise.errors import LabelNoiseError, unknown

LABELS = ("label", "class", "target", "y")
"""Names of label columns, to be found without being named."""

MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "null", "?"})
UNLABELLED = -1  # the position of a missing label
FEW = 20  # rows, below which labels may all differ


def missing(cell: str) -> bool:
    """Whether a cell says that its value is not known."""
    return cell.strip().casefold() in MISSING


@lru_cache(maxsize=4096)  # classes are few, rows are many
def label_name(cell: str) -> str | None:
    """What a written label is called: `3.0` is `3`; nothing if it is missing."""
    if missing(cell):
        return None
    # A column of integers becomes one of floats as soon as one of them is missing.
    return re.sub(r"^([+-]?\d+)\.0+$", r"\1", cell.strip())


def classes_of(names: Sequence[str | None], where: str) -> tuple[str, ...]:
    """The labels that occur, in their order as numbers or as text."""
    found = {name for name in names if name is not None}
    given = sum(name is not None for name in names)
    if not found:
        raise LabelNoiseError(f"{where} has no label in any row")
    if len(found) == 1:
        raise LabelNoiseError(
            f"{where} has only one class, {found.pop()!r}: at least two are needed"
        )
    if given >= FEW and len(found) > given / 2:
        raise LabelNoiseError(
            f"{where} has {len(found)} different values in {given} rows, which are no classes: "
            "pass --label with the labels"
        )
    return tuple(sorted(found, key=_order(found)))


def positions(names: Sequence[str | None], classes: Sequence[str], where: str) -> Tensor:
    """Each label's position in `classes`, (rows,) int64, -1 for one that is missing."""
    place: dict[str | None, int] = {name: number for number, name in enumerate(classes)}
    place[None] = UNLABELLED
    for name in dict.fromkeys(names):
        if name is not None and name not in place:
            raise LabelNoiseError(f"{where}: {unknown('class', name, classes)}")
    return torch.from_numpy(np.array([place[name] for name in names], dtype=np.int64))


class _order:  # noqa: N801 - a function that looks at all names first
    """By number where all are numbers, else by text."""

    def __init__(self, names: Iterable[str]) -> None:
        try:
            self._numbers = {name: float(name) for name in names}
        except ValueError:
            self._numbers = {}

    def __call__(self, name: str) -> tuple[float, str]:
        return self._numbers.get(name, 0.0), name
