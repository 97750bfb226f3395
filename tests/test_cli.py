"""The command line, called as a user calls it."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from labelnoise.cli import main

Labelnoise = Callable[..., "subprocess.CompletedProcess[str]"]
Terminal = Callable[..., tuple[str, str]]

JSON_KEYS = {
    "method", "dataset", "noise", "epochs", "seed", "test_accuracy", "test_accuracy_balanced",
    "test_accuracy_last10", "test_accuracy_best", "label_precision", "label_recall",
    "selected_fraction", "train_seconds", "run",
}  # fmt: skip
QUICK = ("train", "digits", "--epochs", "2", "--noise", "symmetric:0.5")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_help_names_every_command_and_loads_nothing_heavy(labelnoise: Labelnoise) -> None:
    done = labelnoise("--help")
    assert done.returncode == 0
    for command in ("train", "demo", "inject", "predict", "show", "doctor", "list"):
        assert command in done.stdout


@pytest.mark.parametrize(
    "command",
    ["audit", "train", "demo", "inject", "predict", "show", "apply", "export", "doctor", "list"],
)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    assert stop.value.code == 0
    assert "usage: labelnoise" in capsys.readouterr().out


def test_json_is_the_last_line_and_has_the_promised_keys(labelnoise: Labelnoise) -> None:
    done = labelnoise(*QUICK, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert set(summary) >= JSON_KEYS
    for key in JSON_KEYS:
        if "accuracy" in key or key in ("label_precision", "label_recall", "selected_fraction"):
            assert 0 <= summary[key] <= 1
    assert (summary["method"], summary["dataset"], summary["epochs"]) == ("bare", "digits", 2)
    assert summary["noise"] == "symmetric:0.5"


def test_run_folder_has_the_rows(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--json"]) == 0
    run = Path(json.loads(capsys.readouterr().out)["run"])
    rows = [json.loads(line) for line in (run / "epochs.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [1, 2]
    assert {
        "train_loss", "test_accuracy", "test_accuracy_balanced", "validation_loss",
        "validation_accuracy", "label_precision", "label_recall", "selected_fraction",
        "estimated_noise_rate", "empty_selections", "train_seconds", "evaluation_seconds",
    } <= set(rows[0])  # fmt: skip
    assert 0 <= rows[0]["estimated_noise_rate"] <= 1
    assert (run / "done").exists()
    samples = np.load(run / "samples.npz")
    assert len(samples["row"]) == json.loads((run / "header.json").read_text())["rows"]["train"]
    assert (samples["selected"] <= samples["seen"]).all()
    assert (samples["seen"] == 2).all()


def test_table_shows_percent_and_is_not_cut_off_when_piped(labelnoise: Labelnoise) -> None:
    done = labelnoise(*QUICK, COLUMNS="40")
    assert done.returncode == 0, done.stderr
    for heading in ("accuracy", "balanced", "precision", "recall", "selected", "seconds"):
        assert heading in done.stdout
    assert "…" not in done.stdout
    assert re.search(r"^ bare( +\d+\.\d\d){7} +\d+\.\d $", done.stdout, re.MULTILINE)


def test_a_finished_run_is_shown_again_without_training(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*QUICK, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    before = {path: path.stat().st_mtime_ns for path in Path(first["run"]).iterdir()}
    assert main([*QUICK, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert {path: path.stat().st_mtime_ns for path in Path(first["run"]).iterdir()} == before


def test_set_reaches_fields_of_method_and_training(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--set", "threshold=class", "--set", "kappa=0.5", "--set", "lr=0.01"]
    assert main([*QUICK, *words, "--json"]) == 0
    run = Path(json.loads(capsys.readouterr().out)["run"])
    spec = json.loads((run / "header.json").read_text())["spec"]
    assert spec["settings"] == {
        "threshold": "class",
        "kappa": 0.5,
        "empty": "all",
        "backward": "auto",
    }
    assert spec["training"]["lr"] == 0.01


def test_same_noise_and_seed_give_every_method_the_same_given_labels(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = []
    for method in ("bare", "cce"):
        for seed in ("0", "1"):
            assert main([*QUICK, "--method", method, "--seed", seed, "--json"]) == 0
            run = json.loads(capsys.readouterr().out)["run"]
            samples = np.load(Path(run) / "samples.npz")
            given.append((samples["row"], samples["given"], samples["truth"]))
    for other in given[1:]:
        for one, two in zip(given[0], other, strict=True):
            assert (one == two).all()


def test_batches_of_few_classes_are_a_run_of_their_own(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([], ["--classes-per-batch", "4"]):
        assert main([*QUICK, *words, "--json"]) == 0
    runs = [Path(json.loads(line)["run"]) for line in capsys.readouterr().out.splitlines()]
    assert runs[0] != runs[1]
    usual, few = (json.loads((run / "header.json").read_text()) for run in runs)
    assert usual["spec"]["training"]["classes_per_batch"] is None
    assert few["spec"]["training"]["classes_per_batch"] == 4
    seen = np.load(runs[1] / "samples.npz")
    assert seen["given"].size == usual["rows"]["train"]


def test_trace_epochs_keep_thresholds_of_every_batch(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*QUICK, "--set", "threshold=midpoint", "--trace-epochs", "2", "--json"]) == 0
    run = Path(json.loads(capsys.readouterr().out)["run"])
    first, second = (json.loads(line) for line in (run / "epochs.jsonl").read_text().splitlines())
    assert set(first["thresholds"]) == {"mean", "min", "max"}
    assert "thresholds_by_batch" not in first
    header = json.loads((run / "header.json").read_text())
    batches = -(-header["rows"]["train"] // 128)
    assert np.shape(second["thresholds_by_batch"]) in {(batches, 10), (batches - 1, 10)}


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["tran"], "'train'"),
        (["train", "digits", "--nois", "x"], "'--noise'"),
        (["train", "digts"], "'digits'"),
        (["train", "digits", "--method", "bear"], "'bare'"),
        (["train", "digits", "--net", "mpl"], "'mlp'"),
        (["train", "digits", "--preset", "papers"], "'paper'"),
        (["train", "digits", "--noise", "symetric:0.4"], "'symmetric'"),
        (["train", "digits", "--noise", "symmetric"], "symmetric:0."),
        (["train", "digits", "--noise", "symmetric:1.5"], "[0, 1]"),
        (["train", "digits", "--set", "kapa=1"], "'kappa'"),
        (["train", "digits", "--set", "kappa"], "FIELD=VALUE"),
        (["train", "digits", "--set", "kappa=much"], "kappa"),
        (["train", "digits", "--set", "threshold=midpoint", "--set", "kappa=1"], "no kappa"),
        (["train", "digits", "--set", "kappa=1"], "take threshold 'batch'"),
        (["train", "digits", "--epochs", "0"], "epochs"),
        (["train", "digits", "--batch-size", "none"], "--batch-size"),
        (["train", "digits", "--classes-per-batch", "1"], "2 or more"),
        (["train", "digits", "--classes-per-batch", "11"], "take at most 10"),
        (["train", "digits", "--classes-per-batch", "5", "--batch-size", "4"], "has 4 rows"),
        (["train", "digits", "--classes-per-batch", "0"], "classes_per_batch"),
        (["train", "digits", "--device", "gpu"], "device"),
        (["train", "digits", "extra"], "extra"),
        (["train", "digits", "--net", "cnn", "--set", "optimiser=adm"], "optimiser"),
        (["train"], "DATA"),
        (["train", "nothing.npz"], "no such file"),
        (["train", "digits", "--trace-epochs", "0"], "trace"),
        (["inject", "digits", "--noise", "pair:0.2", "--out", "."], "folder"),
        (["--debu", "list", "methods"], "'--debug'"),
        (["list", "method"], "'methods'"),
        (["show", "nowhere"], "not a run"),
        (["predict", "nowhere", "digits", "--out", "p.csv"], "not a run"),
        (["inject", "digits", "--noise", "symmetric:0.5"], "--out"),
        ([], "COMMAND"),
    ],
)
def test_errors_are_one_line_and_name_the_fix(
    words: list[str], hint: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert hint in captured.err
    assert not list(here.iterdir())


def test_debug_lets_the_traceback_through(here: Path) -> None:
    with pytest.raises(ValueError, match="bare"):
        main(["train", "digits", "--method", "bear", "--debug"])


def test_data_set_without_a_class_conditional_map_names_pair_and_matrix(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 3
    np.savez("own.npz", x=x, y=y)
    assert main(["train", "own.npz", "--noise", "class-conditional:0.3"]) == 2
    error = capsys.readouterr().err
    assert "pair" in error
    assert "matrix" in error


def test_own_file_without_noise_reports_no_precision(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.random.default_rng(0).normal(size=(90, 4))
    np.savez("own.npz", x=x, y=np.array(["a", "b,c", "d"])[np.arange(90) % 3])
    assert main(["train", "own.npz", "--epochs", "2", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["label_precision"] is None
    assert summary["label_recall"] is None
    assert main(["predict", summary["run"], "own.npz", "--out", "p.csv", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["rows"] == 90
    lines = list(csv.DictReader(Path("p.csv").read_text().splitlines()))
    assert {line["predicted_label"] for line in lines} <= {"a", "b,c", "d"}
    assert [int(line["row"]) for line in lines] == list(range(90))
    assert main(["show", summary["run"]]) == 0
    assert "-" in capsys.readouterr().out


def test_predict_agrees_with_the_recorded_accuracy(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = np.random.default_rng(1)
    centres = 3 * chance.normal(size=(4, 6))
    y, y_test = chance.integers(4, size=300), chance.integers(4, size=100)
    np.savez(
        "own.npz",
        x=centres[y] + chance.normal(size=(300, 6)),
        y=y,
        x_test=centres[y_test] + chance.normal(size=(100, 6)),
        y_test=y_test,
    )
    np.savez("new.npz", x=np.load("own.npz")["x_test"], y=y_test)
    np.savez("unlabelled.npz", x=np.load("own.npz")["x_test"])
    assert main(["train", "own.npz", "--epochs", "3", "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert main(["predict", summary["run"], "new.npz", "--out", "p.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == summary["test_accuracy"]
    assert main(["predict", summary["run"], "unlabelled.npz", "--out", "q.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] is None
    assert Path("p.csv").read_text() == Path("q.csv").read_text()
    np.savez("wide.npz", x=np.zeros((3, 7)))
    assert main(["predict", summary["run"], "wide.npz", "--out", "r.csv"]) == 2
    assert "shape" in capsys.readouterr().err
    assert not Path("r.csv").exists()


def test_inject_writes_rows_truth_and_given(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["inject", "digits", "--noise", "symmetric:0.3", "--seed", "4", "--out", "n.csv"]
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    lines = list(csv.DictReader(Path("n.csv").read_text().splitlines()))
    assert list(lines[0]) == ["row", "true_label", "given_label"]
    assert len(lines) == report["rows"] == 1797
    wrong = sum(line["true_label"] != line["given_label"] for line in lines) / len(lines)
    assert wrong == pytest.approx(report["rate"])
    assert wrong == pytest.approx(0.3, abs=0.05)
    text = Path("n.csv").read_text()
    assert main(words) == 0
    assert "in percent" in capsys.readouterr().out
    assert Path("n.csv").read_text() == text


@pytest.mark.parametrize("what", ["methods", "datasets", "nets", "noises", "presets"])
def test_lists_are_arrays_of_names_that_explain_themselves(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", what, "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert entries
    assert all(entry["name"] and entry["explains"] for entry in entries)
    assert main(["list", what]) == 0
    assert entries[0]["name"] in capsys.readouterr().out


def test_labels_that_look_like_markup_are_shown_as_they_are(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez("own.npz", x=np.eye(60), y=np.array(["[/]", "[red]", "ok"])[np.arange(60) % 3])
    assert main(["inject", "own.npz", "--noise", "pair:0.3", "--out", "n.csv"]) == 0
    output = capsys.readouterr().out
    assert "[/]" in output
    assert "[red]" in output


def test_a_matrix_that_is_not_dominant_is_warned_of_on_one_line(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inject", "digits", "--noise", "pair:0.6", "--out", "n.csv"]) == 0
    error = capsys.readouterr().err
    assert error.startswith("labelnoise: warning: ")
    assert error.count("\n") == 1


def test_show_marks_a_run_that_is_not_finished(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*QUICK, "--json"]) == 0
    run = Path(json.loads(capsys.readouterr().out)["run"])
    (run / "done").unlink()
    (run / "epochs.jsonl").write_text((run / "epochs.jsonl").read_text().splitlines()[0] + "\n")
    assert main(["show", str(run)]) == 0
    assert "epochs 1 of 2" in capsys.readouterr().out


def test_show_draws_a_picture(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = []
    for method in ("bare", "cce"):
        assert main([*QUICK, "--method", method, "--json"]) == 0
        runs.append(json.loads(capsys.readouterr().out)["run"])
    assert main(["show", *runs, "--out", "both.png"]) == 0
    assert Path("both.png").read_bytes().startswith(b"\x89PNG")
    assert "cce" in capsys.readouterr().out
    assert main(["show", *runs, "--json"]) == 0
    assert [run["method"] for run in json.loads(capsys.readouterr().out)] == ["bare", "cce"]
    # As a shell writes `runs/*`, where tables and pictures lie beside the runs.
    beside = Path(runs[0]).parent / "own.csv"
    beside.write_text("block,line\n")
    for command in ("show", "compare"):
        assert main([command, str(beside), *runs, "--json"]) == 0
        capsys.readouterr()
    for wrong in ([str(beside)], [*runs, "runs/misspelt"]):
        assert main(["show", *wrong]) == 2
        assert Path(wrong[-1]).name in capsys.readouterr().err


def test_own_net_by_address(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "mine.py").write_text(
        "import math\nfrom torch import nn\n"
        "def net(shape, classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))\n"
    )
    assert main([*QUICK, "--net", "mine:net", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["net"] == "mine:net"
    assert main([*QUICK, "--net", "mine:nut"]) == 2
    assert "nut" in capsys.readouterr().err


def test_unwritable_folder_is_said_before_training(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("occupied").write_text("a file, not a folder")
    assert main([*QUICK, "--out", "occupied"]) == 2
    assert "cannot write" in capsys.readouterr().err


def test_progress_bar_on_a_terminal_shows_accuracy(on_a_terminal: Terminal) -> None:
    output, seen = on_a_terminal(*QUICK, "--json")
    assert "test " in seen
    assert "2/2 epochs" in seen
    assert json.loads(output)["epochs"] == 2


def test_interrupt_says_how_to_go_on(tmp_path: Path) -> None:
    words = ["train", "digits", "--epochs", "100000", "--noise", "symmetric:0.5"]
    running = subprocess.Popen(
        [sys.executable, "-m", "labelnoise", *words],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("runs/*/epochs.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, error = running.communicate(timeout=60)
    assert running.returncode == 130
    assert error.splitlines()[-1] == "labelnoise: stopped; the same command goes on where it was"
