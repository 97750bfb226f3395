"""The paper's recipes for large images, as shipped, on small trees of the official layouts.

Nothing is made smaller but the number of images and of epochs: JPEG files, decoded to 256x256,
crops of 224, ResNet-50, weights of a thousand classes in torchvision's naming.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from labelnoise.cli import main
from labelnoise.experiment.grid import cells, experiment_named
from labelnoise.record.run import Run

from .web import clothing, food, photo, write

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def data(
    tmp_path_factory: pytest.TempPathFactory, torchvision_state: Callable[[str], dict[str, Tensor]]
) -> Path:
    """Both data sets, a broken file in each training part, and weights."""
    folder = tmp_path_factory.mktemp("data")
    root = clothing(folder, noisy=[row % 3 for row in range(12)])
    photo(root / "images/1/0001,77.jpg", 1, size=(700, 500))  # decoded at half its size
    write(root / "images/0/0004,77.jpg", [b"\xff\xd8\xff\xe0 no picture"])
    root = food(folder)
    photo(root / "images/apple_pie/1.jpg", 0, size=(300, 900))
    write(root / "images/apple_pie/2.jpg", [])
    torch.save(torchvision_state("resnet50"), folder / "resnet50.pth")
    return folder


def reproduced(name: str, data: Path, out: Path) -> dict[str, Run]:
    """The finished runs of a shipped experiment after one epoch, by method."""
    words = ["reproduce", name, "--epochs", "1", "--jobs", "1"]
    assert main([*words, "--data-dir", str(data), "--out", str(out)]) == 0
    runs = [Run(path.parent) for path in out.glob("*/header.json")]
    return {run.header["spec"]["method"]: run for run in runs}


def moved(run: Run, data: Path) -> float:
    """How far a convolution is from where it began, in deviations of its weights."""
    begun = torch.load(data / "resnet50.pth", weights_only=True)["layer3.2.conv2.weight"]
    now = run.checkpoint()["method"]["learner"]["network"]["layer3.2.conv2.weight"]
    return float((now - begun).std() / begun.std())


@pytest.mark.parametrize(
    ("name", "rows", "classes", "broken"),
    [
        ("clothing1m", (12, 3, 3), 3, "images/0/0004,77.jpg"),
        ("food101n", (5, 2, 2), 2, "images/apple_pie/2.jpg"),
    ],
)
def test_a_shipped_recipe_runs_on_a_tree_of_its_layout(
    name: str, rows: tuple[int, ...], classes: int, broken: str, data: Path, tmp_path: Path
) -> None:
    runs = reproduced(name, data, tmp_path)
    assert runs.keys() == {"cce", "bare"}
    for cell in cells(experiment_named(name)):
        run = runs[str(cell.settings["method"])]
        assert run.done
        header: dict[str, Any] = run.header
        asked = cell.ask(epochs=1).without_data().training
        assert header["spec"]["training"] == json.loads(asked.model_dump_json())
        assert (asked.crop, asked.weights) == (224, "resnet50.pth")
        assert header["spec"]["net"] == "resnet50"
        assert header["shape"] == [3, 256, 256]
        assert tuple(header["rows"].values()) == rows
        with (run.path / "skipped.csv").open() as file:
            assert [line["file"] for line in csv.DictReader(file)] == [broken]
        assert int((run.samples["seen"] == 1).sum()) == rows[0] - 1
        assert 0 < moved(run, data) < 0.05  # from the file's weights on, not from chance
        network = run.checkpoint()["method"]["learner"]["network"]
        assert network["fc.weight"].shape == (classes, 2048)
    shown = (tmp_path / f"{name}.md").read_text()
    assert shown.count("not comparable") == 2  # three images are not the official test part


def test_the_same_by_hand(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Mini-batches of four, the last of three; two epochs, one of them after a milestone."""
    words = ["train", "clothing1m-balanced", "--net", "resnet50", "--weights", "resnet50.pth"]
    words += ["--epochs", "2", "--batch-size", "4", "--data-dir", str(data)]
    for change in ("crop=224", "scale=imagenet", "augment=true", "optimiser=sgd", "lr=1e-3"):
        words += ["--set", change]
    words += ["--set", "schedule=steps", "--set", "milestones=[1]", "--set", "decay=0.5"]
    assert main([*words, "--out", str(tmp_path / "runs")]) == 0, capsys.readouterr().err
    (header,) = (tmp_path / "runs").glob("*/header.json")
    run = Run(header.parent)
    assert [row["lr"] for row in run.rows] == pytest.approx([1e-3, 5e-4])
    assert [row["skipped"] for row in run.rows] == [1, 1]
    assert 0 < moved(run, data) < 0.05
    predictions = tmp_path / "predictions.csv"
    words = ["predict", str(run.path), "clothing1m-balanced", "--data-dir", str(data)]
    assert main([*words, "--out", str(predictions)]) == 0
    assert len(predictions.read_text().splitlines()) == 4
