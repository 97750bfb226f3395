from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as functional

from labelnoise.losses import cross_entropy, weighted_mean


def test_cross_entropy_is_one_value_a_sample() -> None:
    logits = torch.randn(7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0])
    losses = cross_entropy(logits.log_softmax(dim=1), labels)
    for row, label, loss in zip(logits, labels, losses, strict=True):
        by_hand = math.log(sum(math.exp(z) for z in row.tolist())) - float(row[label])
        assert float(loss) == pytest.approx(by_hand, rel=1e-12)
    assert torch.allclose(losses, functional.cross_entropy(logits, labels, reduction="none"))


def test_weighted_mean_with_numbers() -> None:
    losses, weight = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 0.0, 3.0])
    assert float(weighted_mean(losses, weight)) == pytest.approx(13 / 4)


def test_weighted_mean_of_ones_is_the_mean() -> None:
    losses = torch.rand(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert float(weighted_mean(losses, torch.ones(50))) == pytest.approx(float(losses.mean()))


def test_weighted_mean_without_weight_is_0_with_a_gradient_of_0() -> None:
    losses = torch.rand(5, requires_grad=True)
    mean = weighted_mean(losses, torch.zeros(5))
    mean.backward()  # type: ignore[no-untyped-call]
    assert float(mean.detach()) == 0
    assert losses.grad is not None
    assert losses.grad.tolist() == [0] * 5


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_broken_loss_shows_even_with_weight_0(bad: float) -> None:
    losses, weight = torch.tensor([1.0, bad]), torch.tensor([1.0, 0.0])
    assert not math.isfinite(float(weighted_mean(losses, weight)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_neither_overflows_nor_miscounts(dtype: torch.dtype) -> None:
    rows = 70_001
    losses = torch.ones(rows, dtype=dtype)
    weight = torch.ones(rows, dtype=dtype)
    assert float(weighted_mean(losses, weight)) == pytest.approx(1.0, rel=1e-4)
