"""A copy of a `.csv` or `.tsv` file in which only label cells differ; all else byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from labelnoise.audit.writers.correction import Correction
from labelnoise.audit.writers.rows import label_column, rows_in_file
from labelnoise.errors import LabelNoiseError

DELIMITERS = (",", ";", "\t", "|")
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
    label = label_column(correction)
    header, records = _table(text, label)
    place = header.index(label)
    cells = {
        name: [unquoted(text, record.cells[number]) for record in records]
        for number, name in enumerate(header)
        if name in {label, correction.source.get("image")}
    }
    rows = rows_in_file(correction, cells, label)
    pieces, at = [], 0
    for row, number in enumerate(rows):
        record = records[number]
        if row in correction.bad:
            pieces.append(text[at : record.start])
            at = record.end
        elif row in correction.changed:
            start, end = record.cells[place]
            new = quoted_like(text[start:end], correction.changed[row])
            pieces += [text[at:start], new]
            at = end
    out.write_bytes("".join([*pieces, text[at:]]).encode())


def _table(text: str, label: str) -> tuple[list[str], list[Record]]:
    """The names of the columns and the rows, by the delimiter that gives them most columns."""
    best: tuple[list[str], list[Record]] | None = None
    for delimiter in DELIMITERS:
        found = records(text, delimiter)
        first = next(found, None)
        if first is None:
            continue
        names = [unquoted(text, cell).strip("\ufeff \t") for cell in first.cells]
        if label in names and (best is None or len(names) > len(best[0])):
            rest = list(found)
            if all(len(record.cells) == len(names) for record in rest):
                best = names, rest
    if best is None:
        raise LabelNoiseError(f"no column {label!r} is found again: save the table as plain CSV")
    return best


def records(text: str, delimiter: str) -> Iterator[Record]:
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


def unquoted(text: str, span: Span) -> str:
    """What a cell says."""
    cell = text[slice(*span)]
    if cell.startswith('"'):
        inside, _, after = cell[1:].rpartition('"')
        return inside.replace('""', '"') + after
    return cell


def quoted_like(old: str, new: str) -> str:
    """A new cell, in quotes where the old one was or where it must be."""
    needed = any(character in new for character in (*DELIMITERS, '"', "\r", "\n"))
    if old.startswith('"') or needed or new != new.strip():
        doubled = new.replace('"', '""')
        return f'"{doubled}"'
    return new
