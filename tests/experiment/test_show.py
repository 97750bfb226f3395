"""Tables and curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from labelnoise.experiment.figure import draw_curves
from labelnoise.experiment.run import train
from labelnoise.experiment.table import changed_settings, label, percent, runs_table
from labelnoise.record.run import Run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    out = tmp_path_factory.mktemp("runs")
    return [
        train("digits", method=method, noise=noise, changes={"epochs": 1}, out=out)
        for method in ("bare", "cce")
        for noise in ("none", "symmetric:0.5")
    ]


def shown(runs: list[Run]) -> str:
    console = Console(width=1000, record=True, file=Path("/dev/null").open("w"))  # noqa: SIM115
    console.print(runs_table(runs))
    console.file.close()
    return console.export_text()


def test_what_runs_share_is_in_the_title_and_what_differs_is_a_column(runs: list[Run]) -> None:
    title, _, _, heading, *_ = shown(runs).splitlines()
    assert "dataset digits" in title
    assert "noise" not in title
    assert "noise" in heading
    assert "seed" not in heading


def test_every_number_is_percent_with_two_decimals(runs: list[Run]) -> None:
    line = next(line for line in shown(runs[2:3]).splitlines() if "cce" in line)
    accuracy = runs[2].summary()["test_accuracy"]
    assert f"{100 * accuracy:.2f}" in line
    assert "100.00" in line
    assert percent(None) == "-"


def test_label_names_settings_that_are_not_default(runs: list[Run]) -> None:
    assert label(runs[2]) == "cce"
    assert label(runs[0]) == "bare"


def test_a_label_leaves_out_what_follows_from_other_settings() -> None:
    spec: dict[str, Any] = {
        "method": "bare",
        "settings": {"threshold": "batch", "kappa": 1.0, "empty": "all"},
    }
    assert changed_settings(spec) == {"threshold": "batch"}
    spec["settings"] = {"threshold": "batch", "kappa": 0.5, "empty": "all"}
    assert changed_settings(spec) == {"threshold": "batch", "kappa": 0.5}
    spec["settings"] = {"threshold": "evidence", "kappa": None, "unheard": 3}
    assert changed_settings(spec) == {"unheard": 3}
    assert changed_settings({"method": "unheard", "settings": {"lr": 1}}) == {"lr": 1}


def test_curves_of_one_epoch_and_of_unknown_precision_can_be_drawn(
    runs: list[Run], tmp_path: Path
) -> None:
    draw_curves(runs, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
