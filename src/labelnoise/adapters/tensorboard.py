"""The rows of a run as TensorBoard scalars, while it trains."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.spec import Spec
from labelnoise.record.disk import mendable
from labelnoise.record.run import Row, Run

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FOLDER = "tensorboard"


class TensorBoard:
    """Writes every row below the folder of its run; to be passed as `watch`.

    What is written when a run goes on is its whole history: it takes the place of what was written
    before, so no epoch is missing or shown twice, however the earlier process ended.

    Args:
        out: The folder of the runs' folders, as `train` has it.
    """

    def __init__(self, out: Path | str) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise LabelNoiseError(
                "TensorBoard logs need tensorboard: pip install 'labelnoise[tensorboard]'"
            ) from error
        self.out = Path(out)
        self._new_writer = SummaryWriter
        self._writer: SummaryWriter | None = None
        self._classes: list[str] = []

    def __enter__(self) -> TensorBoard:
        """Nothing is opened before the first row."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close what an interrupted run left open."""
        self._close()

    def __call__(self, spec: Spec, row: Row | None) -> None:
        """Write a row; None announces another run."""
        if row is None:
            self._close()
            return
        folder = self.out / spec.identity()
        with mendable(folder / FOLDER, "free some space or leave --tensorboard out"):
            rows = [row]
            if self._writer is None:
                self._writer = self._opened(folder / FOLDER, spec)
                run = Run(folder)
                rows, self._classes = run.rows, run.header["classes"]
            for each in rows:
                for tag, value in _scalars(each, self._classes):
                    self._writer.add_scalar(tag, value, each["epoch"])
            self._writer.flush()
        if row["epoch"] == spec.training.epochs:
            self._close()

    def _opened(self, folder: Path, spec: Spec) -> SummaryWriter:
        begun = folder.exists()
        # Readers drop what an earlier process wrote: scalars from this step on, but no text.
        writer = self._new_writer(str(folder), purge_step=0)
        if not begun:
            writer.add_text("spec", _as_code(spec), 0)
        return writer

    def _close(self) -> None:
        if self._writer is not None:
            with suppress(OSError):  # every row is flushed; what a full disk says was said there
                self._writer.close()
            self._writer = None


def _scalars(row: Row, classes: list[str]) -> Iterator[tuple[str, float]]:
    """The numbers of a row by their tags; what is not known is left out."""
    for name, value in row.items():
        if name != "epoch" and isinstance(value, int | float):
            yield name, value
    if "thresholds" in row:
        for name, value in zip(classes, row["thresholds"]["mean"], strict=True):
            if value is not None:
                yield f"thresholds/{name}", value


def _as_code(spec: Spec) -> str:
    """Markdown that keeps the lines as they are."""
    text = json.dumps(spec.model_dump(mode="json"), indent=1)
    return "".join(f"    {line}\n" for line in text.splitlines())
