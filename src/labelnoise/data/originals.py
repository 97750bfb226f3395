"""Rows as their owner wrote them, put together when they are looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

Original = Mapping[str, str]
"""One row: what stands in each column."""


class Originals(Sequence[Original]):
    """The rows of some columns of one length."""

    def __init__(self, columns: Mapping[str, Sequence[str]]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        """How many rows there are."""
        return len(next(iter(self._columns.values())))

    @overload
    def __getitem__(self, row: int) -> Original: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Original]: ...
    def __getitem__(self, row: int | slice) -> Original | Sequence[Original]:
        """One row, or some."""
        if isinstance(row, slice):
            return Chosen(self, range(len(self))[row])
        return {name: cells[row] for name, cells in self._columns.items()}


class Chosen(Sequence[Original]):
    """Some rows of others."""

    def __init__(self, originals: Sequence[Original], rows: Sequence[int]) -> None:
        self._originals, self._rows = originals, rows

    def __len__(self) -> int:
        """How many were chosen."""
        return len(self._rows)

    @overload
    def __getitem__(self, row: int) -> Original: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Original]: ...
    def __getitem__(self, row: int | slice) -> Original | Sequence[Original]:
        """One of the rows, or some."""
        if isinstance(row, slice):
            return Chosen(self._originals, self._rows[row])
        return self._originals[self._rows[row]]
