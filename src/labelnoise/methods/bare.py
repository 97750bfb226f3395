"""BARE, batch reweighting: Patel and Sastry, WACV 2023, arXiv 2106.15292.

A sample takes part in the update only if the network's probability for its given label reaches a
threshold that the mini-batch itself sets. It needs no noise rate, no trusted data, no second
network and no warm-up.

Deviations, and where paper and released code disagree (register in docs/methods.md):
- `threshold="evidence"`, the default, is ours: instead of a threshold, the probability that the
  label is right, and a weight instead of a cut where that cannot be told yet (docs/rule.md).
- `threshold="batch"` takes mean and deviation of a class's probability over the whole batch, as the
  released code does; only this one reproduces the paper's tables. `threshold="class"` takes them
  over the samples labelled with the class, as Algorithm 1 is printed. `threshold="midpoint"` is
  ours and has no kappa. `"batch-remembered"` and `"class-remembered"` are the published ones over
  many mini-batches instead of one, for many classes.
- Probabilities are not clamped to [1e-8, 1 - 1e-8], which changes decisions near 0 and 1.
- Comparisons allow for rounding, so that exact ties come out the same on every machine.
- A batch in which nothing is selected is trained on whole, as in the released code
  (`empty="all"`), or skipped (`empty="skip"`); the paper does not say. Such batches are counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelnoise import dist
from labelnoise.batch import Batch, Step
from labelnoise.errors import LabelNoiseError, unknown
from labelnoise.losses import cross_entropy, weighted_mean
from labelnoise.method import Method
from labelnoise.passes import Passes, check_backward
from labelnoise.problem import Problem
from labelnoise.rules import DEFAULT, check_rule, new_rule
from labelnoise.rules.thresholds import select, thresholds
from labelnoise.rules.verdict import or_all

EMPTY = ("all", "skip")


@dataclass
class BARE(Method):
    """Train on the labels that a rule trusts, as far as it trusts them.

    Attributes:
        threshold: `"evidence"`, the published `"batch"` and `"class"`, these over many batches
            (`"batch-remembered"`, `"class-remembered"`), or `"midpoint"` and `"posterior"`, to
            compare with.
        kappa: How many deviations above the mean; `None` is the threshold's own, the paper's 1.
        empty: What to do with a batch in which nothing is selected: `"all"` or `"skip"`.
        backward: Which samples go backward: all (`"full"`), those that count (`"selected"`), or
            what is cheaper (`"auto"`).
    """

    threshold: str = DEFAULT
    kappa: float | None = None
    empty: str = "all"
    backward: str = "auto"

    def __post_init__(self) -> None:
        """Refuse what does not exist."""
        self.kappa = check_rule(self.threshold, self.kappa)
        if self.empty not in EMPTY:
            raise unknown("value of empty", self.empty, EMPTY)
        check_backward(self.backward)

    def setup(self, problem: Problem) -> None:
        """One network, and a rule that has seen nothing yet."""
        super().setup(problem)
        self.passes = Passes(self.learner, self.backward)
        self.rule = new_rule(
            self.threshold,
            self.kappa,
            num_classes=problem.num_classes,
            samples=len(problem.labels),
            device=problem.labels.device,
        )

    def step(self, batch: Batch) -> Step:
        """Judge the labels by what the network makes of them, learn from those that count."""
        log_probs = self.passes.look(batch.inputs)
        probs = log_probs.detach().exp()
        verdict = self.rule.judge(probs, batch.labels)
        self.rule.remember(probs, batch.labels, verdict)
        weight, keep = verdict.weight, verdict.keep
        empty = dist.nowhere(weight)
        if self.empty == "all":
            weight, keep = weight + empty, keep | empty
        loss = weighted_mean(cross_entropy(log_probs, batch.labels), weight)
        # Only "skip" asks the host: a step on a zero loss would still move Adam by its momentum.
        # Where others may count samples that nobody here knows of, it is theirs.
        if self.empty == "all" or dist.stands_for() > 1 or not bool(empty):
            self.passes.descend(loss, weight)
        return Step(
            index=batch.index,
            weight=weight,
            loss=loss.detach(),
            keep=keep,
            probs=probs,
            notes={**verdict.notes, "empty": empty},
            score=verdict.score,
        )

    def validation_loss(self, log_probs: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy over the validation samples as the rule weighs them (released code)."""
        weight = self.rule.judge(log_probs.exp(), labels).weight
        return weighted_mean(cross_entropy(log_probs, labels), or_all(weight))


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
    with dist.alone():
        bars = thresholds(probs, labels, kappa=kappa, threshold=threshold)
    return select(probs, labels, bars)


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
