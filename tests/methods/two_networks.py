"""A small problem for methods with two networks, each of them a softmax regression at first."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from labelnoise import Batch, Problem

from .small import random_batch, small_problem

FEATURES, CLASSES, ROWS = 5, 3, 14


def linear(number: int) -> nn.Linear:
    """Softmax regression, another one for every number."""
    torch.manual_seed(number)
    return nn.Linear(FEATURES, CLASSES, dtype=torch.float64)


def problem(
    build: Callable[[int], nn.Module] = linear, noise_rate: float | None = 0.4, **recipe: Any
) -> Problem:
    """Its networks are numbered from 0."""
    numbers = itertools.count()
    return small_problem(lambda: build(next(numbers)), CLASSES, noise_rate=noise_rate, **recipe)


def batch(seed: int, time: float = 0.0, rows: int = ROWS) -> Batch:
    """A random batch."""
    return random_batch(seed, rows, FEATURES, CLASSES, time)
