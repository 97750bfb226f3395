"""Runs as curves."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from labelnoise.experiment.grid import Figure
from labelnoise.experiment.outcome import Result
from labelnoise.experiment.table import labels
from labelnoise.methods import METHODS
from labelnoise.record.disk import write_atomically
from labelnoise.record.run import Run

PANELS = {
    "test_accuracy": "Test accuracy",
    "label_precision": "Label precision",
    "label_recall": "Label recall",
    "selected_fraction": "Fraction selected",
}
# Okabe and Ito's colours tell apart for colour-blind readers, the markers without any colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
MARKED = 8  # markers on a curve
DASHES = ("-", "--", ":")  # for more curves than that
LETTERS = 16  # that stand on an inch
PANEL = (2.6, 2.2)  # inches: three panels are as wide as a printed page, its letters as large
STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "svg.hashsalt": "labelnoise",  # the same runs give the same file
}


def draw_curves(runs: Sequence[Run], path: Path) -> None:
    """Four panels over the epochs, one line a run, as PNG."""
    with plt.rc_context(STYLE):  # type: ignore[arg-type]
        figure, axes = plt.subplots(
            2, 2, figsize=(3 * PANEL[0], 3 * PANEL[1]), sharex=True, layout="constrained"
        )
        for place, (run, name) in enumerate(zip(runs, labels(runs), strict=True)):
            _draw(run, name, axes.flat, place)
        for axis, title in zip(axes.flat, PANELS.values(), strict=True):
            axis.set_title(title)
            axis.set_ylabel("percent")
        for axis in axes[1]:
            axis.set_xlabel("epoch")
        spec = runs[0].header["spec"]
        figure.suptitle(f"{spec['dataset']}, noise {spec['noise']}, net {spec['net']}")
        _legend(figure, axes.flat)
        write_atomically(path, lambda file: figure.savefig(file, format="png", dpi=150))
    plt.close(figure)


def _draw(run: Run, name: str, axes: Any, place: int) -> None:
    rows = run.rows
    epochs = [row["epoch"] for row in rows]
    for axis, key in zip(axes, PANELS, strict=True):
        values = [None if row[key] is None else 100 * row[key] for row in rows]
        if values and values[-1] is not None:
            axis.plot(epochs, values, label=name, **_look(place, len(rows)))


def _look(place: int, length: int) -> dict[str, Any]:
    """Colour and marker of the curve at a place; markers of neighbours do not cover each other."""
    every = max(length // MARKED, 1)
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": MARKERS[place % len(MARKERS)],
        "linestyle": DASHES[place // len(MARKERS) % len(DASHES)],
        "markevery": (place * every // len(MARKERS) % every, every),
    }


# --- figures of the paper -------------------------------------------------------------------------


def draw_figure(title: str, figure: Figure, results: Sequence[Result], stem: Path) -> list[Path]:
    """Draw an experiment's figure as PNG and SVG: the two files."""
    with plt.rc_context(STYLE):  # type: ignore[arg-type]
        drawing = (_traces if figure.trace else _curves)(figure, results)
        drawing.suptitle(title)
        paths = []
        for suffix, options in ((".png", {"dpi": 200}), (".svg", {"metadata": {"Date": None}})):
            path = stem.with_name(stem.name + suffix)
            path.parent.mkdir(parents=True, exist_ok=True)
            save = _saver(drawing, suffix[1:], options)
            write_atomically(path, save)
            paths.append(path)
    plt.close(drawing)
    return paths


def _saver(drawing: Any, kind: str, options: dict[str, Any]) -> Any:
    return lambda file: drawing.savefig(file, format=kind, **options)


