"""BARE as a PyTorch criterion, for training loops of one's own."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from labelnoise.errors import LabelNoiseError, unknown
from labelnoise.losses import cross_entropy, weighted_mean
from labelnoise.methods.bare import BARE, check_batch, select, thresholds

REDUCTIONS = ("mean", "sum", "none")


class BARELoss(nn.Module):
    """Cross-entropy on the samples that BARE selects; a drop-in for `nn.CrossEntropyLoss`.

    The gradient is that of cross-entropy on the selected samples alone. A batch in which nothing is
    selected counts whole, as in the authors' released code.

    Args:
        kappa: How many deviations above the mean a sample must be; 1 by default.
        threshold: `"batch"`, `"class"` or `"midpoint"` (which has no kappa).
        reduction: `"mean"` over the selected samples, their `"sum"`, or `"none"` for one value a
            sample, 0 for those left out.

    Attributes:
        selected: (batch,) boolean, which samples of the last batch took part.
    """

    def __init__(
        self,
        kappa: float | None = None,
        threshold: str = "batch",
        reduction: Literal["mean", "sum", "none"] = "mean",
    ) -> None:
        super().__init__()
        if reduction not in REDUCTIONS:
            raise unknown("reduction", reduction, REDUCTIONS)
        BARE(threshold=threshold, kappa=kappa)  # refuses what does not exist
        self.kappa = kappa
        self.threshold = threshold
        self.reduction = reduction
        self.selected: Tensor | None = None
        self._calls = 0

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of a batch: (batch, classes) logits and (batch,) given labels."""
        self._calls += 1
        try:
            check_batch(logits, labels, "logits")
        except LabelNoiseError as error:
            raise LabelNoiseError(f"BARELoss, call {self._calls}: {error}") from None
        labels = labels.long()
        log_probs = logits.log_softmax(dim=1)
        probs = log_probs.detach().exp()
        bars = thresholds(probs, labels, kappa=self.kappa, threshold=self.threshold)
        keep = select(probs, labels, bars)
        self.selected = keep | ~keep.any()
        losses, weight = cross_entropy(log_probs, labels), self.selected.to(logits.dtype)
        if self.reduction == "mean":
            return weighted_mean(losses, weight)
        losses = losses * weight
        return losses.sum() if self.reduction == "sum" else losses

    def extra_repr(self) -> str:
        """What `print` shows."""
        return f"kappa={self.kappa}, threshold={self.threshold!r}, reduction={self.reduction!r}"
