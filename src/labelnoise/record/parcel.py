"""A finished run as bytes, to be sent from one machine to another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock, Timeout

from labelnoise.errors import LabelNoiseError
from labelnoise.record.disk import mendable, write_atomically
from labelnoise.record.run import (
    CHECKPOINT,
    DONE,
    EPOCHS,
    HEADER,
    LOCK,
    SAMPLES,
    SKIPPED,
    Run,
    finished,
)

# In this order, so that a run is finished when all of it is there.
FILES = (HEADER, EPOCHS, CHECKPOINT, SAMPLES, SKIPPED, DONE)
PATIENCE = 60  # seconds for another process that writes the same run
REMEDY = "free some space and start the same command again"


def wrap(path: Path) -> dict[str, bytes]:
    """The files of a finished run, by name."""
    if not finished(path):
        raise LabelNoiseError(f"{path} is not finished: start its command again first")
    return {name: (path / name).read_bytes() for name in FILES if (path / name).exists()}


def unwrap(parcel: Mapping[str, bytes], path: Path) -> Run:
    """Make the run of a parcel the one at `path`, unless a finished one is there already."""
    with mendable(path, REMEDY):
        path.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(path / LOCK, timeout=PATIENCE).acquire()
    except Timeout:
        raise LabelNoiseError(
            f"{path} is being written by another process: wait for it, then start again"
        ) from None
    with lock:
        if not finished(path):
            for name in (name for name in FILES if name in parcel):
                _write(path / name, parcel[name])
    return Run(path)


def _write(path: Path, content: bytes) -> None:
    write_atomically(path, lambda file: file.write(content), REMEDY)