def _curves(figure: Figure, results: Sequence[Result]) -> Any:
    """A panel for every setting, a curve for every method: mean over trials, and a deviation."""
    panels: dict[str, list[Result]] = {}
    for result in results:
        if result.runs:
            panels.setdefault(str(_place(result)[figure.panel]), []).append(result)
    names = list(dict.fromkeys(str(_place(result)[figure.line]) for result in results))
    places = _places(names)
    drawing, axes = _grid(len(panels))
    for axis, (title, found) in zip(axes, panels.items(), strict=False):
        for result in found:
            name = str(_place(result)[figure.line])
            _draw_mean(axis, result, figure.metric, name, places[name])
        axis.set_title(title.replace(":", " "))
        axis.set_ylabel(f"{PANELS[figure.metric].lower()}, %")
        axis.set_xlabel("epoch")
    _legend(drawing, axes, names)
    return drawing


def _traces(figure: Figure, results: Sequence[Result]) -> Any:
    """A panel for every class of every setting, a curve for every epoch that was traced."""
    panels = [
        (str(_place(result)[figure.panel]), number, result.runs[0])
        for result in results
        if result.runs
        for number in figure.classes[str(_place(result)[figure.panel])]
    ]
    drawing, axes = _grid(len(panels))
    for axis, (title, number, run) in zip(axes, panels, strict=False):
        traced = [row for row in run.rows if figure.metric in row]
        for place, row in enumerate(traced):
            values = [math.nan if t[number] is None else t[number] for t in row[figure.metric]]
            look = _look(place, len(values))
            axis.plot(range(1, len(values) + 1), values, label=f"epoch {row['epoch']}", **look)
        axis.set_title(f"{title.replace(':', ' ')}, class {run.header['classes'][number]}")
        axis.set_ylabel("threshold")
        axis.set_xlabel("mini-batch")
    _legend(drawing, axes)
    return drawing


def _draw_mean(axis: Any, result: Result, metric: str, name: str, place: int) -> None:
    """One curve; epochs without a value (nothing was selected) are gaps."""
    trials = [[row[metric] for row in run.rows] for run in result.runs]
    columns = [[100 * v for v in values if v is not None] for values in zip(*trials, strict=False)]
    epochs = range(1, len(columns) + 1)
    middle = [statistics.fmean(values) if values else math.nan for values in columns]
    look = _look(place, len(columns))
    axis.plot(epochs, middle, label=name, **look)
    if len(trials) > 1:
        spread = [statistics.stdev(values) if len(values) > 1 else 0 for values in columns]
        low = [value - width for value, width in zip(middle, spread, strict=True)]
        high = [value + width for value, width in zip(middle, spread, strict=True)]
        axis.fill_between(epochs, low, high, color=look["color"], alpha=0.15, linewidth=0)


def _place(result: Result) -> Mapping[str, Any]:
    return {**result.cell.settings, **result.cell.place}


def _places(names: Sequence[str]) -> dict[str, int]:
    """A place for every name, the same in all panels; a method's in all figures."""
    order = [*METHODS, *names] if any(name in METHODS for name in names) else list(names)
    return {name: order.index(name) for name in names}


def _grid(count: int) -> tuple[Any, list[Any]]:
    """Panels, at most three in a row."""
    columns = min(count, 3)
    rows = math.ceil(count / columns)
    size = PANEL[0] * max(columns, 2), PANEL[1] * rows + 0.6
    drawing, axes = plt.subplots(
        rows, columns, figsize=size, squeeze=False, sharey=True, layout="constrained"
    )
    flat = list(axes.flat)
    for axis in flat[count:]:
        axis.set_visible(False)
    return drawing, flat[:count]


def _legend(drawing: Any, axes: Sequence[Any], order: Sequence[str] = ()) -> None:
    """One legend for all panels, below them; names in their order, where they have one."""
    entries: dict[str, Any] = {}
    for axis in axes:
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    names = [name for name in order or entries if name in entries]
    handles = [entries[name] for name in names]
    widest = max(map(len, names), default=0) + 6  # letters, and the line before them
    columns = int(drawing.get_figwidth() * LETTERS / widest)
    drawing.legend(handles, names, loc="outside lower center", ncols=min(max(columns, 1), 4))
