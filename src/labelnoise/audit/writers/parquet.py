"""A copy of a `.parquet` file with another column of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from labelnoise.audit.writers.correction import Correction
from labelnoise.audit.writers.rows import label_column, rows_in_file
from labelnoise.data.cells import read_cells
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
    rows = rows_in_file(correction, read_cells(correction.path))
    kind = table.schema.field(label).type
    for row, new in correction.changed.items():
        values[rows[row]] = new
    try:
        column = pyarrow.array([_typed(value, kind) for value in values], type=kind)
    except (pyarrow.ArrowException, ValueError) as error:
        raise LabelNoiseError(f"column {label!r} holds {kind} only ({error})") from error
    place = table.schema.get_field_index(label)
    table = table.set_column(place, table.schema.field(label), column)
    left_out = {rows[row] for row in correction.bad}
    stays = pyarrow.array([row not in left_out for row in range(table.num_rows)])
    parquet.write_table(table.filter(stays) if left_out else table, out)


def _typed(value: Any, kind: Any) -> Any:
    """A label that was text, as the number that the column holds."""
    from pyarrow import types

    if not isinstance(value, str):
        return value
    if types.is_integer(kind):
        return int(value)
    return float(value) if types.is_floating(kind) else value
