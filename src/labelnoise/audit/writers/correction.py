"""Correction: what a writer is told."""

from __future__ import annotations

from collections.abc import Mapping
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
        decided: What the label of a row is to be; of all others it stays.
        bad: Rows to leave out.
        link: Whether files may be linked rather than copied.
    """

    source: Source
    dataset: Dataset
    decided: Mapping[int, str]
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
        kept = (pair for pair in self.decided.items() if pair[0] not in self.bad)
        return {row: new for row, new in sorted(kept) if new != self.before[row]}

    def name(self, row: int) -> str:
        """What a row is called."""
        return self.dataset.ids[row] if self.dataset.ids else str(row)
