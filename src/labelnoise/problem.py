"""Problem: what is known before training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from labelnoise.errors import LabelNoiseError, noise_rate_lies_in_range

if TYPE_CHECKING:
    from labelnoise.data.train import Train
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
        trusted: Samples whose labels are verified, where there are any.
    """

    labels: Tensor
    num_classes: int
    new_learner: Callable[[], Learner]
    generator: torch.Generator
    noise_rate: float | None = None
    trusted: Train | None = None

    def rate(self, told: float | None, method: str) -> float:
        """The noise rate for a method that needs one: what it was told, else what is known."""
        rate = self.noise_rate if told is None else told
        if rate is None:
            raise no_rate(method)
        noise_rate_lies_in_range(rate)
        return rate

    def verified(self, method: str) -> Train:
        """The trusted set for a method that needs one."""
        if self.trusted is None:
            raise no_trusted(method)
        return self.trusted


def no_rate(method: str) -> LabelNoiseError:
    """The error for a method that is told no noise rate."""
    return LabelNoiseError(
        f"{method} needs the noise rate: pass --noise-rate R, or --noise-rate auto to estimate it"
    )


def no_trusted(method: str) -> LabelNoiseError:
    """The error for a method that has no trusted set."""
    return LabelNoiseError(
        f"{method} needs a trusted set: pass --trusted FILE with verified samples, or --trusted N "
        "if you vouch for N of the labels as they are"
    )
