"""The paper's numbers, to compare ours with."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from pydantic import BaseModel, ConfigDict

from labelnoise.experiment.spec import Spec


class Number(BaseModel):
    """One number of a table; accuracies in percent as printed, times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    mean: float
    std: float | None = None
    dataset: str | None = None
    noise: str | None = None
    method: str | None = None
    batch_size: int | None = None
    epochs: int | None = None
    kappa: float | None = None
    bold: bool = False
    note: str = ""
    label: str = ""
    noise_rate: float | None = None
    true_label: int | None = None
    given_label: int | None = None

    def is_about(self, spec: Spec, metric: str) -> bool:
        """Whether it was measured in the same experiment as a run; its length may differ."""
        pairs: list[tuple[Any, Any]] = [
            (self.dataset, spec.dataset),
            (self.noise, spec.noise),
            (self.batch_size, spec.training.batch_size),
            (self.kappa, spec.settings.get("kappa")),
        ]
        return (
            self.metric == metric
            and self.method == spec.method
            and all(theirs is None or theirs == ours for theirs, ours in pairs)
        )


@dataclass(frozen=True)
class Published:
    """All that was published.

    Attributes:
        tables: The numbers of every table, by its name.
        official: The digests of official data sets that were seen, by their name.
        others: What copies that are not the official ones are, by their digest.
        test_rows: How many rows the test part of others has, which nobody has seen yet.
    """

    tables: dict[str, list[Number]]
    official: dict[str, str]
    others: dict[str, str]
    test_rows: dict[str, int]

    def other_data(self, dataset: str, digest: str, test_rows: int | None = None) -> str:
        """What data of this name and digest are, if not the official ones as far as is known."""
        if digest in self.others:
            return self.others[digest]
        expected = self.test_rows.get(dataset)
        if None not in (expected, test_rows) and test_rows != expected:
            return f"{test_rows} of {expected} test images"
        return (
            ""
            if self.official.get(dataset, digest) == digest
            else "not the official files, or a net, weights or trusted set of one's own"
        )

    def find(self, tables: Sequence[str], spec: Spec, metric: str) -> Number | None:
        """The number that one of `tables` has for a run's experiment."""
        numbers = (number for table in tables for number in self.tables[table])
        return next((number for number in numbers if number.is_about(spec, metric)), None)


@cache
def published() -> Published:
    """The numbers that come with the package."""
    text = resources.files("labelnoise.experiments").joinpath("published.toml").read_text()
    parts = tomllib.loads(text)
    official, others, test_rows = map(parts.pop, ("official", "other_data", "test_rows"))
    return Published(
        tables={
            name: [Number(**number) for number in table["numbers"]] for name, table in parts.items()
        },
        official=official,
        others={other["digest"]: other["what"] for other in others},
        test_rows=test_rows,
    )
