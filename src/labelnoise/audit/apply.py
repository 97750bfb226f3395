"""Apply: a corrected copy of the labels, with a log of every change, that can be taken back.

The original is only read. Beside the copy `NEW` lie `NEW.changes.csv`, one line for every label
that was decided to be another or to be left out, and `NEW.applied.json`, a list of all that was
made with sizes and times, by which `undo` removes it and nothing else.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from labelnoise.audit.decisions import BAD, KEEP, WORDS, Decision, read_decisions
from labelnoise.audit.findings import Findings
from labelnoise.audit.source import reread
from labelnoise.audit.store import read_findings, read_source
from labelnoise.audit.writers import Correction, Writer, writer_of
from labelnoise.data.tree import text
from labelnoise.errors import LabelNoiseError
from labelnoise.record.disk import mendable, write_atomically

CHANGES = ".changes.csv"
APPLIED = ".applied.json"

Trace = list[int] | str
"""Size and time of a file, or where a link leads."""


@dataclass(frozen=True)
class Applied:
    """What was made.

    Attributes:
        out: The corrected copy.
        changes: The log.
        counts: How many decisions there were of each word.
        planted: How many labels differ from the data because the audit planted noise in them.
    """

    out: Path
    changes: Path
    counts: dict[str, int]
    planted: int


def apply(
    folder: Path,
    decisions: Path,
    out: Path,
    *,
    link: bool = False,
    data_dir: Path | None = None,
) -> Applied:
    """Make a corrected copy of the labels that were audited.

    Args:
        folder: The audit.
        decisions: What its page exported.
        out: The copy: a file or folder of the kind that was audited, for named data a CSV file.
        link: Link the files of a folder rather than copy them.
        data_dir: Where named data lie.
    """
    out = Path(os.path.abspath(out))
    made = (out, _beside(out, CHANGES), _beside(out, APPLIED))
    if there := next((path for path in made if os.path.lexists(path)), None):
        raise LabelNoiseError(f"{there} exists: choose another --out, nothing is overwritten")
    source = read_source(folder)
    writer = writer_of(source["data"])
    dataset = reread(source, data_dir)
    findings = read_findings(folder)
    decided = read_decisions(decisions, findings, new_classes=writer.new_classes)
    correction = Correction(
        source=source,
        dataset=dataset,
        labels=_labels(findings, decided),
        bad=frozenset(one.row for one in decided if one.word == BAD),
        link=link,
    )
    if correction.path.is_dir() and out.is_relative_to(correction.path.resolve()):
        raise LabelNoiseError(f"{out} lies in the data: choose another --out")
    _make(out, writer, correction, lambda path: _write_log(path, findings, decided))
    given = (findings.classes[label] for label in findings.given.tolist())
    planted = sum(one != other for one, other in zip(given, correction.before, strict=True))
    counts = Counter(one.word for one in decided)
    return Applied(out, made[1], {word: counts[word] for word in WORDS}, planted)


def undo(out: Path) -> int:
    """Remove what `apply` made, and only that; how many files it were.

    Raises:
        LabelNoiseError: It was not made by `apply`, or was changed since.
    """
    out = Path(os.path.abspath(out))
    record = _beside(out, APPLIED)
    try:
        traces: dict[str, Trace] = json.loads(record.read_text("utf-8"))["made"]
    except OSError as error:
        raise LabelNoiseError(
            f"{record}: {error.strerror or error}; only what `labelnoise apply` made can be undone"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise LabelNoiseError(f"{record}: damaged ({error!r}); remove {out} yourself") from error
    now = _traces(out)
    for name in sorted({*traces, *now}):
        if traces.get(name) != now.get(name):
            what = "is new" if name not in traces else "is gone" if name not in now else "changed"
            raise LabelNoiseError(
                f"{out / name} {what} since it was made: nothing is removed, do that yourself"
            )
    with mendable(out, "remove it yourself"):
        _discard(out)
        _beside(out, CHANGES).unlink(missing_ok=True)
        record.unlink()
    return len(traces)


def _beside(out: Path, suffix: str) -> Path:
    return out.with_name(out.name + suffix)


def _labels(findings: Findings, decided: Sequence[Decision]) -> list[str]:
    """What each label is to be: as given, unless it was decided otherwise."""
    labels = [findings.classes[label] for label in findings.given.tolist()]
    for decision in decided:
        labels[decision.row] = decision.label
    return labels


def _make(
    out: Path, writer: Writer, correction: Correction, write_log: Callable[[Path], None]
) -> None:
    """All that is made, or nothing: the copy gets its name last."""
    draft, log, record = _beside(out, ".part"), _beside(out, CHANGES), _beside(out, APPLIED)
    with mendable(out, "free some space or choose another place"):
        try:
            writer.write(correction, draft)
            write_log(log)
            _write_record(record, draft, correction)
            draft.rename(out)
        except BaseException:
            for path in (draft, log, record):
                _discard(path)
            raise


def _write_log(path: Path, findings: Findings, decided: Sequence[Decision]) -> None:
    with path.open("x", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("sample_id", "row", "before", "after", "decision"))
        for one in decided:
            if one.word != KEEP:
                after = "" if one.word == BAD else one.label
                before = findings.classes[findings.given[one.row]]
                writer.writerow((findings.ids[one.row], one.row, before, after, one.word))


def _write_record(path: Path, made: Path, correction: Correction) -> None:
    record = {"of": dict(correction.source), "made": _traces(made)}
    write_atomically(path, lambda file: file.write(json.dumps(record, indent=1).encode()))


def _traces(path: Path) -> dict[str, Trace]:
    """Every file at or below a path, by its name relative to it."""
    if not path.is_dir() or path.is_symlink():
        return {".": _trace(path)} if os.path.lexists(path) else {}
    files = (Path(folder, name) for folder, _, names in os.walk(path) for name in names)
    return {text(file.relative_to(path).as_posix()): _trace(file) for file in files}


def _trace(file: Path) -> Trace:
    found = file.lstat()
    return os.readlink(file) if file.is_symlink() else [found.st_size, found.st_mtime_ns]


def _discard(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
