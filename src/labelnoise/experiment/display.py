"""What a person sees while an experiment runs: a bar a running job, and a table that fills up."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from labelnoise.experiment.reproduce import Job
from labelnoise.experiment.worker import PROGRESS


class LiveDisplay:
    """A live picture on a terminal, a line for every finished run in a file; on standard error.

    Args:
        tables: Gives the tables as they stand.
    """

    def __init__(self, tables: Callable[[], list[Table]]) -> None:
        self._tables = tables
        self._jobs: Sequence[Job] = ()
        self._desk = Path()
        self._begun = time.monotonic()
        self._already: set[int] = set()
        self._filled: list[Table] = []
        self._console = Console(stderr=True)
        self._live = Live(
            get_renderable=self.picture,
            console=self._console,
            refresh_per_second=2,
            transient=True,
            auto_refresh=self._console.is_terminal,
        )

    def __enter__(self) -> LiveDisplay:
        """Start to draw."""
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the terminal clean."""
        self._live.stop()

    def begin(self, jobs: Sequence[Job], desk: Path) -> None:
        """Workers start."""
        self._jobs, self._desk = jobs, desk
        self._begun, self._filled = time.monotonic(), self._tables()
        self._already = {id(job) for job in jobs if job.run is not None}
        waiting = sum(job.pending for job in jobs)
        self._say(f"{_runs(len(jobs))}, {waiting} of them to train")

    def ended(self, job: Job) -> None:
        """A job is done or has failed."""
        self._filled = self._tables()
        left = sum(job.pending for job in self._jobs)
        what = f"failed: {job.failed}" if job.failed else _accuracy(job)
        self._say(f"{job.name}: {what}; {_runs(left)} left, about {self._time_left()}")

    def _say(self, line: str) -> None:
        if not self._console.is_terminal:
            print(line, file=sys.stderr, flush=True)

    def picture(self) -> RenderableType:
        """How things stand."""
        done = sum(not job.pending for job in self._jobs)
        total = f"{done} of {_runs(len(self._jobs))}, time left {self._time_left()}"
        # What is cut off where the terminal is too small is the end of the tables.
        return Group(self._bars(), total, *self._filled)

    def _bars(self) -> Table:
        bars = Table.grid(padding=(0, 1))
        for number, where in self._running().items():
            accuracy = where["accuracy"]
            bars.add_row(
                self._jobs[number].name,
                ProgressBar(total=where["epochs"], completed=where["epoch"], width=30),
                f"{where['epoch']}/{where['epochs']} epochs",
                "" if accuracy is None else f"test {100 * accuracy:.2f} %",
            )
        return bars

    def _running(self) -> dict[int, dict[str, Any]]:
        """Where the workers say they are."""
        found = {}
        for path in sorted(self._desk.glob(f"*{PROGRESS}")):
            try:
                found[int(path.stem)] = json.loads(path.read_text())
            except (OSError, ValueError):  # it has just ended, or is about to be written
                continue
        return found

    def _time_left(self) -> str:
        """By the epochs a second since this command began."""
        ended = [job for job in self._jobs if job.run is not None and id(job) not in self._already]
        under_way = self._running().values()
        done = sum(_epochs(job) - job.before for job in ended)
        done += sum(where["epoch"] - where["before"] for where in under_way)
        left = sum(_epochs(job) for job in self._jobs if job.pending)
        left -= sum(where["epoch"] for where in under_way)
        if done <= 0:
            return "unknown"
        seconds = int((time.monotonic() - self._begun) / done * max(left, 0))
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def _epochs(job: Job) -> int:
    return 0 if job.spec is None else job.spec.training.epochs


def _accuracy(job: Job) -> str:
    return "" if job.run is None else f"test {100 * job.run.summary()['test_accuracy']:.2f} %"
