"""Passes: how a mini-batch goes through a network when only some of its samples count.

A sample that does not count needs no backward pass. With a forward pass of cost 1, a backward pass
of cost b and a fraction f that counts, leaving out the others costs 1 + f b instead of 1 + b; b is
2 in a deep network, and 1 where the first layer makes most of the products, because nobody wants
the gradient of inputs. In a small network, what it takes to leave them out costs more than that.

`"full"` takes all samples backward, `"selected"` those that count, `"auto"` what is cheaper, by the
products of the network and the fraction that counted in the last steps. With batch norm, where the
gradient is not quite the same, it takes all unless enough of them count (docs/results/speed.md).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from labelnoise.batch import Batch
from labelnoise.errors import unknown
from labelnoise.learner import Learner
from labelnoise.losses import weighted_mean
from labelnoise.skipping import Skipping, normalises

BACKWARD = ("auto", "full", "selected")
GLANCE = 16  # steps with all samples between two looks at how many of them count
ENOUGH = 0.4  # that count, for batch norm: with a quarter of them accuracy suffered, with this not
OVERHEAD = 2e7  # floating point operations that take as long as what leaving samples out costs

Losses = Callable[[Tensor, Tensor], Tensor]
"""(batch, classes) log-probabilities and (batch,) labels -> (batch,) losses."""


def check_backward(backward: str) -> None:
    """Refuse a way that does not exist."""
    if backward not in BACKWARD:
        raise unknown("value of backward", backward, BACKWARD)


class Passes:
    """The passes of a method's steps through one of its networks.

    Args:
        learner: The network with its optimiser.
        backward: Which samples go backward: `"full"`, `"selected"` or `"auto"`.
    """

    def __init__(self, learner: Learner, backward: str) -> None:
        check_backward(backward)
        self._learner, self._backward = learner, backward
        self._least = ENOUGH if normalises(learner.network) else 0.0
        self._limit: float | None = None  # up to which fraction it pays to leave out the others
        self._fraction = 1.0  # that counted in the last steps
        self._steps = 0
        self._apart: bool | None = None  # whether the network treats samples apart; not known yet
        self._skipping: Skipping | None = None

    def look(self, inputs: Tensor) -> Tensor:
        """Log-probabilities in training mode, to choose samples by and give back to `descend`."""
        selected = self.selects(inputs)
        self._skipping = Skipping(len(inputs), checked=bool(self._apart)) if selected else None
        with self._skipping or nullcontext():
            logits = self._learner.logits(inputs)
        return logits.log_softmax(dim=1)

    def descend(self, losses: Losses, log_probs: Tensor, batch: Batch, weight: Tensor) -> Tensor:
        """Make one step on the mean of `losses` under `weight`; that mean, as it was before.

        Args:
            losses: The loss of every sample.
            log_probs: What `look` gave for the batch.
            batch: All samples.
            weight: (batch,) how much each of them counts, or which ones do.
        """
        loss = weighted_mean(losses(log_probs, batch.labels), weight)
        if self._skipping is not None:
            self._leave_out(self._skipping, weight)
        elif self._backward == "auto" and self._steps % GLANCE == 0:
            self._note(int(weight.count_nonzero()) / len(weight))
        self._learner.descend(loss)
        if self._skipping is not None:
            self._apart = not self._skipping.mixed
        self._steps += 1
        return loss.detach()

    def selects(self, inputs: Tensor) -> bool:
        """Whether the next step leaves out what does not count."""
        if self._backward == "full" or self._apart is False:
            return False
        if self._backward == "selected":
            return True
        if self._limit is None:
            self._limit = break_even(self._learner, inputs)
        return self._least <= self._fraction < self._limit

    @property
    def fraction(self) -> float:
        """Of samples that counted in the last steps."""
        return self._fraction

    def state_dict(self) -> dict[str, float]:
        """What decides about the next step."""
        return {"fraction": self._fraction, "steps": self._steps}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Go back to it."""
        self._fraction, self._steps = state["fraction"], int(state["steps"])

    def _leave_out(self, skipping: Skipping, weight: Tensor) -> None:
        rows = weight.nonzero().squeeze(1)
        self._note(len(rows) / len(weight))
        if 0 < len(rows) < len(weight):  # of none there is no mean, for batch norm
            skipping.rows = rows

    def _note(self, fraction: float) -> None:
        self._fraction = (self._fraction + fraction) / 2


def break_even(learner: Learner, inputs: Tensor) -> float:
    """Up to which fraction of samples that count it pays to leave out the others; 0 for never.

    On other devices than a CPU, finding out which ones count makes the host wait: never, until
    somebody has measured it there.
    """
    if inputs.device.type != "cpu":
        return 0.0
    probe = inputs[:2]
    with learner.untouched(), torch.enable_grad(), FlopCounterMode(display=False) as counter:
        logits = learner.logits(probe)
        forward = counter.get_total_flops()
        learner.gradient(logits.sum())
    backward = (counter.get_total_flops() - forward) * len(inputs) / len(probe)
    return float(1 - OVERHEAD / backward) if backward else 0.0
