"""Thresholds: rules that look at nothing but the mini-batch itself.

A label is kept if its probability reaches what the mini-batch asks for in its class. The published
ones are `"batch"` and `"class"`; `"midpoint"` is ours and has no kappa.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from labelnoise.errors import LabelNoiseError, unknown
from labelnoise.rules.verdict import Verdict

TOLERANCE = 8  # units in the last place, relative to the value compared with
SMALL = 4096  # probabilities in a batch from which on many simple passes beat a clever one


def batch_thresholds(probs: Tensor, labels: Tensor, kappa: float) -> Tensor:
    """Mean plus kappa unbiased deviations of every class's probability over the whole batch.

    A batch of one has no unbiased deviation: its thresholds are NaN, which nothing reaches.
    """
    size = len(probs)
    if size < 2:
        return probs.new_full(probs.shape[1:], math.nan)
    if probs.numel() < SMALL:
        deviation, mean = torch.std_mean(probs, dim=0)
        return mean.add_(deviation, alpha=kappa)
    # Where there is much to add up, torch.std takes up to 17 times as long as these passes. The
    # mean of what was centred is the rounding error of the mean: without it, equal probabilities
    # would have a deviation.
    mean = probs.mean(dim=0)
    centred = probs - mean
    slip = centred.mean(dim=0)
    squares = centred.square_().sum(dim=0)
    variance = (squares - size * slip.square()).clamp_(min=0) / (size - 1)
    return (mean + slip).add_(variance.sqrt_(), alpha=kappa)


def class_thresholds(probs: Tensor, labels: Tensor, kappa: float) -> Tensor:
    """Mean plus kappa population deviations of p_c over the samples labelled c (Algorithm 1).

    A class without samples has no threshold: NaN.
    """
    given = _given(probs, labels)
    zeros = probs.new_zeros(probs.shape[1])
    size = zeros.index_add(0, labels, torch.ones_like(given))
    # From the class's largest value on: sums of equal numbers, one by one, would drift.
    largest = zeros.scatter_reduce(0, labels, given, "amax")
    offset = given - largest[labels]
    mean = zeros.index_add(0, labels, offset) / size
    variance = zeros.index_add(0, labels, (offset - mean[labels]).square()) / size
    return largest + mean + kappa * variance.sqrt()


def midpoint_thresholds(probs: Tensor, labels: Tensor) -> Tensor:
    """Halfway between the means of the probabilities above and below their mean, class by class.

    Where one of the two parts is empty (all probabilities equal) the threshold is 0: keep all.
    """
    upper = reaches(probs, probs.mean(dim=0))
    above = upper.sum(dim=0)
    below = len(probs) - above
    highs = probs * upper
    lows = probs - highs
    middle = torch.lerp(highs.sum(dim=0) / above, lows.sum(dim=0) / below, 0.5)
    return middle.masked_fill_(below == 0, 0)


class Threshold(NamedTuple):
    """A way to set thresholds, and its kappa where it has one."""

    of: Callable[..., Tensor]
    kappa: float | None


THRESHOLDS = {
    "batch": Threshold(batch_thresholds, kappa=1.0),
    "class": Threshold(class_thresholds, kappa=1.0),
    "midpoint": Threshold(midpoint_thresholds, kappa=None),
}


def thresholds(
    probs: Tensor, labels: Tensor, *, kappa: float | None = None, threshold: str = "batch"
) -> Tensor:
    """The probability that each class asks for in this batch: (batch, classes) -> (classes,).

    Args:
        probs: (batch, classes) probabilities; statistics are in float32 or wider.
        labels: (batch,) given labels.
        kappa: How many deviations above the mean; 1 by default. `"midpoint"` has none.
        threshold: `"batch"`, `"class"` or `"midpoint"`.
    """
    rule = _rule(threshold, kappa)
    probs = probs.detach().to(torch.promote_types(probs.dtype, torch.float32))
    if rule.kappa is None:
        return rule.of(probs, labels.long())
    return rule.of(probs, labels.long(), rule.kappa if kappa is None else kappa)


def select(probs: Tensor, labels: Tensor, thresholds: Tensor) -> Tensor:
    """Which samples to keep: those whose given label's probability reaches its threshold."""
    given = _given(probs.detach(), labels).to(thresholds.dtype)
    return reaches(given, thresholds.index_select(0, labels.long()))


@dataclass
class ByThreshold:
    """The rule that asks for a threshold.

    Attributes:
        threshold: `"batch"`, `"class"` or `"midpoint"`.
        kappa: How many deviations above the mean; `None` is the threshold's own.
    """

    threshold: str
    kappa: float | None = None

    def __post_init__(self) -> None:
        """Refuse what does not exist."""
        rule = _rule(self.threshold, self.kappa)
        self.kappa = rule.kappa if self.kappa is None else self.kappa

    def judge(self, probs: Tensor, labels: Tensor) -> Verdict:
        """Keep the labels whose probability reaches the threshold of their class."""
        bars = thresholds(probs, labels, kappa=self.kappa, threshold=self.threshold)
        keep = select(probs, labels, bars)
        return Verdict(_given(probs, labels), keep, keep.to(probs.dtype), {"thresholds": bars})

    def remember(self, probs: Tensor, labels: Tensor, verdict: Verdict) -> None:
        """Nothing: the next mini-batch has statistics of its own."""


def _rule(threshold: str, kappa: float | None) -> Threshold:
    if threshold not in THRESHOLDS:
        raise unknown("threshold of a single batch", threshold, THRESHOLDS)
    rule = THRESHOLDS[threshold]
    if rule.kappa is None and kappa is not None:
        raise no_kappa(threshold)
    if kappa is not None and not (isinstance(kappa, int | float) and math.isfinite(kappa)):
        raise LabelNoiseError(f"kappa must be a finite number, got {kappa}")
    return rule


def no_kappa(threshold: str) -> LabelNoiseError:
    """The error for a kappa where there is none."""
    return LabelNoiseError(
        f"threshold {threshold!r} has no kappa: leave kappa out, or take threshold 'batch'"
    )


def _given(probs: Tensor, labels: Tensor) -> Tensor:
    """The probability of every sample's given label."""
    return probs.gather(1, labels.long().unsqueeze(1)).squeeze(1)


def reaches(value: Tensor, bar: Tensor) -> Tensor:
    """Whether a value that is not negative is at least `bar`, up to what rounding may have done."""
    return value * slack(value) >= bar


def slack(value: Tensor) -> float:
    """By which factor a value may be too small by rounding alone."""
    return 1 + TOLERANCE * torch.finfo(value.dtype).eps
