"""A copy of a `.csv` or `.tsv` file in which only label cells differ; all else byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from labelnoise.audit.writers.correction import Correction
from labelnoise.audit.writers.rows import label_column, rows_in_file
from labelnoise.data.cells import DELIMITERS, read_cells
from labelnoise.data.labels import label_name
from labelnoise.errors import LabelNoiseError

ODD = "save the table as plain CSV and audit that"
BREAK = re.compile(r"\r\n|\r|\n")

Span = tuple[int, int]


@dataclass(frozen=True)
class Record:
    """One row of a file.

    Attributes:
        start: Where it begins in the text.
        end: Where the next one begins.
        cells: Where each of its cells is, quotes included.
    """

    start: int
    end: int
    cells: list[Span]


def write_delimited(correction: Correction, out: Path) -> None:
    """Change the cells of labels, and leave out the lines of bad samples."""
    text = correction.path.read_bytes().decode("utf-8")  # a mark of its order stays where it is
    table = read_cells(correction.path)
    rows = rows_in_file(correction, table)
    place = list(table.columns).index(label_column(correction))
    records = _records(text, len(table.columns), table.rows)
    pieces, at = [], 0
    for row, number in enumerate(rows):
        record = records[number]
        if row in correction.bad:
            pieces.append(text[at : record.start])
            at = record.end
        elif row in correction.changed:
            start, end = record.cells[place]
            if label_name(_unquoted(text[start:end])) != correction.before[row]:
                raise LabelNoiseError(f"the label of row {number} is not found again: {ODD}")
            new = _quoted_like(text[start:end], correction.changed[row])
            pieces += [text[at:start], new]
            at = end
    out.write_bytes("".join([*pieces, text[at:]]).encode())


def _records(text: str, columns: int, rows: int) -> list[Record]:
    """The rows below the names of the columns, by the delimiter that gives as many as were read."""
    for delimiter in DELIMITERS:
        found = list(scan(text, delimiter))[1:]
        if len(found) == rows and all(len(record.cells) == columns for record in found):
            return found
    raise LabelNoiseError(f"the cells of the labels are not found again: {ODD}")


def scan(text: str, delimiter: str) -> Iterator[Record]:
    """The rows of a text, empty lines passed over."""
    plain = rf"[^{re.escape(delimiter)}\r\n]*"
    blank = "" if delimiter == "\t" else " *"
    cell = re.compile(rf'{blank}("(?:[^"]|"")*"{plain}|{plain})')
    at = 0
    while at < len(text):
        start, cells = at, []
        while True:
            found = cell.match(text, at)
            if found is None:  # cannot be: the last form matches anything, nothing too
                raise LabelNoiseError("a row cannot be read")
            cells.append(found.span(1))
            at = found.end()
            if text[at : at + 1] != delimiter:
                break
            at += 1
        ended = BREAK.match(text, at)
        at = ended.end() if ended else len(text)
        if cells != [(start, start)]:
            yield Record(start, at, cells)


def _unquoted(cell: str) -> str:
    return cell[1 : cell.rindex('"')].replace('""', '"') if cell.startswith('"') else cell


def _quoted_like(old: str, new: str) -> str:
    """A new cell, in quotes where the old one was or where it must be."""
    needed = any(character in new for character in (*DELIMITERS, '"', "\r", "\n"))
    if old.startswith('"') or needed or new != new.strip():
        doubled = new.replace('"', '""')
        return f'"{doubled}"'
    return new
