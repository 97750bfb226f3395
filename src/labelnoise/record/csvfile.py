"""CSV files, written whole or not at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from labelnoise.record.disk import write_atomically


def write_csv(path: Path, heading: Sequence[str], lines: Iterable[Iterable[object]]) -> int:
    """Write a line of names and the others below it; how many others there are."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    count = 0
    for line in lines:
        writer.writerow(line)
        count += 1
    write_atomically(path, lambda file: file.write(text.getvalue().encode()))
    return count
