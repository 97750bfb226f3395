"""Runs as curves."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from labelnoise.experiment.table import label
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
