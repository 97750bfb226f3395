"""A small problem to try a method on, and what is asked of it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from labelnoise import Batch, Learner, Method, Problem
from labelnoise.data.train import Train
from labelnoise.learner import Recipe
from labelnoise.seeds import stream

SAMPLES = 60

AnyMethod = TypeVar("AnyMethod", bound=Method)


def small_problem(
    build: Callable[[], nn.Module],
    num_classes: int,
    *,
    seed: int = 0,
    noise_rate: float | None = None,
    trusted: Train | None = None,
    **recipe: Any,
) -> Problem:
    """Networks of `build` under SGD with momentum, unless the recipe says otherwise."""
    recipe = {"optimiser": "sgd", "lr": 0.1, "schedule": "constant", **recipe}
    return Problem(
        labels=torch.arange(SAMPLES) % num_classes,
        num_classes=num_classes,
        new_learner=lambda: Learner(build(), Recipe(**recipe)),
        generator=stream(seed, "method"),
        noise_rate=noise_rate,
        trusted=trusted,
    )


def random_samples(
    chance: torch.Generator, rows: int, features: int, classes: int
) -> tuple[Tensor, Tensor]:
    """Inputs and labels that have nothing to do with each other."""
    inputs = torch.randn(rows, features, generator=chance, dtype=torch.float64)
    return inputs, torch.randint(classes, (rows,), generator=chance)


def random_batch(seed: int, rows: int, features: int, classes: int, time: float = 0.0) -> Batch:
    """Random samples, at random places of the data set."""
    chance = torch.Generator().manual_seed(seed)
    inputs, labels = random_samples(chance, rows, features, classes)
    return Batch((inputs,), labels, torch.randperm(SAMPLES, generator=chance)[:rows], time)


def set_up(method: AnyMethod, told: Problem) -> AnyMethod:
    """The method, ready for its first step."""
    method.setup(told)
    return method


def weights(module: nn.Module) -> list[Tensor]:
    """The parameters as they are now."""
    return [parameter.detach().clone() for parameter in module.parameters()]


def largest_difference(one: list[Tensor], other: list[Tensor]) -> float:
    """Between numbers at the same place."""
    assert len(one) == len(other) > 0
    return max(float((a - b).abs().max()) for a, b in zip(one, other, strict=True))


def mask(chosen: list[int], rows: int) -> list[float]:
    """1 at the chosen places, else 0."""
    return [float(i in chosen) for i in range(rows)]
