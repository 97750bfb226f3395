"""Corrected copies of labels, one small writer for each kind of data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from labelnoise.audit.writers.correction import Correction
from labelnoise.audit.writers.delimited import write_delimited
from labelnoise.audit.writers.folder import write_folder
from labelnoise.audit.writers.listing import write_listing
from labelnoise.audit.writers.npz import write_npz
from labelnoise.audit.writers.parquet import write_parquet
from labelnoise.data import DATASETS, base_of

__all__ = ["WRITERS", "Correction", "Writer", "writer_of"]


@dataclass(frozen=True)
class Writer:
    """How a kind of data is written.

    Attributes:
        write: Writes a corrected copy to a path that does not exist yet.
        new_classes: Whether a label may be one that no sample has yet.
    """

    write: Callable[[Correction, Path], None]
    new_classes: bool = False


LISTING = Writer(write_listing)
FOLDER = Writer(write_folder, new_classes=True)
WRITERS = {
    ".npz": Writer(write_npz),
    ".csv": Writer(write_delimited, new_classes=True),
    ".tsv": Writer(write_delimited, new_classes=True),
    ".parquet": Writer(write_parquet, new_classes=True),
}
"""By suffix of the file."""


def writer_of(data: str) -> Writer:
    """What writes data like these; those that are no file of one's own become a list of labels."""
    if data in DATASETS or base_of(data) != data:
        return LISTING
    path = Path(data).expanduser()
    return FOLDER if path.is_dir() else WRITERS.get(path.suffix.lower(), LISTING)
