"""The noise rate without any verified label."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labelnoise.experiment.estimate import EPOCHS, enough_epochs
from labelnoise.experiment.run import train
from labelnoise.experiment.spec import Spec
from labelnoise.record.run import Row, Run


def test_a_small_data_set_is_seen_as_often_as_makes_a_thousand_steps() -> None:
    assert enough_epochs(1_302, 128, EPOCHS) == 91  # digits: 11 steps an epoch, the last of a few
    assert enough_epochs(48_000, 128, EPOCHS) == EPOCHS == 10  # MNIST
    assert enough_epochs(1, 16, EPOCHS) == enough_epochs(16, 16, EPOCHS) == 1_000
    assert enough_epochs(17, 16, EPOCHS) == 500
    assert enough_epochs(17, 16, EPOCHS, steps=7) == 10
    assert enough_epochs(17, 16, least=2, steps=7) == 4


@pytest.mark.parametrize("noise", ["symmetric:0.3", "none"])
def test_on_digits_it_is_near_the_truth(noise: str, tmp_path: Path) -> None:
    run = train(
        "digits", method="coteaching", noise=noise, noise_rate="auto", epochs=1, out=tmp_path
    )
    truth = float((run.samples["given"] != run.samples["truth"]).mean())
    assert run.header["noise_rate"] == pytest.approx(truth, abs=0.06)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_on_a_small_file_of_ones_own_it_is_near_the_truth(seed: int, tmp_path: Path) -> None:
    """Ten epochs of so few samples are too few steps to have learned anything."""
    chance, labels = np.random.default_rng(seed), np.arange(300) % 2
    given = np.where(np.arange(300) % 10 == 0, 1 - labels, labels)
    np.savez(tmp_path / "own.npz", x=chance.normal(size=(300, 4)) + 4 * labels[:, None], y=given)
    run = train(
        str(tmp_path / "own.npz"),
        method="coteaching",
        noise_rate="auto",
        epochs=1,
        seed=seed,
        out=tmp_path,
    )
    assert run.header["noise_rate"] == pytest.approx(0.1, abs=0.06)


def test_the_estimate_is_a_run_beside_the_one_that_asked_for_it(tmp_path: Path) -> None:
    """Stopped, it goes on; finished, it serves whoever asks for the same."""
    asked: dict[str, Any] = {"noise": "symmetric:0.3", "noise_rate": "auto", "epochs": 1}
    seen: list[tuple[str, int | None]] = []

    def watch(spec: Spec, row: Row | None) -> None:
        seen.append((spec.method, None if row is None else row["epoch"]))
        if len(seen) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train("digits", method="coteaching", out=tmp_path, watch=watch, **asked)
    (begun,) = tmp_path.iterdir()
    run = train("digits", method="coteaching", out=tmp_path, watch=watch, **asked)
    steps = math.ceil(run.header["rows"]["train"] / 128)
    epochs = math.ceil(1000 / steps)  # a thousand steps: ten epochs would be too few
    assert seen == [
        ("bare", None), ("bare", 1), ("bare", 2), ("bare", 3),
        ("bare", None), *(("bare", number) for number in range(4, epochs + 1)),
        ("coteaching", None), ("coteaching", 1),
    ]  # fmt: skip
    assert run.header["noise_rate"] == Run(begun).rows[-1]["estimated_noise_rate"]

    seen.clear()
    other = train("digits", method="curriculum-loss", out=tmp_path, watch=watch, **asked)
    assert seen == [("curriculum-loss", None), ("curriculum-loss", 1)]
    assert other.header["noise_rate"] == run.header["noise_rate"]


DROPOUT = """
import math
from torch import nn
def net(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(math.prod(shape), classes))
"""


def test_with_dropout_it_gives_the_same_rate_and_leaves_the_callers_chance_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("estimating.py").write_text(DROPOUT)
    found = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        run = train(
            "digits",
            method="coteaching",
            noise="symmetric:0.3",
            noise_rate="auto",
            net="estimating:net",
            epochs=1,
            out=f"runs{seed}",
        )
        found.append((run.header["noise_rate"], torch.get_rng_state().equal(before)))
    assert found[0][0] == found[1][0]
    assert [untouched for _, untouched in found] == [True, True]
