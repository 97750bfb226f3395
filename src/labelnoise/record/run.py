"""Run: one training on disk, to read from.

A run's directory holds `header.json` (what was asked, on what), `epochs.jsonl` (one row an epoch,
append only), `checkpoint.pt` (the state after the last finished epoch), `samples.npz` (one row a
sample) and `done`, which is written last; `skipped.csv` lists files that could not be read, if any.
A finished run is never edited.
"""

from __future__ import annotations

import csv
import gzip
import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labelnoise.errors import LabelNoiseError
from labelnoise.record.disk import write_atomically

Row = dict[str, Any]

HEADER, EPOCHS, CHECKPOINT = "header.json", "epochs.jsonl", "checkpoint.pt"
SAMPLES, SKIPPED, DONE, LOCK = "samples.npz", "skipped.csv", "done", "lock"
PACKED = ".json.gz"
DAMAGE = (  # what torch.load raises on files that are not what they seem
    AttributeError,
    EOFError,
    IndexError,
    KeyError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
)


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
            self.header = parsed((self.path / HEADER).read_text(), self.path / HEADER)
            if not (isinstance(self.header, dict) and "spec" in self.header):
                raise LabelNoiseError(f"{self.path / HEADER} is damaged: it has no spec")
        else:
            inside = next(iter(sorted(self.path.glob(f"*/{HEADER}"))), None)
            hint = f"; give {inside.parent}" if inside else ""
            raise LabelNoiseError(f"{path} is not a run: it has no {HEADER}{hint}")

    @property
    def done(self) -> bool:
        """Whether it was trained to its end."""
        return bool(self._packed) or finished(self.path)

    @property
    def rows(self) -> list[Row]:
        """Its epochs so far."""
        return self._packed["rows"] if self._packed else whole_rows(self.path / EPOCHS)

    @property
    def samples(self) -> dict[str, np.ndarray[Any, Any]]:
        """One entry a training sample: rows, given labels, how often selected, probabilities."""
        with np.load(self._finished(SAMPLES), allow_pickle=False) as arrays:
            return dict(arrays)

    @property
    def skipped(self) -> dict[str, str]:
        """Files that could not be read, and why."""
        path = self.path / SKIPPED
        if self._packed or not path.exists():
            return {}
        with path.open(newline="", encoding="utf-8") as file:
            return {line["file"]: line["why"] for line in csv.DictReader(file)}

    def checkpoint(self) -> dict[str, Any]:
        """The state after its last epoch; loading it executes no code."""
        return load_checkpoint(self._finished(CHECKPOINT))

    def summary(self) -> dict[str, Any]:
        """The numbers that a table shows; last, last-10 and best accuracy are kept apart."""
        rows = self.rows
        if not rows:
            raise LabelNoiseError(f"{self.path} has no finished epoch yet")
        last, tests = rows[-1], [row["test_accuracy"] for row in rows]
        tested = None not in tests  # an audit trains on all there is
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
            "realised_noise_rate": self.header.get("realised_noise", {}).get("rate"),
            "test_accuracy": last["test_accuracy"],
            # Of several networks; runs of older versions had only one.
            "test_accuracy_mean": last.get("test_accuracy_mean", last["test_accuracy"]),
            "test_accuracy_balanced": last["test_accuracy_balanced"],
            "test_accuracy_last10": sum(tests[-10:]) / len(tests[-10:]) if tested else None,
            "test_accuracy_best": max(tests) if tested else None,
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


def finished(path: Path) -> bool:
    """Whether there is a run at `path` that was trained to its end."""
    return (path / DONE).exists()


def pack(run: Run, folder: Path) -> Path:
    """Keep the header and the rows of a finished run as one small file, to publish or to mail."""
    if not run.done:
        raise LabelNoiseError(f"{run.path} is not finished: start its command again first")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (run.path.resolve().name + PACKED)
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


def load_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint; `weights_only` refuses a file that would execute code."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        found = {key: state[key] for key in ("row", "method", "tally")}
        return {**found, "others": state.get("others", [])}  # of a run that several trained
    except DAMAGE as error:
        raise LabelNoiseError(
            f"{path} is damaged or not ours ({type(error).__name__}): delete {path.parent} and "
            "start again"
        ) from error


def parsed(text: str | bytes, path: Path) -> Any:
    """JSON from a file of a run."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise LabelNoiseError(f"{path} is damaged: {error}") from error


def whole_rows(path: Path) -> list[Row]:
    """The rows of a file whose last line may be cut off."""
    text = path.read_bytes() if path.exists() else b""
    return [parsed(line, path) for line in text[: text.rfind(b"\n") + 1].splitlines()]
