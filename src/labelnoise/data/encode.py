"""Feature columns as numbers for a network, in a way that can be kept and used again.

A number gives its value and its rank among the values seen (0..1): one value that lies far off, or
one class that does, would otherwise push all others together. A date is a number of days. Anything
else is a category, one input each for the frequent ones. An encoding is plain JSON, looks at no
label, and encodes the rows that it was made from as it will encode new ones.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelnoise.data.cells import Column, Numbers
from labelnoise.data.labels import missing
from labelnoise.data.numerals import PARSERS, parsed_numbers
from labelnoise.errors import LabelNoiseError, nearest

Array = NDArray[np.float32]
Encoding = Mapping[str, Any]

QUANTILES = 65  # values of a column whose rank is kept
KEPT = 65_000  # of all columns together, so that an encoding stays some megabytes
LEAST = 9  # of any column
CATEGORIES = 50  # of a column that have an input of their own
RARE = 0.002  # fraction of rows below which a category, or a missing value, has none
STRANGE = 0.05  # fraction of cells of a column of numbers that may be none
DISTINCT = 0.9  # fraction of different texts from which on they say who, not what
FEW = 20  # rows or values; less are no evidence of what a column is
FIRST, WORDS = 1000, 4  # cells to look at, and words in each of them that make them texts
INDICES = {"id", "index", "idx", "unnamed: 0", "__index_level_0__"}  # the last two are pandas'
WIDEST = 1e30  # of an input; its square is finite in the scaling


@dataclass(frozen=True)
class Dropped:
    """Columns that are no use, by the reason."""

    constant: tuple[str, ...]
    identity: tuple[str, ...]


def fit(columns: Sequence[Column]) -> tuple[list[dict[str, Any]], Dropped]:
    """How each column is encoded, decided by what is in it; and the columns that are not."""
    quantiles = max(LEAST, min(QUANTILES, KEPT // max(1, len(columns))))
    encodings, constant, identity = [], [], []
    for column in columns:
        encoding = _fit_column(column, quantiles)
        if encoding["kind"] in ("category", "identity") and _prose(column.cells):
            warnings.warn(
                f"column {column.name!r} looks like texts: --text {column.name!r} learns from its "
                "words instead",
                stacklevel=2,
            )
        if encoding["kind"] == "constant":
            constant.append(column.name)
        elif encoding["kind"] == "identity":
            identity.append(column.name)
        else:
            encodings.append(encoding)
    return encodings, Dropped(tuple(constant), tuple(identity))


def encode(columns: Mapping[str, Column], encodings: Sequence[Encoding], rows: int) -> Array:
    """The inputs that the encodings make of a table: (rows, inputs) float32."""
    for encoding in encodings:
        if encoding["name"] not in columns:
            meant = nearest(encoding["name"], columns)
            hint = f": rename {meant!r}?" if meant else ""
            raise LabelNoiseError(f"there is no column {encoding['name']!r}{hint}")
    inputs = np.zeros((rows, sum(map(width, encodings))), dtype=np.float32)
    start = 0
    for encoding in encodings:
        end = start + width(encoding)
        KINDS[encoding["kind"]](columns[encoding["name"]], encoding, inputs[:, start:end])
        start = end
    return inputs


def width(encoding: Encoding) -> int:
    """How many inputs a column gives."""
    own = len(encoding["categories"]) if encoding["kind"] == "category" else 2
    return own + bool(encoding.get("other")) + bool(encoding["missing"])


# --- what a column is -----------------------------------------------------------------------------


def numbers_in(column: Column) -> tuple[str, Numbers] | None:
    """How a column is read as numbers, and these, NaN where there is none; nothing if it is not."""
    for kind, allowed in (*((kind, 0.0) for kind in PARSERS), ("number", STRANGE)):
        numbers, strange = parsed_numbers(column, kind, allowed * len(column.cells))
        # A few words among few numbers are categories such as 1, 2, 3, more.
        if numbers is not None and not (strange and len(np.unique(numbers)) <= FEW):
            return kind, numbers
    return None


def _fit_column(column: Column, quantiles: int) -> dict[str, Any]:
    if found := numbers_in(column):
        kind, numbers = found
        return {"name": column.name, **_fit_numbers(column.name, numbers, kind, quantiles)}
    return {"name": column.name, **_fit_categories(column.cells)}


def _fit_numbers(name: str, numbers: Numbers, kind: str, quantiles: int) -> dict[str, Any]:
    known = np.sort(numbers[~np.isnan(numbers)])
    absent = len(numbers) - len(known)
    values, counts = np.unique(known, return_counts=True)
    if len(values) <= (not absent):
        return {"kind": "constant"}
    if kind != "date" and len(values) == len(numbers) and _row_numbers(name, numbers):
        return {"kind": "identity"}
    # Equal values share the middle of their ranks.
    ranks = (np.cumsum(counts) - counts / 2) / len(known)
    kept = np.arange(len(values))
    if len(values) > quantiles:
        kept = np.unique(np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], quantiles)))
    median = float(np.median(known))
    spread = float(np.quantile(known, 0.75) - np.quantile(known, 0.25))
    return {
        "kind": kind,
        "median": median,
        "spread": spread or float(known[-1] - known[0]) or 1.0,
        "values": values[kept].tolist(),
        "ranks": ranks[kept].tolist(),
        "missing": absent >= max(1, RARE * len(numbers)),
        "absent": absent,
    }


def _row_numbers(name: str, numbers: Numbers) -> bool:
    """Whether numbers that all differ only count the rows, or are called an id."""
    whole = bool((numbers == np.floor(numbers)).all())
    word = name.casefold()
    called = word in INDICES or word.endswith(("_id", " id")) or name.endswith("Id")
    return len(numbers) >= FEW and whole and (called or bool((np.diff(numbers) == 1).all()))


def _fit_categories(cells: Sequence[str]) -> dict[str, Any]:
    counts = Counter(cell.strip() for cell in cells)
    rows = len(cells)
    absent = sum(counts.pop(cell) for cell in list(counts) if missing(cell))
    if len(counts) <= (not absent):
        return {"kind": "constant"}
    if len(counts) > max(FEW, DISTINCT * (rows - absent)):
        return {"kind": "identity"}
    least = max(1, RARE * rows)
    # Ties in the order of the alphabet, not of the rows.
    frequent = sorted(counts, key=lambda cell: (-counts[cell], cell))[:CATEGORIES]
    categories = [cell for cell in frequent if counts[cell] >= least]
    others = rows - absent - sum(counts[cell] for cell in categories)
    return {
        "kind": "category",
        "categories": categories,
        "other": others >= least,
        "missing": absent >= least,
        "absent": absent,
    }


def _prose(cells: Sequence[str]) -> bool:
    """Whether the first cells have as many words as sentences do."""
    told = [cell for cell in cells[:FIRST] if not missing(cell)]
    return len(told) >= FEW and sum(len(cell.split()) for cell in told) >= WORDS * len(told)


# --- inputs ---------------------------------------------------------------------------------------


def _encode_numbers(column: Column, encoding: Encoding, inputs: Array) -> None:
    parsed, strange = parsed_numbers(column, encoding["kind"])
    assert parsed is not None  # noqa: S101 - all cells may be strange
    if strange:
        warnings.warn(
            f"column {column.name!r}: {len(strange)} cells such as {strange[0].strip()[:40]!r} are "
            f"no {encoding['kind']}s, taken as missing",
            stacklevel=2,
        )
    absent = np.isnan(parsed)
    numbers = np.where(absent, encoding["median"], parsed)
    with np.errstate(over="ignore"):
        values = (numbers - encoding["median"]) / encoding["spread"]
    inputs[:, 0] = np.clip(values, -WIDEST, WIDEST)
    inputs[:, 1] = np.interp(numbers, encoding["values"], encoding["ranks"])
    if encoding["missing"]:
        inputs[:, 2] = absent


def _encode_categories(column: Column, encoding: Encoding, inputs: Array) -> None:
    place = {cell: number for number, cell in enumerate(encoding["categories"])}
    nowhere = inputs.shape[1]  # an input that is cut off again
    other = len(place) if encoding["other"] else nowhere
    absent = nowhere - 1 if encoding["missing"] else nowhere
    found: dict[str, int] = {}
    for cell in set(column.cells):
        found[cell] = absent if missing(cell) else place.get(cell.strip(), other)
    where = np.fromiter((found[cell] for cell in column.cells), np.int64, len(inputs))
    rows = np.flatnonzero(where < nowhere)
    inputs[rows, where[rows]] = 1


KINDS: dict[str, Callable[[Column, Encoding, Array], None]] = {
    **dict.fromkeys(PARSERS, _encode_numbers),
    "category": _encode_categories,
}
