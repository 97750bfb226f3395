"""How often predictions are right."""

from __future__ import annotations

import torch
from torch import Tensor


def accuracy(predicted: Tensor, labels: Tensor) -> Tensor:
    """The fraction of right predictions."""
    return (predicted == labels).double().mean()


def balanced_accuracy(predicted: Tensor, labels: Tensor, num_classes: int) -> Tensor:
    """The mean over the classes that occur of the fraction of right predictions in each."""
    size = torch.bincount(labels, minlength=num_classes).double()
    right = torch.bincount(labels[predicted == labels], minlength=num_classes).double()
    occurs = size > 0
    return (right[occurs] / size[occurs]).mean()
