"""The networks of a run, each initialised from the run's seed."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch

from labelnoise import nets
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.spec import Spec
from labelnoise.learner import Learner, Recipe
from labelnoise.seeds import derive


def new_learners(
    spec: Spec, shape: tuple[int, ...], num_classes: int, device: torch.device | str = "cpu"
) -> Callable[[], Learner]:
    """A maker of a run's learners."""
    build = nets.net_named(spec.net)
    recipe = spec.training.recipe()
    return initialised(build, spec.net, shape, num_classes, recipe, spec.seed, device)


def initialised(
    build: nets.Build,
    name: str,
    shape: tuple[int, ...],
    num_classes: int,
    recipe: Recipe,
    seed: int,
    device: torch.device | str = "cpu",
) -> Callable[[], Learner]:
    """A maker of learners, each initialised from `seed` and its number, nothing else."""
    numbers = itertools.count()

    def new_learner() -> Learner:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(seed, "init", next(numbers)))
            try:
                network = build(shape, num_classes)
            except TypeError as error:
                raise LabelNoiseError(f"cannot build net {name!r}: {error}") from error
        nets.check(network, shape, num_classes, name)
        return Learner(network.to(device), recipe)

    return new_learner
