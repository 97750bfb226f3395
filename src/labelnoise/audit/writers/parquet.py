"""A copy of a `.parquet` file with another column of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labelnoise.audit.writers.correction import Correction
from labelnoise.audit.writers.rows import label_column, rows_in_file
from labelnoise.data.cells import read_cells
from labelnoise.data.labels import label_name
from labelnoise.errors import LabelNoiseError


def write_parquet(correction: Correction, out: Path) -> None:
    """Write all columns, the type of the labels kept, without the rows of bad samples."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise LabelNoiseError("parquet needs pyarrow: pip install 'labelnoise[parquet]'") from error
    table = parquet.ParquetFile(correction.path).read()
    label = label_column(correction)
    values = table.column(label).to_pylist()
    cells = read_cells(correction.path)
    rows = rows_in_file(correction, cells)
    kind = table.schema.field(label).type
    # What a class is in the file, such as true or a date, where it occurs.
    known = {
        label_name(cell): value
        for cell, value in zip(cells.column(label).cells, values, strict=True)
    }
    try:
        for row, new in correction.changed.items():
            values[rows[row]] = known[new] if new in known else _typed(new, kind)
        column = pyarrow.array(values, type=kind)
    except (pyarrow.ArrowException, ValueError) as error:
        raise LabelNoiseError(f"column {label!r} holds {kind} only ({error})") from error
    place = table.schema.get_field_index(label)
    table = table.set_column(place, table.schema.field(label), column)
    left_out = {rows[row] for row in correction.bad}
    stays = pyarrow.array([row not in left_out for row in range(table.num_rows)])
    parquet.write_table(table.filter(stays) if left_out else table, out)


def _typed(value: str, kind: Any) -> Any:
    """A new label, as the number that the column holds."""
    from pyarrow import types

    if types.is_integer(kind):
        return int(value)
    return float(value) if types.is_floating(kind) else value
