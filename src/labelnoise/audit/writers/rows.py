"""Which row of a table each sample came from, checked by its label."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from labelnoise.audit.writers.correction import Correction
from labelnoise.errors import LabelNoiseError

MISSING = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "null", "?"})


def label_column(correction: Correction) -> str:
    """The column of labels, as it was named or as the reader chose it."""
    encoding = getattr(correction.dataset, "encoding", None) or {}
    name = correction.source.get("label") or encoding.get("label")
    if not name:
        raise LabelNoiseError("the audit does not say which column has the labels: audit again")
    return str(name)


def rows_in_file(
    correction: Correction, cells: Mapping[str, Sequence[str]], label: str
) -> list[int]:
    """For every sample the row of the file that it came from.

    Args:
        correction: What the labels are to be.
        cells: The columns of labels and of images, as written.
        label: The former's name.
    """
    written = cells[label]
    images = cells.get(correction.source.get("image") or "")
    labelled = [row for row, cell in enumerate(written) if name_of(cell) is not None]
    count = len(correction.labels)
    if len(labelled) == count:
        rows = labelled
    else:
        rows = _in_order([correction.name(row) for row in range(count)], labelled, images)
    for row, number in enumerate(rows):
        if name_of(written[number]) != correction.before[row]:
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


def name_of(cell: str) -> str | None:
    """What a written label is called: `3.0` is `3`; nothing if it is missing."""
    if cell.strip().casefold() in MISSING:
        return None
    return re.sub(r"^([+-]?\d+)\.0+$", r"\1", cell.strip())
