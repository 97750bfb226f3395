"""Networks and a small problem with a trusted set, for methods that learn from one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from labelnoise import Batch, Problem
from labelnoise.data.scale import Scaling
from labelnoise.data.train import Train

from .small import random_batch, random_samples, small_problem

FEATURES, CLASSES, ROWS, TRUSTED = 6, 4, 18, 10
LR = 0.1


def linear() -> nn.Linear:
    """Softmax regression."""
    torch.manual_seed(0)
    return nn.Linear(FEATURES, CLASSES, dtype=torch.float64)


def mlp() -> nn.Module:
    """Two hidden layers, one of them smooth."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(FEATURES, 9), nn.ReLU(), nn.Linear(9, 7), nn.Tanh(), nn.Linear(7, CLASSES)
    ).double()


def with_norm() -> nn.Module:
    """A convolution with BatchNorm."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Unflatten(1, (1, FEATURES)),
        nn.Conv1d(1, 3, 3, padding=1),
        nn.BatchNorm1d(3),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Flatten(),
        nn.Linear(9, CLASSES),
    ).double()


def frozen() -> nn.Module:
    """Whose first weights are not trained."""
    made = mlp()
    next(made.parameters()).requires_grad_(False)
    return made


class TwoHeads(nn.Module):
    """Of which one takes no part in the prediction."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.other = linear(), linear()

    def forward(self, inputs: Tensor) -> Tensor:
        """The scores of the first head."""
        scores: Tensor = self.head(inputs)
        return scores


def trusted_set(inputs: Tensor, labels: Tensor, batch_size: int) -> Train:
    """Samples with true labels, taken as they are."""
    zero = torch.tensor(0.0, dtype=torch.float64)
    return Train(inputs, labels, Scaling(zero, zero + 1), batch_size, seed=0)


def trusted_train(seed: int = 99) -> Train:
    """A random trusted set."""
    chance = torch.Generator().manual_seed(seed)
    return trusted_set(*random_samples(chance, TRUSTED, FEATURES, CLASSES), batch_size=4)


def problem(
    build: Callable[[], nn.Module] = mlp,
    trusted: Train | None = None,
    seed: int = 0,
    **recipe: Any,
) -> Problem:
    """A small problem with a trusted set."""
    trusted = trusted_train() if trusted is None else trusted
    return small_problem(build, CLASSES, seed=seed, trusted=trusted, **{"lr": LR, **recipe})


def batch(seed: int = 0) -> Batch:
    """A random batch."""
    return random_batch(seed, ROWS, FEATURES, CLASSES)


def trainable(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by name."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}
