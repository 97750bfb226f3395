"""Posterior against a count by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as functional

from labelnoise import LabelNoiseError, bare_select
from labelnoise.rules.posterior import Posterior


def test_in_the_first_epoch_it_is_the_midpoint_rule() -> None:
    rule, chance = Posterior(4, samples=90), torch.Generator().manual_seed(0)
    for _ in range(3):
        probs = (2 * torch.randn(30, 4, generator=chance)).softmax(dim=1)
        labels = torch.randint(4, (30,), generator=chance)
        verdict = rule.judge(probs, labels)
        assert verdict.keep.equal(bare_select(probs, labels, threshold="midpoint"))
        assert verdict.weight.tolist() == verdict.keep.float().tolist()
        rule.remember(probs, labels, verdict)


def test_the_votes_of_an_epoch_count_in_the_next() -> None:
    truth = torch.arange(40) % 2
    labels = torch.where(torch.arange(40) % 8 == 0, 1 - truth, truth)  # a quarter of class 0
    sure = functional.one_hot(truth, 2).float()
    rule = Posterior(2, samples=40)
    rule.remember(sure, labels, rule.judge(sure, labels))
    assert rule.before.tolist() == [[15, 5], [0, 20]]
    assert rule.votes.sum() == 0
    wavering = torch.tensor([[0.5, 0.5]])
    assert rule.right(wavering, torch.tensor([0])).tolist() == [1.0]
    assert rule.right(wavering, torch.tensor([1])).tolist() == pytest.approx([1 / 1.25])


def test_it_keeps_what_the_midpoint_rule_drops_where_bayes_rule_speaks_for_it() -> None:
    truth = torch.arange(40) % 2
    sure = functional.one_hot(truth, 2).float()
    rule = Posterior(2, samples=40)
    rule.remember(sure, truth, rule.judge(sure, truth))  # not one label was wrong
    probs = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.95, 0.05]])
    labels = torch.tensor([0, 0, 0])
    assert bare_select(probs, labels, threshold="midpoint").tolist() == [True, False, True]
    assert rule.judge(probs, labels).keep.tolist() == [True, True, True]


def test_it_must_know_when_an_epoch_ends() -> None:
    with pytest.raises(LabelNoiseError, match="pass samples"):
        Posterior(3, samples=0)
