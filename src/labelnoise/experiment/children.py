"""Children: processes that train one run each, and end with whoever started them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from labelnoise.experiment import worker  # and nothing that imports torch, for others' machines

Answer = dict[str, Any]
"""`run`, the folder of a finished run, and `before`, its epochs that were there; or `failed`."""


@dataclass(frozen=True)
class Errand:
    """What a process is sent out to train, on this machine or on another.

    Attributes:
        number: Of the job.
        ask: What to train, as plain JSON.
        identity: Which run that must be; another one comes of other data.
        out: The folder of runs' folders.
        data_dir: Where data sets are; by default as the environment says.
        versions: What must be installed, by package.
        patience: Seconds to wait for a process that is still writing the run.
        cwd: The folder that paths are relative to, if there is such a one.
        environment: Variables where there are none of that name.
    """

    number: int
    ask: Mapping[str, Any]
    identity: str
    out: str
    data_dir: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    patience: float = 0
    cwd: str = "."
    environment: Mapping[str, str] = field(default_factory=dict)


class Place(NamedTuple):
    """Where errands are carried out.

    Attributes:
        send: Sends an errand there and waits for its answer: the job's number beside it.
        desk: Where those who carry them out leave notes of where they are, if they can.
        at_a_time: How many to send at a time.
    """

    send: Callable[[Errand], tuple[int, Answer]]
    desk: Path
    at_a_time: int


class Children:
    """Processes that train one run each; none outlives the `with`, or its parent."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False
        self._lock = threading.Lock()

    def __enter__(self) -> Children:
        """Nobody runs yet."""
        return self

    def __exit__(self, *error: object) -> None:
        """End those that still run; the folders of their runs keep what is finished."""
        with self._lock:
            self._closed = True
            for child in self._running:
                child.kill()

    def train(
        self, errand: Errand, desk: Path, threads: int, notes: Path | None = None
    ) -> tuple[int, Answer]:
        """Have a new process train what is asked: the job's number and the answer.

        Args:
            errand: What to train.
            desk: Where the process is told of it, and answers.
            threads: How many it computes with.
            notes: Where it leaves notes of where it is; by default on the desk.
        """
        number = errand.number
        task = desk / f"{number}{worker.TASK}"
        progress = (notes or desk) / f"{number}{worker.PROGRESS}"
        errors = task.with_suffix(worker.ERRORS)
        with self._lock:
            if self._closed:
                return number, {"failed": "stopped before it began"}
            task.write_text(json.dumps({**asdict(errand), "progress": str(progress)}))
            with errors.open("wb") as file:
                child = subprocess.Popen(  # noqa: S603 - our own module
                    [sys.executable, "-m", worker.__name__, str(task)],
                    stdin=subprocess.PIPE,  # stays open as long as this process lives
                    stdout=subprocess.DEVNULL,
                    stderr=file,
                    cwd=errand.cwd if os.access(errand.cwd, os.X_OK) else None,
                    env={**errand.environment, **os.environ, "OMP_NUM_THREADS": str(threads)},
                    start_new_session=True,  # Ctrl-C is for the parent, which ends its children
                )
            self._running.add(child)
        with child:
            status = child.wait()
        progress.unlink(missing_ok=True)
        with self._lock:
            self._running.discard(child)
            if self._closed:  # and the desk is being cleared
                return number, {"failed": "stopped"}
        return number, _answer(task, status, errors.read_text(errors="replace"))


def _answer(task: Path, status: int, errors: str) -> Answer:
    """What a child said, or how it ended without a word."""
    path = task.with_suffix(worker.ANSWER)
    if path.exists():
        answer: Answer = json.loads(path.read_text())
        return answer
    if status < 0:
        by = signal.Signals(-status)
        hint = (
            " (out of memory?): use fewer --jobs, or fewer threads of a cluster's worker"
            if by is signal.SIGKILL
            else ""
        )
        return {"failed": f"its process was ended by {by.name}{hint}"}
    last = (errors.strip().splitlines() or ["no word of it"])[-1]
    return {"failed": f"its process ended with status {status}: {last}"}
