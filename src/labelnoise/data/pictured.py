"""A column of paths: the images that the rows of a table name.

Paths are relative to the table's folder and stay in it, or absolute. A row whose image is missing
or unreadable is left out like an unreadable file of a folder.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from labelnoise.data.collect import Collected, collect
from labelnoise.data.images import Form
from labelnoise.errors import LabelNoiseError


def collect_column(
    table: Path, cells: Sequence[str], form: Form | None = None, memory: int | None = None
) -> Collected:
    """The images that cells name; see `collect` for the form and the memory."""
    names = [cell.strip() for cell in cells]
    for name in names:
        # A table from elsewhere must not make a report of files that its owner cannot see.
        if not os.path.isabs(name) and os.path.normpath(name).split(os.sep)[0] == os.pardir:
            raise LabelNoiseError(
                f"the path {name!r} leads out of the table's folder: put the images beside the "
                "table, or write the whole path"
            )
    return collect(str(table.parent), names, form, memory)
