"""An audit on disk: what was found, written worst first and read back in the order of the data."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from labelnoise.audit.findings import COLUMNS, Findings
from labelnoise.audit.source import Source
from labelnoise.data.dataset import Dataset
from labelnoise.errors import LabelNoiseError
from labelnoise.record.disk import write_atomically

ISSUES = "issues.csv"
SUMMARY = "summary.json"

Lines = list[dict[str, str]]


def write_findings(folder: Path, findings: Findings, source: Source) -> None:
    """Write the table of issues and the summary."""
    findings.write_csv(folder / ISSUES)
    summary = json.dumps({"source": source, **findings.summary()}, indent=1) + "\n"
    write_atomically(folder / SUMMARY, lambda file: file.write(summary.encode()))


def read_source(folder: Path) -> Source:
    """What data an audit is of."""
    source: Source | None = _summary(folder / SUMMARY).get("source")
    if source is None:
        raise LabelNoiseError(f"{folder / SUMMARY} does not say what was audited: audit again")
    return source


def read_findings(folder: Path, dataset: Callable[[], Dataset]) -> Findings:
    """Read what an audit found, in the order of the data.

    Args:
        folder: The audit.
        dataset: Gives the data; it is asked only where samples have other names than the numbers of
            rows, which have an order of their own.
    """
    summary, lines = _summary(folder / SUMMARY), _lines(folder / ISSUES)
    try:
        return _findings(summary, _by_number(lines) or _by_name(lines, dataset()))
    except LabelNoiseError:
        raise
    except (KeyError, ValueError, TypeError) as error:
        raise LabelNoiseError(
            f"{folder}: {ISSUES} and {SUMMARY} are not those of one audit ({error!r}): audit again"
        ) from error


def read_order(folder: Path, findings: Findings) -> list[int]:
    """The rows as the table of issues has them; rounded numbers do not tell that any more."""
    rows: dict[tuple[str, str], list[int]] = {}
    for row, name in enumerate(findings.ids):
        rows.setdefault((name, findings.classes[findings.given[row]]), []).append(row)
    name, given = COLUMNS[0], COLUMNS[3]
    return [rows[line[name], line[given]].pop(0) for line in _lines(folder / ISSUES)]


def _summary(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise LabelNoiseError(
            f"{path}: {error.strerror or error}; name a folder that `labelnoise audit` made"
        ) from error
    except ValueError as error:
        raise LabelNoiseError(f"{path}: damaged ({error}); audit again") from error
    return found


def _lines(path: Path) -> Lines:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file, strict=True))
    except OSError as error:
        raise LabelNoiseError(f"{path}: {error.strerror or error}") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise LabelNoiseError(f"{path}: damaged ({error}); audit again") from error


def _by_number(lines: Lines) -> Lines:
    """Lines in the order of their rows, if that is what their samples are called."""
    names = [line[COLUMNS[0]] for line in lines]
    if not all(name.isascii() and name.isdecimal() for name in names):
        return []
    return [lines[place] for place in np.argsort([int(name) for name in names], kind="stable")]


def _by_name(lines: Lines, dataset: Dataset) -> Lines:
    """Lines in the order of the data; of samples that share a name, each by its label."""
    name, given = COLUMNS[0], COLUMNS[3]
    alike: dict[str, Lines] = {}
    for line in lines:
        alike.setdefault(line[name], []).append(line)
    found = []
    for sample, label in zip(dataset.ids, dataset.labels.tolist(), strict=True):
        left = alike[sample]
        own = [line for line in left if line[given] == dataset.classes[label]]
        found.append(own[0] if own else left[0])
        left.remove(found[-1])
    return found


def _findings(summary: dict[str, Any], lines: Lines) -> Findings:
    if len(lines) != summary["samples"]:
        raise ValueError(f"{len(lines)} lines, {summary['samples']} samples")
    classes = tuple(summary["classes"])
    place = {name: number for number, name in enumerate(classes)}
    name, issue, quality, given, predicted, confidence, selected = COLUMNS

    def numbers(column: str) -> Any:
        return np.array([float(line[column]) for line in lines], dtype=np.float64)

    def labels(column: str) -> Any:
        return np.array([place[line[column]] for line in lines], dtype=np.int64)

    low, high = summary["noise_rate_interval"]
    return Findings(
        classes=classes,
        ids=tuple(line[name] for line in lines),
        given=labels(given),
        quality=numbers(quality),
        predicted=labels(predicted),
        confidence=numbers(confidence),
        selected=numbers(selected),
        issue=np.array([line[issue].lower() in ("true", "1") for line in lines], dtype=np.bool_),
        noise_rate=summary["noise_rate"],
        interval=(low, high),
        transition=np.array(summary["transition"], dtype=np.float64),
    )
