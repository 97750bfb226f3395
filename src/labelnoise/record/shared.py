"""Shared: the journal of a run that several processes train together.

The first process alone locks and writes. The others need no disk: what there is to go on from comes
from the first, and what only they know, such as mini-batches that wait to be added up, goes to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from labelnoise import dist
from labelnoise.record.journal import Journal, Stateful
from labelnoise.record.run import Row, Run


class Divided(Stateful, Protocol):
    """What can be saved and restored, and differs between processes."""

    def own_state_dict(self) -> dict[str, Any]:
        """What may differ between processes that train together."""


class Shared:
    """A journal that all processes of a group use alike; alone, it is the journal itself."""

    def __init__(self, path: Path, header: dict[str, Any], patience: float = 0) -> None:
        self._journal = Journal(path, header, patience)  # which the first process alone opens

    def __enter__(self) -> Shared:
        """Lock the folder, or learn that it cannot be."""
        dist.from_first(self._open)
        return self

    def __exit__(self, *error: object) -> None:
        """Let others in."""
        if dist.rank() == 0:
            self._journal.__exit__(*error)

    def restore(self, method: Divided, tally: Stateful) -> list[Row]:
        """Put both back to the last finished epoch; its rows, or none for a new run."""
        if dist.processes() == 1:
            return self._journal.restore(method, tally)
        rows, state = dist.from_first(lambda: self._journal.stored(method, tally))
        if state is not None:
            own = ({}, *state["others"])[dist.rank()]
            method.load_state_dict({**state["method"], **own})
            tally.load_state_dict(state["tally"])
        return rows

    def commit(
        self, row: Row, method: Divided, tally: Stateful, skipped: Mapping[str, str] | None = None
    ) -> None:
        """Finish an epoch; `skipped` are all files so far that could not be read, and why."""
        others = dist.collected(method.own_state_dict())[1:] if dist.processes() > 1 else []
        told = {name: why for each in dist.collected(skipped or {}) for name, why in each.items()}
        dist.from_first(lambda: self._journal.commit(row, method, tally, told, others))

    def finish(self, samples: dict[str, np.ndarray[Any, Any]]) -> Run:
        """Write what is known of every sample, then the mark that the run is done."""
        return dist.from_first(lambda: self._journal.finish(samples))

    def _open(self) -> None:
        self._journal.__enter__()
