"""A process that trains one run for `reproduce`: `python -m labelnoise.experiment.worker TASK`.

It is given the file that says what to train, and leaves its answer beside it, and notes of where it
is where the file says. Standard input is a pipe that the parent holds and never writes to: when it
ends, the parent is gone, by kill -9 perhaps, and the process ends at once. What is finished of the
run lies in its folder.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

PROGRESS, ANSWER, TASK, ERRORS = ".progress", ".answer", ".task", ".errors"
NOTES = [f"[0-9]*{suffix}*" for suffix in (PROGRESS, ANSWER, TASK, ERRORS)]
AWAY = "away"  # runs that are trained here for somebody elsewhere, who never gets them
TRIES = 50


def main() -> None:
    """Train one run; the answer has its folder or why there is none."""
    task = Path(sys.argv[1])
    threading.Thread(target=_end_with_parent, args=(task.parent,), daemon=True).start()
    _write(task.with_suffix(ANSWER), _trained(task))


def _end_with_parent(desk: Path) -> None:
    sys.stdin.read()
    for _ in range(TRIES):  # nobody is left who would clear the desk; the last worker succeeds
        try:
            for note in [note for pattern in NOTES for note in desk.glob(pattern)]:
                note.unlink(missing_ok=True)
            shutil.rmtree(desk / AWAY, ignore_errors=True)
            desk.rmdir()
            break
        except FileNotFoundError:  # another worker was faster
            break
        except OSError:  # another one has just left a note
            time.sleep(0.01)
    os._exit(1)


def _trained(file: Path) -> dict[str, Any]:
    # Not before the parent is watched: this takes seconds.
    from labelnoise.errors import LabelNoiseError
    from labelnoise.experiment.ask import Ask
    from labelnoise.experiment.header import check_versions
    from labelnoise.experiment.machine import keep_memory
    from labelnoise.experiment.run import fulfil

    keep_memory()
    warnings.simplefilter("ignore", UserWarning)
    task = json.loads(file.read_text())
    notes = Notes(Path(task["progress"]))
    try:
        check_versions(task["versions"])
        run = fulfil(
            Ask.of(task["ask"]),
            out=task["out"],
            data_dir=task["data_dir"],
            watch=notes,
            expected=task["identity"],
            patience=task["patience"],
        )
    except Exception as error:
        kind = "" if isinstance(error, LabelNoiseError) else f"{type(error).__name__}: "
        return {"failed": kind + " ".join(str(error).split())}
    return {"run": str(run.path), "before": notes.before}


class Notes:
    """Leaves notes of where the training is.

    Attributes:
        before: Epochs that were finished when this process began, as its first row shows.
    """

    def __init__(self, path: Path) -> None:
        self.before = 0
        self._path, self._epoch = path, 0

    def __call__(self, spec: Any, row: dict[str, Any] | None) -> None:
        """Leave one."""
        epoch = 0 if row is None else row["epoch"]
        if not self._epoch:  # the first row of this process, or of the run after an estimate
            self.before = max(epoch - 1, 0)
        self._epoch = epoch
        where = {
            "before": self.before,
            "epoch": epoch,
            "epochs": spec.training.epochs,
            "accuracy": None if row is None else row["test_accuracy"],
        }
        with suppress(OSError):  # who shows them may be gone; the run is worth more
            _write(self._path, where)


def _write(path: Path, content: dict[str, Any]) -> None:
    """Whole or not at all."""
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(content))
    new.replace(path)


if __name__ == "__main__":
    main()
