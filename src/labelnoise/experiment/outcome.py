"""Outcome: what the runs of an experiment say, line by line beside what was published."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from labelnoise.data import name_of
from labelnoise.experiment.ask import Ask
from labelnoise.experiment.grid import METRICS, Cell, Table, suited
from labelnoise.experiment.published import Number, published
from labelnoise.experiment.spec import Spec
from labelnoise.record.run import Run

PUBLISHED_AS = {"train_seconds": "run_seconds"}
LEAST = 1.0  # percent points that seeds, splits and libraries may differ by
MOST = 5.0  # and no more, however far the paper's own trials were apart
LEAST_RATIO = 0.05  # of a ratio of times, likewise


@dataclass(frozen=True)
class Line:
    """One entry of a table.

    Attributes:
        block: The table's part that it stands in.
        line: What it is called there.
        ours: One value a trial: percent, or a ratio.
        epochs: How long we trained; 0 without a run.
        paper: The published mean, if there is one.
        paper_std: Its deviation over trials.
        word: reproduced, better, worse, not comparable, or empty where there is nothing yet.
        why: What makes it incomparable.
        column: Which column it stands in, where a table has one for every method.
    """

    block: str
    line: str
    ours: tuple[float, ...] = ()
    epochs: int = 0
    paper: float | None = None
    paper_std: float | None = None
    word: str = ""
    why: str = ""
    column: str = ""

    @property
    def mean(self) -> float | None:
        """Over the trials."""
        return statistics.fmean(self.ours) if self.ours else None

    @property
    def std(self) -> float | None:
        """Over the trials, with n - 1."""
        return statistics.stdev(self.ours) if len(self.ours) > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.mean is None or self.paper is None else self.mean - self.paper

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        derived = {"mean": self.mean, "std": self.std, "difference": self.difference}
        return {**asdict(self), "trials": len(self.ours), **derived}


@dataclass(frozen=True)
class Result:
    """A cell with the runs that were found for it, one a seed."""

    cell: Cell
    runs: tuple[Run, ...]


def gather(cells: Sequence[Cell], runs: Iterable[Run], trials: int, **length: Any) -> list[Result]:
    """The finished runs of every cell, whatever data of its name they were made on.

    Args:
        cells: What to look for.
        runs: Where to look.
        trials: How many seeds, from 0.
        length: `epochs` and `trace`, as `Cell.ask` takes them.
    """
    known = [(run, Spec.of(run.header["spec"])) for run in runs if run.done]
    results = []
    for cell in cells:
        found = {
            spec.seed: run for run, spec in known if is_of(spec, cell.ask(spec.seed, **length))
        }
        results.append(Result(cell, tuple(found[seed] for seed in sorted(found) if seed < trials)))
    return results


def lines(table: Table, tables: Sequence[str], results: Sequence[Result]) -> list[Line]:
    """What a table shows of its results, beside the numbers of the published `tables`."""
    return [
        _line(table, tables, result, results, metric)
        for metric in table.metrics
        for result in results
    ]


def _line(
    table: Table, tables: Sequence[str], result: Result, results: Sequence[Result], metric: str
) -> Line:
    place = {**result.cell.settings, **result.cell.place, "metric": METRICS[metric]}
    spec = _spec_of(result)
    number = published().find(tables, spec, PUBLISHED_AS.get(metric, metric))
    column = str(place[table.column]) if table.column else ""
    line = Line(str(place[table.block]), str(place[table.line]), column=column)
    if number is not None:
        line = replace(line, paper=number.mean, paper_std=number.std)
    base = _base(result, results, table.over) if table.over else result
    if table.over:
        line = _ratios(line, tables, result, base, metric)
    else:
        values = [run.summary()[metric] for run in result.runs]
        line = replace(line, ours=tuple(100 * value for value in values if value is not None))
    if not line.ours:
        return line
    line = replace(line, epochs=spec.training.epochs)
    if table.over and len({_hardware(run) for run in (*result.runs, *base.runs)}) > 1:
        return replace(line, word="not comparable", why="other hardware or threads")
    word, why = _word(line, result, number, table) if tables else ("", "")
    return replace(line, word=word, why=why)


def _hardware(run: Run) -> tuple[str, ...]:
    """What times depend on."""
    return tuple(str(run.header.get(key)) for key in ("machine", "device", "threads"))


def _ratios(line: Line, tables: Sequence[str], result: Result, base: Result, metric: str) -> Line:
    """Seconds an epoch over those of `base`, ours and the paper's."""
    theirs = published().find(tables, _spec_of(base), PUBLISHED_AS[metric])
    paper = line.paper / theirs.mean if line.paper is not None and theirs is not None else None
    line = replace(line, paper=paper, paper_std=None)
    if not base.runs:
        return line
    unit = statistics.fmean(run.summary()[metric] / len(run.rows) for run in base.runs)
    return replace(
        line, ours=tuple(run.summary()[metric] / len(run.rows) / unit for run in result.runs)
    )


def _word(line: Line, result: Result, number: Number | None, table: Table) -> tuple[str, str]:
    """What became of a published number, in a word."""
    if number is None or line.paper is None or line.difference is None:
        return "not comparable", "not in the paper"
    for run in result.runs:
        spec, rows = Spec.of(run.header["spec"]), run.header.get("rows", {})
        if other := published().other_data(spec.dataset, spec.digest, rows.get("test")):
            return "not comparable", f"other data: {other}"
    # A number that was quoted from elsewhere without its epochs is held against the experiment's.
    epochs = number.epochs or result.cell.ask().without_data().training.epochs
    if line.epochs != epochs and not table.any_epochs:
        return "not comparable", f"{line.epochs} of {epochs} epochs"
    if table.over:
        margin, gain = LEAST_RATIO * line.paper, -line.difference
    else:
        margin, gain = min(max(LEAST, 2 * (line.paper_std or 0)), MOST), line.difference
    if abs(gain) <= margin:
        return "reproduced", ""
    return ("better" if gain > 0 else "worse"), ""


def is_of(spec: Spec, ask: Ask) -> bool:
    """Whether a run is what is asked for, on the data and the net that the run had."""
    if (spec.dataset, spec.method) != (name_of(ask.data), ask.method):
        return False
    net = spec.net if ask.net == "auto" else ask.net
    return spec == ask.spec(dataset=spec.dataset, digest=spec.digest, net=net, known=True)


def _spec_of(result: Result) -> Spec:
    """What a result's runs were asked for, or would be; the data and the net may still be open."""
    if result.runs:
        return Spec.of(result.runs[0].header["spec"])
    return result.cell.ask().without_data()


def _base(result: Result, results: Sequence[Result], over: Mapping[str, Any]) -> Result:
    """What ratios of `result` are taken to: the one that differs from it by `over` alone."""
    wanted = {**result.cell.settings, **over}
    for candidate in results:
        settings = candidate.cell.settings
        if all(wanted[key] == settings[key] for key in wanted.keys() & settings.keys()):
            return candidate
    return Result(suited(Cell(result.cell.place, wanted)), ())
