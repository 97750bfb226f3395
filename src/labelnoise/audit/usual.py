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
from labelnoise.data.cells import Column, Numbers
from labelnoise.data.encode import numbers_in
from labelnoise.data.numerals import PARSERS

Cells = Mapping[str, str]
Beside = tuple[str, str, str, str]
"""A column, its value, what is usual for the given label, and for the suggested one."""

MOST_ROWS = 200  # of a class that are looked at
MOST_CELLS = 2_000_000  # in all
MOST_ORDERED = 500  # suspects that say which columns come first


@dataclass(frozen=True)
class Words:
    """A column of categories: the most frequent one of each class."""

    usual: Sequence[str]

    def tells(self, value: str, given: int, suggested: int) -> float:
        """How much a value speaks for the suggested label and against the given one."""
        word = value.strip()
        return float(word == self.usual[suggested]) - float(word == self.usual[given])


@dataclass(frozen=True)
class Measures:
    """A column of numbers or dates, read as the encoder reads them.

    Attributes:
        kind: How a cell is read.
        middle: The median of each class, NaN where it has no number.
        spread: How much they vary.
    """

    kind: str
    middle: Sequence[float]
    spread: float

    @property
    def usual(self) -> list[str]:
        """The median of each class as it is shown."""
        show = _day if self.kind == "date" else "{:.4g}".format
        return ["" if math.isnan(value) else show(value) for value in self.middle]

    def tells(self, value: str, given: int, suggested: int) -> float:
        """How much a value speaks for the suggested label and against the given one."""
        number = _number(value, self.kind)
        far, near = abs(number - self.middle[given]), abs(number - self.middle[suggested])
        told = float(far - near if given != suggested else far) / self.spread
        return told if math.isfinite(told) else 0.0


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
    def _columns(self) -> dict[str, Words | Measures]:
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


def _column(by_class: Sequence[Sequence[str]]) -> Words | Measures:
    found = numbers_in(Column("", [value for values in by_class for value in values]))
    if found is None or np.isnan(found[1]).all():
        common = [Counter(map(str.strip, values)).most_common(1) for values in by_class]
        return Words([found[0][0] if found else "" for found in common])
    kind, flat = found
    middle = [_median(numbers) for numbers in np.split(flat, np.cumsum([*map(len, by_class)])[:-1])]
    return Measures(kind, middle, float(np.nanstd(flat)) or 1.0)


def _number(cell: str, kind: str) -> float:
    """As it is read, NaN where there is none."""
    try:
        return PARSERS[kind](cell)
    except (ValueError, OverflowError):
        return math.nan


def _median(numbers: Numbers) -> float:
    known = numbers[~np.isnan(numbers)]
    return float(np.median(known)) if len(known) else math.nan


def _day(days: float) -> str:
    return str(np.datetime64(0, "D") + np.timedelta64(math.floor(days), "D"))
