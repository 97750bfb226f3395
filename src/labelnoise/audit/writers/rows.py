"""Which row of a table each sample came from, checked by its label."""

from __future__ import annotations

from collections.abc import Sequence

from labelnoise.audit.writers.correction import Correction
from labelnoise.data.cells import Table
from labelnoise.data.labels import label_name
from labelnoise.errors import LabelNoiseError


def label_column(correction: Correction) -> str:
    """The column of labels, as it was named or as the reader chose it."""
    name = correction.source.get("label") or (correction.dataset.encoding or {}).get("label")
    if not name:
        raise LabelNoiseError("the audit does not say which column has the labels: audit again")
    return str(name)


def rows_in_file(correction: Correction, table: Table) -> list[int]:
    """For every sample the row of the file that it came from."""
    written = table.column(label_column(correction)).cells
    image = correction.source.get("image")
    images = list(table.column(image).cells) if image else None
    labelled = [row for row, cell in enumerate(written) if label_name(cell) is not None]
    count = len(correction.before)
    if len(labelled) == count:
        rows = labelled
    else:
        rows = _in_order([correction.name(row) for row in range(count)], labelled, images)
    for row, number in enumerate(rows):
        if label_name(written[number]) != correction.before[row]:
            raise LabelNoiseError(
                f"row {number} has the label {written[number]!r}, not "
                f"{correction.before[row]!r}: the table is not the one that was audited"
            )
    return rows


def _in_order(names: list[str], rows: list[int], images: Sequence[str] | None) -> list[int]:
    """Samples without those whose image could not be read: by the names of the images, in order."""
    found = []
    left = iter(rows)
    for name in names:
        row = next((row for row in left if images and images[row].strip() == name), None)
        if row is None:
            raise LabelNoiseError(f"the table has no row of sample {name!r} any more: audit again")
        found.append(row)
    return found
