"""`labelnoise reproduce` on an experiment of one's own, small enough to be trained here."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

from labelnoise.cli import main
from labelnoise.experiment.display import LiveDisplay
from labelnoise.experiment.reproduce import plan, results, runs_in
from labelnoise.experiment.worker import Notes
from labelnoise.record.run import Run, pack

Terminal = Callable[..., tuple[str, str]]

CORES = len(os.sched_getaffinity(0))

OWN = """
title = "Own"
explains = "two methods on digits"
trials = 2

[base]
dataset = "digits"
noise = "symmetric:0.5"
preset = "paper"
epochs = 2

[axes]
method = ["cce", "bare"]

[table]
block = "noise"
line = "method"
"""


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        """Its JSON, which is all that it printed."""
        assert self.out.count("\n") == 1
        found: dict[str, Any] = json.loads(self.out)
        return found


def reproduce(experiment: Path | str, runs: Path, *words: str) -> Done:
    """The command in this process; those that train are processes of their own."""
    out, err = io.StringIO(), io.StringIO()
    jobs = () if "--jobs" in words else ("--jobs", "2")
    with redirect_stdout(out), redirect_stderr(err):
        status = main(["reproduce", str(experiment), "--out", str(runs), *jobs, *words])
    return Done(status, out.getvalue(), err.getvalue())


def written(folder: Path, text: str) -> Path:
    path = folder / "own.toml"
    path.write_text(text)
    return path


def stamps(runs: Path) -> dict[str, int]:
    """When each file of each run was last written."""
    return {
        str(path.relative_to(runs)): path.stat().st_mtime_ns
        for path in (*runs.glob("*/"), *runs.glob("*/*"))
    }


def folders(runs: Path) -> set[str]:
    return {path.name for path in runs.iterdir() if path.is_dir()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Done]:
    """The experiment, its runs, and what the command that trained them said."""
    folder = tmp_path_factory.mktemp("own")
    own = written(folder, OWN)
    done = reproduce(own, folder / "runs")
    return own, folder / "runs", done


@pytest.fixture
def copied(trained: tuple[Path, Path, Done], tmp_path: Path) -> tuple[Path, Path]:
    """The experiment and its runs, to be added to."""
    own, runs, _ = trained
    return own, Path(shutil.copytree(runs, tmp_path / "runs"))


# --- what is trained ------------------------------------------------------------------------------


def test_it_trains_every_cell_and_seed_and_says_so(trained: tuple[Path, Path, Done]) -> None:
    _, runs, done = trained
    assert done.status == 0, done.err
    first, *ended = done.err.splitlines()
    assert first == "4 runs, 4 of them to train"
    assert len(ended) == 4
    for line in ended:
        assert re.fullmatch(
            r"(cce|bare), seed [01]: test \d+\.\d\d %; (1 run|[023] runs) left, "
            r"about (unknown|[\d:]+)",
            line,
        )
    assert ended[-1].split("; ")[1].startswith("0 runs left")
    found = sorted(re.sub("-[0-9a-f]{10}$", "", name) for name in folders(runs))
    assert found == [
        f"digits-{method}-symmetric_0.5-seed{seed}" for method in ("bare", "cce") for seed in (0, 1)
    ]
    assert all(run.done and len(run.rows) == 2 for run in runs_in(runs))


def test_its_numbers_are_those_of_the_runs(trained: tuple[Path, Path, Done]) -> None:
    _, runs, done = trained
    rows = list(csv.DictReader(io.StringIO((runs / "own.csv").read_text())))
    assert [row["line"] for row in rows] == ["cce", "bare"]
    for row in rows:
        ours = [
            100 * run.rows[-1]["test_accuracy"]
            for run in runs_in(runs)
            if run.header["spec"]["method"] == row["line"]
        ]
        assert float(row["mean"]) == pytest.approx(statistics.fmean(ours))
        assert float(row["std"]) == pytest.approx(statistics.stdev(ours))
        assert (row["trials"], row["epochs"]) == ("2", "2")
        shown = f"{statistics.fmean(ours):.2f} ± {statistics.stdev(ours):.2f}"
        assert re.search(rf"^ *{row['line']} +{shown} +2 +2 *$", done.out, re.MULTILINE)
        assert f"| {row['line']} | {shown} | 2 | 2 |\n" in (runs / "own.md").read_text()
        assert shown.replace("±", r"$\pm$") in (runs / "own.tex").read_text()
    for suffix in ("md", "csv", "tex"):
        assert str(runs / f"own.{suffix}") in done.out.splitlines()[-1]


def test_workers_share_the_cores_and_seeds_share_the_labels(
    trained: tuple[Path, Path, Done],
) -> None:
    _, runs, _ = trained
    assert {run.header["threads"] for run in runs_in(runs)} == {max(1, CORES // 2)}
    samples = [run.samples for run in runs_in(runs)]
    for other in samples[1:]:
        assert np.array_equal(samples[0]["given"], other["given"])
    losses = {run.rows[0]["train_loss"] for run in runs_in(runs)}
    assert len(losses) == 4  # but nothing else


def test_the_second_time_nothing_is_trained(trained: tuple[Path, Path, Done]) -> None:
    own, runs, first = trained
    before = stamps(runs)
    again = reproduce(own, runs)
    assert again == Done(0, first.out, "")
    assert stamps(runs) == before


def test_more_trials_reuse_those_that_are_there(copied: tuple[Path, Path]) -> None:
    own, runs = copied
    before, names = stamps(runs), folders(runs)
    done = reproduce(own, runs, "--trials", "3", "--methods", "cce", "--json")
    assert done.status == 0, done.err
    assert done.err.startswith("3 runs, 1 of them to train\ncce, seed 2: ")
    (line,) = done.report["lines"]
    assert (line["line"], line["trials"]) == ("cce", 3)
    after = stamps(runs)
    assert {name: after[name] for name in before} == before
    (new,) = folders(runs) - names
    assert Run(runs / new).header["spec"]["seed"] == 2
    # And fewer again, without any training.
    fewer = reproduce(own, runs, "--trials", "1", "--json")
    assert [line["trials"] for line in fewer.report["lines"]] == [1, 1]
    assert fewer.err == ""


def test_other_epochs_are_other_runs_and_one_job_at_a_time_will_do(
    copied: tuple[Path, Path],
) -> None:
    own, runs = copied
    before, names = stamps(runs), folders(runs)
    words = ("--epochs", "1", "--trials", "1", "--methods", "cce", "--jobs", "1", "--json")
    done = reproduce(own, runs, *words)
    assert done.status == 0, done.err
    assert done.err.startswith("1 run, 1 of them to train\n")
    assert [line["epochs"] for line in done.report["lines"]] == [1]
    (new,) = folders(runs) - names
    run = Run(runs / new)
    assert len(run.rows) == 1
    assert run.header["threads"] == 1  # its steps are too small for more
    after = stamps(runs)
    assert {name: after[name] for name in before} == before


def test_jobs_come_trial_by_trial_so_that_a_table_fills_up_evenly(
    trained: tuple[Path, Path, Done], tmp_path: Path
) -> None:
    own, runs, _ = trained
    _, jobs = plan(str(own), trials=2, out=tmp_path)
    names = ["cce, seed 0", "bare, seed 0", "cce, seed 1", "bare, seed 1"]
    assert [job.name for job in jobs] == names
    assert all(job.pending and job.run is None for job in jobs)
    _, jobs = plan(str(own), trials=3, out=runs)
    assert [job.name for job in jobs if job.pending] == ["cce, seed 2", "bare, seed 2"]
    seeds = [[run.header["spec"]["seed"] for run in result.runs] for result in results(jobs)]
    assert seeds == [[0, 1], [0, 1]]


def test_a_run_that_was_begun_is_still_to_train(copied: tuple[Path, Path]) -> None:
    own, runs = copied
    (cut,) = runs.glob("digits-bare-*-seed1-*")
    (cut / "done").unlink()
    _, jobs = plan(str(own), out=runs)
    assert [job.name for job in jobs if job.pending] == ["bare, seed 1"]


# --- what is chosen -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("--methods", "cce"), ["cce"]),
        (("--methods", "bare,cce"), ["cce", "bare"]),
        (("--only", "method=bare"), ["bare"]),
        (("--only", "epochs=2", "--only", "method=cce"), ["cce"]),
    ],
)
def test_methods_and_only_choose_the_lines(
    words: tuple[str, ...], lines: list[str], copied: tuple[Path, Path]
) -> None:
    own, runs = copied
    done = reproduce(own, runs, "--json", *words)
    assert (done.status, done.err) == (0, "")
    assert [line["line"] for line in done.report["lines"]] == lines
    assert [line["trials"] for line in done.report["lines"]] == [2] * len(lines)


def test_what_is_the_same_run_is_trained_once(tmp_path: Path) -> None:
    """A noise rate has no meaning for BARE: both places of the axis are one run."""
    text = OWN.replace("[axes]", "[axes]\nnoise_rate = [0.3, 0.5]").replace('"cce", ', "")
    done = reproduce(written(tmp_path, text), tmp_path / "runs", "--trials", "1", "--json")
    assert done.status == 0, done.err
    assert [line["trials"] for line in done.report["lines"]] == [1, 1]
    assert len(folders(tmp_path / "runs")) == 1


def test_runs_that_need_the_same_estimate_wait_for_each_other(tmp_path: Path) -> None:
    text = OWN.replace("[axes]", 'noise_rate = "auto"\n[axes]')
    text = text.replace('"cce", "bare"', '"coteaching", "curriculum-loss"')
    words = ("--trials", "1", "--epochs", "1", "--json")
    done = reproduce(written(tmp_path, text), tmp_path / "runs", *words)
    assert done.status == 0, done.err
    assert len(folders(tmp_path / "runs")) == 3
    rates = {run.header["noise_rate"] for run in runs_in(tmp_path / "runs")} - {None}
    assert len(rates) == 1


def test_a_part_leaves_the_files_of_the_whole_alone(copied: tuple[Path, Path]) -> None:
    own, runs = copied
    reproduce(own, runs)
    whole = (runs / "own.md").read_bytes()
    done = reproduce(own, runs, "--methods", "cce", "--json")
    assert {Path(path).name for path in done.report["files"]} == {
        "own-part.md", "own-part.csv", "own-part.tex"
    }  # fmt: skip
    assert (runs / "own.md").read_bytes() == whole
    assert "bare" not in (runs / "own-part.md").read_text()


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--methods", "cce,bear"), "unknown method 'bear': did you mean 'bare'?"),
        (("--only", "metod=bare"), "unknown setting 'metod': did you mean 'method'?"),
        (("--only", "method"), "KEY=VALUE"),
        (("--only", "method=bear"), "no run is left"),
        (("--trials", "0"), "--trials"),
        (("--epochs", "-1"), "--epochs"),
        (("--jobs", "-1"), "--jobs"),
        (("--job", "2"), "'--jobs'"),
    ],
)
def test_a_wrong_choice_is_told_on_one_line_and_nothing_is_written(
    words: tuple[str, ...], hint: str, trained: tuple[Path, Path, Done], tmp_path: Path
) -> None:
    done = reproduce(trained[0], tmp_path / "runs", *words)
    assert (done.status, done.out) == (2, "")
    assert hint in done.err
    assert done.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


# --- without training -----------------------------------------------------------------------------


def test_no_jobs_train_nothing_and_show_what_there_is(
    copied: tuple[Path, Path], tmp_path: Path
) -> None:
    own, runs = copied
    names = folders(runs)
    done = reproduce(own, runs, "--jobs", "0", "--trials", "3", "--json")
    assert (done.status, done.err) == (0, "")
    assert [line["trials"] for line in done.report["lines"]] == [2, 2]
    assert folders(runs) == names
    nothing = reproduce(own, tmp_path / "nothing", "--jobs", "0")
    assert (nothing.status, nothing.err) == (0, "")
    assert re.search(r"^ *bare +- +- +- *$", nothing.out, re.MULTILINE)
    assert folders(tmp_path / "nothing") == set()


def test_no_jobs_need_no_data(copied: tuple[Path, Path], tmp_path: Path) -> None:
    _, runs = copied
    for path in runs.glob("*/header.json"):  # as if made of data that are not here
        path.write_text(path.read_text().replace('"digits"', '"mnist"'))
    elsewhere = written(tmp_path, OWN.replace('"digits"', '"mnist"'))
    words = ("--json", "--data-dir", str(tmp_path))
    done = reproduce(elsewhere, runs, "--jobs", "0", *words)
    assert (done.status, done.err) == (0, "")
    assert [line["trials"] for line in done.report["lines"]] == [2, 2]
    assert reproduce(elsewhere, runs, "--jobs", "1", *words).status == 1


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    """A data directory with ten images under the name of MNIST."""
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    images = struct.pack(">IIII", 2051, 10, 28, 28) + bytes(10 * 28 * 28)
    labels = struct.pack(">II", 2049, 10) + bytes(range(10))
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte").write_bytes(images)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(labels)
    return folder.parent


def test_the_papers_column_and_a_packed_run_beside_it(mnist: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    words = ("--jobs", "0", "--data-dir", str(mnist), "--trials", "1", "--json")
    done = reproduce("mnist-accuracy", runs, *words)
    assert (done.status, done.err) == (0, "")
    lines = {(line["block"], line["line"]): line for line in done.report["lines"]}
    assert len(lines) == 21
    assert all(line["ours"] == [] and line["paper"] is not None for line in lines.values())
    assert lines["class-conditional:0.45", "meta-ren"]["paper"] == 95.4
    assert folders(runs) == set()

    _, jobs = plan("mnist-accuracy", trials=1, out=runs, data_dir=mnist)
    (job,) = [job for job in jobs if job.name == "symmetric:0.7, cce, seed 0"]
    assert job.spec is not None
    row = {"test_accuracy": 0.62, "test_accuracy_balanced": 0.62, "train_seconds": 1.0}
    row |= dict.fromkeys(("label_precision", "label_recall", "selected_fraction"), 1.0)
    run = {"header": {"spec": job.spec.model_dump(mode="json")}, "rows": [row] * 200}
    (runs / "any-name.json.gz").write_bytes(gzip.compress(json.dumps(run).encode()))
    done = reproduce("mnist-accuracy", runs, *words)
    lines = {(line["block"], line["line"]): line for line in done.report["lines"]}
    found = lines["symmetric:0.7", "cce"]
    assert found["mean"] == pytest.approx(62)
    assert found["difference"] == pytest.approx(0.81)
    assert (found["paper"], found["word"]) == (61.19, "not comparable")  # ten blank images
    assert sum(line["trials"] for line in lines.values()) == 1
    table = (runs / "mnist-accuracy.md").read_text()
    assert "| cce | 62.00 | 1 | 200 | 61.19 ± 1.29 | +0.81 | not comparable (" in table
    assert "| bare | - | - | - | 94.38 ± 0.13 | - | - |" in table


def test_packed_runs_count_as_finished(trained: tuple[Path, Path, Done], tmp_path: Path) -> None:
    own, runs, first = trained
    for run in runs_in(runs):
        pack(run, tmp_path / "packed")
    done = reproduce(own, tmp_path / "packed")
    assert (done.status, done.err) == (0, "")
    assert folders(tmp_path / "packed") == set()
    assert done.out.splitlines()[:-1] == first.out.splitlines()[:-1]


# --- what fails -----------------------------------------------------------------------------------


FAILING = """
title = "Failing"
explains = "five runs, of which one can finish"
trials = 1

