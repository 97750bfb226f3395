"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from filelock import Timeout

from labelnoise.errors import LabelNoiseError


def write_atomically(path: Path, write: Callable[[BinaryIO], object], remedy: str = "") -> None:
    """Write a file whole or not at all, even when the process or the machine stops in between."""
    if path.is_dir():
        raise LabelNoiseError(f"cannot write {path}: it is a folder, name a file")
    draft = path.with_name(path.name + ".part")
    with mendable(path, remedy or "free some space or choose another place"):
        try:
            with draft.open("wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
            _sync_folder(path.parent)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut; what cannot do that, such as Windows, need not."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def mendable(path: Path, remedy: str) -> Iterator[None]:
    """Turn what the system says of a disk into one line that names the fix."""
    try:
        yield
    except Timeout:  # an OSError too, but no fault of the disk
        raise
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not path.parent.exists():
            remedy = f"make the folder {path.parent} first"
        raise LabelNoiseError(
            f"cannot write {path}: {error.strerror or error}; {remedy}"
        ) from error
