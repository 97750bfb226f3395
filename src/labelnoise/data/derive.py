"""A data set made from another one: `mnist:classes=9/rest,imbalance=10,rows=20000`.

What stands after the colon merges classes, makes some of them rare, or takes fewer rows, in this
order. The official test part keeps its balance and its size; only its classes are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from labelnoise.data.dataset import Dataset
from labelnoise.data.originals import Chosen
from labelnoise.errors import LabelNoiseError, unknown
from labelnoise.seeds import stream

USAGE = "DATA:classes=A+B/rest,imbalance=R,rows=N"
REST = "rest"  # the group of all classes that no other group names


@dataclass(frozen=True)
class Change:
    """What is made of a data set.

    Attributes:
        classes: The new classes, each the names of old ones; `("rest",)` holds all others.
        imbalance: How many times as frequent the first class is as the last one; those between
            follow a geometric sequence.
        rows: How many rows to take.
    """

    classes: tuple[tuple[str, ...], ...] = ()
    imbalance: float | None = None
    rows: int | None = None

    @property
    def text(self) -> str:
        """What asks for it, in its canonical form."""
        parts = []
        if self.classes:
            parts.append("classes=" + "/".join("+".join(group) for group in self.classes))
        if self.imbalance is not None:
            parts.append(f"imbalance={self.imbalance:.15g}")
        if self.rows is not None:
            parts.append(f"rows={self.rows}")
        return ",".join(parts)


def parse_change(text: str) -> Change:
    """The change that a text such as `imbalance=10,rows=5000` asks for."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        key, _, value = part.strip().partition("=")
        if key not in READERS:
            raise unknown(f"change of a data set ({USAGE})", key, READERS)
        if key in found:
            raise LabelNoiseError(f"{text!r} has {key} twice")
        try:
            found[key] = READERS[key](value)
        except ValueError:
            raise LabelNoiseError(f"{part.strip()!r} is not understood: write {USAGE}") from None
    return Change(**found)


def derive(dataset: Dataset, change: Change, name: str) -> Dataset:
    """The data set that `change` makes of another one."""
    if change.classes:
        dataset = _merged(dataset, change.classes)
    rows = torch.arange(len(dataset.labels))
    chance = stream(0, "derive")
    if change.imbalance is not None:
        rows = _imbalanced(dataset.labels, change.imbalance, chance)
    if change.rows is not None:
        if change.rows > len(rows):
            raise LabelNoiseError(f"{name}: there are only {len(rows)} rows, not {change.rows}")
        rows = rows[torch.randperm(len(rows), generator=chance)[: change.rows]].sort().values
    return replace(only(dataset, rows), name=name)


def only(dataset: Dataset, rows: Tensor) -> Dataset:
    """The data set without the other rows, which keep the names that they had."""
    if len(rows) == len(dataset.labels):
        return dataset
    kept = rows.tolist()
    return replace(
        dataset,
        inputs=dataset.inputs[rows],
        labels=dataset.labels[rows],
        truth=None if dataset.truth is None else dataset.truth[rows],
        ids=tuple(dataset.ids[row] if dataset.ids else str(row) for row in kept),
        originals=Chosen(dataset.originals, kept) if dataset.originals else (),
    )


def _merged(dataset: Dataset, groups: Sequence[Sequence[str]]) -> Dataset:
    """Groups of classes as new classes."""
    place: dict[str, int] = {}
    for number, group in enumerate(groups):
        for name in group:
            if name != REST and name not in dataset.classes:
                raise unknown("class", name, [*dataset.classes, REST])
            if name in place:
                raise LabelNoiseError(f"class {name!r} stands in two groups")
            place[name] = number
    left = [name for name in dataset.classes if name not in place]
    if left and REST not in place:
        raise LabelNoiseError(f"no group has class {left[0]!r}: add /{REST}, or name it")
    new = torch.tensor([place.get(name, place.get(REST, -1)) for name in dataset.classes])

    def merged(labels: Tensor | None) -> Tensor | None:
        return None if labels is None else new[labels]

    return replace(
        dataset,
        labels=new[dataset.labels],
        test_labels=merged(dataset.test_labels),
        validation_labels=merged(dataset.validation_labels),
        truth=merged(dataset.truth),
        classes=tuple("+".join(group) for group in groups),
        flips=None,
    )


def _imbalanced(labels: Tensor, ratio: float, chance: torch.Generator) -> Tensor:
    """Rows of which class k is kept with frequency ratio ** -(k / (classes - 1)), in order."""
    size = torch.bincount(labels)
    classes = len(size)
    share = ratio ** -(torch.arange(classes) / max(1, classes - 1))
    wanted = (int(size.min()) * share).round().long().clamp(min=1)
    order = torch.randperm(len(labels), generator=chance)
    taken = [order[labels[order] == k][: int(wanted[k])] for k in range(classes)]
    return torch.cat(taken).sort().values


def _groups(text: str) -> tuple[tuple[str, ...], ...]:
    groups = tuple(tuple(group.split("+")) for group in text.split("/"))
    if len(groups) < 2 or any(not name for group in groups for name in group):
        raise ValueError(text)
    return groups


def _ratio(text: str) -> float:
    ratio = float(text)
    if not 1 <= ratio < float("inf"):
        raise ValueError(text)
    return ratio


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise ValueError(text)
    return count


READERS: dict[str, Callable[[str], Any]] = {"classes": _groups, "imbalance": _ratio, "rows": _count}
