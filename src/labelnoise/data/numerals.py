"""Numbers that are written as text: plain, with commas, with a decimal comma, or as dates."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import numpy as np

from labelnoise.data.cells import Column, Numbers
from labelnoise.data.labels import missing

LARGEST = 1e150  # so that differences of two numbers are finite
DAY = 86_400.0  # seconds


def _number(cell: str) -> float:
    if "_" in cell:  # Python reads 1_000 as a number, a table means a name
        raise ValueError(cell)
    return float(cell)


def _thousands(cell: str) -> float:
    """A number such as 1,234,567.8."""
    if not re.fullmatch(r"[+-]?\d{1,3}(,\d{3})*(\.\d+)?", cell.strip()):
        raise ValueError(cell)
    return float(cell.replace(",", ""))


def _comma(cell: str) -> float:
    """A number such as 3,14."""
    if "." in cell:
        raise ValueError(cell)
    return _number(cell.replace(",", ".", 1))


def _date(cell: str) -> float:
    """Days since 1970 of an ISO date or time; one without a zone is taken for UTC."""
    time = datetime.fromisoformat(cell.strip())
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() / DAY


PARSERS: dict[str, Callable[[str], float]] = {
    "number": _number,
    "number with commas": _thousands,
    "number with a decimal comma": _comma,
    "date": _date,
}
"""Kinds of columns that are numbers, in the order in which they are tried."""


def parsed_numbers(
    column: Column, kind: str, allowed: float = math.inf
) -> tuple[Numbers | None, list[str]]:
    """The numbers of a column, NaN where there is none, and the cells that are none.

    Nothing if there are more of those than allowed.
    """
    if column.values is not None and PARSERS[kind] is not _date:
        return _finite(column.values), []
    if kind == "number" and (plain := _all_plain(column.cells)) is not None:
        return _finite(plain), []
    parse = PARSERS[kind]
    numbers = np.full(len(column.cells), np.nan)
    strange = []
    for row, cell in enumerate(column.cells):
        try:
            numbers[row] = parse(cell)
        except (ValueError, OverflowError):
            if not missing(cell):
                strange.append(cell)
            if len(strange) > allowed:
                return None, strange
    return _finite(numbers), strange


def _all_plain(cells: Sequence[str]) -> Numbers | None:
    """The numbers of a column without a cell that is none, all at once."""
    try:
        numbers = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return None
    return None if "_" in "".join(cells) else numbers


def _finite(numbers: Numbers) -> Numbers:
    """Infinite numbers as missing, immense ones as large ones."""
    return np.clip(np.where(np.isfinite(numbers), numbers, np.nan), -LARGEST, LARGEST)
