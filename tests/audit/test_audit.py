"""The audit as a whole: one run, a folder, and what it says of good and of bad labels."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from labelnoise import LabelNoiseError, Predictor, audit_labels
from labelnoise.audit.audit import against
from labelnoise.audit.findings import COLUMNS
from labelnoise.data import read

from .found import findings_of


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Any:
    torch.set_num_threads(1)
    return audit_labels("digits", out=tmp_path_factory.mktemp("audit") / "d", noise="symmetric:0.3")


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_flipped_labels_of_digits_are_found(digits: Any) -> None:
    measured = digits.against_truth
    assert measured["precision"] > 0.9
    assert measured["recall"] > 0.9
    assert measured["f1"] > 0.93
    assert measured["average_precision"] > 0.98
    found = digits.findings
    low, high = found.interval
    assert low < 0.3077 < high  # so many were planted
    assert abs(found.expected_precision() - measured["precision"]) < 0.05


def test_every_row_is_scored_and_the_worst_comes_first(digits: Any) -> None:
    table = lines(digits.folder / "issues.csv")
    assert tuple(table[0]) == COLUMNS
    assert sorted(int(line["sample_id"]) for line in table) == list(range(1797))
    quality = [float(line["label_quality"]) for line in table]
    assert quality == sorted(quality)
    assert all(0 <= each <= 1 for each in quality)
    flagged = [line["is_label_issue"] == "True" for line in table]
    assert flagged == [each < 0.5 for each in quality]
    changed = [line["given_label"] != line["predicted_label"] for line in table]
    assert changed == flagged


def test_the_summary_adds_up(digits: Any) -> None:
    summary = json.loads((digits.folder / "summary.json").read_text())
    assert summary["source"]["data"] == "digits"
    assert summary["samples"] == 1797
    assert sum(summary["issues_per_class"].values()) == summary["issues"]
    assert np.allclose(np.sum(summary["transition"], axis=1), 1)
    assert np.allclose(np.diag(summary["transition"]), 0.7, atol=0.08)
    budgets = list(summary["expected_precision_by_budget"].values())
    assert budgets == sorted(budgets, reverse=True)


def test_the_model_predicts(digits: Any) -> None:
    from sklearn.datasets import load_digits

    images = load_digits()
    inputs = torch.tensor(images.images / 16, dtype=torch.float32).unsqueeze(1)
    probs = Predictor(digits.folder / "model").probs(inputs)
    assert (probs.argmax(dim=1).numpy() == images.target).mean() > 0.95


def test_an_audit_that_is_done_is_not_done_again(digits: Any) -> None:
    before = (digits.folder / "model" / "done").stat().st_mtime_ns
    again = audit_labels("digits", out=digits.folder, noise="symmetric:0.3")
    assert (digits.folder / "model" / "done").stat().st_mtime_ns == before
    assert np.array_equal(again.findings.quality, digits.findings.quality)


@pytest.mark.parametrize("other", [{"noise": "symmetric:0.2"}, {"seed": 1}, {"epochs": 3}])
def test_a_folder_of_another_audit_is_left_alone(digits: Any, other: dict[str, Any]) -> None:
    with pytest.raises(LabelNoiseError, match="choose another --out"):
        audit_labels("digits", out=digits.folder, **{"noise": "symmetric:0.3", **other})


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "d").write_text("mine")
    with pytest.raises(LabelNoiseError, match="is a file"):
        audit_labels("digits", out=tmp_path / "d")
    assert (tmp_path / "d").read_text() == "mine"


def test_the_same_seed_gives_the_same_table(tmp_path: Path) -> None:
    for out in ("one", "two"):
        audit_labels("digits", out=tmp_path / out, noise="symmetric:0.3", epochs=4)
    for name in ("issues.csv", "summary.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.parametrize("data", [pytest.param("digits", marks=pytest.mark.long), "breast-cancer"])
def test_of_good_labels_almost_none_is_flagged(data: str, tmp_path: Path) -> None:
    done = audit_labels(data, out=tmp_path / "d")
    assert done.findings.issue.mean() <= 0.005
    assert done.findings.noise_rate < 0.01
    assert done.against_truth == {}  # nothing was planted


def test_a_clean_imbalanced_set_is_not_flagged_to_pieces(tmp_path: Path) -> None:
    done = audit_labels("digits:imbalance=15", out=tmp_path / "d")
    found = done.findings
    rarest = found.given == 9
    assert 8 <= rarest.sum() <= 14
    assert found.issue[rarest].mean() < 0.2
    assert found.issue.mean() < 0.01


@pytest.mark.long
def test_a_rare_class_with_wrong_labels_keeps_its_right_ones(tmp_path: Path) -> None:
    done = audit_labels("digits:imbalance=10", out=tmp_path / "d", noise="symmetric:0.1")
    measured: Any = done.against_truth
    assert measured["precision"] > 0.85
    assert measured["recall"] > 0.7


def test_an_official_test_part_is_not_audited(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    labels = chance.integers(0, 2, 300)
    features = chance.normal(size=(300, 5)) + 3 * labels[:, None]
    np.savez(
        tmp_path / "own.npz",
        x=features[:200],
        y=labels[:200],
        x_test=features[200:],
        y_test=labels[200:],
    )
    done = audit_labels(str(tmp_path / "own.npz"), out=tmp_path / "d", epochs=1)
    assert len(done.findings.given) == 200


def test_unreadable_images_are_counted_and_listed(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    for name, bright in (("dark", 40), ("light", 200)):
        (tmp_path / "own" / name).mkdir(parents=True)
        for number in range(40):
            pixels = chance.normal(bright, 20, size=(8, 8)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "own" / name / f"{number}.png")
    (tmp_path / "own" / "dark" / "torn.png").write_bytes(b"no image")
    with pytest.warns(UserWarning, match="torn"):
        done = audit_labels(str(tmp_path / "own"), out=tmp_path / "d", epochs=1)
    assert (tmp_path / "d" / "skipped.txt").read_text() == "dark/torn.png\n"
    assert any("1 unreadable file" in line for line in done.in_words())
    assert {line["sample_id"] for line in lines(tmp_path / "d" / "issues.csv")} == {
        f"{name}/{number}.png" for name in ("dark", "light") for number in range(40)
    }


def test_what_is_found_is_compared_with_the_truth() -> None:
    given, quality = np.array([0, 1, 1, 0, 1]), np.array([0.1, 0.9, 0.2, 0.8, 0.4])
    known = findings_of(read("breast-cancer"), given=given)
    found = replace(known, quality=quality, issue=quality < 0.5)
    measured = against(found, np.array([1, 1, 0, 1, 1]))
    # Flagged are 0, 2 and 4, wrong are 0, 2 and 3; in order of suspicion 0, 2, 4, 3, 1.
    assert measured == pytest.approx(
        {"precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3, "average_precision": (1 + 1 + 3 / 4) / 3}
    )
    right = against(found, found.given)
    assert right["recall"] is right["average_precision"] is None
    assert right["precision"] == 0


@pytest.mark.long
def test_an_audit_that_is_killed_goes_on_and_finds_the_same(digits: Any, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "labelnoise", "audit", "digits", "--noise", "symmetric:0.3"]
    words += ["--out", "d", "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        rows = tmp_path / "d" / "model" / "epochs.jsonl"
        if rows.exists() and rows.read_text().count("\n") >= 3:
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.005)
    process.wait()
    assert not (tmp_path / "d" / "issues.csv").exists()
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert json.loads(done.stdout)["issues"] == int(digits.findings.issue.sum())
    assert (tmp_path / "d" / "issues.csv").read_bytes() == (
        digits.folder / "issues.csv"
    ).read_bytes()
