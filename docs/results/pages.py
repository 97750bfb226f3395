"""Makes the result pages from their templates and the records under results/; trains nothing.

python docs/results/pages.py

A template holds lines such as `{table mnist-accuracy}`, `{table kappa dataset=mnist}`,
`{table cifar10.toml}` (a file beside it) and `{figure figure-accuracy dataset=mnist}`: an
experiment, and what of it to show.
"""

from __future__ import annotations

import re
from pathlib import Path

from labelnoise.experiment.figure import draw_figure
from labelnoise.experiment.grid import Experiment, cells, experiment_named
from labelnoise.experiment.outcome import Result, gather
from labelnoise.experiment.present import lines_of, markdown_of
from labelnoise.record.run import Run

HERE = Path(__file__).parent
RECORDS = HERE.parents[1] / "results"
PAGES = ("mnist", "cifar10", "rule", "many-classes")
PLACE = re.compile(r"^\{(table|figure) (\S+)((?: \w+=\S+)*)\}$", re.MULTILINE)


def main() -> None:
    """Write the pages and their pictures."""
    runs = records()
    for name in PAGES:
        (HERE / f"{name}.md").write_text(page(name, runs))
        for found in PLACE.finditer(template(name)):
            kind, experiment, asks = found.groups()
            if kind == "figure":
                shown = _experiment(experiment)
                if shown.figure is not None:
                    results = _results(experiment, asks, runs)
                    draw_figure(shown.title, shown.figure, results, HERE / f"{name}-{experiment}")


def records() -> list[Run]:
    """All runs that were published."""
    return [Run(path) for path in sorted(RECORDS.glob("*/*.json.gz"))]


def template(name: str) -> str:
    """A page before it is filled in."""
    return (HERE / f"{name}.template.md").read_text()


def page(name: str, runs: list[Run]) -> str:
    """A page with its tables filled in."""

    def filled(found: re.Match[str]) -> str:
        kind, experiment, asks = found.groups()
        shown = _experiment(experiment)
        if kind == "figure":
            return f"![{shown.title}]({name}-{experiment}.png)"
        results = _results(experiment, asks, runs)
        lines = [line for line in lines_of(shown, results) if line.ours]
        if not lines:
            return "Not run yet."
        table = markdown_of(shown, lines).partition("\n\n")[2].replace("## ", "### ")
        return f"{table}\n{_time(results)}"

    return PLACE.sub(filled, template(name))


def _time(results: list[Result]) -> str:
    """How long the runs of a table took."""
    taken = [
        sum(row["train_seconds"] + row["evaluation_seconds"] for row in run.rows)
        for result in results
        for run in result.runs
    ]
    number = f"{len(taken)} run{'s' if len(taken) > 1 else ''}"
    return f"{number}, {sum(taken) / 3600:.1f} hours of one core in all."


def _experiment(name: str) -> Experiment:
    """One that comes with the package, or a file beside the templates."""
    return experiment_named(str(HERE / name) if name.endswith(".toml") else name)


def _results(name: str, asks: str, runs: list[Run]) -> list[Result]:
    """The runs of an experiment, or of the part of it that is asked for."""
    only = dict(pair.split("=", 1) for pair in asks.split())
    experiment = _experiment(name)
    trace = experiment.figure.trace if experiment.figure else ()
    found = cells(experiment, only=only)
    return gather(found, runs, experiment.trials, trace=trace)


if __name__ == "__main__":
    main()
