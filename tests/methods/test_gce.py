"""GCE against its formula, its two limits and its gradient."""

from __future__ import annotations

import math

import pytest
import torch

from labelnoise import LabelNoiseError
from labelnoise.losses import cross_entropy
from labelnoise.methods.gce import GCE, generalised_cross_entropy


def some_log_probs() -> tuple[torch.Tensor, torch.Tensor]:
    chance = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(12, 4, generator=chance, dtype=torch.float64)
    return logits.requires_grad_(), torch.randint(4, (12,), generator=chance)


@pytest.mark.parametrize("q", [0.1, 0.7, 1.0])
def test_it_is_its_formula_sample_by_sample(q: float) -> None:
    logits, labels = some_log_probs()
    found = generalised_cross_entropy(logits.log_softmax(1), labels, q)
    for loss, row, label in zip(found, logits.tolist(), labels.tolist(), strict=True):
        prob = math.exp(row[label]) / sum(map(math.exp, row))
        assert loss.item() == pytest.approx((1 - prob**q) / q, rel=1e-12)


def test_a_worked_example() -> None:
    log_probs = torch.tensor([[0.25, 0.75]]).log()
    loss = GCE(q=0.5).losses(log_probs, torch.tensor([0]))
    assert float(loss) == pytest.approx(1.0)  # (1 - 0.25 ** 0.5) / 0.5


def test_a_small_exponent_is_cross_entropy() -> None:
    logits, labels = some_log_probs()
    log_probs = logits.log_softmax(1)
    found = generalised_cross_entropy(log_probs, labels, 1e-9)
    torch.testing.assert_close(found, cross_entropy(log_probs, labels), rtol=1e-6, atol=0)


@pytest.mark.parametrize("q", [0.3, 0.7, 1.0])
def test_its_gradient_is_that_of_cross_entropy_times_a_power_of_the_probability(q: float) -> None:
    logits, labels = some_log_probs()
    (ours,) = torch.autograd.grad(
        generalised_cross_entropy(logits.log_softmax(1), labels, q).sum(), logits
    )
    plain = cross_entropy(logits.log_softmax(1), labels)
    (theirs,) = torch.autograd.grad(plain.sum(), logits)
    weight = plain.detach().neg().exp() ** q
    torch.testing.assert_close(ours, weight[:, None] * theirs)


def test_a_label_that_is_all_but_impossible_has_a_finite_gradient() -> None:
    logits = torch.tensor([[0.0, 200.0]], requires_grad=True)
    loss = generalised_cross_entropy(logits.log_softmax(1), torch.tensor([0]), 0.7).sum()
    (gradient,) = torch.autograd.grad(loss, logits)
    assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("q", [0.0, -0.5, 1.5, math.nan])
def test_an_exponent_outside_its_range_is_refused(q: float) -> None:
    with pytest.raises(LabelNoiseError, match=r"q lies in \(0, 1\]"):
        GCE(q=q)
