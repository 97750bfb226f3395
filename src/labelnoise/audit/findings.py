"""Findings: what an audit says of every label, and of all of them together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelnoise.record.csvfile import write_csv

Numbers = NDArray[np.float64]

COLUMNS = (
    "sample_id",
    "is_label_issue",
    "label_quality",
    "given_label",
    "predicted_label",
    "suggestion_confidence",
    "selected_fraction",
)
BUDGETS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)


@dataclass(frozen=True)
class Findings:
    """One entry a sample, in the order of the data.

    Attributes:
        classes: What each label is called.
        ids: What each sample is called.
        given: (samples,) labels as given, positions in `classes`.
        quality: (samples,) how likely the label is right; low is suspect.
        predicted: (samples,) what the label should be; where it is no issue, `given`.
        confidence: (samples,) how likely `predicted` is right.
        selected: (samples,) how often the label was taken for right, later times counting more.
        issue: (samples,) boolean, whether the label is taken for wrong.
        noise_rate: Estimated fraction of wrong labels.
        interval: Where it lies, if what looks surely right or wrong is so.
        transition: (classes, classes) estimated P(given = column, true = row).
    """

    classes: tuple[str, ...]
    ids: tuple[str, ...]
    given: NDArray[np.int64]
    quality: Numbers
    predicted: NDArray[np.int64]
    confidence: Numbers
    selected: Numbers
    issue: NDArray[np.bool_]
    noise_rate: float
    interval: tuple[float, float]
    transition: Numbers

    def worst_first(self) -> NDArray[np.int64]:
        """Samples in the order in which to review them."""
        return np.argsort(self.quality, kind="stable").astype(np.int64)

    def rows(
        self, order: Sequence[int] | NDArray[np.int64] | None = None
    ) -> Iterator[dict[str, Any]]:
        """The table of issues, a line a sample, worst first unless another order is given."""
        for sample in self.worst_first() if order is None else order:
            values = (
                self.ids[sample],
                bool(self.issue[sample]),
                float(self.quality[sample]),
                self.classes[self.given[sample]],
                self.classes[self.predicted[sample]],
                float(self.confidence[sample]),
                float(self.selected[sample]),
            )
            yield dict(zip(COLUMNS, values, strict=True))

    def write_csv(self, path: Path | str) -> None:
        """Write the table of issues, worst first."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_csv(path, COLUMNS, map(_rounded, self.rows()))

    def expected_precision(self, budget: int | None = None) -> float | None:
        """How many of the flagged labels should be wrong, or of the `budget` worst of all."""
        wrong = 1 - self.quality
        chosen = wrong[self.issue] if budget is None else wrong[self.worst_first()[:budget]]
        return float(chosen.mean()) if len(chosen) else None

    def summary(self) -> dict[str, Any]:
        """What `summary.json` holds."""
        given = np.bincount(self.given, minlength=len(self.classes))
        flagged = np.bincount(self.given[self.issue], minlength=len(self.classes))
        budgets = [budget for budget in BUDGETS if budget < len(self.given)]
        return {
            "samples": len(self.given),
            "issues": int(self.issue.sum()),
            "noise_rate": self.noise_rate,
            "noise_rate_interval": list(self.interval),
            "classes": list(self.classes),
            "transition": self.transition.tolist(),
            "samples_per_class": dict(zip(self.classes, given.tolist(), strict=True)),
            "issues_per_class": dict(zip(self.classes, flagged.tolist(), strict=True)),
            "expected_precision": self.expected_precision(),
            "expected_precision_by_budget": {
                str(budget): self.expected_precision(budget) for budget in budgets
            },
        }


def _rounded(row: dict[str, Any]) -> list[Any]:
    """Six digits are enough for a person, and keep a file small."""
    return [f"{value:.6f}" if isinstance(value, float) else value for value in row.values()]
