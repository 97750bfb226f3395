"""What a person sees while a run trains."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from labelnoise.experiment.spec import Spec
from labelnoise.record.run import Row

QUIET = 10.0  # seconds between lines where no bar can be drawn


class Progress:
    """A live bar on a terminal, now and then a line in a file; both on standard error."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} epochs"),
            TextColumn("{task.fields[accuracy]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._spoke = time.monotonic()
        self.begun = False

    def __enter__(self) -> Progress:
        """Start the display."""
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the bar as it stands."""
        self._bar.stop()

    def __call__(self, spec: Spec, row: Row | None) -> None:
        """Show where a run is."""
        self.begun = True
        done, total = 0 if row is None else row["epoch"], spec.training.epochs
        tested = None if row is None else row["test_accuracy"]
        accuracy = "" if tested is None else f"test {100 * tested:.2f} %"
        if row is None:
            self._bar.add_task(f"{spec.method} on {spec.dataset}", total=total, accuracy="")
        self._bar.update(self._bar.task_ids[-1], completed=done, accuracy=accuracy)
        if not self._console.is_terminal and time.monotonic() - self._spoke > QUIET:
            self._spoke = time.monotonic()
            line = f"{spec.method} epoch {done}/{total} {accuracy}"
            self._console.print(line, markup=False, highlight=False)
