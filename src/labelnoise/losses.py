"""Per-sample losses shared by methods, and how they are averaged."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor

from labelnoise import dist

TINY = torch.finfo(torch.float32).tiny


def cross_entropy(log_probs: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of every sample, from log-probabilities: (batch, classes) -> (batch,)."""
    return functional.nll_loss(log_probs, labels, reduction="none")


def weighted_mean(losses: Tensor, weight: Tensor) -> Tensor:
    """The mean of `losses` under `weight`; 0 where all weights are 0.

    Where several processes train together, their gradients are averaged: each has its share of the
    mean over all samples, times the number of processes. One may have no sample that counts.

    A loss that is NaN or infinite makes the mean NaN even if its weight is 0, on purpose: a broken
    forward pass must be seen, not hidden by the selection that it breaks.
    """
    # Half precision can neither count nor add up the samples of a large batch.
    if losses.dtype != torch.float32 or weight.dtype != torch.float32:
        wide = torch.promote_types(losses.dtype, torch.float32)
        losses, weight = losses.to(wide), weight.to(wide)
    share = weight / dist.total(weight.sum()).clamp_(min=TINY)
    return torch.dot(losses, share if dist.world() == 1 else share * dist.world())


def mean(losses: Tensor) -> Tensor:
    """The mean over the samples, of all processes where several train together; of none it is 0."""
    if dist.world() == 1 and len(losses):
        return losses.mean()
    return weighted_mean(losses, torch.ones_like(losses))
