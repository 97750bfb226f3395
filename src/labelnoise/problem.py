"""Problem: what is known before training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from labelnoise.batch import Batch
    from labelnoise.learner import Learner


@dataclass(frozen=True)
class Problem:
    """What a method is told once, before the first step.

    Attributes:
        labels: (rows,) labels of the training set as given.
        num_classes: How many classes there are.
        new_learner: Makes a network with its optimiser; each call initialises another one.
        generator: The method's own source of chance.
        noise_rate: Fraction of wrong labels, where it is known.
        trusted: Endless batches with verified labels, where there are any.
    """

    labels: Tensor
    num_classes: int
    new_learner: Callable[[], Learner]
    generator: torch.Generator
    noise_rate: float | None = None
    trusted: Iterator[Batch] | None = None
