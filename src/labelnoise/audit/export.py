"""Exports: an audit in the words of other tools.

Field names are those of cleanlab's `CleanLearning`, of FiftyOne's `Sample.from_dict`, and of Label
Studio's tasks with predictions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

import labelnoise
from labelnoise.audit.decisions import RELABEL, Decision, read_decisions
from labelnoise.audit.exhibit import TEXT, exhibits, file_of
from labelnoise.audit.findings import COLUMNS, Findings
from labelnoise.audit.source import reread
from labelnoise.audit.store import read_findings, read_source
from labelnoise.audit.writers import writer_of
from labelnoise.data.dataset import Dataset
from labelnoise.errors import LabelNoiseError, unknown
from labelnoise.record.csvfile import write_csv
from labelnoise.record.disk import write_atomically

CLEANLAB = ("is_label_issue", "label_quality", "given_label", "predicted_label")
OBJECTS = {"image": "Image", "text": "Text", "table": "Table"}  # Label Studio's tags
FIELD, CHOICE = "sample", "label"  # the names of the object and of the choices in its interface


@dataclass(frozen=True)
class Exported:
    """An audit, read as far as an export asks for it."""

    folder: Path
    data_dir: Path | None = None
    decisions: Path | None = None

    @cached_property
    def dataset(self) -> Dataset:
        """The data, unchanged since."""
        return reread(read_source(self.folder), self.data_dir)

    @cached_property
    def findings(self) -> Findings:
        """What was found, in the order of the data."""
        return read_findings(self.folder)

    @cached_property
    def decided(self) -> Sequence[Decision]:
        """What was decided, if anything was."""
        if self.decisions is None:
            return ()
        writer = writer_of(read_source(self.folder)["data"])
        return read_decisions(self.decisions, self.findings, writer.read_again)


def export(
    folder: Path,
    to: str,
    out: Path,
    *,
    decisions: Path | None = None,
    data_dir: Path | None = None,
) -> int:
    """Write an audit for another tool.

    Args:
        folder: The audit.
        to: The tool, one of `EXPORTERS`.
        out: The file.
        decisions: What a reviewer decided, to go with `csv`.
        data_dir: Where named data lie.

    Returns:
        How many samples were written.
    """
    if to not in EXPORTERS:
        raise unknown("tool", to, EXPORTERS)
    if decisions is not None and not EXPORTERS[to].decisions:
        takes = " or ".join(name for name, tool in EXPORTERS.items() if tool.decisions)
        raise LabelNoiseError(
            f"{to} has no place for decisions: leave --decisions out, or --to {takes}"
        )
    if out.exists():
        raise LabelNoiseError(f"{out} exists: choose another --out, nothing is overwritten")
    return EXPORTERS[to].write(Exported(folder, data_dir, decisions), out)


def _to_cleanlab(audit: Exported, out: Path) -> int:
    """The table of `CleanLearning.find_label_issues`, one line a row of the data, in order."""
    rows = audit.findings.rows(range(len(audit.findings.given)))
    return write_csv(out, CLEANLAB, ([line[name] for name in CLEANLAB] for line in rows))


def _to_csv(audit: Exported, out: Path) -> int:
    """The issues, worst first, and what was decided about them."""
    decided = {one.row: one for one in audit.decided}
    order = audit.findings.worst_first()

    def lines() -> Iterable[Sequence[object]]:
        for row, line in zip(order.tolist(), audit.findings.rows(order), strict=True):
            one = decided.get(row)
            new = one.label if one and one.word == RELABEL else ""
            yield (*line.values(), one.word if one else "", new)

    return write_csv(out, (*COLUMNS, "decision", "new_label"), lines())


def _to_fiftyone(audit: Exported, out: Path) -> int:
    """Samples for `fiftyone.Sample.from_dict`, in the order of the data."""
    found, samples = audit.findings, []
    for row, line in enumerate(found.rows(range(len(found.given)))):
        file = file_of(audit.dataset, row)
        samples.append(
            {
                **({} if file is None else {"filepath": str(file.resolve())}),
                "tags": ["label_issue"] if line["is_label_issue"] else [],
                "source_id": line["sample_id"],
                "ground_truth": {"_cls": "Classification", "label": line["given_label"]},
                "suggested": {
                    "_cls": "Classification",
                    "label": line["predicted_label"],
                    "confidence": line["suggestion_confidence"],
                },
                "mistakenness": 1 - line["label_quality"],
            }
        )
    _write_json(out, {"classes": list(found.classes), "samples": samples})
    return len(samples)


def _to_label_studio(audit: Exported, out: Path) -> int:
    """Tasks for the labels that are flagged, worst first, and beside them the interface (.xml)."""
    found = audit.findings
    flagged = [row for row in found.worst_first().tolist() if found.issue[row]]
    interface = out.with_suffix(".xml")
    if interface == out or interface.exists():
        raise LabelNoiseError(f"{interface} is for the interface: choose another --out")
    values, kind = _task_values(audit.dataset, flagged)
    tasks = [
        {
            "data": {
                FIELD: values[row],
                **{key: line[key] for key in ("sample_id", "given_label", "label_quality")},
            },
            "predictions": [_prediction(line)],
        }
        for row, line in zip(flagged, found.rows(flagged), strict=True)
    ]
    _write_json(out, tasks)
    text = _interface(OBJECTS[kind], found.classes)
    write_atomically(interface, lambda file: file.write(text.encode()))
    return len(tasks)


def _task_values(dataset: Dataset, rows: Sequence[int]) -> tuple[dict[int, Any], str]:
    """What Label Studio shows of each row, and of which kind it is.

    A file that it serves itself is only addressed; all else, an image, a text or a table, is in it.
    """
    files = {row: file for row in rows if (file := file_of(dataset, row)) is not None}
    values: dict[int, Any] = {
        row: f"/data/local-files/?d={quote(str(file.resolve()).lstrip('/'))}"
        for row, file in files.items()
    }
    kind = "image" if files else TEXT
    held = [row for row in rows if row not in files]
    for row, exhibit in zip(held, exhibits(dataset, held), strict=True):
        kind = next(key for key in OBJECTS if key in exhibit)
        values[row] = dict(exhibit[kind]) if kind == "table" else exhibit[kind]
    return values, kind


def _prediction(line: dict[str, Any]) -> dict[str, Any]:
    return {
        "model_version": f"labelnoise {labelnoise.__version__}",
        "score": line["suggestion_confidence"],
        "result": [
            {
                "from_name": CHOICE,
                "to_name": FIELD,
                "type": "choices",
                "value": {"choices": [line["predicted_label"]]},
            }
        ],
    }


def _interface(tag: str, classes: Sequence[str]) -> str:
    choices = "".join(f"    <Choice value={quoteattr(name)}/>\n" for name in classes)
    return (
        f'<View>\n  <{tag} name="{FIELD}" value="${FIELD}"/>\n'
        f'  <Choices name="{CHOICE}" toName="{FIELD}" choice="single">\n{choices}'
        "  </Choices>\n</View>\n"
    )


def _write_json(out: Path, data: Any) -> None:
    text = json.dumps(data)
    write_atomically(out, lambda file: file.write(text.encode()))


@dataclass(frozen=True)
class Exporter:
    """How an audit is written for a tool.

    Attributes:
        write: Writes it; how many samples there were.
        decisions: Whether decisions go with it.
    """

    write: Callable[[Exported, Path], int]
    decisions: bool = False


EXPORTERS: dict[str, Exporter] = {
    "cleanlab": Exporter(_to_cleanlab),
    "fiftyone": Exporter(_to_fiftyone),
    "label-studio": Exporter(_to_label_studio),
    "csv": Exporter(_to_csv, decisions=True),
}
"""What writes an audit for a tool, by the tool's name."""
