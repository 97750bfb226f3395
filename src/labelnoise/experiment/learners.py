"""The networks of a run, each initialised from the run's seed."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch

from labelnoise import nets
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.spec import Spec
from labelnoise.learner import Learner
from labelnoise.seeds import derive


def new_learners(
    spec: Spec, shape: tuple[int, ...], num_classes: int, device: torch.device | str = "cpu"
) -> Callable[[], Learner]:
    """A maker of learners, each initialised from the run's seed and its number, nothing else."""
    numbers = itertools.count()
    build = nets.net_named(spec.net)

    def new_learner() -> Learner:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(spec.seed, "init", next(numbers)))
            try:
                network = build(shape, num_classes)
            except TypeError as error:
                raise LabelNoiseError(f"cannot build net {spec.net!r}: {error}") from error
        nets.check(network, shape, num_classes, spec.net)
        return Learner(network.to(device), spec.training.recipe())

    return new_learner
