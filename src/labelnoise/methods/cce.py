"""CCE, categorical cross-entropy on all samples: standard training, the baseline of all others.

It needs nothing and selects nothing; with enough epochs it memorises the wrong labels.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from labelnoise.losses import cross_entropy
from labelnoise.method import LossMethod


@dataclass
class CCE(LossMethod):
    """Mean cross-entropy with the labels as given."""

    def losses(self, log_probs: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of every sample."""
        return cross_entropy(log_probs, labels)
