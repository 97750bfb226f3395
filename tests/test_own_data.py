"""One's own data from the file to the prediction, on the command line."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labelnoise.cli import main
from labelnoise.experiment.predict import Predictor, inputs_of
from labelnoise.experiment.run import train
from labelnoise.record.run import Run

Labelnoise = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def labelnoise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Labelnoise:
    """The command, in this process: torch is imported once."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        status = main(words)
        shown = capsys.readouterr()
        return subprocess.CompletedProcess(words, status, shown.out, shown.err)

    return run


QUICK = ("--epochs", "12", "--batch-size", "32", "--json")


def write(path: Path, heading: tuple[str, ...], rows: list[tuple[Any, ...]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(heading)
        writer.writerows(rows)
    return path


def animals(rows: int, seed: int) -> list[tuple[Any, ...]]:
    """Weight (sometimes missing, sometimes absurd), coat, number, name, kind."""
    chance = np.random.default_rng(seed)
    made = []
    for number in range(rows):
        dog = bool(chance.random() < 0.4)
        weight = chance.normal(25 if dog else 4, 1.5)
        coat = chance.choice(["short", "long"] if dog else ["long", "striped"])
        shown = "" if chance.random() < 0.05 else "1e9" if number == 7 else f"{weight:.2f}"
        made.append((shown, coat, number, f"pet {number}", "dog" if dog else "cat"))
    return made


HEADING = ("weight", "coat", "id", "name", "kind")


def predicted(path: Path) -> list[str]:
    with path.open() as file:
        return [line["predicted_label"] for line in csv.DictReader(file)]


def finished(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_table_is_trained_on_and_new_rows_are_predicted(
    labelnoise: Labelnoise, tmp_path: Path
) -> None:
    write(tmp_path / "pets.csv", HEADING, [*animals(300, 0), ("3", "long", 300, "x", "")])
    done = labelnoise("train", "pets.csv", "--label", "kind", *QUICK)
    summary = finished(done)
    assert summary["test_accuracy"] > 0.95
    assert done.stderr.count("labelnoise: warning: pets.csv: ") == 2
    assert "1 rows without a label are left out" in done.stderr
    assert "'id', 'name'" in done.stderr

    new = [(row[1], "new", row[0], row[4]) for row in animals(100, 1)]
    write(tmp_path / "new.csv", ("coat", "extra", "weight", "kind"), new)
    found = finished(labelnoise("predict", summary["run"], "new.csv", "--out", "p.csv", "--json"))
    truth = [row[-1] for row in new]
    agree = np.mean([a == b for a, b in zip(predicted(tmp_path / "p.csv"), truth, strict=True)])
    assert found["accuracy"] == pytest.approx(agree)
    assert agree > 0.95

    bare = [(weight, coat) for coat, _, weight, _ in new]
    write(tmp_path / "bare.csv", ("weight", "coat"), bare)
    found = finished(labelnoise("predict", summary["run"], "bare.csv", "--out", "q.csv", "--json"))
    assert found == {"rows": 100, "accuracy": None, "out": "q.csv"}
    assert predicted(tmp_path / "q.csv") == predicted(tmp_path / "p.csv")

    write(tmp_path / "wrong.csv", ("wieght", "coat"), bare)
    wrong = labelnoise("predict", summary["run"], "wrong.csv", "--out", "r.csv")
    assert wrong.returncode == 2
    assert wrong.stderr == (
        "labelnoise: wrong.csv: there is no column 'weight': rename 'wieght'?\n"
    )


def test_only_labelled_rows_count_for_the_accuracy(labelnoise: Labelnoise, tmp_path: Path) -> None:
    write(tmp_path / "pets.csv", HEADING, animals(200, 0))
    run = finished(labelnoise("train", "pets.csv", *QUICK))["run"]
    some = [(*row[:4], row[4] if number < 5 else "") for number, row in enumerate(animals(50, 1))]
    write(tmp_path / "some.csv", HEADING, some)
    found = finished(labelnoise("predict", run, "some.csv", "--out", "p.csv", "--json"))
    assert found["rows"] == 50
    right = [a == row[4] for a, row in zip(predicted(tmp_path / "p.csv")[:5], some, strict=False)]
    assert found["accuracy"] == pytest.approx(np.mean(right))


def test_texts(labelnoise: Labelnoise, tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    words = {"up": ["gain", "profit", "rise", "market"], "down": ["loss", "fall", "a", "market"]}
    rows = [
        (" ".join(chance.choice(words[kind], 8)), number, kind)
        for number, kind in enumerate(chance.choice(["up", "down"], 200))
    ]
    write(tmp_path / "news.csv", ("text", "id", "label"), rows)
    summary = finished(labelnoise("train", "news.csv", "--text", "text", *QUICK))
    assert summary["test_accuracy"] > 0.9
    write(tmp_path / "new.csv", ("text",), [("profit rise rise",), ("a loss",)])
    finished(labelnoise("predict", summary["run"], "new.csv", "--out", "p.csv", "--json"))
    assert predicted(tmp_path / "p.csv") == ["up", "down"]


def test_embeddings(labelnoise: Labelnoise, tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    kinds = chance.integers(0, 3, 150)
    inputs = 4 * np.eye(3, 5)[kinds] + chance.normal(size=(150, 5))
    np.save(tmp_path / "emb.npy", inputs)
    np.save(tmp_path / "y.npy", np.array(["a", "b", "c"])[kinds])
    summary = finished(labelnoise("train", "emb.npy", "--label", "y.npy", *QUICK))
    assert summary["test_accuracy"] > 0.9
    found = finished(labelnoise("predict", summary["run"], "emb.npy", "--out", "p.csv", "--json"))
    assert found == {"rows": 150, "accuracy": None, "out": "p.csv"}
    asked = ("predict", summary["run"], "emb.npy", "--label", "y.npy", "--out", "p.csv", "--json")
    assert finished(labelnoise(*asked))["accuracy"] > 0.9


def test_planted_labels_keep_the_numbers_of_their_rows(
    labelnoise: Labelnoise, tmp_path: Path
) -> None:
    rows = [(number, "" if number % 3 == 0 else "xy"[number % 2]) for number in range(12)]
    write(tmp_path / "own.csv", ("a", "label"), rows)
    done = labelnoise("inject", "own.csv", "--noise", "pair:0.4", "--out", "n.csv", "--json")
    assert finished(done)["rows"] == 8
    with (tmp_path / "n.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [(int(line["row"]), line["true_label"]) for line in lines] == [
        (number, label) for number, label in rows if label
    ]


def test_a_trusted_table_is_encoded_like_the_data(labelnoise: Labelnoise, tmp_path: Path) -> None:
    write(tmp_path / "pets.csv", HEADING, animals(200, 0))
    write(tmp_path / "sure.csv", HEADING, [*animals(30, 1), ("3", "long", 30, "x", "")])
    asked = ("train", "pets.csv", "--method", "meta-ren", "--trusted", "sure.csv")
    run = Run(tmp_path / finished(labelnoise(*asked, *QUICK[2:], "--epochs", "1"))["run"])
    assert run.header["trusted_rows"] == 30


def test_what_predict_reads_is_what_was_trained_on(tmp_path: Path) -> None:
    path = write(tmp_path / "pets.csv", HEADING, animals(60, 0))
    with pytest.warns(UserWarning, match="left out"):
        run = train(str(path), label="kind", epochs=1, out=tmp_path)
    predictor = Predictor(run)
    inputs, labels, _ = inputs_of(str(path), predictor.known)
    assert predictor.probs(inputs).shape == (60, 2)
    assert labels is not None
    assert len(labels) == 60


@pytest.mark.filterwarnings("ignore")
def test_another_table_of_the_same_shape_is_not_encoded_by_itself(tmp_path: Path) -> None:
    path = write(tmp_path / "pets.csv", HEADING, animals(60, 0))
    other = write(tmp_path / "other.csv", HEADING, animals(60, 1))
    predictor = Predictor(train(str(path), label="kind", epochs=1, out=tmp_path))
    inputs, _, _ = inputs_of(f"{path}:rows=20", predictor.known)
    assert len(inputs) == 20
    with pytest.raises(ValueError, match=r"is encoded by itself: give .*other\.csv to predict"):
        inputs_of(f"{other}:rows=20", predictor.known)
