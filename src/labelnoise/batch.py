"""Batch and Step: the two records that flow between the data, a method and the tally."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """What a method may see of a mini-batch; the true labels are not in it.

    Attributes:
        views: One (batch, ...) tensor per augmentation that the method asked for.
        labels: (batch,) labels as given, noise included.
        index: (batch,) rows of the training set.
        time: Epochs elapsed when the batch was drawn, fractional.
    """

    views: tuple[Tensor, ...]
    labels: Tensor
    index: Tensor
    time: float

    @property
    def inputs(self) -> Tensor:
        """The first view, for the many methods that want only one."""
        return self.views[0]


@dataclass(frozen=True)
class Step:
    """What a method reports of one update; all of it detached and not yet read by the host.

    Attributes:
        index: (batch,) rows of the training set.
        weight: (batch,) how much each sample counted in the update.
        loss: Scalar that was minimised; NaN or infinite if any sample's loss was.
        probs: (batch, classes) probabilities before the update, for the per-sample record.
        notes: What else is worth keeping: `thresholds` (classes,), `empty` scalar 0 or 1,
            `noise_rate` scalar, what the method takes it for.
        keep: (batch,) boolean, the labels that the method takes for right; by default those of the
            samples that counted.
        score: (batch,) how likely each label is right, where the method can tell.
    """

    index: Tensor
    weight: Tensor
    loss: Tensor
    probs: Tensor | None = None
    notes: Mapping[str, Tensor] = field(default_factory=dict)
    keep: Tensor | None = None
    score: Tensor | None = None
