"""One's own images from the files to the prediction, on the command line."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from labelnoise.experiment.run import train
from labelnoise.record.run import Run

Labelnoise = Callable[..., "subprocess.CompletedProcess[str]"]

QUICK = ("--net", "lenet", "--epochs", "10", "--batch-size", "16", "--json")


def photograph(root: Path, each: int, seed: int, side: int = 24) -> Path:
    """Cats are dark on the left, dogs on the right; files of every size and several kinds."""
    chance = np.random.default_rng(seed)
    for number in range(each):
        for kind in ("cat", "dog"):
            height, width = chance.integers(side // 2, 2 * side, 2)
            pixels = chance.integers(0, 120, (height, width, 3)) + 130
            half = slice(0, width // 2) if kind == "cat" else slice(width // 2, width)
            pixels[:, half] //= 3
            suffix = ("png", "jpg", "webp")[number % 3]
            path = root / kind / f"{number}.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    return root


def finished(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def predictions(path: Path) -> dict[str, str]:
    with path.open() as file:
        return {line["row"]: line["predicted_label"] for line in csv.DictReader(file)}


@pytest.mark.long
def test_a_folder_is_trained_on_and_new_images_are_predicted(
    labelnoise: Labelnoise, tmp_path: Path
) -> None:
    photograph(tmp_path / "pets", 60, seed=0)
    (tmp_path / "pets/cat/broken.jpg").write_bytes(b"\xff\xd8\xff oh")
    done = labelnoise("train", "pets", "--noise", "symmetric:0.2", *QUICK)
    assert "pets: 1 of 121 images cannot be read and are left out: 'cat/broken.jpg'" in done.stderr
    assert "Traceback" not in done.stderr
    run = Run(tmp_path / finished(done)["run"])
    assert run.header["shape"] == [3, 32, 32]
    assert run.header["classes"] == ["cat", "dog"]
    assert run.summary()["test_accuracy"] > 0.85

    photograph(tmp_path / "more", 10, seed=1, side=100)
    asked = ("predict", str(run.path), "more", "--out", "found.csv", "--json")
    assert finished(labelnoise(*asked))["accuracy"] > 0.85
    (tmp_path / "loose").mkdir()
    for path in (tmp_path / "more/dog").iterdir():
        path.rename(tmp_path / "loose" / path.name)
    found = finished(labelnoise("predict", str(run.path), "loose", "--out", "found.csv", "--json"))
    assert found["accuracy"] is None
    assert found["rows"] == 10
    labels = predictions(tmp_path / "found.csv")
    assert {"0.png", "1.jpg", "2.webp"} <= {*labels}
    assert sum(label == "dog" for label in labels.values()) >= 8


@pytest.mark.long
def test_a_table_of_paths(labelnoise: Labelnoise, tmp_path: Path) -> None:
    photograph(tmp_path / "pets", 30, seed=0)
    rows = [
        (f"pets/{path.parent.name}/{path.name}", path.parent.name)
        for path in sorted((tmp_path / "pets").rglob("*.*"))
    ]
    with (tmp_path / "pets.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "kind"), *rows])
    asked = ("train", "pets.csv", "--label", "kind", "--image", "file", *QUICK)
    run = finished(labelnoise(*asked))["run"]
    done = labelnoise("predict", run, "pets.csv", "--out", "found.csv", "--json")
    assert finished(done)["accuracy"] > 0.8
    assert list(predictions(tmp_path / "found.csv")) == [name for name, _ in rows]


@pytest.mark.parametrize(("augment", "each"), [(False, 40), (True, 150)])  # 300 need workers
def test_a_streamed_run_is_the_same_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, augment: bool, each: int
) -> None:
    """Nothing but time tells where the images were: not the id, a row, a weight."""
    photograph(tmp_path / "train", each, seed=0)
    photograph(tmp_path / "test", 5, seed=1)
    runs = []
    for where, memory in (("memory", "1000"), ("files", "0")):
        monkeypatch.setenv("LABELNOISE_MEMORY", memory)
        runs.append(
            train(
                str(tmp_path),
                noise="symmetric:0.2",
                net="lenet",
                epochs=2,
                batch_size=32,
                changes={"augment": augment},
                out=tmp_path / "runs" / where,
            )
        )
        (tmp_path / "runs").rename(tmp_path.parent / f"kept-{where}-{augment}")
        runs[-1] = Run(tmp_path.parent / f"kept-{where}-{augment}" / where / runs[-1].path.name)
    one, other = runs
    assert one.path.name == other.path.name
    timeless = [
        [{k: v for k, v in row.items() if not k.endswith("_seconds")} for row in run.rows]
        for run in runs
    ]
    assert timeless[0] == timeless[1]
    states = [run.checkpoint()["method"] for run in runs]
    tensors = [[v for v in _leaves(state) if isinstance(v, torch.Tensor)] for state in states]
    assert len(tensors[0]) > 10
    assert all(a.equal(b) for a, b in zip(*tensors, strict=True))


def _leaves(state: Any) -> list[Any]:
    if isinstance(state, dict):
        return [leaf for value in state.values() for leaf in _leaves(value)]
    if isinstance(state, list | tuple):
        return [leaf for value in state for leaf in _leaves(value)]
    return [state]


@pytest.mark.long
def test_ctrl_c_stops_a_streamed_training_and_it_goes_on(
    labelnoise: Labelnoise, tmp_path: Path
) -> None:
    photograph(tmp_path / "pets", 200, seed=0)
    words = ("train", "pets", "--net", "lenet", "--epochs", "60", "--batch-size", "32", "--json")
    running = subprocess.Popen(
        [sys.executable, "-m", "labelnoise", *words],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "LABELNOISE_MEMORY": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    for _ in range(600):
        if any(path.stat().st_size for path in tmp_path.glob("runs/*/epochs.jsonl")):
            break
        time.sleep(0.1)
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in errors
    with pytest.raises(ProcessLookupError):
        os.killpg(running.pid, 0)  # nobody is left
    done = labelnoise(*words, LABELNOISE_MEMORY="0")
    assert finished(done)["epochs"] == 60
    assert "Traceback" not in done.stderr
