"""How well a selection finds the right labels."""

from __future__ import annotations

from torch import Tensor


def label_precision(selected: Tensor, right: Tensor) -> Tensor:
    """The fraction of the selected labels that is right; NaN where nothing is selected."""
    return (selected & right).sum().double() / selected.sum()


def label_recall(selected: Tensor, right: Tensor) -> Tensor:
    """The fraction of the right labels that is selected; NaN where none is right."""
    return (selected & right).sum().double() / right.sum()


def selected_fraction(selected: Tensor) -> Tensor:
    """The fraction of the samples that is selected."""
    return selected.double().mean()
