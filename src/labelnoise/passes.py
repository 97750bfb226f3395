"""Passes: how a mini-batch goes through a network when only some of its samples count.

A sample that does not count needs no backward pass. With a forward pass of cost 1, a backward pass
of cost b and a fraction f that counts, leaving out the others costs 1 + f b instead of 1 + b; b is
2 in a deep network, and 1 where the first layer makes most of the products, because nobody wants
the gradient of inputs. In a small network, what it takes to leave them out costs more than that.

`"full"` takes all samples backward, `"selected"` those that count, `"auto"` what is cheaper, by the
products of the network and the fraction that counted in the last steps. With batch norm, some of
the others go backward, too (`labelnoise.skipping`); with more than a few of these layers, `"auto"`
takes all.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from labelnoise.errors import unknown
from labelnoise.learner import Learner
from labelnoise.skipping import STANDING_FOR, Skipping

BACKWARD = ("auto", "full", "selected")
GLANCE = 16  # steps with all samples between two looks at how many of them count
OVERHEAD = 2e7  # floating point operations that take as long as what leaving samples out costs, at
# least; and once more for every batch norm
WORTH = 0.7  # beyond this fraction that goes backward, copying it takes what is saved
SHALLOW = 8  # batch norms; with more, chance in the gradient multiplies, and nobody has measured it


def check_backward(backward: str) -> None:
    """Refuse a way that does not exist."""
    if backward not in BACKWARD:
        raise unknown("value of backward", backward, BACKWARD)


class Passes:
    """The passes of a method's steps through one of its networks.

    Args:
        learner: The network with its optimiser.
        backward: Which samples go backward: `"full"`, `"selected"` or `"auto"`.

    Attributes:
        fraction: Of samples that counted in the last steps.
    """

    def __init__(self, learner: Learner, backward: str) -> None:
        check_backward(backward)
        self._learner, self._backward = learner, backward
        self._limit: float | None = None  # up to which fraction it pays to leave out the others
        self.fraction = 1.0
        self._steps = 0
        self._apart = True  # the network treats samples apart, as far as is known
        self._checked: list[int] = []  # sizes of mini-batches for which that is known
        self._skipping: Skipping | None = None

    def look(self, inputs: Tensor) -> Tensor:
        """Log-probabilities in training mode, to choose samples by."""
        samples, self._skipping = len(inputs), None
        if self.selects(inputs):
            self._skipping = Skipping(samples, checked=samples in self._checked)
        with self._skipping or nullcontext():
            logits = self._learner.logits(inputs)
        return logits.log_softmax(dim=1)

    def descend(self, loss: Tensor, weight: Tensor) -> None:
        """Make one step on the loss of what `look` gave.

        Args:
            loss: Of the whole mini-batch.
            weight: (batch,) how much each sample counts in it, or which ones do.
        """
        if self._skipping is not None:
            self._note(self._skipping.leave_out(weight) / len(weight))
        elif len(weight) and self._may_select() and self._steps % GLANCE == 0:
            self._note(int(weight.count_nonzero()) / len(weight))
        self._learner.descend(loss, weight)
        if self._skipping is not None:
            self._learn_from(self._skipping, len(weight))
        self._steps += 1

    def selects(self, inputs: Tensor) -> bool:
        """Whether the next step leaves out what does not count."""
        if self._backward == "full" or not self._apart or len(inputs) < 2:
            return False
        if self._backward == "selected":
            return True
        if self._limit is None:
            self._limit = break_even(self._learner, inputs)
        return self.fraction < self._limit

    def state_dict(self) -> dict[str, Any]:
        """What decides about the next step."""
        return {
            "fraction": self.fraction,
            "steps": self._steps,
            "limit": self._limit,
            "apart": self._apart,
            "checked": list(self._checked),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to it."""
        self.fraction, self._steps = state["fraction"], state["steps"]
        self._limit, self._apart = state["limit"], state["apart"]
        self._checked = list(state["checked"])

    def _may_select(self) -> bool:
        """Whether it depends on how many samples count; asking for that makes the host wait."""
        return self._apart and self._limit is not None and self._limit > 0

    def _learn_from(self, skipping: Skipping, samples: int) -> None:
        """What the first backward passes tell of the network."""
        if skipping.mixed or not skipping.asked:  # the latter: it is compiled, or has no such layer
            self._apart = False
        elif skipping.rows is not None and samples not in self._checked:
            self._checked.append(samples)

    def _note(self, fraction: float) -> None:
        self.fraction = (self.fraction + fraction) / 2 if self._steps else fraction


def break_even(learner: Learner, inputs: Tensor) -> float:
    """Up to which fraction of samples that count it pays to leave out the others; 0 for never.

    On other devices than a CPU, finding out which ones count makes the host wait: never, until
    somebody has measured it there. No other process is asked: one that has no sample yet does not
    come here.
    """
    if inputs.device.type != "cpu":
        return 0.0
    probe = inputs[:2]
    with learner.untouched(), torch.enable_grad(), FlopCounterMode(display=False) as counter:
        with Skipping(len(probe), checked=True) as skipping:
            logits = learner.aside(probe)
        forward = counter.get_total_flops()
        torch.autograd.grad(logits.sum(), learner.parameters, allow_unused=True)
    backward = (counter.get_total_flops() - forward) * len(inputs) / len(probe)
    if not backward or skipping.norms > SHALLOW:
        return 0.0
    worth = min(WORTH, float(1 - OVERHEAD * (1 + skipping.norms) / backward))
    if skipping.norms:  # and a share of the others goes backward, too
        worth = (worth - 1 / STANDING_FOR) / (1 - 1 / STANDING_FOR)
    return max(0.0, worth)
