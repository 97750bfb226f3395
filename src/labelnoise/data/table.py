"""One's own tables: `.csv`, `.tsv` and `.parquet` with a column of labels.

The label column is the one that was named, else one called label, class, target or y, else the last
one. Of the others, numbers, dates and categories become inputs (see `encode`); if a column of texts
was named, it alone does (see `text`), and likewise a column of images (see `pictured`). Rows
without a label are left out, and those whose image cannot be read.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelnoise.data.cells import Column, Table, read_cells
from labelnoise.data.collect import form_of, tell
from labelnoise.data.columns import Columns
from labelnoise.data.content import errors_naming
from labelnoise.data.dataset import Dataset, Known, Rows
from labelnoise.data.encode import encode, fit
from labelnoise.data.labels import LABELS, classes_of, label_name, positions
from labelnoise.data.originals import Originals
from labelnoise.data.pictured import collect_column
from labelnoise.data.stored import Inputs
from labelnoise.data.text import encode_text, fit_text
from labelnoise.errors import LabelNoiseError


@dataclass(frozen=True)
class Features:
    """What was made of the columns besides the label.

    Attributes:
        inputs: (rows, ...) for a network.
        encoding: How they were made, as plain JSON.
        shown: The columns to show to a person; without, the inputs themselves are shown.
        rows: Which rows they are, if some had to be left out.
        ids: What these are called, if not by their numbers.
        skipped: What is left out.
    """

    inputs: Inputs
    encoding: Mapping[str, Any]
    shown: Mapping[str, Sequence[str]] = field(default_factory=dict)
    rows: Sequence[int] | None = None
    ids: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def read_table(path: Path, columns: Columns | None = None) -> Dataset:
    """Read a table for training."""
    columns = columns or Columns()
    table = read_cells(path)
    with errors_naming(path):
        label = _label_column(path, table, columns)
        names = [label_name(cell) for cell in table.columns[label].cells]
        classes_of(names, f"column {label!r}")  # what is wrong with them is known at once
        labelled = [row for row, name in enumerate(names) if name is not None]
        skipped = table.rows - len(labelled)
        if skipped:
            warnings.warn(f"{path}: {skipped} rows without a label are left out", stacklevel=2)
            table, names = table.take(labelled), [names[row] for row in labelled]
        features = _features(path, _without(table, label), columns)
        if features.rows is not None:
            names = [names[row] for row in features.rows]
        classes = classes_of(names, f"column {label!r}")
        labels = positions(names, classes, f"column {label!r}")
    return Dataset(
        name=str(path),
        inputs=features.inputs,
        labels=labels,
        classes=classes,
        ids=features.ids or (tuple(map(str, labelled)) if skipped else ()),
        originals=Originals(features.shown) if features.shown else (),
        encoding={**features.encoding, "label": label, "unlabelled": skipped},
        skipped=features.skipped,
    )


def table_rows(path: Path, known: Known, columns: Columns | None = None) -> Rows:
    """Read rows to predict, encoded as in training; labels are taken if there are some."""
    columns = columns or Columns()
    kind = _encoding(known).get("kind", "")
    if kind not in ROWS:
        raise LabelNoiseError(f"{path} is a table, but the run was not trained on one")
    table = read_cells(path)
    with errors_naming(path):
        return ROWS[kind](path, table, known, columns)


def _labels(table: Table, known: Known, named: str | None) -> Tensor | None:
    label = named or _encoding(known)["label"]
    if named is None and label not in table.columns:
        return None
    names = [label_name(cell) for cell in table.column(label).cells]
    if not any(names):
        return None
    return positions(names, known.classes, f"column {label!r}")


def _label_column(path: Path, table: Table, columns: Columns) -> str:
    """The label column, and a word about it if it was not named."""
    taken = {columns.text, columns.image}
    if columns.label is not None:
        if columns.label in taken:
            raise LabelNoiseError(f"column {columns.label!r} cannot be the label and an input")
        return table.column(columns.label).name
    free = [name for name in table.columns if name not in taken]
    if not free:
        raise LabelNoiseError("there is no column left for the labels")
    words = {name.casefold(): name for name in reversed(free)}
    called = [words[word] for word in LABELS if word in words]
    label = called[0] if called else free[-1]
    why = "by its name" if called else "the last one"
    warnings.warn(
        f"{path}: the labels are column {label!r}, {why}; --label names another", stacklevel=3
    )
    return label


def _without(table: Table, label: str) -> Table:
    columns = {name: column for name, column in table.columns.items() if name != label}
    if not columns:
        raise LabelNoiseError(f"there is only the column {label!r}: features are needed, too")
    return Table(columns, table.rows)


# --- what becomes inputs --------------------------------------------------------------------------


def _features(path: Path, table: Table, columns: Columns) -> Features:
    if columns.image is not None:
        return _images(path, table.column(columns.image))
    if columns.text is not None:
        return _one_text(table.column(columns.text))
    return _all_columns(path, table)


def _images(path: Path, column: Column) -> Features:
    found = collect_column(path, column.cells)
    tell(path, found)
    return Features(
        found.inputs,
        {"kind": "image", "column": column.name},
        rows=found.rows.tolist(),
        ids=tuple(column.cells[row].strip() for row in found.rows.tolist()),
        skipped=tuple(found.faults),
    )


def _one_text(column: Column) -> Features:
    encoding = {"kind": "text", "column": column.name, **fit_text(column.cells)}
    inputs = torch.from_numpy(encode_text(column.cells, encoding))
    return Features(inputs, encoding, {"text": column.cells})


def _all_columns(path: Path, table: Table) -> Features:
    encodings, dropped = fit(list(table.columns.values()))
    if dropped.constant:
        _say_dropped(path, dropped.constant, "the same in every row")
    if dropped.identity:
        _say_dropped(
            path,
            dropped.identity,
            "different in nearly every row (--text NAME learns from a text)",
        )
    if not encodings:
        raise LabelNoiseError("no column is left to learn from")
    encoding = {
        "kind": "columns",
        "columns": encodings,
        "dropped": {
            **dict.fromkeys(dropped.constant, "constant"),
            **dict.fromkeys(dropped.identity, "identity"),
        },
    }
    inputs = torch.from_numpy(encode(table.columns, encodings, table.rows))
    return Features(inputs, encoding, _cells(table))


def _say_dropped(path: Path, names: Sequence[str], why: str) -> None:
    listed = ", ".join(map(repr, names[:5])) + ", ..." * (len(names) > 5)
    count = "1 column is" if len(names) == 1 else f"{len(names)} columns are"
    warnings.warn(f"{path}: {count} left out, {why}: {listed}", stacklevel=5)


def _cells(table: Table) -> dict[str, Sequence[str]]:
    return {name: column.cells for name, column in table.columns.items()}


# --- the same of new rows -------------------------------------------------------------------------


def _columns_rows(path: Path, table: Table, known: Known, columns: Columns) -> Rows:
    columns.refuse("the run's table", but=("label",))
    inputs = encode(table.columns, _encoding(known)["columns"], table.rows)
    return Rows(torch.from_numpy(inputs), _labels(table, known, columns.label))


def _text_rows(path: Path, table: Table, known: Known, columns: Columns) -> Rows:
    columns.refuse("the run's text", but=("label", "text"))
    encoding = _encoding(known)
    inputs = encode_text(table.column(columns.text or encoding["column"]).cells, encoding)
    return Rows(torch.from_numpy(inputs), _labels(table, known, columns.label))


def _image_rows(path: Path, table: Table, known: Known, columns: Columns) -> Rows:
    columns.refuse("the run's images", but=("label", "image"))
    cells = table.column(columns.image or _encoding(known)["column"]).cells
    found = collect_column(path, cells, form_of(known, str(path)))
    tell(path, found)
    labels = _labels(table, known, columns.label)
    ids = tuple(cells[row].strip() for row in found.rows.tolist())
    return Rows(found.inputs, None if labels is None else labels[found.rows], ids)


def _encoding(known: Known) -> Mapping[str, Any]:
    return known.encoding or {}


ROWS: dict[str, Callable[[Path, Table, Known, Columns], Rows]] = {
    "columns": _columns_rows,
    "text": _text_rows,
    "image": _image_rows,
}
"""What encodes new rows as in training, by the kind of the encoding."""
