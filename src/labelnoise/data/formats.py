"""Readers of one's own files, by suffix, and of folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from labelnoise.data.columns import Columns
from labelnoise.data.dataset import Dataset, Known, Rows
from labelnoise.data.folder import folder_rows, read_folder
from labelnoise.data.npy import npy_rows, read_npy
from labelnoise.data.npz import npz_rows, read_npz
from labelnoise.data.table import read_table, table_rows


@dataclass(frozen=True)
class Format:
    """A kind of file, or folders.

    Attributes:
        read: Reads a file to train on, given what the user said of its columns.
        rows: Reads a file to predict, given what the model knows of its own data.
        label_is_file: Whether `--label` names a file rather than a column.
    """

    read: Callable[[Path, Columns], Dataset]
    rows: Callable[[Path, Known, Columns], Rows]
    label_is_file: bool = False


TABLE = Format(read_table, table_rows)

FORMATS: dict[str, Format] = {
    ".npz": Format(read_npz, npz_rows),
    ".npy": Format(read_npy, npy_rows, label_is_file=True),
    ".csv": TABLE,
    ".tsv": TABLE,
    ".parquet": TABLE,
}

FOLDER = Format(read_folder, folder_rows)


def format_of(path: Path) -> Format | None:
    """What reads a file or folder that is there; nothing if it is not understood."""
    if path.is_dir():
        return FOLDER
    return FORMATS.get(path.suffix.lower()) if path.is_file() else None
