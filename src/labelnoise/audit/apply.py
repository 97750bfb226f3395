"""Apply: a corrected copy of the labels, with a log of every change, that can be taken back.

The original is only read. Beside the copy `NEW` lie `NEW.changes.csv`, one line for every label
in which the copy differs from the data, and `NEW.applied.json`, a list of all that was made with
sizes and times, by which `undo` removes it and nothing else. What was not decided stays as it is in
the data, even where the audit planted another label to try itself out.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from labelnoise.audit.decisions import BAD, WORDS, Decision, read_decisions
from labelnoise.audit.source import reread
from labelnoise.audit.store import read_findings, read_source
from labelnoise.audit.writers import Correction, Writer, writer_of
from labelnoise.data.tree import text
from labelnoise.errors import LabelNoiseError, nearest
from labelnoise.record.csvfile import write_csv
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
        changed: How many labels of the copy are others than in the data.
        planted: How many labels the audit had planted to try itself out.
    """

    out: Path
    changes: Path
    counts: dict[str, int]
    changed: int
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
    made = (_beside(out, CHANGES), _beside(out, APPLIED), out)
    _nothing_at(made)
    source = read_source(folder)
    writer = writer_of(source["data"])
    if not out.name.lower().endswith(writer.suffix):
        raise LabelNoiseError(
            f"{out} would hold a {writer.suffix} file: end the name of --out in {writer.suffix}"
        )
    dataset = reread(source, data_dir)
    findings = read_findings(folder)
    decided = read_decisions(decisions, findings, writer.read_again)
    _warn_of_new(decided, findings.classes)
    correction = Correction(
        source=source,
        dataset=dataset,
        decided={one.row: one.label for one in decided},
        bad=frozenset(one.row for one in decided if one.word == BAD),
        link=link,
    )
    if correction.path.is_dir() and out.is_relative_to(correction.path.resolve()):
        raise LabelNoiseError(f"{out} lies in the data: choose another --out")
    _make(made, writer, correction, decided)
    given = (findings.classes[label] for label in findings.given.tolist())
    planted = sum(one != other for one, other in zip(given, correction.before, strict=True))
    found = Counter(one.word for one in decided)
    counts = {word: found[word] for word in WORDS}
    return Applied(out, made[0], counts, len(correction.changed), planted)


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


def _warn_of_new(decided: Sequence[Decision], classes: Sequence[str]) -> None:
    """A class that no sample had may be meant, or a slip of the keys."""
    new = Counter(one.label for one in decided if one.label not in classes)
    for name, count in new.items():
        meant = nearest(name, classes)
        hint = f", did you mean {meant!r}?" if meant else ""
        rows = "label" if count == 1 else "labels"
        warnings.warn(f"{count} {rows} of a new class {name!r}{hint}", stacklevel=3)


def _nothing_at(paths: Sequence[Path]) -> None:
    if there := next((path for path in paths if os.path.lexists(path)), None):
        raise LabelNoiseError(f"{there} exists: choose another --out, nothing is overwritten")


def _beside(out: Path, suffix: str) -> Path:
    return out.with_name(out.name + suffix)


def _make(
    made: Sequence[Path], writer: Writer, correction: Correction, decided: Sequence[Decision]
) -> None:
    """All that is made, or nothing: under a name that nobody has, and the copy comes out last."""
    out = made[-1]
    with mendable(out, "free some space or choose another place"):
        drafts = Path(tempfile.mkdtemp(prefix=".labelnoise-", dir=out.parent))
        placed: list[Path] = []
        try:
            draft = drafts / out.name
            writer.write(correction, draft)
            _write_log(_beside(draft, CHANGES), correction, decided)
            _write_record(_beside(draft, APPLIED), draft, correction)
            _nothing_at(made)  # it takes a while to copy a folder
            for place in made:
                (drafts / place.name).rename(place)
                placed.append(place)
        except BaseException:
            for place in placed:
                _discard(place)
            raise
        finally:
            shutil.rmtree(drafts)


def _write_log(path: Path, correction: Correction, decided: Sequence[Decision]) -> None:
    """A line for every label that is another in the copy, or not in it."""
    lines = [
        (
            correction.name(one.row),
            one.row,
            correction.before[one.row],
            correction.changed.get(one.row, ""),
            one.word,
        )
        for one in decided
        if one.row in correction.changed or one.row in correction.bad
    ]
    write_csv(path, ("sample_id", "row", "before", "after", "decision"), lines)


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
