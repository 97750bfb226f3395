"""Thresholds: rules that look at nothing but the mini-batch itself.

A label is kept if its probability reaches what the mini-batch asks for in its class. The published
ones are `"batch"` and `"class"`; `"midpoint"` is ours and has no kappa.

Where several processes train together the mini-batch is that of all of them: a few sums a class are
exchanged, never probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from labelnoise import dist
from labelnoise.errors import LabelNoiseError, unknown
from labelnoise.rules.statistics import halves, moments, reaches, rounding
from labelnoise.rules.verdict import Verdict

SMALL = 4096  # probabilities in a batch from which on many simple passes beat a clever one


def batch_thresholds(probs: Tensor, labels: Tensor, kappa: float) -> Tensor:
    """Mean plus kappa unbiased deviations of every class's probability over the whole batch.

    A batch of one has no unbiased deviation: its thresholds are NaN, which nothing reaches.
    """
    if dist.world() > 1:
        return _joined_batch_thresholds(probs, kappa)
    size = len(probs)
    if size < 2:
        return probs.new_full(probs.shape[1:], math.nan)
    if probs.numel() < SMALL:
        deviation, mean = torch.std_mean(probs, dim=0)
        return mean.add_(deviation, alpha=kappa)
    mean, variance = moments(probs)
    deviation = variance.mul_(size / (size - 1)).sqrt_()
    # Equal probabilities have no deviation but that of the rounding of their sums.
    alike = deviation <= mean * rounding(probs)
    return torch.where(alike, probs[0], mean.add_(deviation, alpha=kappa))


def class_thresholds(probs: Tensor, labels: Tensor, kappa: float) -> Tensor:
    """Mean plus kappa population deviations of p_c over the samples labelled c (Algorithm 1).

    A class without samples has no threshold: NaN.
    """
    given = _given(probs, labels)
    zeros = probs.new_zeros(probs.shape[1])
    size = dist.total(zeros.index_add(0, labels, torch.ones_like(given)))
    # From the class's largest value on: sums of equal numbers, one by one, would drift.
    largest = dist.largest(zeros.scatter_reduce(0, labels, given, "amax"))
    offset = given - largest.index_select(0, labels)
    mean = dist.total(zeros.index_add(0, labels, offset)).div_(size)
    squares = offset.sub_(mean.index_select(0, labels)).square_()
    deviation = dist.total(zeros.index_add_(0, labels, squares)).div_(size).sqrt_()
    return mean.add_(largest).add_(deviation, alpha=kappa)


def midpoint_thresholds(probs: Tensor, labels: Tensor) -> Tensor:
    """Halfway between the means of the probabilities above and below their mean, class by class.

    Where one of the two parts is empty (all probabilities equal) the threshold is 0: keep all.
    """
    if dist.world() > 1:
        return _joined_midpoint_thresholds(probs)
    size = len(probs)
    if probs.numel() < SMALL or not probs.is_cpu:
        upper = reaches(probs, probs.mean(dim=0))
        above = upper.sum(dim=0)
        below = size - above
        high = probs * upper
        highs, lows = high.sum(dim=0), torch.sub(probs, high, out=high).sum(dim=0)
        return highs.div_(above).lerp_(lows.div_(below), 0.5).masked_fill_(below == 0, 0)
    total, above, raised, bar = halves(probs)
    below = size - above
    highs = raised.addcmul_(below, bar, value=-1)
    lows = total.sub_(highs)
    # (highs / above + lows / below) / 2; where one is empty, 0.
    both = above * below
    middle = highs.mul_(below).addcmul_(lows, above).div_(both.clamp(min=1).mul_(2))
    return middle.mul_(both > 0).to(probs.dtype)


def _joined_batch_thresholds(probs: Tensor, kappa: float) -> Tensor:
    """`batch_thresholds` over the samples of all processes."""
    size, mean = _joined_mean(probs)
    squares = dist.total((probs - mean).square().sum(dim=0))
    # Of one sample in all: 0 / 0, NaN, which nothing reaches.
    deviation = torch.sqrt(squares / (size - 1))
    return mean.add(deviation, alpha=kappa).to(probs.dtype)


def _joined_midpoint_thresholds(probs: Tensor) -> Tensor:
    """`midpoint_thresholds` over the samples of all processes."""
    size, mean = _joined_mean(probs)
    upper = reaches(probs, mean.to(probs.dtype))
    wide = probs.double()
    sums = torch.stack([upper.double(), wide * upper, wide * ~upper]).sum(dim=1)
    above, highs, lows = dist.total(sums).unbind()
    below = size - above
    middle = highs.div(above).lerp(lows.div(below), 0.5)
    return middle.masked_fill(below == 0, 0).to(probs.dtype)


def _joined_mean(probs: Tensor) -> tuple[Tensor, Tensor]:
    """How many samples all processes have, and their means by class, in float64."""
    sums = probs.new_zeros(probs.shape[1] + 1, dtype=torch.float64)
    sums[:-1], sums[-1] = probs.sum(dim=0, dtype=torch.float64), len(probs)
    dist.total(sums)
    return sums[-1], sums[:-1] / sums[-1]


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
    labels = _long(labels)
    probs = probs.detach().to(_wide(probs.dtype))
    if rule.kappa is None:
        return rule.of(probs, labels)
    return rule.of(probs, labels, rule.kappa if kappa is None else kappa)


def select(probs: Tensor, labels: Tensor, thresholds: Tensor) -> Tensor:
    """Which samples to keep: those whose given label's probability reaches its threshold."""
    labels = _long(labels)
    given = _given(probs.detach(), labels).to(thresholds.dtype)
    return reaches(given, thresholds.index_select(0, labels))


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
        probs, labels = probs.detach(), _long(labels)
        bars = thresholds(probs, labels, kappa=self.kappa, threshold=self.threshold)
        given = _given(probs, labels)
        keep = reaches(given.to(bars.dtype), bars.index_select(0, labels))
        return Verdict(given, keep, keep.to(probs.dtype), {"thresholds": bars})

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
    return probs.gather(1, labels.unsqueeze(1)).squeeze(1)


def _long(labels: Tensor) -> Tensor:
    """Labels as indices."""
    return labels if labels.dtype == torch.long else labels.long()


@cache
def _wide(dtype: torch.dtype) -> torch.dtype:
    """The precision of statistics on such probabilities."""
    return torch.promote_types(dtype, torch.float32)
