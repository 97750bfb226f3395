"""Correction: what a writer is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from labelnoise.audit.source import Source
from labelnoise.data.dataset import Dataset


@dataclass(frozen=True)
class Correction:
    """The labels that a copy of some data is to have.

    Attributes:
        source: What the data are.
        dataset: As they were read.
        labels: (rows,) what each label is to be.
        bad: Rows to leave out.
        link: Whether files may be linked rather than copied.
    """

    source: Source
    dataset: Dataset
    labels: Sequence[str]
    bad: frozenset[int]
    link: bool = False

    @property
    def path(self) -> Path:
        """The file or folder that the data lie in."""
        return Path(self.source["data"]).expanduser()

    @cached_property
    def before(self) -> list[str]:
        """(rows,) what each label is in the data."""
        return [self.dataset.classes[place] for place in self.dataset.labels.tolist()]

    @cached_property
    def changed(self) -> Mapping[int, str]:
        """The rows that stay and whose label becomes another."""
        pairs = enumerate(zip(self.before, self.labels, strict=True))
        return {row: new for row, (old, new) in pairs if old != new and row not in self.bad}

    def name(self, row: int) -> str:
        """What a row is called."""
        return self.dataset.ids[row] if self.dataset.ids else str(row)
