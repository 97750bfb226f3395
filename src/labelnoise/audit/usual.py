"""Usual: what the columns of each class mostly hold, to show what speaks against a label.

A person can judge a row of numbers only beside others. So each value of a suspect stands beside
what is usual where its given label is right, and beside what is usual for the suggested one;
columns that tell the two apart come first, in the same order for all suspects.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from labelnoise.audit.findings import Findings

Cells = Mapping[str, str]
Beside = tuple[str, str, str, str]
"""A column, its value, what is usual for the given label, and for the suggested one."""

MOST_ROWS = 200  # of a class that are looked at
MOST_CELLS = 2_000_000  # in all
MOST_ORDERED = 500  # suspects that say which columns come first


@dataclass(frozen=True)
class Column:
    """One column: what is usual in each class, and how much it varies; None if it is no number."""

    usual: Sequence[str]
    middle: Sequence[float]
    spread: float | None

    def tells(self, value: str, given: int, suggested: int) -> float:
        """How much a value speaks for the suggested label and against the given one."""
        if self.spread is None:
            return float(value == self.usual[suggested]) - float(value == self.usual[given])
        number = _number(value)
        if number is None:
            return 0.0
        far, near = abs(number - self.middle[given]), abs(number - self.middle[suggested])
        return (far - near if given != suggested else far) / self.spread


@dataclass(frozen=True)
class Usual:
    """What is usual, by column.

    Attributes:
        findings: The audit; only labels that it does not flag count as right.
        cells: The columns of a row, as they are shown.
    """

    findings: Findings
    cells: Callable[[int], Cells]

    def order(self, rows: Sequence[int]) -> list[str]:
        """The columns, those first that tell most of these rows; of the first ones, if many."""
        flagged = [row for row in rows if self.findings.issue[row]]
        looked_at = (flagged or list(rows))[:MOST_ORDERED]
        told = dict.fromkeys(self._columns, 0.0)
        for row in looked_at:
            given, suggested = self._labels(row)
            for name, value in self.cells(row).items():
                tells = self._columns[name].tells(value, given, suggested)
                told[name] += tells if math.isfinite(tells) else 0.0
        return sorted(told, key=lambda name: -told[name])

    def beside(self, row: int, order: Sequence[str]) -> list[Beside]:
        """The columns of a row, in this order."""
        given, suggested = self._labels(row)
        cells, columns = self.cells(row), self._columns
        usual = ((name, columns[name].usual) for name in order)
        return [(name, cells[name], of[given], of[suggested]) for name, of in usual]

    def _labels(self, row: int) -> tuple[int, int]:
        return int(self.findings.given[row]), int(self.findings.predicted[row])

    @cached_property
    def _columns(self) -> dict[str, Column]:
        looked_at = [[self.cells(row) for row in rows] for rows in self._rows()]
        names = self.cells(0)
        return {
            name: _column([[row[name] for row in rows] for rows in looked_at]) for name in names
        }

    def _rows(self) -> list[list[int]]:
        """Rows of each class that are taken for right, evenly spread; if there are none, any."""
        count = len(self.findings.classes)
        most = MOST_CELLS // max(1, count * len(self.cells(0)))
        chosen = []
        for label in range(count):
            mine = np.flatnonzero(self.findings.given == label)
            right = mine[~self.findings.issue[mine]]
            from_ = right if len(right) else mine
            step = max(1, math.ceil(len(from_) / max(5, min(most, MOST_ROWS))))
            chosen.append(from_[::step].tolist())
        return chosen


def _column(by_class: Sequence[Sequence[str]]) -> Column:
    numbers = [[_number(value) for value in values if value.strip()] for values in by_class]
    flat = [number for values in numbers for number in values]
    if flat and all(number is not None for number in flat):
        middle = [float(np.median(values)) if values else math.nan for values in numbers]  # type: ignore[arg-type]
        spread = float(np.std(np.array(flat, dtype=np.float64))) or 1.0
        return Column(
            [f"{value:.4g}" if value == value else "" for value in middle], middle, spread
        )
    common = [Counter(values).most_common(1) for values in by_class]
    return Column([found[0][0] if found else "" for found in common], (), None)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
