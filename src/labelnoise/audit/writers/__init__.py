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
from labelnoise.data.labels import label_name

__all__ = ["WRITERS", "Correction", "Writer", "writer_of"]


@dataclass(frozen=True)
class Writer:
    """How a kind of data is written.

    Attributes:
        write: Writes a corrected copy to a path that does not exist yet.
        suffix: How its name must end.
        read_again: What a label that no sample has yet will be read as, nothing if as missing;
            None where there can be no such label.
    """

    write: Callable[[Correction, Path], None]
    suffix: str
    read_again: Callable[[str], str | None] | None = None

    @property
    def new_classes(self) -> bool:
        """Whether a label may be one that no sample has yet."""
        return self.read_again is not None


LISTING = Writer(write_listing, ".csv")
FOLDER = Writer(write_folder, "", str)  # a folder's name stays what it is
WRITERS = {
    writer.suffix: writer
    for writer in (
        Writer(write_npz, ".npz"),
        Writer(write_delimited, ".csv", label_name),
        Writer(write_delimited, ".tsv", label_name),
        Writer(write_parquet, ".parquet", label_name),
    )
}
"""By suffix of the file."""


def writer_of(data: str) -> Writer:
    """What writes data like these; those that are no file of one's own become a list of labels."""
    if data in DATASETS or base_of(data) != data:
        return LISTING
    path = Path(data).expanduser()
    return FOLDER if path.is_dir() else WRITERS.get(path.suffix.lower(), LISTING)
