"""Learner: one network with its optimiser and schedule, its precision, and its peers elsewhere.

Where several processes train together, each has the same network, and gradients are averaged by
`DistributedDataParallel`; passes that it does not know of (a look ahead, forward-mode
differentiation, evaluation) use the bare network, and are averaged here where they must be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
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

from labelnoise import dist
from labelnoise.errors import LabelNoiseError, unknown

# The fused kernels update all parameters in one pass: about a fifth of an MLP's step is saved.
OPTIMISERS: dict[str, Callable[..., Optimizer]] = {
    "adam": partial(Adam, fused=True),
    "adamw": partial(AdamW, fused=True),
    "sgd": partial(SGD, momentum=0.9, fused=True),
}

PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}

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
    accumulate: int = 1
    precision: str = "float32"
    milestones: tuple[int, ...] = ()
    decay: float = 0.1

    def __post_init__(self) -> None:
        """Refuse names that do not exist, and milestones that nobody looks at."""
        if self.optimiser not in OPTIMISERS:
            raise unknown("optimiser", self.optimiser, OPTIMISERS)
        if self.schedule not in SCHEDULES:
            raise unknown("schedule", self.schedule, SCHEDULES)
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
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
        self._precision = PRECISIONS[recipe.precision]
        # Gradients in half precision would underflow; bfloat16 has the range of float32.
        scales = self._precision is torch.float16
        self._scaler = torch.amp.GradScaler(self._device.type) if scales else None
        self._accumulate = recipe.accumulate
        self._pending = 0  # mini-batches that wait for an update
        self._shares = torch.zeros(())  # how much they count
        self._parallel: nn.Module | None = None
        self._averaged = False  # the last pass forward is one whose gradients will be averaged

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
        self._switch(training=True)
        with self._rounding():
            logits: Tensor = functional_call(self.network, self._buffers(), (inputs,))
        return self._wide(logits)

    def gradient(self, loss: Tensor) -> tuple[Tensor, ...]:
        """Of `loss`, one tensor a parameter; the mean over all processes."""
        return dist.mean(self._gradients(loss))

    def descend(self, loss: Tensor, share: Tensor | int = 1) -> None:
        """Make one step of the optimiser; no other network receives a gradient from `loss`.

        Where several mini-batches make one step, it is made with the last of them.

        Args:
            loss: The mean over the mini-batch.
            share: How much the mini-batch counts among those of one step: its weights, or how many
                samples it has.
        """
        if not self._pending:
            for parameter in self.parameters:  # what zero_grad does, without what it does around it
                parameter.grad = None
        if self._accumulate > 1:
            loss = loss * self._part_of_step(torch.as_tensor(share).to(loss).sum())
        if self._scaler is not None:
            loss = self._scaler.scale(loss)
        loss.backward(inputs=self.parameters)  # type: ignore[no-untyped-call]
        self._pending += 1
        if self._pending == self._accumulate:
            self._update()

    def settle(self) -> None:
        """End an epoch: update with what is left over, agree on the statistics of batch norm."""
        if self._pending:
            self._averaged = False  # who waits for more has not been averaged
            self._update()
        if dist.processes() > 1:
            buffers = [each for each in self.network.buffers() if each.is_floating_point()]
            if buffers:
                for own, agreed in zip(buffers, dist.mean(buffers), strict=True):
                    own.copy_(agreed)

    def lookahead(self, loss: Tensor, lr: float) -> Callable[[Tensor], Tensor]:
        """The forward pass one differentiable SGD step ahead; the network itself stays as it is.

        Buffers are cloned, so that BatchNorm's running statistics do not move either.
        """
        gradients = dist.mean(self._gradients(loss, create_graph=True))
        ahead = {
            name: parameter - lr * gradient
            for (name, parameter), gradient in zip(self._trainable(), gradients, strict=True)
        }
        buffers = self._buffers()

        def forward(inputs: Tensor) -> Tensor:
            with self._rounding():
                return self._wide(functional_call(self.network, (ahead, buffers), (inputs,)))

        return forward

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Where something may be tried out: neither buffers nor chance show it."""
        before, device = self._buffers(), self._device
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
        yield "network", self.network
        yield "optimiser", self.optimiser
        yield "schedule", self.schedule
        if self._scaler is not None:
            yield "scaler", self._scaler

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
        self._averaged = False
        with twice_differentiable(), self._rounding(), forward_ad.dual_level():
            duals = {
                name: forward_ad.make_dual(parameter, along)  # type: ignore[no-untyped-call]
                for (name, parameter), along in zip(self._trainable(), direction, strict=True)
            }
            out = functional_call(self.network, duals, (inputs,))
            out = self._wide(out)
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
        network = self.network
        if training and dist.processes() > 1:
            network = self._among_processes(inputs)
        with self._rounding():
            logits: Tensor = network(inputs)
        return self._wide(logits)

    def _among_processes(self, inputs: Tensor) -> nn.Module:
        """The network whose gradients are averaged while they are computed."""
        if self._parallel is None:
            self._parallel = dist.parallel(self.network, find_unused=self._has_unused(inputs))
        # It would average the gradients of a mini-batch that is not the last of its step, too.
        self._averaged = self._pending + 1 == self._accumulate
        self._parallel.require_backward_grad_sync = self._averaged  # type: ignore[assignment]
        return self._parallel

    def _has_unused(self, inputs: Tensor) -> bool:
        """Whether a parameter takes no part, such as a second head's; tried once."""
        with self.untouched(), torch.enable_grad():
            out = functional_call(self.network, self._buffers(), (inputs,))
            found = torch.autograd.grad(out.sum(), self.parameters, allow_unused=True)
        return any(each is None for each in found)

    def _part_of_step(self, share: Tensor) -> Tensor:
        """How much of a step a mini-batch is, with those before it, which make room for it.

        So gradients are a mean at any time: each process's own before they are averaged, where
        each has shares of its own.
        """
        share, before = dist.total(share), self._shares.to(share)
        self._shares = before + share
        whole = self._shares.clamp(min=torch.finfo(share.dtype).tiny)
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad *= before / whole
        return share / whole

    def _update(self) -> None:
        """Make the step that the gradients are there for."""
        if not self._averaged:
            dist.average_gradients(self.parameters)
        if self._scaler is None:
            self.optimiser.step()
        else:
            self._scaler.step(self.optimiser)
            self._scaler.update()
        self._pending, self._shares = 0, torch.zeros(())

    @property
    def _device(self) -> torch.device:
        return self.parameters[0].device

    def _rounding(self) -> AbstractContextManager[Any]:
        """Where layers compute with fewer digits, if they are to."""
        if self._precision is None:
            return nullcontext()
        return torch.autocast(self._device.type, dtype=self._precision)

    def _wide(self, logits: Tensor) -> Tensor:
        """What is made of logits needs all digits that there are."""
        return logits if self._precision is None else logits.float()
