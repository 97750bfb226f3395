"""An experiment's outcome for people: tables on a terminal, tables and figures as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from labelnoise.experiment.figure import draw_figure
from labelnoise.experiment.grid import Experiment
from labelnoise.experiment.matrix import matrix_latex, matrix_markdown, matrix_tables
from labelnoise.experiment.outcome import Line, Result, lines
from labelnoise.experiment.table import as_csv, as_latex, as_markdown, experiment_tables, runs_table
from labelnoise.record.disk import write_atomically


def lines_of(experiment: Experiment, results: Sequence[Result]) -> list[Line]:
    """The entries of an experiment's table; a figure has none."""
    if experiment.table is None:
        return []
    return lines(experiment.table, experiment.published, results)


def tables_of(experiment: Experiment, results: Sequence[Result]) -> list[Table]:
    """Tables for a terminal; a figure shows the last numbers of its runs."""
    if experiment.table is not None:
        show = matrix_tables if experiment.table.column else experiment_tables
        return show(experiment.title, lines_of(experiment, results))
    runs = [run for result in results for run in result.runs]
    return [runs_table(runs)] if runs else []


def markdown_of(experiment: Experiment, made: Sequence[Line]) -> str:
    """The table as Markdown."""
    beside = experiment.table is not None and experiment.table.column
    return (matrix_markdown if beside else as_markdown)(experiment.title, made)


def present(experiment: Experiment, results: Sequence[Result], stem: Path) -> list[Path]:
    """Write the table or figure beside `stem`: the files."""
    if experiment.table is not None:
        made = lines_of(experiment, results)
        latex = matrix_latex if experiment.table.column else as_latex
        texts = {
            ".md": markdown_of(experiment, made),
            ".csv": as_csv(made),
            ".tex": latex(experiment.title, made),
        }
        return [_write(stem.with_name(stem.name + suffix), text) for suffix, text in texts.items()]
    if experiment.figure is None or not any(result.runs for result in results):
        return []
    return draw_figure(experiment.title, experiment.figure, results, stem)


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda file: file.write(text.encode()))
    return path