[base]
dataset = "digits"
noise = "symmetric:0.5"
epochs = 2

[axes]
way = [
    { dataset = "mnist", method = "cce" },
    { dataset = "mnist", method = "bare" },
    { method = "cce", net = "mlp" },
    { method = "cce", net = "deadly:net" },
    { method = "bare" },
]

[[patch]]
when = { net = "mlp" }
set = { lr = 1e30 }

[table]
block = "noise"
line = "way"
"""
DEADLY = """
import os, signal
def net(shape, classes):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_runs_that_fail_are_listed_with_their_reasons_and_the_others_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("deadly.py").write_text(DEADLY)
    own, runs = written(tmp_path, FAILING), tmp_path / "runs"
    # A file where the folder should be: there is nothing to download into, so nobody tries.
    done = reproduce(own, runs, "--json", "--data-dir", str(own))
    assert done.status == 1
    unread, diverged, killed = "mnist, cce, seed 0", "cce, mlp, seed 0", "cce, deadly:net, seed 0"
    reasons = done.report["failed"]
    assert set(reasons) == {unread, "mnist, bare, seed 0", diverged, killed}
    assert str(own / "mnist") in reasons[unread]
    assert "NaN" in reasons[diverged]
    assert "SIGKILL" in reasons[killed]
    assert {line["line"]: line["trials"] for line in done.report["lines"]} == {
        "mnist, cce": 0,
        "mnist, bare": 0,
        "cce, mlp": 0,
        "cce, deadly:net": 0,
        "bare": 1,
    }
    assert done.err.startswith("5 runs, 3 of them to train\n")
    assert "Traceback" not in done.err
    # What has one reason is told once.
    assert [line for line in done.err.splitlines() if line.startswith("labelnoise: failed")] == [
        f"labelnoise: failed: 2 runs, from {unread} on: {reasons[unread]}",
        f"labelnoise: failed: {diverged}: {reasons[diverged]}",
        f"labelnoise: failed: {killed}: {reasons[killed]}",
    ]
    _, jobs = plan(str(own), out=runs, data_dir=own)  # they would be tried again, and only they
    assert [job.name for job in jobs if job.pending] == [diverged, killed]


