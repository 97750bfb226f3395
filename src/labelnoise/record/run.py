"""Run: one training on disk, which survives being killed at any moment.

A run's directory holds `header.json` (what was asked, on what), `epochs.jsonl` (one row an epoch,
append only), `checkpoint.pt` (the state after the last finished epoch), `samples.npz` (one row a
sample) and `done`, which is written last. A finished run is never edited.

An epoch is finished when its checkpoint is renamed into place. The checkpoint carries the row, so a
process that dies between that and the append leaves nothing to guess: the next one appends it.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import torch
from filelock import FileLock, Timeout

from labelnoise.errors import LabelNoiseError

Row = dict[str, Any]

HEADER, EPOCHS, CHECKPOINT = "header.json", "epochs.jsonl", "checkpoint.pt"
SAMPLES, DONE, LOCK = "samples.npz", "done", "lock"
PACKED = ".json.gz"


class Stateful(Protocol):
    """What can be saved and restored."""

    def state_dict(self) -> dict[str, Any]:
        """All that training changes."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to it."""


class Run:
    """A run to read from; it need not be finished.

    Attributes:
        path: Its folder, or the file that `pack` made of it.
        header: What was asked and on what.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._packed = read_packed(self.path) if self.path.is_file() else None
        if self._packed:
            self.header: dict[str, Any] = self._packed["header"]
        elif (self.path / HEADER).is_file():
            self.header = _parsed((self.path / HEADER).read_text(), self.path / HEADER)
        else:
            raise LabelNoiseError(f"{path} is not a run: it has no {HEADER}")

    @property
    def done(self) -> bool:
        """Whether it was trained to its end."""
        return bool(self._packed) or (self.path / DONE).exists()

    @property
    def rows(self) -> list[Row]:
        """Its epochs so far."""
        return self._packed["rows"] if self._packed else _whole_lines(self.path / EPOCHS)[0]

    @property
    def samples(self) -> dict[str, np.ndarray[Any, Any]]:
        """One entry a training sample: rows, given labels, how often selected, probabilities."""
        with np.load(self._finished(SAMPLES), allow_pickle=False) as arrays:
            return dict(arrays)

    def checkpoint(self) -> dict[str, Any]:
        """The state after its last epoch; loading it executes no code."""
        return _load(self._finished(CHECKPOINT))

    def summary(self) -> dict[str, Any]:
        """The numbers that a table shows; last, last-10 and best accuracy are kept apart."""
        rows = self.rows
        if not rows:
            raise LabelNoiseError(f"{self.path} has no finished epoch yet")
        last, tests = rows[-1], [row["test_accuracy"] for row in rows]
        spec = self.header["spec"]
        return {
            "method": spec["method"],
            "dataset": spec["dataset"],
            "noise": spec["noise"],
            "net": spec["net"],
            "preset": spec["preset"],
            "epochs": len(rows),
            "seed": spec["seed"],
            "data_seed": spec["data_seed"],
            "test_accuracy": last["test_accuracy"],
            "test_accuracy_balanced": last["test_accuracy_balanced"],
            "test_accuracy_last10": sum(tests[-10:]) / len(tests[-10:]),
            "test_accuracy_best": max(tests),
            "label_precision": last["label_precision"],
            "label_recall": last["label_recall"],
            "selected_fraction": last["selected_fraction"],
            "train_seconds": sum(row["train_seconds"] for row in rows),
            "run": str(self.path),
        }

    def _finished(self, name: str) -> Path:
        if self._packed:
            raise LabelNoiseError(f"{self.path} keeps no {name}: use the folder of the run")
        if not (self.path / name).exists():
            raise LabelNoiseError(f"{self.path} has no {name} yet: let its training finish")
        return self.path / name


class Journal:
    """A run that is being written, by one process at a time."""

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self.path = path
        self._header = header
        self._lock = FileLock(path / LOCK, timeout=0)

    def __enter__(self) -> Journal:
        """Lock the directory and write the header, or say why neither is possible."""
        try:
            with _mendable(self.path):
                self.path.mkdir(parents=True, exist_ok=True)
                self._lock.acquire()
        except Timeout:
            raise LabelNoiseError(
                f"{self.path} is being written by another process: wait for it, or choose "
                "another --seed or --out"
            ) from None
        if not (self.path / HEADER).exists():
            text = json.dumps(self._header, indent=1) + "\n"
            write_atomically(self.path / HEADER, lambda file: file.write(text.encode()))
        return self

    def __exit__(self, *error: object) -> None:
        """Let others in."""
        self._lock.release()

    def restore(self, method: Stateful, tally: Stateful) -> list[Row]:
        """Put both back to the last finished epoch; its rows, or none for a new run."""
        self._need_room(method, tally)
        rows, length = _whole_lines(self.path / EPOCHS)
        if (self.path / EPOCHS).exists():
            os.truncate(self.path / EPOCHS, length)  # half a line of an append that was cut off
        if not (self.path / CHECKPOINT).exists():
            return []
        state = _load(self.path / CHECKPOINT)
        row = json.loads(state["row"])
        if len(rows) < row["epoch"]:
            self._append(row)
            rows.append(row)
        method.load_state_dict(state["method"])
        tally.load_state_dict(state["tally"])
        return rows

    def commit(self, row: Row, method: Stateful, tally: Stateful) -> None:
        """Finish an epoch."""
        state = {
            "row": json.dumps(row),
            "method": method.state_dict(),
            "tally": tally.state_dict(),
        }
        # By way of memory, because torch.save hides a full disk behind an error of its own.
        packed = io.BytesIO()
        torch.save(state, packed)
        write_atomically(self.path / CHECKPOINT, lambda file: file.write(packed.getbuffer()))
        self._append(row)

    def finish(self, samples: dict[str, np.ndarray[Any, Any]]) -> Run:
        """Write what is known of every sample, then the mark that the run is done."""
        write_atomically(
            self.path / SAMPLES,
            lambda file: np.savez_compressed(file, **samples),  # type: ignore[arg-type]
        )
        write_atomically(self.path / DONE, lambda file: None)
        return Run(self.path)

    def _append(self, row: Row) -> None:
        with _mendable(self.path), (self.path / EPOCHS).open("ab") as file:
            file.write(json.dumps(row).encode() + b"\n")

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


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file whole or not at all, even when the process or the machine stops in between."""
    draft = path.with_name(path.name + ".part")
    with _mendable(path):
        try:
            with draft.open("wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


def pack(run: Run, folder: Path) -> Path:
    """Keep the header and the rows of a finished run as one small file, to publish or to mail."""
    if not run.done:
        raise LabelNoiseError(f"{run.path} is not finished: start its command again first")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (run.path.name + PACKED)
    text = json.dumps({"header": run.header, "rows": run.rows}).encode()
    # Without the time of day in it, the same run gives the same bytes.
    write_atomically(path, lambda file: file.write(gzip.compress(text, mtime=0)))
    return path


def read_packed(path: Path) -> dict[str, Any]:
    """What `pack` wrote."""
    try:
        packed: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
        return {"header": packed["header"], "rows": packed["rows"]}
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise LabelNoiseError(f"{path} is not a packed run: {error}") from error


@contextmanager
def _mendable(path: Path) -> Iterator[None]:
    """Turn what the system says of a disk into one line that names the fix."""
    try:
        yield
    except Timeout:  # an OSError too, but no fault of the disk
        raise
    except OSError as error:
        raise LabelNoiseError(
            f"cannot write {path}: {error.strerror or error}; finished epochs are safe: mend the "
            "disk and start the same command again, or choose another --out"
        ) from error


def _load(path: Path) -> dict[str, Any]:
    """A checkpoint; `weights_only` refuses a file that would execute code."""
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, EOFError, RuntimeError, ValueError, pickle.UnpicklingError) as error:
        raise LabelNoiseError(
            f"{path} is damaged or not ours ({type(error).__name__}): delete {path.parent} and "
            "start again"
        ) from error
    return state


def _parsed(text: str | bytes, path: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise LabelNoiseError(f"{path} is damaged: {error}") from error


def _whole_lines(path: Path) -> tuple[list[Row], int]:
    """The rows of a file whose last line may be cut off, and the bytes that they take."""
    if not path.exists():
        return [], 0
    text = path.read_bytes()
    length = text.rfind(b"\n") + 1
    return [_parsed(line, path) for line in text[:length].splitlines()], length


def _tensors(state: Any) -> Iterator[torch.Tensor]:
    if isinstance(state, torch.Tensor):
        yield state
    elif isinstance(state, dict):
        for part in state.values():
            yield from _tensors(part)
    elif isinstance(state, list | tuple):
        for part in state:
            yield from _tensors(part)
