"""GCE, generalised cross-entropy: Zhang and Sabuncu, NeurIPS 2018, arXiv 1805.07836.

Between cross-entropy, which learns fast and memorises wrong labels, and the absolute error, which
does neither: the gradient of a sample is that of cross-entropy times p_y ** q, so a label that the
network finds unlikely hardly counts. It needs nothing and selects nothing.

Deviation: probabilities are not clamped; p_y ** q is computed from log-probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelnoise.errors import LabelNoiseError
from labelnoise.losses import cross_entropy
from labelnoise.method import LossMethod


def generalised_cross_entropy(log_probs: Tensor, labels: Tensor, q: float) -> Tensor:
    """(1 - p_y ** q) / q of every sample; q = 1 is the absolute error, q -> 0 cross-entropy."""
    return -torch.expm1(-q * cross_entropy(log_probs, labels)) / q


@dataclass
class GCE(LossMethod):
    """Mean generalised cross-entropy with the labels as given.

    Attributes:
        q: In (0, 1]; larger is more robust and slower.
    """

    q: float = 0.7

    def __post_init__(self) -> None:
        """Refuse what is no exponent."""
        if not 0 < self.q <= 1:
            raise LabelNoiseError(f"q lies in (0, 1], got {self.q}")

    def losses(self, log_probs: Tensor, labels: Tensor) -> Tensor:
        """Generalised cross-entropy of every sample."""
        return generalised_cross_entropy(log_probs, labels, self.q)
