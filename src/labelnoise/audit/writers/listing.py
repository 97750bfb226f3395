"""A list of labels as CSV, for data that are no file of one's own: `row,label`."""

from __future__ import annotations

from pathlib import Path

from labelnoise.audit.writers.correction import Correction
from labelnoise.record.csvfile import write_csv


def write_listing(correction: Correction, out: Path) -> None:
    """Write the label of every row that stays."""
    lines = (
        (correction.name(row), correction.changed.get(row, label))
        for row, label in enumerate(correction.before)
        if row not in correction.bad
    )
    write_csv(out, ("row", "label"), lines)
