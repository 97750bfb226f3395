"""Tables with a column for every method."""

from __future__ import annotations

import csv
import io

import pytest
from rich.console import Console

from labelnoise.experiment.grid import cells, parse_experiment
from labelnoise.experiment.matrix import (
    matrices,
    matrix_latex,
    matrix_markdown,
    matrix_tables,
    mean_ranks,
    worst_leads,
)
from labelnoise.experiment.outcome import Line, Result
from labelnoise.experiment.present import lines_of
from labelnoise.experiment.table import as_csv

LINES = [
    Line("accuracy, %", "easy", (90.0, 92.0), 20, column="cce"),
    Line("accuracy, %", "easy", (95.0,), 20, column="bare"),
    Line("accuracy, %", "easy", (91.0,), 20, column="gce"),
    Line("accuracy, %", "hard", (60.0,), 20, column="cce"),
    Line("accuracy, %", "hard", (59.25,), 20, column="bare"),
    Line("accuracy, %", "hard", (50.0,), 20, column="gce"),
    Line("accuracy, %", "not run", (70.0,), 20, column="cce"),
    Line("accuracy, %", "not run", column="bare"),
    Line("accuracy, %", "not run", (71.0,), 20, column="gce"),
    Line("recall, %", "easy", (1.0,), 20, column="cce"),
]


def test_ranks_count_lines_that_are_whole_and_share_places() -> None:
    accuracy, _ = matrices(LINES)
    assert mean_ranks(accuracy) == {"cce": (2.5 + 1) / 2, "bare": (1 + 2) / 2, "gce": 2.75}


def test_without_a_whole_line_there_are_no_ranks() -> None:
    _, recall = matrices(LINES)
    assert mean_ranks(recall) == {"cce": None, "bare": None, "gce": None}


def test_the_worst_lead_is_over_the_first_column_where_both_are() -> None:
    accuracy, recall = matrices(LINES)
    assert worst_leads(accuracy) == {"cce": 0, "bare": -0.75, "gce": -10}
    assert worst_leads(recall) == {"cce": 0, "bare": None, "gce": None}


def test_markdown() -> None:
    assert matrix_markdown("Rules", LINES).splitlines()[:11] == [
        "# Rules",
        "",
        "## accuracy, %, mean of 1 to 2 trials",
        "",
        "| | cce | bare | gce |",
        "|---|---:|---:|---:|",
        "| easy | 91.00 | **95.00** | 91.00 |",
        "| hard | **60.00** | 59.25 | 50.00 |",
        "| not run | 70.00 | - | **71.00** |",
        "| mean rank | 1.75 | **1.50** | 2.75 |",
        "| worst against cce | +0.00 | -0.75 | -10.00 |",
    ]


def test_latex_escapes_and_closes() -> None:
    text = matrix_latex("Rules", LINES)
    assert r"accuracy, \%, mean of 1 to 2 trials & cce & bare & gce \\" in text
    assert r"easy & 91.00 & \textbf{95.00} & 91.00 \\" in text
    assert text.count(r"\begin{tabular}{lrrr}") == text.count(r"\end{tabular}") == 2


def test_a_terminal_shows_all_columns() -> None:
    console = Console(width=100, file=io.StringIO())
    for table in matrix_tables("Rules", LINES):
        console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "Rules: accuracy, %" in text
    for word in ("easy", "95.00", "mean rank", "1.75", "worst against cce", "-10.00"):
        assert word in text


def test_csv_names_the_column() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(LINES))))
    assert [row["column"] for row in rows[:3]] == ["cce", "bare", "gce"]
    assert rows[0]["std"] == str(2**0.5)


OWN = """
title = "Own"
explains = "own"
base = { dataset = "digits" }
axes.noise = ["pair:0.1", "pair:0.2"]
axes.rule = [{ name = "plain", method = "cce" }, { name = "ours", method = "bare" }]
table = { block = "metric", line = "noise", column = "rule", metrics = ["test_accuracy_balanced"] }
"""


def test_an_experiment_says_what_its_columns_are() -> None:
    experiment = parse_experiment(OWN, "own.toml")
    found = lines_of(experiment, [Result(cell, ()) for cell in cells(experiment)])
    assert [(line.line, line.column) for line in found] == [
        ("pair:0.1", "plain"),
        ("pair:0.1", "ours"),
        ("pair:0.2", "plain"),
        ("pair:0.2", "ours"),
    ]
    assert {line.block for line in found} == {"balanced test accuracy, last epoch, %"}


def test_a_column_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(Exception, match="did you mean 'rule'"):
        parse_experiment(OWN.replace('column = "rule"', 'column = "ruel"'), "own.toml")
