"""Verdict and Rule: what every rule says of a mini-batch, and how it is asked."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class Verdict(NamedTuple):
    """What a rule makes of a mini-batch.

    Attributes:
        score: (batch,) what it judges by: the more, the better for the label.
        keep: (batch,) boolean, the labels that it takes for right.
        weight: (batch,) how much each sample should count.
        notes: What else is worth keeping, for `Step.notes`.
    """

    score: Tensor
    keep: Tensor
    weight: Tensor
    notes: dict[str, Tensor]


class Rule(Protocol):
    """What says which labels of a mini-batch to trust, and how far."""

    def judge(self, probs: Tensor, labels: Tensor) -> Verdict:
        """What it makes of a mini-batch; nothing is remembered."""
        ...

    def remember(self, probs: Tensor, labels: Tensor, verdict: Verdict) -> None:
        """Learn from a mini-batch for the next ones."""
        ...


def or_all(weight: Tensor) -> Tensor:
    """The weights, or 1 for all where all are 0."""
    return torch.where(weight.any(), weight, torch.ones_like(weight))
