"""Remembered: the published thresholds over many mini-batches instead of one.

With a hundred classes and a hundred samples a mini-batch most classes have one sample in it or
none, and mean and deviation of a class are what chance makes of them. Here they are those of the
latest samples of the class, `EACH` of them, this mini-batch among them: all so far until there are
so many, an exponential mean from then on. A class that does not come keeps what it had. In the
first mini-batch both are the published rules.

The network moves on while they are gathered. Probabilities of right labels rise, so that remembered
means lag behind, and more labels reach them than would by the mini-batch alone; the fewer samples
are remembered, the less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from labelnoise import dist
from labelnoise.rules.statistics import reaches
from labelnoise.rules.verdict import Verdict

EACH = 16  # samples a class to remember: a mini-batch of 128 has so many of each of eight classes


class Moments(NamedTuple):
    """Of one probability a class, over some samples.

    Attributes:
        size: (classes,) how many samples, by weight.
        mean: (classes,) of the probability.
        squares: (classes,) the sum of squared differences from it.
    """

    size: Tensor
    mean: Tensor
    squares: Tensor


class Remembered(nn.Module):
    """Mean and deviation of every class, as far back as it takes to have some samples of each.

    Args:
        num_classes: How many classes there are.
        kappa: How many deviations above the mean a label must be.

    Attributes:
        size, mean, squares: What `Moments` says of the samples before the next mini-batch.
    """

    size: Tensor
    mean: Tensor
    squares: Tensor

    def __init__(self, num_classes: int, kappa: float) -> None:
        super().__init__()
        self.kappa = kappa
        for name in Moments._fields:
            self.register_buffer(name, torch.zeros(num_classes))

    def judge(self, probs: Tensor, labels: Tensor) -> Verdict:
        """Keep the labels whose probability reaches the threshold of their class."""
        probs = probs.detach().to(self.mean.dtype)
        bars = self.thresholds(self._joined(self._seen(probs, labels)))
        given = _given(probs, labels)
        keep = reaches(given, bars.index_select(0, labels))
        return Verdict(given, keep, keep.to(probs.dtype), {"thresholds": bars})

    @torch.no_grad()
    def remember(self, probs: Tensor, labels: Tensor, verdict: Verdict) -> None:
        """Take in a mini-batch; of all processes, where several train together."""
        seen = self._seen(probs.detach().to(self.mean.dtype), labels)
        for buffer, value in zip(self._moments(), self._joined(seen), strict=True):
            buffer.copy_(value)

    def thresholds(self, moments: Moments) -> Tensor:
        """(classes,) what each class asks for; NaN, which nothing reaches, without samples."""
        raise NotImplementedError

    def window(self) -> int:
        """How many samples the statistics of a class are of, at most."""
        raise NotImplementedError

    def sums(self, values: Tensor, labels: Tensor) -> Tensor:
        """(classes,) of (batch, classes) values, over the samples that speak for a class."""
        raise NotImplementedError

    def _seen(self, probs: Tensor, labels: Tensor) -> Moments:
        """Those of a mini-batch, with what other processes have of it."""
        size = dist.total(self.sums(torch.ones_like(probs), labels))
        mean = dist.total(self.sums(probs, labels)) / size.clamp(min=1)
        return Moments(size, mean, dist.total(self.sums((probs - mean).square(), labels)))

    def _joined(self, seen: Moments) -> Moments:
        """What is remembered, of which some is forgotten, and what is seen."""
        before = self._moments()
        kept = torch.minimum(before.size, (self.window() - seen.size).clamp(min=0))
        squares = before.squares * (kept / before.size.clamp(min=1))
        both = kept + seen.size
        share = seen.size / both.clamp(min=1)
        apart = seen.mean - before.mean
        return Moments(
            size=both,
            mean=torch.where(both > 0, before.mean + share * apart, before.mean),
            squares=squares + seen.squares + apart.square() * share * kept,
        )

    def _moments(self) -> Moments:
        return Moments(self.size, self.mean, self.squares)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Follow the network to another device, but not to another precision."""
        device = fn(torch.empty(0, device=self.mean.device)).device
        super()._apply(lambda each: each.to(device), recurse)  # type: ignore[no-untyped-call]
        return self


class RememberedBatch(Remembered):
    """`"batch"`: a class's probability over all samples, whatever their labels."""

    def thresholds(self, moments: Moments) -> Tensor:
        """Mean plus kappa unbiased deviations; NaN with fewer than two samples."""
        free = (moments.size - 1).clamp(min=0)
        return moments.mean + self.kappa * (moments.squares / free).sqrt()

    def window(self) -> int:
        """So many that each class should have enough."""
        return EACH * len(self.mean)

    def sums(self, values: Tensor, labels: Tensor) -> Tensor:
        """Over all samples."""
        return values.sum(dim=0)


class RememberedClass(Remembered):
    """`"class"`: a class's probability over the samples that are labelled with it."""

    def thresholds(self, moments: Moments) -> Tensor:
        """Mean plus kappa population deviations; NaN without samples."""
        return moments.mean + self.kappa * (moments.squares / moments.size).sqrt()

    def window(self) -> int:
        """Of the class's own samples."""
        return EACH

    def sums(self, values: Tensor, labels: Tensor) -> Tensor:
        """Over the samples with the class's label."""
        given = _given(values, labels)
        return values.new_zeros(values.shape[1]).index_add_(0, labels, given)


def _given(values: Tensor, labels: Tensor) -> Tensor:
    """The value of every sample's given label."""
    return values.gather(1, labels.unsqueeze(1)).squeeze(1)
