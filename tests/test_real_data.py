"""The paper's claim on real MNIST and a first epoch on real CIFAR-10."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from labelnoise.experiment.run import train

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(
        "LABELNOISE_DATA" not in os.environ,
        reason="left out: set LABELNOISE_DATA to a folder with MNIST and CIFAR-10",
    ),
]


@pytest.mark.parametrize("preset", ["paper", "recommended"])
def test_bare_keeps_mostly_right_labels_of_mnist_and_beats_cross_entropy(
    tmp_path: Path, preset: str
) -> None:
    """Of three seeds the one in the middle.

    Under the published rule 5 and 6 stay tied in one run of seven, and in which depends on how the
    processor rounds: seed 0 passed this test on one machine and ended at 0.937 on another.
    """

    def trained(method: str, seed: int) -> dict[str, Any]:
        return train(
            "mnist",
            method=method,
            noise="class-conditional:0.45",
            preset=preset,
            changes={"epochs": 8},
            seed=seed,
            out=tmp_path,
        ).summary()

    seeds = [trained("bare", seed) for seed in range(3)]
    bare = sorted(seeds, key=lambda summary: float(summary["label_precision"]))[1]
    cce = trained("cce", 0)
    assert bare["label_precision"] > 0.95
    assert bare["label_recall"] > 0.85
    assert cce["label_precision"] == pytest.approx(1 - 0.223, abs=0.01)
    assert bare["test_accuracy"] > cce["test_accuracy"] + 0.05


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 5, 6, 9])
def test_no_class_takes_the_labels_of_one_that_it_is_tied_with(tmp_path: Path, seed: int) -> None:
    """5 and 6 swap 45 % of their labels; once, in these seeds, one of them lost all (85.5 %)."""
    run = train(
        "mnist:rows=20000",
        noise="class-conditional:0.45",
        preset="recommended",
        changes={"epochs": 6},
        seed=seed,
        out=tmp_path,
    )
    assert run.summary()["test_accuracy"] > 0.93


def test_header_names_the_parts_of_the_papers_split(tmp_path: Path) -> None:
    run = train("mnist", noise="symmetric:0.5", changes={"epochs": 1}, out=tmp_path)
    assert run.header["rows"] == {"train": 48_000, "validation": 1_000, "test": 10_000}
    assert run.header["realised_noise"]["rate"] == pytest.approx(0.5, abs=0.01)
    assert run.header["spec"]["net"] == "mlp"


@pytest.mark.long
def test_an_epoch_of_cifar10_learns_something(tmp_path: Path) -> None:
    run = train(
        "cifar10", noise="symmetric:0.3", preset="paper", changes={"epochs": 1}, out=tmp_path
    )
    assert run.header["spec"]["net"] == "cnn"
    assert run.header["rows"] == {"train": 40_000, "validation": 1_000, "test": 10_000}
    assert run.summary()["test_accuracy"] > 0.2
