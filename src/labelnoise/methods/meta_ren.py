"""Meta-Ren, learning to reweight examples: Ren et al., ICML 2018, arXiv 1803.09050.

A sample's weight is how well its gradient agrees with the gradient on a trusted batch; samples that
pull the other way get none. It needs a trusted set.

The paper takes the derivative of the trusted loss after a virtual step of length alpha, at sample
weights epsilon = 0. There the virtual step has length 0, so that derivative is
-alpha <grad l_i, grad L_trusted>: one directional derivative of the batch's losses gives it for all
samples at once, without a second-order pass, and alpha cancels when weights are normalised.

Deviations from the BARE authors' code (register in docs/methods.md): none in the method; weights
whose sum is tiny are still normalised to 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelnoise import dist
from labelnoise.batch import Batch, Step
from labelnoise.errors import at_least
from labelnoise.losses import cross_entropy, mean, weighted_mean
from labelnoise.method import Method
from labelnoise.problem import Problem


def slopes(log_probs: Tensor, labels: Tensor, drift: Tensor) -> Tensor:
    """How each sample's cross-entropy changes when its logits change by `drift`.

    Args:
        log_probs: (batch, classes) log-probabilities.
        labels: (batch,) given labels.
        drift: (batch, classes) derivative of the logits.
    """
    given = drift.gather(1, labels.unsqueeze(1)).squeeze(1)
    return (log_probs.exp() * drift).sum(dim=1) - given


@dataclass
class MetaRen(Method):
    """Weigh each sample by how well its gradient agrees with that of trusted data.

    Attributes:
        trusted_batch: Trusted samples a step, as many as there are at most; the BARE paper takes
            all its 1,000.
    """

    needs_trusted = True

    trusted_batch: int = 1000

    def __post_init__(self) -> None:
        """Refuse a batch of nothing."""
        at_least(1, trusted_batch=self.trusted_batch)

    def setup(self, problem: Problem) -> None:
        """One network, and an endless walk over the trusted set."""
        self.trusted = problem.verified("Meta-Ren").forever(self.trusted_batch)
        self.learner = problem.new_learner()

    def step(self, batch: Batch) -> Step:
        """Descend on the losses under weights max(0, <grad l_i, grad L_trusted>)."""
        trusted = next(self.trusted)
        logits = self.learner.aside(trusted.inputs)
        trusted_loss = mean(cross_entropy(logits.log_softmax(dim=1), trusted.labels))
        direction = self.learner.gradient(trusted_loss)

        logits, drift = self.learner.logits_along(batch.inputs, direction)
        log_probs = logits.log_softmax(dim=1)
        weight = slopes(log_probs.detach(), batch.labels, drift).clamp(min=0)
        loss = weighted_mean(cross_entropy(log_probs, batch.labels), weight)
        self.learner.descend(loss, weight)
        return Step(
            index=batch.index,
            weight=weight / dist.total(weight.sum()).clamp(min=torch.finfo(weight.dtype).tiny),
            loss=loss.detach(),
            probs=log_probs.detach().exp(),
        )
