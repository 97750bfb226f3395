"""Decisions: what a reviewer made of the suspects, read from `decisions.csv`."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from labelnoise.audit.findings import Findings
from labelnoise.errors import LabelNoiseError, unknown

KEEP, RELABEL, BAD = "keep", "relabel", "bad"
WORDS = (KEEP, RELABEL, BAD)
HEADING = ("sample_id", "row", "given_label", "decision", "new_label")


@dataclass(frozen=True)
class Decision:
    """What was decided about a sample.

    Attributes:
        row: Where it stands in the data.
        word: `keep`, `relabel` or `bad`.
        label: The new label; the given one unless it is relabelled.
    """

    row: int
    word: str
    label: str


ReadAgain = Callable[[str], str | None]


def read_decisions(
    path: Path, findings: Findings, read_again: ReadAgain | None = None
) -> list[Decision]:
    """Read decisions on an audit, in the order of the data; what does not fit it is an error.

    Args:
        path: The file that the page exported. The column `row` may be left out.
        findings: The audit.
        read_again: What a label that no sample has yet would be read as; without, a label must be
            one of the audit's.
    """
    found: dict[int, Decision] = {}
    row_of = _finder(findings)
    for number, line in _lines(path):
        try:
            decision = _decision(line, row_of, findings, read_again)
            before = found.setdefault(decision.row, decision)
            if before != decision:
                raise LabelNoiseError(f"sample {line['sample_id']!r} is decided twice")
        except LabelNoiseError as error:
            raise LabelNoiseError(f"{path}, line {number}: {error}") from error
    return [found[row] for row in sorted(found)]


def _lines(path: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True, restval="")
            lines = [(reader.line_num, line) for line in reader]
    except OSError as error:
        raise LabelNoiseError(
            f"{path}: {error.strerror or error}; name what report.html saves by 'Export decisions'"
        ) from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise LabelNoiseError(f"{path}: cannot be read ({error})") from error
    for name in HEADING:
        if name != "row" and name not in (reader.fieldnames or ()):
            raise LabelNoiseError(
                f"{path}: no column {name!r}; a decisions file has {', '.join(HEADING)}"
            )
    return lines


def _decision(
    line: Mapping[str, str],
    row_of: Callable[[str, str], int],
    findings: Findings,
    read_again: ReadAgain | None,
) -> Decision:
    row = row_of(line["sample_id"], line.get("row", ""))
    given, word, label = findings.classes[findings.given[row]], line["decision"], line["new_label"]
    if line["given_label"] != given:
        raise LabelNoiseError(
            f"sample {line['sample_id']!r} has the label {given!r}, not {line['given_label']!r}: "
            "these decisions are on another audit"
        )
    if word not in WORDS:
        raise unknown("decision", word, WORDS)
    if word != RELABEL:
        if label not in ("", given):
            raise LabelNoiseError(f"a new label, {label!r}, goes with 'relabel', not {word!r}")
        return Decision(row, word, given)
    if not label:
        raise LabelNoiseError("'relabel' without a new label")
    if label == given:  # what was suggested may be what was given
        return Decision(row, KEEP, given)
    if label not in findings.classes:
        _check_new(label, findings.classes, read_again)
    return Decision(row, word, label)


def _check_new(label: str, classes: Sequence[str], read_again: ReadAgain | None) -> None:
    """Refuse a label that would be none, or another, when the copy is read."""
    if read_again is None:
        raise unknown("class", label, classes)
    name = read_again(label)
    if name is None:
        raise LabelNoiseError(f"{label!r} is read as a missing label: choose another word")
    if name != label:
        raise LabelNoiseError(f"{label!r} is read as {name!r}: write that")


def _finder(findings: Findings) -> Callable[[str, str], int]:
    """Where a sample stands, by its name and, where it was written, by its row."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(findings.ids):
        rows.setdefault(name, []).append(row)

    def row_of(name: str, written: str) -> int:
        alike = rows.get(name, [])
        if written:
            alike = [row for row in alike if str(row) == written]
        if not alike:
            where = f" in row {written}" if written else ""
            raise LabelNoiseError(f"the audit has no sample {name!r}{where}")
        if len(alike) > 1:
            raise LabelNoiseError(f"{len(alike)} samples are called {name!r}: add the column row")
        return alike[0]

    return row_of
