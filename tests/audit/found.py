"""Findings made by hand, and an audit's folder with them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from labelnoise.audit.findings import Findings
from labelnoise.audit.source import source_of
from labelnoise.audit.store import write_findings
from labelnoise.data import Columns
from labelnoise.data.dataset import Dataset


def findings_of(
    dataset: Dataset, wrong: dict[int, int] | None = None, given: Any = None
) -> Findings:
    """What an audit would say that takes these rows for wrong, each for another label."""
    wrong = wrong or {}
    labels = dataset.labels.numpy() if given is None else np.asarray(given)
    count, classes = len(labels), len(dataset.classes)
    quality = np.linspace(0.6, 1.0, count)
    predicted, issue = labels.copy(), np.zeros(count, dtype=np.bool_)
    step = min(0.01, 0.5 / max(1, len(wrong)))
    for place, (row, label) in enumerate(wrong.items()):
        quality[row], predicted[row], issue[row] = step * (place + 1), label, True
    transition = np.eye(classes) * 0.9 + 0.1 / classes
    return Findings(
        classes=dataset.classes,
        ids=tuple(dataset.ids) or tuple(map(str, range(count))),
        given=labels.astype(np.int64),
        quality=quality,
        predicted=predicted.astype(np.int64),
        confidence=np.where(issue, 0.9, quality),
        selected=np.where(issue, 0.0, 1.0),
        issue=issue,
        noise_rate=len(wrong) / count,
        interval=(0.0, 0.5),
        transition=transition,
    )


def keep(
    folder: Path,
    found: Findings,
    dataset: Dataset,
    data: str,
    noise: str = "none",
    **columns: Any,
) -> Path:
    """An audit's folder, as far as `apply` and `export` read it."""
    folder.mkdir()
    write_findings(folder, found, source_of(dataset, data, Columns(**columns), noise=noise))
    return folder


def decide(path: Path, found: Findings, **words: tuple[str, str]) -> Path:
    """A decisions.csv: `row0=("relabel", "b")`."""
    lines = [["sample_id", "row", "given_label", "decision", "new_label"]]
    for key, (word, label) in words.items():
        row = int(key.removeprefix("row"))
        lines.append([found.ids[row], str(row), found.classes[found.given[row]], word, label])
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)
    return path
