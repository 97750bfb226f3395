"""Journal: a run while it is being written, which survives being killed at any moment.

An epoch is finished when its checkpoint is renamed into place. The checkpoint carries the row, so a
process that dies between that and the append leaves nothing to guess: the next one appends it.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from filelock import FileLock, Timeout

from labelnoise.errors import LabelNoiseError
from labelnoise.record.csvfile import write_csv
from labelnoise.record.disk import mendable, write_atomically
from labelnoise.record.run import (
    CHECKPOINT,
    DONE,
    EPOCHS,
    HEADER,
    LOCK,
    SAMPLES,
    SKIPPED,
    Row,
    Run,
    load_checkpoint,
    parsed,
    whole_rows,
)

SAFE = (
    "finished epochs are safe: mend the disk and start the same command again, or choose another "
    "--out"
)


class Stateful(Protocol):
    """What can be saved and restored."""

    def state_dict(self) -> dict[str, Any]:
        """All that training changes."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to it."""


class Journal:
    """A run that is being written, by one process at a time.

    Args:
        path: Its folder.
        header: What it is.
        patience: Seconds to wait for another process that writes it; below 0 as long as it takes.
    """

    def __init__(self, path: Path, header: dict[str, Any], patience: float = 0) -> None:
        self.path = path
        self._header = header
        self._lock = FileLock(path / LOCK, timeout=patience)

    def __enter__(self) -> Journal:
        """Lock the directory and write the header, or say why neither is possible."""
        try:
            with mendable(self.path, SAFE):
                self.path.mkdir(parents=True, exist_ok=True)
                self._lock.acquire()
        except Timeout:
            raise LabelNoiseError(
                f"{self.path} is being written by another process: wait for it, or choose "
                "another --seed or --out"
            ) from None
        if (self.path / HEADER).exists():
            self._warn_of_changes(Run(self.path).header)
        else:
            text = json.dumps(self._header, indent=1) + "\n"
            write_atomically(self.path / HEADER, lambda file: file.write(text.encode()), SAFE)
        return self

    def __exit__(self, *error: object) -> None:
        """Let others in."""
        self._lock.release()

    def restore(self, method: Stateful, tally: Stateful) -> list[Row]:
        """Put both back to the last finished epoch; its rows, or none for a new run."""
        rows, state = self.stored(method, tally)
        if state is not None:
            method.load_state_dict(state["method"])
            tally.load_state_dict(state["tally"])
        return rows

    def stored(self, method: Stateful, tally: Stateful) -> tuple[list[Row], dict[str, Any] | None]:
        """The rows so far and the checkpoint behind them, which a new run has not."""
        self._need_room(method, tally)
        if not (self.path / CHECKPOINT).exists():
            (self.path / EPOCHS).unlink(missing_ok=True)
            return [], None
        state = load_checkpoint(self.path / CHECKPOINT)
        return self._mended_rows(parsed(state["row"], self.path / CHECKPOINT)), state

    def commit(
        self,
        row: Row,
        method: Stateful,
        tally: Stateful,
        skipped: Mapping[str, str] | None = None,
        others: Sequence[dict[str, Any]] = (),
    ) -> None:
        """Finish an epoch.

        Args:
            row: Its numbers.
            method: What learns.
            tally: What is known of the samples.
            skipped: All files so far that could not be read, and why.
            others: What other processes need to go on, besides the method.
        """
        if skipped:
            write_csv(self.path / SKIPPED, ("file", "why"), skipped.items())
        state: dict[str, Any] = {
            "row": json.dumps(row),
            "method": method.state_dict(),
            "tally": tally.state_dict(),
        }
        if others:
            state["others"] = list(others)
        # By way of memory, because torch.save hides a full disk behind an error of its own.
        packed = io.BytesIO()
        torch.save(state, packed)
        write_atomically(self.path / CHECKPOINT, lambda file: file.write(packed.getbuffer()), SAFE)
        self._append(row)

    def finish(self, samples: dict[str, np.ndarray[Any, Any]]) -> Run:
        """Write what is known of every sample, then the mark that the run is done."""
        write_atomically(
            self.path / SAMPLES,
            lambda file: np.savez_compressed(file, **samples),  # type: ignore[arg-type]
            SAFE,
        )
        write_atomically(self.path / DONE, lambda file: None, SAFE)
        return Run(self.path)

    def _append(self, row: Row) -> None:
        with mendable(self.path, SAFE), (self.path / EPOCHS).open("ab") as file:
            file.write(_line(row))
            file.flush()
            os.fsync(file.fileno())

    def _mended_rows(self, last: Row) -> list[Row]:
        """The rows up to the checkpoint's, in memory and on disk.

        What a process that died may leave is half a line, or no line yet, of the last epoch; what
        the checkpoint does not know of was not finished.
        """
        rows = whole_rows(self.path / EPOCHS)
        rows = rows[: last["epoch"]]
        if len(rows) == last["epoch"] - 1:
            rows.append(last)
        if [row["epoch"] for row in rows] != list(range(1, last["epoch"] + 1)):
            raise LabelNoiseError(
                f"{self.path / EPOCHS} is damaged, it has rows missing: delete {self.path} and "
                "start again"
            )
        text = b"".join(_line(row) for row in rows)
        if not (self.path / EPOCHS).exists() or (self.path / EPOCHS).read_bytes() != text:
            write_atomically(self.path / EPOCHS, lambda file: file.write(text), SAFE)
        return rows

    def _warn_of_changes(self, before: dict[str, Any]) -> None:
        """Tell what makes a resumed run differ in the last bits from an uninterrupted one."""
        for key in ("versions", "device", "threads"):
            if before.get(key) != self._header.get(key):
                warnings.warn(
                    f"{self.path.name} began with {key} {before.get(key)}, it goes on with "
                    f"{self._header.get(key)}: results may differ in the last digits",
                    stacklevel=3,
                )

    def _need_room(self, method: Stateful, tally: Stateful) -> None:
        """Refuse a disk that cannot hold two checkpoints (the new one beside the old one)."""
        state = (method.state_dict(), tally.state_dict())
        # Adam's two moments come with the first step.
        need = 2 * 3 * sum(tensor.nbytes for tensor in _tensors(state)) + 2**20
        free = shutil.disk_usage(self.path).free
        if free < need:
            raise LabelNoiseError(
                f"{self.path} has {free / 1e6:.0f} MB left, a run needs {need / 1e6:.0f} MB: "
                "free some space or choose another --out"
            )


def _line(row: Row) -> bytes:
    return json.dumps(row).encode() + b"\n"


def _tensors(state: Any) -> Iterator[torch.Tensor]:
    if isinstance(state, torch.Tensor):
        yield state
    elif isinstance(state, dict):
        for part in state.values():
            yield from _tensors(part)
    elif isinstance(state, list | tuple):
        for part in state:
            yield from _tensors(part)
