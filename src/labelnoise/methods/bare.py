"""BARE, batch reweighting: Patel and Sastry, WACV 2023, arXiv 2106.15292.

A sample takes part in the update only if the network's probability for its given label reaches a
threshold that the mini-batch itself sets. It needs no noise rate, no trusted data, no second
network and no warm-up.

Deviations, and where paper and released code disagree (register in docs/methods.md):
- `threshold="batch"` takes mean and deviation of a class's probability over the whole batch, as the
  released code does; only this one reproduces the paper's tables. `threshold="class"` takes them
  over the samples labelled with the class, as Algorithm 1 is printed. `threshold="midpoint"` is
  ours and has no kappa.
- Probabilities are not clamped to [1e-8, 1 - 1e-8], which changes decisions near 0 and 1.
- Comparisons allow for rounding, so that exact ties come out the same on every machine.
- A batch in which nothing is selected is trained on whole, as in the released code
  (`empty="all"`), or skipped (`empty="skip"`); the paper does not say. Such batches are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from labelnoise.batch import Batch, Step
from labelnoise.errors import LabelNoiseError, unknown
from labelnoise.losses import cross_entropy, weighted_mean
from labelnoise.method import Method

TOLERANCE = 8  # units in the last place, relative to the value compared with
SMALL = 4096  # probabilities in a batch from which on many simple passes beat a clever one
EMPTY = ("all", "skip")


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
    upper = _reaches(probs, probs.mean(dim=0))
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
    return _reaches(given, thresholds.index_select(0, labels.long()))


def bare_select(
    probs: Tensor, labels: Tensor, *, kappa: float | None = None, threshold: str = "batch"
) -> Tensor:
    """BARE's selection: which samples of a batch take part in the update.

    Args:
        probs: (batch, classes) class probabilities, of any floating dtype, on any device.
        labels: (batch,) given labels, integers in [0, classes).
        kappa: How many deviations above the mean; 1 by default. An error with `"midpoint"`.
        threshold: `"batch"` (the released code; reproduces the paper's tables), `"class"`
            (Algorithm 1 as printed) or `"midpoint"` (ours).

    Returns:
        (batch,) boolean mask.
    """
    check_batch(probs, labels, "probs")
    if not bool(((probs >= 0) & (probs <= 1 + 1e-2)).all()):
        raise LabelNoiseError("probs must lie in [0, 1]: apply softmax to logits first")
    return select(probs, labels, thresholds(probs, labels, kappa=kappa, threshold=threshold))


@dataclass
class BARE(Method):
    """Train on the samples that reach their class's threshold in the mini-batch.

    Attributes:
        threshold: `"batch"`, `"class"` or `"midpoint"`.
        kappa: How many deviations above the mean; `None` is the threshold's own, the paper's 1.
        empty: What to do with a batch in which nothing is selected: `"all"` or `"skip"`.
    """

    threshold: str = "batch"
    kappa: float | None = None
    empty: str = "all"

    def __post_init__(self) -> None:
        """Refuse what does not exist."""
        rule = _rule(self.threshold, self.kappa)
        self.kappa = rule.kappa if self.kappa is None else self.kappa
        if self.empty not in EMPTY:
            raise unknown("value of empty", self.empty, EMPTY)

    def step(self, batch: Batch) -> Step:
        """One forward pass serves the thresholds, the selection and the loss."""
        log_probs = self.learner.logits(batch.inputs).log_softmax(dim=1)
        probs = log_probs.detach().exp()
        bars = self._thresholds(probs, batch.labels)
        keep = select(probs, batch.labels, bars)
        chosen = keep.any()
        weight = (keep | ~chosen if self.empty == "all" else keep).to(log_probs.dtype)
        loss = weighted_mean(cross_entropy(log_probs, batch.labels), weight)
        # Only "skip" asks the host: a step on a zero loss would still move Adam by its momentum.
        if self.empty == "all" or bool(chosen):
            self.learner.descend(loss)
        return Step(
            index=batch.index,
            weight=weight,
            loss=loss.detach(),
            probs=probs,
            notes={"thresholds": bars, "empty": ~chosen},
        )

    def validation_loss(self, log_probs: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy over the validation samples that pass the rule, as in the released code."""
        probs = log_probs.exp()
        keep = select(probs, labels, self._thresholds(probs, labels))
        return weighted_mean(cross_entropy(log_probs, labels), (keep | ~keep.any()).float())

    def _thresholds(self, probs: Tensor, labels: Tensor) -> Tensor:
        return thresholds(probs, labels, kappa=self.kappa, threshold=self.threshold)


def check_batch(scores: Tensor, labels: Tensor, name: str) -> None:
    """Refuse scores and labels that are no batch; `name` is what the caller calls the scores."""
    if not (isinstance(scores, Tensor) and isinstance(labels, Tensor)):
        raise LabelNoiseError(f"{name} and labels must be tensors: torch.as_tensor makes them so")
    if scores.ndim != 2 or not scores.is_floating_point():
        raise LabelNoiseError(
            f"{name} must be a floating tensor of shape (batch, classes), "
            f"got {scores.dtype} of shape {tuple(scores.shape)}"
        )
    if labels.is_floating_point() or labels.dtype == torch.bool or labels.is_complex():
        raise LabelNoiseError(f"labels must be integers, got {labels.dtype}")
    if labels.shape != scores.shape[:1]:
        raise LabelNoiseError(
            f"labels must have shape ({len(scores)},) to match {name}, got {tuple(labels.shape)}"
        )
    if not bool(torch.isfinite(scores).all()):
        raise LabelNoiseError(f"{name} contain NaN or infinite values: nothing can be selected")
    if bool(((labels < 0) | (labels >= scores.shape[1])).any()):
        raise LabelNoiseError(
            f"labels must lie in [0, {scores.shape[1]}), "
            f"got {int(labels.min())} to {int(labels.max())}"
        )


def _rule(threshold: str, kappa: float | None) -> Threshold:
    if threshold not in THRESHOLDS:
        raise unknown("threshold", threshold, THRESHOLDS)
    rule = THRESHOLDS[threshold]
    if rule.kappa is None and kappa is not None:
        raise LabelNoiseError(f"threshold {threshold!r} has no kappa: leave kappa out")
    if kappa is not None and not (isinstance(kappa, int | float) and math.isfinite(kappa)):
        raise LabelNoiseError(f"kappa must be a finite number, got {kappa}")
    return rule


def _given(probs: Tensor, labels: Tensor) -> Tensor:
    """The probability of every sample's given label."""
    return probs.gather(1, labels.long().unsqueeze(1)).squeeze(1)


def _reaches(value: Tensor, bar: Tensor) -> Tensor:
    """Whether a value that is not negative is at least `bar`, up to what rounding may have done."""
    return value * (1 + TOLERANCE * torch.finfo(value.dtype).eps) >= bar
