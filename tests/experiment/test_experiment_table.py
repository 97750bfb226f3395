"""An experiment's table as Markdown, CSV, LaTeX and on a terminal."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from labelnoise.experiment.grid import cells, experiment_named, parse_experiment
from labelnoise.experiment.outcome import Line, Result
from labelnoise.experiment.present import present, tables_of
from labelnoise.experiment.table import as_csv, as_latex, as_markdown, experiment_tables

HEADINGS = ["ours", "trials", "epochs", "paper", "difference"]

LINES = [
    Line("symmetric:0.5", "bare", (95.0, 95.2, 95.4), 200, 94.38, 0.13, "reproduced"),
    Line("symmetric:0.5", "cce", (70.123456,), 200, 74.3, 0.55, "worse"),
    Line("symmetric:0.5", "meta-ren", (), 0, 90.39, 0.07),
    Line("last ten, %", "bare", (50.0,), 2, 95.03, None, "not comparable", "2 of 200 epochs"),
    Line("last ten, %", "own", (50.0,), 2, None, None, "not comparable", "not in the paper"),
]
# Line by line: what is not there is a dash.
TEXTS = [
    ["bare", "95.20 ± 0.20", "3", "200", "94.38 ± 0.13", "+0.82", "reproduced"],
    ["cce", "70.12", "1", "200", "74.30 ± 0.55", "-4.18", "worse"],
    ["meta-ren", "-", "-", "-", "90.39 ± 0.07", "-", "-"],
    ["bare", "50.00", "1", "2", "95.03", "-45.03", "not comparable (2 of 200 epochs)"],
    ["own", "50.00", "1", "2", "-", "-", "not comparable (not in the paper)"],
]


def markdown_rows(text: str) -> list[list[str]]:
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row[1:-1].split("|")] for row in rows]


def latex_tables(text: str) -> list[list[list[str]]]:
    """The cells of every `tabular`, split where LaTeX splits them."""
    bodies = re.findall(r"\\begin\{tabular\}\{\w+\}(.*?)\\end\{tabular\}", text, re.DOTALL)
    return [
        [
            [cell.strip() for cell in re.split(r"(?<!\\)&", row)]
            for row in re.sub(r"\\(top|mid|bottom)rule", "", body).split("\\\\")
            if row.strip()
        ]
        for body in bodies
    ]


def test_markdown_has_a_heading_and_a_table_a_block() -> None:
    text = as_markdown("Own", LINES)
    assert re.findall(r"^#+ .*$", text, re.MULTILINE) == [
        "# Own",
        "## symmetric:0.5",
        "## last ten, %",
    ]
    first, second = (markdown_rows(block) for block in text.split("\n## ")[1:])
    for heading, rule, *rows in (first, second):
        assert heading[1:-1] == HEADINGS
        assert all(re.fullmatch("-{3,}:?", cell) for cell in rule)
        assert {len(row) for row in (heading, rule, *rows)} == {7}
    assert first[2:] + second[2:] == TEXTS
    assert text.endswith("\n")
    assert "\n\n\n" not in text


def test_csv_can_be_read_back_to_the_last_digit() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(LINES))))
    assert [(row["block"], row["line"]) for row in rows] == [(one.block, one.line) for one in LINES]
    for row, line in zip(rows, LINES, strict=True):
        numbers = {
            "mean": line.mean,
            "std": line.std,
            "paper": line.paper,
            "paper_std": line.paper_std,
            "difference": line.difference,
        }
        for key, number in numbers.items():
            assert row[key] == ("" if number is None else repr(number)), key
        assert row["trials"] == str(len(line.ours))
        assert row["epochs"] == str(line.epochs)
        assert (row["word"], row["why"]) == (line.word, line.why)
    assert float(rows[1]["mean"]) == 70.123456


def test_csv_survives_commas_quotes_and_line_breaks() -> None:
    odd = Line('a, "b"\nc', "=1+1", (1.0,), 1, why="x, y")
    (row,) = csv.DictReader(io.StringIO(as_csv([odd])))
    assert (row["block"], row["line"], row["why"]) == (odd.block, odd.line, odd.why)


def test_latex_has_a_tabular_a_block_with_as_many_cells_in_every_row() -> None:
    text = as_latex("Own", LINES)
    assert text.count(r"\begin{tabular}{lrrrrrl}") == text.count(r"\end{tabular}") == 2
    for rule in ("toprule", "midrule", "bottomrule"):
        assert text.count(f"\\{rule}") == 2
    first, second = latex_tables(text)
    assert {len(row) for row in first + second} == {7}
    assert first[0][1:-1] == second[0][1:-1] == HEADINGS
    texts = [[cell.replace("±", r"$\pm$") for cell in row] for row in TEXTS]
    assert first[1:] + second[1:] == texts
    assert second[0][0] == r"last ten, \%"


def test_latex_escapes_what_would_be_a_command() -> None:
    line = Line("100 % & more_of #1", "a_b & c", (50.0,), 2, 50.0, None, "other", "10 % #2")
    ((heading, row),) = latex_tables(as_latex("Own & 100 %", [line]))
    assert heading[0] == r"100 \% \& more\_of \#1"
    assert row[0] == r"a\_b \& c"
    assert row[-1] == r"other (10 \% \#2)"
    assert len(heading) == len(row) == 7


@pytest.mark.parametrize(
    ("sign", "escaped"),
    [
        ("$", r"\$"),
        ("{", r"\{"),
        ("}", r"\}"),
        ("~", r"\textasciitilde{}"),
        ("^", r"\textasciicircum{}"),
        ("\\", r"\textbackslash{}"),
    ],
)
def test_latex_escapes_the_signs_of_a_file_s_name_too(sign: str, escaped: str) -> None:
    ((_, row),) = latex_tables(as_latex("Own", [Line("noise", f"a{sign}b", (50.0,), 2)]))
    assert row[0] == f"a{escaped}b"


def test_markdown_escapes_a_bar() -> None:
    assert r"| matrix:a\|b.npy |" in as_markdown("Own", [Line("noise", "matrix:a|b.npy")])


def shown(*tables: object) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    for table in tables:
        console.print(table)
    return console.export_text()


def test_a_terminal_shows_a_table_a_block() -> None:
    tables = experiment_tables("Own", LINES)
    assert [table.title for table in tables] == ["Own: symmetric:0.5", "Own: last ten, %"]
    text = [re.split(r"\s{2,}", line.strip()) for line in shown(*tables).splitlines()]
    for row in TEXTS:
        assert row in text
    assert text.count(HEADINGS) == 2


def test_the_papers_table_without_a_run_shows_dashes_and_the_paper() -> None:
    experiment = experiment_named("mnist-accuracy")
    results = [Result(cell, ()) for cell in cells(experiment)]
    text = shown(*tables_of(experiment, results))
    assert text.count("Test accuracy on MNIST") == 3
    assert re.search(r"bare +- +- +- +94\.38 ± 0\.13 +- +-", text)
    assert len(re.findall(r"^ +[a-z-]+ +- +- +- +\d", text, re.MULTILINE)) == 21


def test_present_writes_the_three_files_beside_the_stem(tmp_path: Path) -> None:
    experiment = experiment_named("run-time")
    results = [Result(cell, ()) for cell in cells(experiment)]
    written = present(experiment, results, tmp_path / "new" / "run-time")
    assert [path.name for path in written] == ["run-time.md", "run-time.csv", "run-time.tex"]
    markdown, comma, latex = (path.read_text() for path in written)
    assert len([row for row in markdown_rows(markdown) if row[0] == "bare"]) == 2
    assert len(list(csv.DictReader(io.StringIO(comma)))) == 14
    assert [len(table) for table in latex_tables(latex)] == [8, 8]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(
        path.name for path in written
    )


def test_without_a_published_number_there_is_no_column_for_one() -> None:
    bare = Line("pair:0.1", "bare", (95.0,), 2)
    rows = markdown_rows(as_markdown("Own", [bare]))
    assert rows[0] == ["", "ours", "trials", "epochs"]
    assert rows[2] == ["bare", "95.00", "1", "2"]
    assert {len(row) for row in rows} == {4}
    text = as_latex("Own", [bare])
    assert r"\begin{tabular}{lrrr}" in text
    (table,) = latex_tables(text)
    assert table == [["pair:0.1", "ours", "trials", "epochs"], ["bare", "95.00", "1", "2"]]
    # One that has it is enough.
    both = as_markdown("Own", [bare, Line("pair:0.1", "cce", (90.0,), 2, paper=90.5)])
    assert {len(row) for row in markdown_rows(both)} == {7}


def test_an_experiment_of_ones_own_has_no_paper() -> None:
    experiment = parse_experiment(
        """
        title = "Own"
        explains = "own"
        [base]
        dataset = "digits"
        noise = "pair:0.1"
        [axes]
        method = ["cce"]
        [table]
        block = "noise"
        line = "method"
        """,
        "own.toml",
    )
    text = shown(*tables_of(experiment, [Result(cell, ()) for cell in cells(experiment)]))
    assert re.search(r"^ *cce +- +- +- *$", text, re.MULTILINE)
    assert "paper" not in text
