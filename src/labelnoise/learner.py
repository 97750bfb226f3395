"""Learner: one network with its optimiser and schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    LRScheduler,
    MultiStepLR,
    ReduceLROnPlateau,
)

from labelnoise.errors import LabelNoiseError, unknown

# The fused kernels update all parameters in one pass: about a fifth of an MLP's step is saved.
OPTIMISERS: dict[str, Callable[..., Optimizer]] = {
    "adam": partial(Adam, fused=True),
    "adamw": partial(AdamW, fused=True),
    "sgd": partial(SGD, momentum=0.9, fused=True),
}

Schedule = LRScheduler | ReduceLROnPlateau


def twice_differentiable() -> AbstractContextManager[None]:
    """Where attention is computed step by step; its fused kernels have one derivative only."""
    return sdpa_kernel(SDPBackend.MATH)


@dataclass(frozen=True)
class Recipe:
    """How a network is optimised.

    Attributes:
        optimiser: Its name.
        lr: Learning rate.
        weight_decay: Of the optimiser.
        schedule: How the learning rate changes.
        epochs: How long.
        milestones: Epochs after which the schedule "steps" lowers the learning rate.
        decay: What it multiplies it by.
    """

    optimiser: str = "adam"
    lr: float = 2e-4
    weight_decay: float = 0.0
    schedule: str = "plateau"
    epochs: int = 200
    milestones: tuple[int, ...] = ()
    decay: float = 0.1

    def __post_init__(self) -> None:
        """Refuse names that do not exist, and milestones that nobody looks at."""
        if self.optimiser not in OPTIMISERS:
            raise unknown("optimiser", self.optimiser, OPTIMISERS)
        if self.schedule not in SCHEDULES:
            raise unknown("schedule", self.schedule, SCHEDULES)
        milestones_go_with_steps(self.schedule, self.milestones)


SCHEDULES: dict[str, Callable[[Optimizer, Recipe], Schedule]] = {
    # The arguments of the authors' released code; the paper's text gives none.
    "plateau": lambda optimiser, recipe: ReduceLROnPlateau(
        optimiser, factor=0.1, patience=5, threshold=1e-4, min_lr=1e-5
    ),
    "cosine": lambda optimiser, recipe: CosineAnnealingLR(optimiser, T_max=recipe.epochs),
    "constant": lambda optimiser, recipe: ConstantLR(optimiser, factor=1.0),
    "steps": lambda optimiser, recipe: MultiStepLR(
        optimiser, list(recipe.milestones), gamma=recipe.decay
    ),
}


def milestones_go_with_steps(schedule: str, milestones: Sequence[int]) -> None:
    """Refuse one without the other."""
    if schedule == "steps" and not milestones:
        raise LabelNoiseError(
            "schedule 'steps' needs the epochs after which the learning rate falls: set "
            "milestones, such as [6, 11]"
        )
    if milestones and schedule != "steps":
        raise LabelNoiseError(
            f"schedule {schedule!r} has no milestones: leave them out, or set schedule to 'steps'"
        )


class Learner:
    """One network and what trains it."""

    def __init__(self, network: nn.Module, recipe: Recipe) -> None:
        self.network = network
        self.parameters = [p for p in network.parameters() if p.requires_grad]
        self.optimiser = OPTIMISERS[recipe.optimiser](
            self.parameters, lr=recipe.lr, weight_decay=recipe.weight_decay
        )
        self.schedule = SCHEDULES[recipe.schedule](self.optimiser, recipe)
        self._forward_mode: bool | None = None  # whether all layers have one; not known yet

    def logits(self, inputs: Tensor) -> Tensor:
        """Scores in training mode, with gradient: (batch, ...) -> (batch, classes)."""
        return self._forward(inputs, training=True)

    @torch.no_grad()
    def log_probs(self, inputs: Tensor) -> Tensor:
        """Log-probabilities in evaluation mode, without gradient."""
        return self._forward(inputs, training=False).log_softmax(dim=1)

    def logits_along(self, inputs: Tensor, direction: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """`logits`, and their derivative when the parameters move along `direction`.

        One pass of forward-mode differentiation gives both; where a layer has none, such as a fused
        LSTM, two passes backward do. Only the logits carry a gradient.
        """
        self._switch(training=True)
        if self._forward_mode is None:
            self._forward_mode = self._has_forward_mode(inputs, direction)
        if self._forward_mode:
            return self._dual(inputs, direction)
        with twice_differentiable():
            logits = self.logits(inputs)
        # The derivative along a direction is that of the gradient's product with it.
        probe = torch.zeros_like(logits, requires_grad=True)
        pulled = self._gradients(logits, probe, create_graph=True)
        (drift,) = torch.autograd.grad(pulled, probe, tuple(direction), retain_graph=True)
        return logits, drift

    def aside(self, inputs: Tensor) -> Tensor:
        """`logits` that leave no trace: BatchNorm's running statistics do not move."""
        buffers = self._buffers()
        if not buffers:
            return self.logits(inputs)
        self._switch(training=True)
        logits: Tensor = functional_call(self.network, buffers, (inputs,))
        return logits

    def gradient(self, loss: Tensor) -> tuple[Tensor, ...]:
        """Of `loss`, one tensor a parameter."""
        return self._gradients(loss)

    def descend(self, loss: Tensor) -> None:
        """Make one step of the optimiser; no other network receives a gradient from `loss`."""
        for parameter in self.parameters:  # what zero_grad does, without what it does around it
            parameter.grad = None
        loss.backward(inputs=self.parameters)  # type: ignore[no-untyped-call]
        self.optimiser.step()

    def lookahead(self, loss: Tensor, lr: float) -> Callable[[Tensor], Tensor]:
        """The forward pass one differentiable SGD step ahead; the network itself stays as it is.

        Buffers are cloned, so that BatchNorm's running statistics do not move either.
        """
        gradients = self._gradients(loss, create_graph=True)
        ahead = {
            name: parameter - lr * gradient
            for (name, parameter), gradient in zip(self._trainable(), gradients, strict=True)
        }
        buffers = self._buffers()
        return lambda inputs: functional_call(self.network, (ahead, buffers), (inputs,))

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Where something may be tried out: neither buffers nor chance show it."""
        before, device = self._buffers(), self.parameters[0].device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            try:
                yield
            finally:
                for name, buffer in self.network.named_buffers():
                    buffer.copy_(before[name])

    def advance(self, validation_loss: float) -> None:
        """End an epoch: move the schedule on."""
        if isinstance(self.schedule, ReduceLROnPlateau):
            self.schedule.step(validation_loss)
        else:
            self.schedule.step()

    @property
    def lr(self) -> float:
        """The current learning rate."""
        return float(self.optimiser.param_groups[0]["lr"])

    def state_dict(self) -> dict[str, Any]:
        """Everything that training changes, as tensors and plain values."""
        return {name: part.state_dict() for name, part in self._parts()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to a `state_dict`."""
        for name, part in self._parts():
            part.load_state_dict(state[name])

    def _parts(self) -> Iterable[tuple[str, Any]]:
        return (
            ("network", self.network),
            ("optimiser", self.optimiser),
            ("schedule", self.schedule),
        )

    def _has_forward_mode(self, inputs: Tensor, direction: Sequence[Tensor]) -> bool:
        """Whether every layer has one; tried once."""
        with self.untouched():
            try:
                self._dual(inputs, direction)
            except NotImplementedError:
                return False
        return True

    def _dual(self, inputs: Tensor, direction: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """`logits_along` by forward mode."""
        with twice_differentiable(), forward_ad.dual_level():
            duals = {
                name: forward_ad.make_dual(parameter, along)  # type: ignore[no-untyped-call]
                for (name, parameter), along in zip(self._trainable(), direction, strict=True)
            }
            out = functional_call(self.network, duals, (inputs,))
            logits, drift = forward_ad.unpack_dual(out)  # type: ignore[no-untyped-call]
        return logits, torch.zeros_like(logits) if drift is None else drift.detach()

    def _gradients(
        self, outputs: Tensor, along: Tensor | None = None, *, create_graph: bool = False
    ) -> tuple[Tensor, ...]:
        """By parameter; a parameter that took no part, such as a second head's, has zeros."""
        return torch.autograd.grad(
            outputs,
            self.parameters,
            along,
            create_graph=create_graph,
            allow_unused=True,
            materialize_grads=True,
        )

    def _trainable(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((n, p) for n, p in self.network.named_parameters() if p.requires_grad)

    def _buffers(self) -> dict[str, Tensor]:
        return {name: buffer.clone() for name, buffer in self.network.named_buffers()}

    def _switch(self, *, training: bool) -> None:
        # Asking first: train() walks over all modules, which costs more than a small layer.
        if self.network.training is not training:
            self.network.train(training)

    def _forward(self, inputs: Tensor, *, training: bool) -> Tensor:
        self._switch(training=training)
        logits: Tensor = self.network(inputs)
        return logits