# --- figures --------------------------------------------------------------------------------------

FIGURE = """
[figure]
panel = "noise"
line = "method"
metric = "thresholds_by_batch"
trace = [0.0, 1.0]

[figure.classes]
"symmetric:0.5" = [0, 1]
"""


def test_a_figure_is_drawn_from_runs_that_keep_what_it_shows(tmp_path: Path) -> None:
    own = written(tmp_path, OWN.split("[table]")[0] + FIGURE)
    words = ("--methods", "bare", "--trials", "1", "--json")
    done = reproduce(own, tmp_path / "runs", *words)
    assert done.status == 0, done.err
    assert done.report["lines"] == []
    png, svg = map(Path, done.report["files"])
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in svg.read_text()
    (run,) = runs_in(tmp_path / "runs")
    assert run.header["spec"]["trace"] == [1, 2]
    assert ["thresholds_by_batch" in row for row in run.rows] == [True, True]
    again = reproduce(own, tmp_path / "runs", *words)
    assert (again.status, again.err) == (0, "")
    assert again.report == done.report


# --- as a user calls it ---------------------------------------------------------------------------


def test_on_a_terminal_bars_and_a_table_live_on_stderr_and_json_on_stdout(
    tmp_path: Path, on_a_terminal: Terminal
) -> None:
    written(tmp_path, OWN)
    words = ("--jobs", "2", "--trials", "1", "--epochs", "50", "--json")
    output, text = on_a_terminal("reproduce", "own.toml", *words)
    report = json.loads(output)
    assert [line["epochs"] for line in report["lines"]] == [50, 50]
    assert report["failed"] == {}
    assert re.search(r"(cce|bare), seed 0 +\S+ +\d+/50 epochs +test \d+\.\d\d %", text)
    assert re.search(r"[01] of 2 runs, time left \d+:\d\d:\d\d", text)
    assert "Own: symmetric:0.5" in text  # the table that fills up
    assert "to train" not in text
    assert "Traceback" not in text


