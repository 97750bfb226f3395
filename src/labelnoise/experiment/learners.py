"""The networks of a run, each initialised from the run's seed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn

from labelnoise import nets
from labelnoise.data.directory import data_directory
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.spec import Spec
from labelnoise.learner import Learner, Recipe
from labelnoise.nets.weights import Weights
from labelnoise.seeds import derive


def new_learners(
    spec: Spec,
    shape: tuple[int, ...],
    num_classes: int,
    device: torch.device | str = "cpu",
    weights: Weights | None = None,
) -> Callable[[], Learner]:
    """A maker of a run's learners.

    Args:
        spec: The run.
        shape: Of one input as stored; a network may see less of it.
        num_classes: How many classes there are.
        device: Where to train.
        weights: What each begins with, if not with chance alone; a trained one needs none.
    """
    build = nets.net_named(spec.net)
    if weights is not None:
        build = _beginning_with(weights, build)
    seen, recipe = spec.training.sees(shape), spec.training.recipe()
    return initialised(build, spec.net, seen, num_classes, recipe, spec.seed, device)


def weights_file(spec: Spec, data_dir: Path | None = None) -> Path | None:
    """Where the weights are that a run begins with: as named, or in the data directory."""
    name = spec.training.weights
    if name is None:
        return None
    directory = data_directory(data_dir)
    for path in (Path(name).expanduser(), directory / name):
        if path.is_file():
            return path
    net = nets.NETS.get(spec.net)
    source = f" ({net.weights}, or timm's)" if net and net.weights else ""
    raise LabelNoiseError(
        f"no weights {name!r}, neither here nor in {directory}: put the file there{source}, or "
        "begin with chance: weights none"
    )


def _beginning_with(weights: Weights, build: nets.Build) -> nets.Build:
    def built(shape: Sequence[int], num_classes: int) -> nn.Module:
        network = build(shape, num_classes)
        return weights.into(network) if isinstance(network, nn.Module) else network

    return built


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
