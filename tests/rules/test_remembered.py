"""Remembered thresholds against plain loops over a list of samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from labelnoise import BARE, LabelNoiseError, bare_select
from labelnoise.rules import new_rule
from labelnoise.rules.remembered import EACH, Remembered, RememberedBatch, RememberedClass

KINDS = {"batch": RememberedBatch, "class": RememberedClass}


def batches(count: int, classes: int = 5, rows: int = 30) -> list[tuple[Tensor, Tensor]]:
    chance = torch.Generator().manual_seed(0)
    return [
        (
            (2 * torch.randn(rows, classes, generator=chance)).softmax(dim=1),
            torch.randint(classes, (rows,), generator=chance),
        )
        for _ in range(count)
    ]


class Slow:
    """Every sample with its weight, in a list a class; sums in float64, one by one."""

    def __init__(self, threshold: str, classes: int, kappa: float) -> None:
        self.by_label, self.kappa = threshold == "class", kappa
        self.window = EACH if self.by_label else EACH * classes
        self.samples: list[list[tuple[float, float]]] = [[] for _ in range(classes)]

    def thresholds(self, probs: Tensor, labels: Tensor) -> list[float]:
        bars = []
        for name, before in enumerate(self.samples):
            new = [
                (float(row[name]), 1.0)
                for row, label in zip(probs, labels, strict=True)
                if not self.by_label or int(label) == name
            ]
            old = sum(weight for _, weight in before)
            room = max(0.0, self.window - len(new))
            fade = min(1.0, room / old) if old else 1.0
            self.samples[name] = [(value, weight * fade) for value, weight in before] + new
            values, weights = np.array(self.samples[name]).reshape(-1, 2).T
            size = weights.sum()
            if size == 0:
                bars.append(np.nan)
                continue
            mean = (weights * values).sum() / size
            squares = (weights * (values - mean) ** 2).sum()
            free = size if self.by_label else size - 1
            bars.append(mean + self.kappa * np.sqrt(squares / free))
        return bars


@pytest.mark.parametrize("kappa", [1.0, -0.5])
@pytest.mark.parametrize("threshold", KINDS)
def test_it_is_what_loops_over_all_samples_give(threshold: str, kappa: float) -> None:
    rule, slow = KINDS[threshold](5, kappa), Slow(threshold, 5, kappa)
    for probs, labels in batches(12):
        verdict = rule.judge(probs, labels)
        expected = slow.thresholds(probs, labels)
        assert verdict.notes["thresholds"].tolist() == pytest.approx(expected, rel=1e-4)
        given = [float(probs[row, label]) for row, label in enumerate(labels.tolist())]
        kept = [value >= expected[label] for value, label in zip(given, labels, strict=True)]
        assert verdict.keep.tolist() == kept
        assert verdict.weight.tolist() == [float(keep) for keep in kept]
        assert verdict.score.tolist() == pytest.approx(given)
        rule.remember(probs, labels, verdict)


def test_a_worked_example() -> None:
    rule = RememberedClass(2, kappa=1.0)
    first = torch.tensor([[0.2, 0.8], [0.6, 0.4]]), torch.tensor([0, 0])
    rule.remember(*first, rule.judge(*first))
    assert rule.size.tolist() == [2, 0]
    assert rule.mean[0].item() == pytest.approx(0.4)
    # 0.2, 0.6 and 0.7: mean 0.5, deviation sqrt((0.09 + 0.01 + 0.04) / 3) = 0.216.
    verdict = rule.judge(torch.tensor([[0.7, 0.3], [0.9, 0.1]]), torch.tensor([0, 1]))
    assert verdict.notes["thresholds"].tolist() == pytest.approx([0.7160, 0.1], abs=1e-4)
    assert verdict.keep.tolist() == [False, True]


@pytest.mark.parametrize("threshold", KINDS)
def test_the_first_batch_is_judged_as_published(threshold: str) -> None:
    ((probs, labels),) = batches(1)
    found = KINDS[threshold](5, kappa=1.0).judge(probs, labels)
    assert found.keep.equal(bare_select(probs, labels, threshold=threshold))


def test_a_class_that_does_not_come_keeps_what_it_had() -> None:
    rule = RememberedClass(3, kappa=1.0)
    probs, labels = batches(1, classes=3, rows=12)[0]
    rule.remember(probs, labels, rule.judge(probs, labels))
    had = rule.size.clone(), rule.mean.clone()
    only = torch.zeros_like(labels)
    rule.remember(probs, only, rule.judge(probs, only))
    assert rule.size[1:].equal(had[0][1:])
    assert rule.mean[1:].equal(had[1][1:])
    assert rule.mean[0] != had[1][0]


def test_no_class_remembers_more_than_it_should_unless_one_batch_has_more() -> None:
    by_class, over_all = RememberedClass(5, 1.0), RememberedBatch(5, 1.0)
    for probs, labels in batches(9):
        for rule in (by_class, over_all):
            rule.remember(probs, labels, rule.judge(probs, labels))
    assert by_class.size.tolist() == [EACH] * 5
    assert over_all.size.tolist() == [5 * EACH] * 5
    probs, labels = batches(1, rows=300)[0]
    over_all.remember(probs, labels, over_all.judge(probs, labels))
    assert over_all.size.tolist() == [300] * 5
    assert over_all.mean.tolist() == pytest.approx(probs.mean(dim=0).tolist())


@pytest.mark.parametrize("threshold", ["batch-remembered", "class-remembered"])
def test_the_state_is_saved_and_keeps_its_precision(threshold: str) -> None:
    def made() -> Remembered:
        found = new_rule(threshold, None, num_classes=5, samples=0, device="cpu")
        assert isinstance(found, Remembered)
        return found

    *seen, (probs, labels) = batches(6)
    rule, other = made(), made().half()
    for each in seen:
        rule.remember(*each, rule.judge(*each))
    other.load_state_dict(rule.state_dict())
    assert {buffer.dtype for buffer in other.buffers()} == {torch.float32}
    assert other.judge(probs, labels).keep.equal(rule.judge(probs, labels).keep)


@pytest.mark.parametrize("threshold", ["batch-remembered", "class-remembered"])
def test_kappa_is_that_of_the_published_rule(threshold: str) -> None:
    assert BARE(threshold=threshold).kappa == 1
    assert BARE(threshold=threshold, kappa=0.5).kappa == 0.5
    with pytest.raises(LabelNoiseError, match="finite"):
        BARE(threshold=threshold, kappa=float("nan"))
