"""Tables as they are written: the columns of a `.csv`, `.tsv` or `.parquet` file."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from labelnoise.data.content import content
from labelnoise.errors import LabelNoiseError, unknown

Numbers = NDArray[np.float64]

DELIMITERS = (",", ";", "\t", "|")
LOOKED_AT = 50  # records that choose the delimiter
LETTERS = 1_000_000  # in which they lie


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Attributes:
        name: What it is called.
        cells: (rows,) as written, empty where nothing is.
        values: (rows,) where the file itself says that they are numbers, NaN where nothing is.
    """

    name: str
    cells: Sequence[str]
    values: Numbers | None = None

    def take(self, rows: Sequence[int]) -> Column:
        """Only these rows of it."""
        values = None if self.values is None else self.values[np.asarray(rows, dtype=np.int64)]
        cells = list(self.cells)  # of a parquet file, all at once is far quicker than one by one
        return Column(self.name, [cells[row] for row in rows], values)


@dataclass(frozen=True)
class Table:
    """Columns of one length, by name."""

    columns: dict[str, Column]
    rows: int

    def column(self, name: str) -> Column:
        """The column called `name`; the nearest name is suggested."""
        if name not in self.columns:
            raise unknown("column", name, list(self.columns))
        return self.columns[name]

    def take(self, rows: Sequence[int]) -> Table:
        """Only these rows."""
        taken = {name: column.take(rows) for name, column in self.columns.items()}
        return Table(taken, len(rows))


def read_cells(path: Path) -> Table:
    """All columns of a table; what is wrong with it is one line that names the file."""
    try:
        table = READERS[path.suffix.lower()](path)
    except LabelNoiseError as error:
        text = str(error)
        raise LabelNoiseError(text if str(path) in text else f"{path}: {text}") from error
    if not table.rows:
        raise LabelNoiseError(f"{path}: there are no rows below the names of the columns")
    return table


# --- delimited text -------------------------------------------------------------------------------


def _read_delimited(path: Path) -> Table:
    try:
        text = content(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise LabelNoiseError(f"line {line} is not UTF-8: save the table as UTF-8") from error
    with _cells_of_any_size():
        names, records = _records(text, _delimiter(text))
    columns = zip(*records, strict=True) if records else ((),) * len(names)
    pairs = zip(names, columns, strict=True)
    return Table({name: Column(name, cells) for name, cells in pairs}, len(records))


def _records(text: str, delimiter: str) -> tuple[tuple[str, ...], list[list[str]]]:
    """The names of the columns, and the cells of every row."""
    reader = _reader(text, delimiter)
    names: tuple[str, ...] = ()
    records: list[list[str]] = []
    end = 0
    try:
        for record in reader:
            start, end = end + 1, reader.line_num
            if not record:  # an empty line
                continue
            if not names:
                names = _names(record)
            elif len(record) != len(names):
                raise LabelNoiseError(
                    f"line {start} has {len(record)} fields, the first line has {len(names)}"
                )
            else:
                records.append(record)
    except csv.Error as error:
        raise LabelNoiseError(f"the row from line {end + 1} on cannot be read ({error})") from error
    if not names:
        raise LabelNoiseError("the file is empty")
    return names, records


def _names(header: Sequence[str]) -> tuple[str, ...]:
    names = tuple(name.strip() or f"column {number}" for number, name in enumerate(header))
    twice = [name for name, count in Counter(names).items() if count > 1]
    # Columns may be numbered, but not by fractions, nor two of them alike.
    if any(re.fullmatch(r"[+-]?\d*\.\d+", name) for name in names) or (
        twice and twice[0].isdecimal()
    ):
        raise LabelNoiseError(
            f"the first line has numbers ({', '.join(names[:3])}) where the names of the columns "
            "are expected: add a line of names"
        )
    if twice:
        raise LabelNoiseError(f"two columns are called {twice[0]!r}: rename one")
    return names


def _delimiter(text: str) -> str:
    """What separates the cells: what gives the first rows as many as their header, and most."""

    def fit(delimiter: str) -> tuple[float, int]:
        lengths: list[int] = []
        with suppress(csv.Error):  # which is told when the whole is read
            for record in _reader(text[:LETTERS], delimiter):
                lengths += [len(record)] if record else []
                if len(lengths) == LOOKED_AT:
                    break
        if not lengths or lengths[0] < 2:
            return 0.0, 0
        return sum(length == lengths[0] for length in lengths) / len(lengths), lengths[0]

    return max(DELIMITERS, key=fit)


def _reader(text: str, delimiter: str) -> Any:
    # Strict, so that a quote that is never closed does not swallow rows in silence.
    lines = io.StringIO(text, newline="")
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=delimiter != "\t", strict=True)


@contextmanager
def _cells_of_any_size() -> Iterator[None]:
    """Texts may be longer than the 131,072 letters that the csv module takes by default."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


# --- parquet --------------------------------------------------------------------------------------


class _Written(Sequence[str]):
    """The numbers of a parquet column as text, made when they are looked at."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[str]: ...
    def __getitem__(self, row: int | slice) -> str | Sequence[str]:
        if isinstance(row, slice):
            return _Written(self._values[row])
        return _written(self._values[row].as_py())

    def __iter__(self) -> Iterator[str]:
        for chunk in self._values.chunks:
            yield from map(_written, chunk.to_pylist())


def _written(value: object) -> str:
    if value is None:
        return ""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise LabelNoiseError("parquet needs pyarrow: pip install 'labelnoise[parquet]'") from error
    try:
        # Not read_table: it takes a path such as year=2024/ for further columns.
        read = parquet.ParquetFile(path).read()
        read.validate(full=True)
        pairs = zip(_names(read.column_names), read.columns, strict=True)
        return Table({name: _arrow_column(name, one) for name, one in pairs}, read.num_rows)
    except LabelNoiseError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise LabelNoiseError(f"no readable parquet file ({reason})") from error


def _arrow_column(name: str, values: Any) -> Column:
    import pyarrow
    from pyarrow import types

    kind = values.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = values.cast("float64", safe=False).to_numpy()
        return Column(name, _Written(values), np.asarray(numbers, dtype=np.float64))
    if types.is_timestamp(kind):  # Python's times know no nanoseconds
        values = values.cast(pyarrow.timestamp("us", kind.tz), safe=False)
    return Column(name, [_written(value) for value in values.to_pylist()])


READERS = {".csv": _read_delimited, ".tsv": _read_delimited, ".parquet": _read_parquet}
