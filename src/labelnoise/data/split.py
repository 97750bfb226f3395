"""Which rows train, which validate, which test."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Split = Callable[[Tensor, torch.Generator], tuple[Tensor, Tensor]]
"""Labels and a generator in, training rows and validation rows out."""

TRAIN_FRACTION = 0.8  # of the paper's split
VALIDATION_PER_CLASS = 100
HELD_OUT = 0.1  # of one's own data, for validation
TEST_FRACTION = 0.2  # of one's own data without a test part


def paper_split(labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """80 % of the rows for training; 100 rows a class of the others for validation."""
    order = torch.randperm(len(labels), generator=generator)
    cut = int(TRAIN_FRACTION * len(labels))
    train, rest = order[:cut], order[cut:]
    return train, rest[rank_in_class(labels[rest]) < VALIDATION_PER_CLASS]


def stratified_split(
    labels: Tensor, generator: torch.Generator, fraction: float = HELD_OUT
) -> tuple[Tensor, Tensor]:
    """Set aside `fraction` of every class, rounded down but never a class's only row."""
    order = torch.randperm(len(labels), generator=generator)
    shuffled = labels[order]
    size = torch.bincount(shuffled)
    # At least one row of every class that has two, so that each class is seen in both parts.
    share = torch.where(size > 1, (size * fraction).long().clamp(min=1), 0)
    held_out = rank_in_class(shuffled) < share[shuffled]
    return order[~held_out], order[held_out]


def rank_in_class(labels: Tensor) -> Tensor:
    """How many earlier rows have the same label."""
    by_class = torch.argsort(labels, stable=True)
    size = torch.bincount(labels)
    first = torch.cumsum(size, 0) - size
    rank = torch.empty_like(labels)
    rank[by_class] = torch.arange(len(labels)) - first[labels[by_class]]
    return rank
