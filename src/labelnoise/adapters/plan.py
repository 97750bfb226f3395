"""Plan: a method and a network as users of an estimator give them, ready to be trained."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from labelnoise import nets
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.learners import initialised
from labelnoise.experiment.predict import restored
from labelnoise.experiment.spec import build_method, presets
from labelnoise.learner import Learner, Recipe
from labelnoise.method import Method


@dataclass(frozen=True)
class Plan:
    """What was trained: enough to make the networks again for a state that comes from a file.

    Attributes:
        method: Before its training.
        module: As the user gave it.
        recipe: How a network is optimised.
        rows: How many were trained on.
        shape: Of one input.
        classes: How many there are.
    """

    method: Method
    module: Any
    recipe: Recipe
    rows: int
    shape: tuple[int, ...]
    classes: int

    def learners(self, seed: int, device: torch.device | str = "cpu") -> Callable[[], Learner]:
        """A maker of learners, each initialised from the seed."""
        build, name = _builder(self.module, self.shape)
        return initialised(build, name, self.shape, self.classes, self.recipe, seed, device)

    def restored(self, state: dict[str, Any]) -> Method:
        """The trained method from its state."""
        method = copy.deepcopy(self.method)
        return restored(method, state, self.learners(0), self.rows, self.shape, self.classes)


def new_method(method: str | Method, settings: Mapping[str, Any] | None, preset: str) -> Method:
    """A method of its own for one training; of one that is named, `settings` are fields."""
    if isinstance(method, str):
        advised = presets()[preset].get("method", {}).get(method, {})
        return build_method(method, {**advised, **(settings or {})})
    if not isinstance(method, Method):
        raise LabelNoiseError(f"method is a name or a Method, got a {type(method).__name__}")
    if settings:
        raise LabelNoiseError("method_params go with a method's name: set the fields of yours")
    return copy.deepcopy(method)


def _builder(module: Any, shape: tuple[int, ...]) -> tuple[nets.Build, str]:
    """What makes the network, and what to call it in a message."""
    if module is None or isinstance(module, str):
        name = module or nets.auto(shape)
        return nets.net_named(name), name
    if isinstance(module, nn.Module):
        return _copies(module), type(module).__name__
    if not callable(module):
        raise LabelNoiseError(
            "module is a net's name, a function (input shape, classes) -> torch module, or a "
            f"module, got a {type(module).__name__}"
        )
    return module, getattr(module, "__name__", type(module).__name__)


def _copies(module: nn.Module) -> nets.Build:
    """One copy of the user's module; a second one would start from the same weights."""
    left = [module]

    def build(shape: Any, num_classes: int) -> nn.Module:
        if not left:
            raise LabelNoiseError(
                "the method trains two networks that start differently: pass module as a function "
                "(input shape, classes) -> torch module"
            )
        return copy.deepcopy(left.pop())

    return build
