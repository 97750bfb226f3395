"""Figures of the paper: what is drawn, looked at in the drawing itself and in the files."""

from __future__ import annotations

import gzip
import json
import math
import struct
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Drawing

from labelnoise.experiment.figure import draw_curves, draw_figure
from labelnoise.experiment.grid import Experiment, cells, experiment_named
from labelnoise.experiment.outcome import Result, gather
from labelnoise.experiment.present import present, tables_of
from labelnoise.experiment.reproduce import runs_in
from labelnoise.record.run import Run

RECORDS = Path(__file__).parents[2] / "results" / "mnist-bare"

Record = Callable[..., Run]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Writes a packed run with these columns, one value an epoch."""
    made = 0

    def write(**columns: Sequence[Any]) -> Run:
        nonlocal made
        made += 1
        epochs = len(next(iter(columns.values())))
        rows = [
            {"epoch": number + 1}
            | {name: column[number] for name, column in columns.items() if column[number] != "none"}
            for number in range(epochs)
        ]
        header = {"spec": {}, "classes": [f"c{number}" for number in range(10)]}
        path = tmp_path / f"run{made}.json.gz"
        path.write_bytes(gzip.compress(json.dumps({"header": header, "rows": rows}).encode()))
        return Run(path)

    return write


@pytest.fixture
def drawings(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Drawing]]:
    """What was drawn, kept open to be looked at."""
    caught: list[Drawing] = []
    close = plt.close
    monkeypatch.setattr(plt, "close", caught.append)
    yield caught
    for drawing in caught:
        close(drawing)


def draw(
    experiment: Experiment, runs: Mapping[tuple[str, str], Sequence[Run]], stem: Path
) -> list[Path]:
    """Draw the figure with the runs of some of its cells, by panel and by line."""
    assert experiment.figure is not None
    results = []
    for cell in cells(experiment):
        place = {**cell.settings, **cell.place}
        key = (str(place[experiment.figure.panel]), str(place.get(experiment.figure.line, "")))
        results.append(Result(cell, tuple(runs.get(key, ()))))
    return draw_figure(experiment.title, experiment.figure, results, stem)


def visible(drawing: Drawing) -> list[Any]:
    return [axis for axis in drawing.axes if axis.get_visible()]


def drawn(axis: Any) -> dict[str, list[tuple[float, float]]]:
    """The points of every curve, by its name."""
    return {
        str(line.get_label()): list(
            zip(map(float, line.get_xdata()), map(float, line.get_ydata()), strict=True)
        )
        for line in axis.get_lines()
    }


HALF, MOST, PAIRS = "mnist, symmetric:0.5", "mnist, symmetric:0.7", "mnist, class-conditional:0.45"


def test_png_and_svg_are_written_whole(record: Record, tmp_path: Path) -> None:
    runs = {(HALF, "bare"): [record(test_accuracy=[0.5, 0.75])]}
    png, svg = draw(experiment_named("figure-accuracy"), runs, tmp_path / "new" / "curves")
    assert (png.name, svg.name) == ("curves.png", "curves.svg")
    data = png.read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    assert width >= 600  # four inches at 150 dots
    assert height >= 500
    assert data.rstrip().endswith(b"IEND\xaeB`\x82")
    root = ET.fromstring(svg.read_text())  # noqa: S314 - our own
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 10
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "curves.png",
        "curves.svg",
    ]


def test_the_same_runs_give_the_same_svg_to_the_byte(record: Record, tmp_path: Path) -> None:
    runs = {
        (HALF, "bare"): [record(test_accuracy=[0.5, 0.75]), record(test_accuracy=[0.4, 0.7])],
        (MOST, "cce"): [record(test_accuracy=[0.5, 0.25])],
    }
    experiment = experiment_named("figure-accuracy")
    first, second = (draw(experiment, runs, tmp_path / name)[1].read_bytes() for name in "ab")
    assert first == second
    assert b"<dc:date>" not in first


def test_panels_are_titled_labelled_and_share_one_legend(
    record: Record, tmp_path: Path, drawings: list[Drawing]
) -> None:
    methods = ("coteaching", "cce", "bare")
    runs = {
        (panel, method): [record(label_precision=[0.5, 0.75], test_accuracy=[0.5, 0.6])]
        for panel in (HALF, MOST)
        for method in methods
    }
    draw(experiment_named("figure-accuracy"), runs, tmp_path / "a")
    draw(
        experiment_named("figure-precision"),
        {key: one for key, one in runs.items() if key[1] != "cce"},
        tmp_path / "b",
    )
    accuracy, precision = drawings
    for drawing, title, label in (
        (accuracy, "Test accuracy over the epochs", "test accuracy, %"),
        (precision, "Label precision over the epochs", "label precision, %"),
    ):
        assert drawing.get_suptitle() == title
        axes = visible(drawing)
        assert [axis.get_title() for axis in axes] == [
            "mnist, symmetric 0.5",
            "mnist, symmetric 0.7",
        ]
        assert {axis.get_ylabel() for axis in axes} == {label}
        assert {axis.get_xlabel() for axis in axes} == {"epoch"}
        (legend,) = drawing.legends
        assert all(axis.get_legend() is None for axis in axes)
        names = [text.get_text() for text in legend.get_texts()]
        assert names == [name for name in methods if name in drawn(axes[0])]


def test_seven_methods_are_told_apart_by_colour_and_without_any_by_marker(
    record: Record, tmp_path: Path, drawings: list[Drawing]
) -> None:
    experiment = experiment_named("figure-accuracy")
    methods = [str(method) for method in experiment.axes["method"]]
    runs = {
        (panel, method): [record(test_accuracy=[0.5, 0.75])]
        for panel in (HALF, PAIRS)
        for method in methods
    }
    draw(experiment, runs, tmp_path / "a")
    one, two = (
        {str(line.get_label()): (to_hex(line.get_color()), line.get_marker()) for line in lines}
        for lines in (axis.get_lines() for axis in visible(drawings[0]))
    )
    assert list(one) == methods
    assert one == two  # a method looks the same in every panel
    assert len({colour for colour, _ in one.values()}) == 7
    assert len({marker for _, marker in one.values()}) == 7


def test_many_runs_are_told_apart_and_their_legend_stays_on_the_page(
    tmp_path: Path, drawings: list[Drawing]
) -> None:
    runs = list(runs_in(RECORDS))[:9]
    draw_curves(runs, tmp_path / "curves.png")
    (drawing,) = drawings
    lines = visible(drawing)[0].get_lines()
    looks = [(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines]
    assert len(set(looks)) == len(runs)
    (legend,) = drawing.legends
    assert len({text.get_text() for text in legend.get_texts()}) == len(runs)
    page = drawing.bbox
    box = legend.get_window_extent()
    assert page.x0 <= box.x0 < box.x1 <= page.x1


def test_a_curve_is_the_mean_in_percent_over_the_epochs_from_one(
    record: Record, tmp_path: Path, drawings: list[Drawing]
) -> None:
    runs = [record(test_accuracy=[0.5, 0.6]), record(test_accuracy=[0.7, 0.7])]
    draw(experiment_named("figure-accuracy"), {(HALF, "bare"): runs}, tmp_path / "a")
    (axis,) = visible(drawings[0])
    (points,) = drawn(axis).values()
    assert [x for x, _ in points] == [1, 2]
    assert [y for _, y in points] == pytest.approx([60, 65])
    (band,) = axis.collections
    assert isinstance(band, PolyCollection)
    # One deviation, with n - 1, above and below: sqrt(2) * 10 and sqrt(2) * 5 points.
    heights = {round(float(y), 6) for y in np.asarray(band.get_paths()[0].vertices)[:, 1]}
    assert heights == {
        round(mean + sign * width * math.sqrt(2), 6)
        for mean, width in ((60, 10), (65, 5))
        for sign in (-1, 1)
    }


def test_one_trial_has_no_band_and_one_epoch_is_a_point(
    record: Record, tmp_path: Path, drawings: list[Drawing]
) -> None:
    runs = {(HALF, "bare"): [record(test_accuracy=[0.5])]}
    draw(experiment_named("figure-accuracy"), runs, tmp_path / "a")
    (axis,) = visible(drawings[0])
    assert not axis.collections
    (line,) = axis.get_lines()
    assert line.get_marker() == "o"


def test_epochs_in_which_nothing_was_selected_are_gaps_not_zeros(
    record: Record, tmp_path: Path, drawings: list[Drawing]
) -> None:
    once = [record(label_precision=[0.5, None, 0.9, None])]
    twice = [record(label_precision=[0.5, None, 0.9]), record(label_precision=[0.7, None, None])]
    runs = {(HALF, "bare"): once, (MOST, "bare"): twice}
    draw(experiment_named("figure-precision"), runs, tmp_path / "a")
    first, second = ([y for _, y in drawn(axis)["bare"]] for axis in visible(drawings[0]))
    assert first == pytest.approx([50, math.nan, 90, math.nan], nan_ok=True)
    assert second == pytest.approx([60, math.nan, 90], nan_ok=True)


def test_panels_without_a_run_are_left_out(
    record: Record, tmp_path: Path, drawings: list[Drawing]
) -> None:
    run = record(test_accuracy=[0.5, 0.75])
    panels = (HALF, MOST, PAIRS, "cifar10, symmetric:0.3")
    draw(
        experiment_named("figure-accuracy"),
        {(panel, "bare"): [run] for panel in panels},
        tmp_path / "a",
    )
    assert [axis.get_title() for axis in visible(drawings[0])] == [
        panel.replace(":", " ") for panel in panels
    ]
    assert len(drawings[0].axes) == 6  # two rows of three; the last two are not shown


# --- thresholds over mini-batches -----------------------------------------------------------------


def traced(*batches: float | None) -> list[list[float | None]]:
    """Thresholds of ten classes, the same for all but class 3."""
    return [[0.1] * 3 + [value] + [0.1] * 6 for value in batches]


def test_a_trace_has_a_panel_a_class_and_a_curve_an_epoch(
    record: Record, tmp_path: Path, drawings: list[Drawing]
) -> None:
    experiment = experiment_named("figure-thresholds")
    thresholds = [traced(0.2, 0.3, 0.4), "none", traced(0.5, None, 0.7), traced(0.8, 0.9, 1.0)]
    runs = {(MOST, ""): [record(thresholds_by_batch=thresholds)]}
    png, svg = draw(experiment, runs, tmp_path / "a")
    assert png.stat().st_size > 0
    assert svg.stat().st_size > 0
    (drawing,) = drawings
    axes = visible(drawing)
    assert [axis.get_title() for axis in axes] == [
        f"mnist, symmetric 0.7, class c{n}" for n in (0, 3, 4)
    ]
    assert {(axis.get_xlabel(), axis.get_ylabel()) for axis in axes} == {
        ("mini-batch", "threshold")
    }
    curves = drawn(axes[1])
    assert list(curves) == ["epoch 1", "epoch 3", "epoch 4"]
    assert curves["epoch 1"] == [(1, 0.2), (2, 0.3), (3, 0.4)]
    assert [y for _, y in curves["epoch 3"]] == pytest.approx([0.5, math.nan, 0.7], nan_ok=True)
    assert {y for _, y in drawn(axes[0])["epoch 3"]} == {0.1}
    (legend,) = drawing.legends
    assert [text.get_text() for text in legend.get_texts()] == list(curves)
    assert drawing.get_suptitle() == experiment.title


# --- whole experiments ----------------------------------------------------------------------------


def test_our_records_become_the_papers_figure(tmp_path: Path, drawings: list[Drawing]) -> None:
    experiment = experiment_named("figure-recall")
    results = gather(cells(experiment), runs_in(RECORDS), trials=3)
    paths = present(experiment, results, tmp_path / "recall")
    assert [path.suffix for path in paths] == [".png", ".svg"]
    (axis,) = visible(drawings[0])
    (points,) = drawn(axis).values()
    assert len(points) == 200
    assert points[-1][1] == pytest.approx(95.8, abs=0.2)  # what BARE keeps of the right labels
    (table,) = tables_of(experiment, results)  # a terminal sees its last numbers
    assert table.row_count == 3


def test_a_figure_without_runs_writes_nothing(tmp_path: Path) -> None:
    experiment = experiment_named("figure-accuracy")
    results = [Result(cell, ()) for cell in cells(experiment)]
    assert present(experiment, results, tmp_path / "a") == []
    assert tables_of(experiment, results) == []
    assert not list(tmp_path.iterdir())


def test_a_method_looks_the_same_in_all_figures(
    record: Record, tmp_path: Path, drawings: list[Drawing]
) -> None:
    run = record(test_accuracy=[0.5, 0.75], label_recall=[0.5, 0.75])
    for name in ("figure-accuracy", "figure-recall"):
        draw(experiment_named(name), {(HALF, "bare"): [run]}, tmp_path / name)
    one, two = (visible(drawing)[0].get_lines()[0] for drawing in drawings)
    assert to_hex(one.get_color()) == to_hex(two.get_color())
