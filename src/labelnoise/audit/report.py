"""Report: an audit as one HTML page, to see how wrong the labels are and to put them right.

The page lies in `page/`; its data are made here. It opens from disk, asks for nothing, and gives
back `decisions.csv`, which `labelnoise apply` takes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

import labelnoise
from labelnoise.audit.exhibit import exhibits
from labelnoise.audit.findings import Findings
from labelnoise.audit.writers import writer_of
from labelnoise.data.dataset import Dataset
from labelnoise.record.page import write_page

Json = dict[str, Any]

MOST = 10_000  # suspects on a page
FEWEST_MORE = 25  # labels that are not flagged, shown after those that are
SEEN = 1e-4  # the least probability that is worth a cell of the heat map


def write_report(
    path: Path,
    findings: Findings,
    dataset: Dataset,
    *,
    most: int = MOST,
    planted: str | None = None,
) -> int:
    """Write the page of an audit.

    Args:
        path: The page.
        findings: What the audit says, in the order of the data.
        dataset: The data it is of.
        most: How many suspects to show at most.
        planted: The noise that was planted to try the audit out.

    Returns:
        How many are shown: those that are flagged, and some of the next worst.
    """
    rows = suspects(findings, most)
    report = {
        "data": dataset.name,
        "made": f"{datetime.now().astimezone():%Y-%m-%d %H:%M %Z}",
        "version": labelnoise.__version__,
        "audit": identity(findings),
        "planted": planted,
        "new_classes": writer_of(dataset.name).new_classes,
        **_overview(findings),
        "suspects": _columns(findings, dataset, rows),
    }
    write_page(resources.files("labelnoise.audit") / "page", "report.html", report, path)
    return len(rows)


def suspects(findings: Findings, most: int = MOST) -> list[int]:
    """Rows to review, worst first: all that are flagged, then a quarter as many of the others."""
    order = findings.worst_first()
    flagged, rest = order[findings.issue[order]], order[~findings.issue[order]]
    more = max(FEWEST_MORE, len(flagged) // 4)
    chosen: list[int] = np.concatenate([flagged, rest[:more]])[:most].tolist()
    return chosen


def identity(findings: Findings) -> str:
    """A digest that tells audits apart, so that decisions on one never get into another."""
    state = hashlib.blake2b(digest_size=12)
    for column in (findings.given, findings.predicted, findings.quality):
        state.update(np.ascontiguousarray(column).data)
    for names in (findings.classes, findings.ids):
        state.update("\0".join(names).encode("utf-8", "surrogatepass"))
    return state.hexdigest()


def _overview(findings: Findings) -> Json:
    """The noise at a glance."""
    summary = findings.summary()
    count = len(findings.classes)
    return {
        **{key: summary[key] for key in ("samples", "issues", "noise_rate", "classes")},
        "interval": summary["noise_rate_interval"],
        "expected_precision": summary["expected_precision"],
        "by_budget": summary["expected_precision_by_budget"],
        "samples_per_class": np.bincount(findings.given, minlength=count).tolist(),
        "issues_per_class": np.bincount(findings.given[findings.issue], minlength=count).tolist(),
        "transition": _cells(findings.transition),
    }


def _cells(transition: Any) -> list[tuple[int, int, float]]:
    """The cells of a matrix that are worth showing: of a thousand classes most are not."""
    seen = np.argwhere(transition >= SEEN)
    return [(int(i), int(j), round(float(transition[i, j]), 5)) for i, j in seen]


def _columns(findings: Findings, dataset: Dataset, rows: Sequence[int]) -> Json:
    """What is known of each suspect, one list a column."""
    return {
        "row": list(rows),
        "id": [findings.ids[row] for row in rows],
        "given": findings.given[rows].tolist(),
        "suggested": findings.predicted[rows].tolist(),
        "confidence": findings.confidence[rows].round(4).tolist(),
        "quality": findings.quality[rows].round(4).tolist(),
        "issue": findings.issue[rows].astype(int).tolist(),
        "exhibit": list(exhibits(dataset, rows, findings)),
    }
