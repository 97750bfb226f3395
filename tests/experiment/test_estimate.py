"""The noise rate without any verified label."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from labelnoise.data import read
from labelnoise.experiment.estimate import rate_by_sure_predictions
from labelnoise.experiment.parts import divide
from labelnoise.experiment.predict import Predictor
from labelnoise.experiment.run import train
from labelnoise.experiment.spec import Spec
from labelnoise.noise import parse
from labelnoise.record.run import Row, Run


def table(*rows: tuple[int, float], classes: int = 3) -> Tensor:
    """Probabilities from the predicted class and how sure it is."""
    probs = torch.zeros(len(rows), classes)
    for i, (predicted, sureness) in enumerate(rows):
        probs[i] = (1 - sureness) / (classes - 1)
        probs[i, predicted] = sureness
    return probs


# --- by hand --------------------------------------------------------------------------------------


def test_worked_example() -> None:
    probs = table((0, 0.9), (0, 0.8), (0, 0.6), (0, 0.5), (1, 0.7), (1, 0.7), (2, 0.9), (2, 0.5))
    labels = torch.tensor([0, 2, 1, 1, 1, 0, 2, 0])
    # Class 0: mean .7, so .9 and .8 are sure, one of them is labelled otherwise: 1/2 of 4 samples.
    # Class 1: both are as sure as the mean, one is labelled otherwise: 1/2 of 2 samples.
    # Class 2: mean .7, only .9 is sure, and labelled so: 0 of 2 samples.
    assert rate_by_sure_predictions(probs, labels) == pytest.approx((2 + 1 + 0) / 8)


def test_unsure_predictions_have_no_say() -> None:
    probs = table((0, 0.9), (0, 0.8), (0, 0.6), (0, 0.5))
    for unsure in ([0, 0], [1, 2], [2, 2]):
        labels = torch.tensor([0, 2, *unsure])
        assert rate_by_sure_predictions(probs, labels) == pytest.approx(0.5)


def test_classes_count_by_how_often_they_are_predicted() -> None:
    probs = table(*[(0, 0.9)] * 9, (1, 0.9))
    labels = torch.tensor([0] * 9 + [2])
    assert rate_by_sure_predictions(probs, labels) == pytest.approx(0.1)


def test_a_class_that_is_never_predicted_changes_nothing() -> None:
    rows = [(0, 0.9), (0, 0.9), (2, 0.8), (2, 0.9)]
    labels = torch.tensor([0, 2, 2, 1])
    expected = (0.5 * 2 + 1 * 2) / 4
    for classes in (3, 4, 50):
        assert rate_by_sure_predictions(table(*rows, classes=classes), labels) == pytest.approx(
            expected
        )


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_the_extremes(rows: int) -> None:
    predicted = torch.arange(rows) % 3
    probs = torch.eye(3)[predicted]
    assert rate_by_sure_predictions(probs, predicted) == 0
    assert rate_by_sure_predictions(probs, (predicted + 1) % 3) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [3, 5, 7, 100, 1000])
def test_equally_sure_predictions_are_all_sure(rows: int, dtype: torch.dtype) -> None:
    """A mean of equal numbers may come out larger than each of them."""
    labels = (torch.arange(rows) < rows // 2).long()
    for percent in range(51, 100):
        probs = torch.tensor([[percent / 100, 1 - percent / 100]], dtype=dtype).repeat(rows, 1)
        found = rate_by_sure_predictions(probs, labels)
        assert found == pytest.approx((rows // 2) / rows), percent


def test_any_table_agrees_with_the_slow_reference() -> None:
    for seed in range(20):
        chance = torch.Generator().manual_seed(seed)
        probs = (3 * torch.randn(60, 5, generator=chance)).softmax(dim=1)
        labels = torch.randint(5, (60,), generator=chance)
        total, samples = 0.0, 0
        for c in range(5):
            mine = [
                (float(p.max()), int(y))
                for p, y in zip(probs, labels, strict=True)
                if int(p.argmax()) == c
            ]
            if not mine:
                continue
            mean = sum(sureness for sureness, _ in mine) / len(mine)
            voices = [y != c for sureness, y in mine if sureness >= mean]
            total += len(mine) * sum(voices) / len(voices)
            samples += len(mine)
        assert rate_by_sure_predictions(probs, labels) == pytest.approx(total / samples, abs=1e-6)


def test_mistakes_of_an_unsure_network_do_not_pass_for_noise() -> None:
    """Three quarters of the predictions are sure and right, a quarter are unsure guesses."""
    chance = torch.Generator().manual_seed(0)
    truth = torch.randint(4, (4000,), generator=chance)
    unsure = torch.rand(4000, generator=chance) < 0.25
    guessed = torch.randint(4, (4000,), generator=chance)
    predicted = torch.where(unsure, guessed, truth)
    sureness = torch.where(unsure, 0.3, 0.95) + 0.02 * torch.rand(4000, generator=chance)
    probs = ((1 - sureness) / 3)[:, None].repeat(1, 4)
    probs[torch.arange(4000), predicted] = sureness
    wrong = torch.rand(4000, generator=chance) < 0.2
    given = torch.where(wrong, (truth + 1) % 4, truth)
    assert rate_by_sure_predictions(probs, given) == pytest.approx(0.2, abs=0.03)
    assert float((predicted != given).double().mean()) > 0.3  # what counting all would say


# --- by training ----------------------------------------------------------------------------------


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
    rows = run.header["rows"]["train"]
    epochs = math.ceil(1000 * 128 / rows)  # a thousand steps: ten epochs would be too few
    assert seen == [
        ("bare", None), ("bare", 1), ("bare", 2), ("bare", 3),
        ("bare", None), *(("bare", number) for number in range(4, epochs + 1)),
        ("coteaching", None), ("coteaching", 1),
    ]  # fmt: skip
    estimate = Run(begun)
    probs = Predictor(estimate).probs(divide(read("digits"), parse(asked["noise"]), 0).train.inputs)
    given = torch.from_numpy(estimate.samples["given"])
    assert run.header["noise_rate"] == rate_by_sure_predictions(probs, given)

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
