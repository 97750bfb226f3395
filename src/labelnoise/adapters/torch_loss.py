"""BARE as a PyTorch criterion, for training loops of one's own."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn

from labelnoise import dist
from labelnoise.errors import LabelNoiseError, unknown
from labelnoise.losses import cross_entropy, weighted_mean
from labelnoise.methods.bare import check_batch
from labelnoise.rules import DEFAULT, check_rule, new_rule
from labelnoise.rules.verdict import Rule

REDUCTIONS = ("mean", "sum", "none")
SCOPES = ("global", "local")
TELLING = ("rule.votes", "rule.mean")  # what is remembered of every class, by one rule or another


class BARELoss(nn.Module):
    """Cross-entropy on the labels that BARE trusts; a drop-in for `nn.CrossEntropyLoss`.

    The gradient is that of cross-entropy with a weight for every sample: 0 or 1 by a threshold,
    anything between while `"evidence"` cannot tell yet. Where all weights of a batch are 0 it
    counts whole, as in the authors' released code.

    The evidence is part of `state_dict`; it grows in training mode only, and not under
    `torch.no_grad()`. Where several processes train together, all of them add to it: each must call
    it equally often.

    Args:
        kappa: How many deviations above the mean a sample must be, for `"batch"` and `"class"`,
            remembered or not; 1 by default.
        threshold: `"evidence"`, the published `"batch"` and `"class"`, these over many batches
            (`"batch-remembered"`, `"class-remembered"`), or `"midpoint"` and `"posterior"`, to
            compare with.
        reduction: The weighted `"mean"`, the weighted `"sum"`, or `"none"` for one value a sample,
            times its weight.
        samples: How many samples the training set has; `"evidence"` then counts all of them in the
            first pass, as `BARE` does. Without, it judges from the second batch on.
        scope: Where several processes train one network (DistributedDataParallel), statistics and
            the `"mean"` are those of all their mini-batches (`"global"`), or of each its own
            (`"local"`, which sends nothing).

    Attributes:
        selected: (batch,) boolean, the labels of the last batch that were taken for right.
        score: (batch,) what they were judged by; with `"evidence"` the probability that each label
            is right.
        weight: (batch,) how much each sample of it counted.
    """

    def __init__(
        self,
        kappa: float | None = None,
        threshold: str = DEFAULT,
        reduction: Literal["mean", "sum", "none"] = "mean",
        samples: int = 0,
        scope: Literal["global", "local"] = "global",
    ) -> None:
        super().__init__()
        if reduction not in REDUCTIONS:
            raise unknown("reduction", reduction, REDUCTIONS)
        if scope not in SCOPES:
            raise unknown("scope", scope, SCOPES)
        check_rule(threshold, kappa)
        self.kappa = kappa
        self.threshold = threshold
        self.reduction = reduction
        self.samples = samples
        self.scope = scope
        self.rule: Rule | None = None
        self.selected: Tensor | None = None
        self.score: Tensor | None = None
        self.weight: Tensor | None = None
        self._calls = 0

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of a batch: (batch, classes) logits and (batch,) given labels."""
        self._calls += 1
        try:
            check_batch(logits, labels, "logits")
        except LabelNoiseError as error:
            raise LabelNoiseError(f"BARELoss, call {self._calls}: {error}") from None
        labels = labels.long()
        rule = self._begin(logits.shape[1], logits.device)
        log_probs = logits.log_softmax(dim=1)
        probs = log_probs.detach().exp()
        # Many loops put the network into evaluation mode alone: there is no gradient then either.
        # And they may evaluate in one process while the others wait: that one asks nobody.
        learns = self.training and torch.is_grad_enabled()
        with nullcontext() if learns and self.scope == "global" else dist.alone():
            verdict = rule.judge(probs, labels)
            if learns:
                rule.remember(probs, labels.clone(), verdict)  # the loop may change its own
            empty = dist.nowhere(verdict.weight)
            self.score, self.weight = verdict.score, verdict.weight + empty
            self.selected = verdict.keep | empty
            losses = cross_entropy(log_probs, labels)
            if self.reduction == "mean":
                return weighted_mean(losses, self.weight)
        losses = losses * self.weight.to(losses.dtype)
        return losses.sum() if self.reduction == "sum" else losses

    def extra_repr(self) -> str:
        """What `print` shows."""
        return (
            f"kappa={self.kappa}, threshold={self.threshold!r}, reduction={self.reduction!r}, "
            f"samples={self.samples}, scope={self.scope!r}"
        )

    def _begin(self, classes: int, device: torch.device) -> Rule:
        """The rule, made as soon as the number of classes is known, where the logits are."""
        if self.rule is None:
            # The first batch may be one of a validation: what is made there must learn later.
            with torch.inference_mode(mode=False):
                self.rule = new_rule(
                    self.threshold,
                    self.kappa,
                    num_classes=classes,
                    samples=self.samples,
                    device=device,
                )
        elif isinstance(self.rule, nn.Module) and next(self.rule.buffers()).device != device:
            self.rule.to(device)
        return self.rule

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        """What a checkpoint remembers tells how many classes there are."""
        for name in TELLING:
            by_class = state.get(f"{prefix}{name}")
            if by_class is not None:
                self._begin(len(by_class), by_class.device)
        super()._load_from_state_dict(state, prefix, *rest)
