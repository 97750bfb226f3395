"""A list of labels as CSV, for data that are no file of one's own: `row,label`."""

from __future__ import annotations

import csv
from pathlib import Path

from labelnoise.audit.writers.correction import Correction


def write_listing(correction: Correction, out: Path) -> None:
    """Write the label of every row that stays."""
    with out.open("x", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("row", "label"))
        for row, label in enumerate(correction.labels):
            if row not in correction.bad:
                writer.writerow((correction.name(row), label))