def test_time_left_counts_what_this_command_trained_alone(
    copied: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own, runs = copied
    for path in runs.glob("digits-bare-*/done"):
        path.unlink()
    _, jobs = plan(str(own), out=runs)
    first, second = (job for job in jobs if job.pending)
    clock = 100.0
    monkeypatch.setattr("labelnoise.experiment.display.time.monotonic", lambda: clock)
    display = LiveDisplay(lambda: [Table("the table")])
    display.begin(jobs, tmp_path)
    assert jobs[0].run is not None
    first.run, first.before = jobs[0].run, 1  # one of its two epochs was there already
    notes = Notes(tmp_path / f"{jobs.index(second)}.progress")
    notes(second.spec, None)
    clock = 110.0
    display.ended(first)  # an epoch in ten seconds, two are left
    assert capsys.readouterr().err == (
        "4 runs, 2 of them to train\n"
        f"bare, seed 0: test {100 * first.run.summary()['test_accuracy']:.2f} %; "
        "1 run left, about 0:00:20\n"
    )
    console = Console(file=io.StringIO(), width=80)
    console.print(display.picture())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    # A small terminal shows the beginning: bars and time before the table.
    assert re.match(
        r"bare, seed 1 .*0/2 epochs *\n3 of 4 runs, time left 0:00:20\n[^\n]*\n.*the table", text
    )
    notes(second.spec, {"epoch": 2, "test_accuracy": 0.5})  # its first row: one was there already
    assert json.loads(next(tmp_path.glob("*.progress")).read_text())["before"] == 1


def test_a_worker_without_a_parent_clears_away_its_notes_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "0.task").write_text("{}")
    (tmp_path / "1.progress.new").write_text("{}")
    (tmp_path / "mine.txt").write_text("not a note")
    command = [sys.executable, "-m", "labelnoise.experiment.worker", str(tmp_path / "0.task")]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_misspelt_setting_is_told_with_the_files_name(tmp_path: Path) -> None:
    own = written(tmp_path, OWN.replace("epochs", "epocs"))
    done = reproduce(own, tmp_path / "runs")
    assert (done.status, done.out) == (2, "")
    assert done.err == f"labelnoise: {own}: unknown setting 'epocs': did you mean 'epochs'?\n"


def test_a_damaged_run_is_left_aside_with_a_warning(copied: tuple[Path, Path]) -> None:
    own, runs = copied
    (cut,) = runs.glob("digits-bare-*-seed1-*")
    (cut / "header.json").write_text("{")
    done = reproduce(own, runs, "--jobs", "0", "--json")
    assert done.status == 0
    assert f"{cut} is left aside" in done.err
    assert {line["line"]: line["trials"] for line in done.report["lines"]} == {"cce": 2, "bare": 1}
