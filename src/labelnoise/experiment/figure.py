"""Runs as curves."""

from __future__ import annotations

import itertools
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
from labelnoise.experiment.table import label
from labelnoise.methods import METHODS
from labelnoise.record.disk import write_atomically
from labelnoise.record.run import Run

PANELS = {
    "test_accuracy": "Test accuracy",
    "label_precision": "Label precision",
    "label_recall": "Label recall",
    "selected_fraction": "Fraction selected",
}
# Okabe and Ito's colours tell apart for colour-blind readers, the dashes without any colour.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES = ("-", "--", "-.", ":")
# What letters and lines measure in a figure that is printed one column wide.
STYLE: dict[str, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.6,
    "svg.hashsalt": "labelnoise",  # the same runs give the same file
}


def draw_curves(runs: Sequence[Run], path: Path) -> None:
    """Four panels over the epochs, one line a run, as PNG."""
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), sharex=True, layout="constrained")
    looks = zip(itertools.cycle(COLOURS), itertools.cycle(DASHES), strict=False)
    for run, (colour, dash) in zip(runs, looks, strict=False):
        _draw(run, axes.flat, {"color": colour, "linestyle": dash})
    for axis, title in zip(axes.flat, PANELS.values(), strict=True):
        axis.set_title(title)
        axis.set_ylabel("percent")
        axis.grid(alpha=0.3)
    for axis in axes[1]:
        axis.set_xlabel("epoch")
    spec = runs[0].header["spec"]
    figure.suptitle(f"{spec['dataset']}, noise {spec['noise']}, net {spec['net']}")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=min(len(runs), 4)
    )
    write_atomically(path, lambda file: figure.savefig(file, format="png", dpi=120))
    plt.close(figure)


def _draw(run: Run, axes: Any, look: dict[str, Any]) -> None:
    rows = run.rows
    epochs = [row["epoch"] for row in rows]
    for axis, key in zip(axes, PANELS, strict=True):
        values = [None if row[key] is None else 100 * row[key] for row in rows]
        if values and values[-1] is not None:
            marker = "o" if len(rows) == 1 else None
            axis.plot(epochs, values, label=label(run), marker=marker, **look)


# --- figures of the paper -------------------------------------------------------------------------


def draw_figure(title: str, figure: Figure, results: Sequence[Result], stem: Path) -> list[Path]:
    """Draw an experiment's figure as PNG and SVG: the two files."""
    with plt.rc_context(STYLE):  # type: ignore[arg-type]
        drawing = (_traces if figure.trace else _curves)(figure, results)
        drawing.suptitle(title)
        paths = []
        for suffix, options in ((".png", {"dpi": 150}), (".svg", {"metadata": {"Date": None}})):
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
    looks = _looks(names)
    drawing, axes = _grid(len(panels))
    for axis, (title, found) in zip(axes, panels.items(), strict=False):
        for result in found:
            name = str(_place(result)[figure.line])
            _draw_mean(axis, result, figure.metric, name, looks[name])
        axis.set_title(title)
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
        looks = _looks([f"epoch {row['epoch']}" for row in traced])
        for row in traced:
            values = [math.nan if t[number] is None else t[number] for t in row[figure.metric]]
            name = f"epoch {row['epoch']}"
            axis.plot(range(1, len(values) + 1), values, label=name, **looks[name])
        axis.set_title(f"{title}, class {run.header['classes'][number]}")
        axis.set_ylabel("threshold")
        axis.set_xlabel("mini-batch")
    _legend(drawing, axes)
    return drawing


def _draw_mean(axis: Any, result: Result, metric: str, name: str, look: dict[str, Any]) -> None:
    """One curve; epochs without a value (nothing was selected) are gaps."""
    trials = [[row[metric] for row in run.rows] for run in result.runs]
    columns = [[100 * v for v in values if v is not None] for values in zip(*trials, strict=False)]
    epochs = range(1, len(columns) + 1)
    middle = [statistics.fmean(values) if values else math.nan for values in columns]
    axis.plot(epochs, middle, label=name, marker="o" if len(columns) == 1 else None, **look)
    if len(trials) > 1:
        spread = [statistics.stdev(values) if len(values) > 1 else 0 for values in columns]
        low = [value - width for value, width in zip(middle, spread, strict=True)]
        high = [value + width for value, width in zip(middle, spread, strict=True)]
        axis.fill_between(epochs, low, high, color=look["color"], alpha=0.15, linewidth=0)


def _place(result: Result) -> Mapping[str, Any]:
    return {**result.cell.settings, **result.cell.place}


def _looks(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """A colour and a dash for every name, the same in all panels; a method's in all figures."""
    order = [*METHODS, *names] if any(name in METHODS for name in names) else list(names)
    places = {name: order.index(name) for name in names}
    return {
        name: {
            "color": COLOURS[place % len(COLOURS)],
            "linestyle": DASHES[place % len(DASHES)],
        }
        for name, place in places.items()
    }


def _grid(count: int) -> tuple[Any, list[Any]]:
    """Panels, at most three in a row."""
    columns = min(count, 3)
    rows = math.ceil(count / columns)
    drawing, axes = plt.subplots(
        rows, columns, figsize=(4 * columns, 3.1 * rows + 0.6), squeeze=False, layout="constrained"
    )
    flat = list(axes.flat)
    for axis in flat[:count]:
        axis.grid(alpha=0.3)
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
    drawing.legend(handles, names, loc="outside lower center", ncols=min(len(entries), 4))
