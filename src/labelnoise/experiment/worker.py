"""A process that trains one run for `reproduce`: `python -m labelnoise.experiment.worker TASK`.

It is given the file that says what to train, and leaves notes of where it is and its answer beside
it. Standard input is a pipe that the parent holds and never writes to: when it ends, the parent is
gone, by kill -9 perhaps, and the process ends at once. What is finished of the run lies in its
folder.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings
from functools import partial
from pathlib import Path
from typing import Any

PROGRESS, ANSWER = ".progress", ".answer"


def main() -> None:
    """Train one run; the answer has its folder or why there is none."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    task = Path(sys.argv[1])
    _write(task.with_suffix(ANSWER), _trained(task))


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def _trained(file: Path) -> dict[str, str]:
    # Not before the parent is watched: this takes seconds.
    from labelnoise.errors import LabelNoiseError
    from labelnoise.experiment.ask import Ask
    from labelnoise.experiment.run import fulfil

    warnings.simplefilter("ignore", UserWarning)
    task = json.loads(file.read_text())
    try:
        run = fulfil(
            Ask(**task["ask"]),
            out=task["out"],
            data_dir=task["data_dir"],
            watch=partial(_tell, file.with_suffix(PROGRESS)),
        )
    except Exception as error:
        kind = "" if isinstance(error, LabelNoiseError) else f"{type(error).__name__}: "
        return {"failed": kind + " ".join(str(error).split())}
    return {"run": str(run.path)}


def _tell(progress: Path, spec: Any, row: dict[str, Any] | None) -> None:
    """Leave a note of where the training is."""
    where = {
        "epoch": 0 if row is None else row["epoch"],
        "epochs": spec.training.epochs,
        "accuracy": None if row is None else row["test_accuracy"],
    }
    _write(progress, where)


def _write(path: Path, content: dict[str, Any]) -> None:
    """Whole or not at all."""
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(content))
    new.replace(path)


if __name__ == "__main__":
    main()
