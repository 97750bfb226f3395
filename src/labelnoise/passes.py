"""Passes: how a mini-batch goes through a network when only some of its samples count.

A sample that does not count needs no backward pass. So there are two ways to learn from samples
that are chosen by what the network makes of them:

- `"full"`: one pass with gradient over all of them, which serves the choice and the update;
- `"selected"`: one pass without gradient over all, then one with gradient over the chosen alone.

With a forward pass of cost 1, a backward pass of cost b and a fraction f that counts, that is 1 + b
against 1 + f (1 + b): the second is cheaper below f = b / (1 + b). In a deep network b is 2; where
the first layer makes most of the products it is 1, because nobody wants the gradient of inputs.
`"auto"` counts the products of the network and goes by the fraction of the last steps.

For a network that treats samples apart both ways give the same gradient, but for rounding. In batch
norm samples meet: its statistics are those of the first pass, so that every sample comes out of the
second one as of the first, but what depends on the statistics is shared by the chosen samples
backward instead of by all. What that does to accuracy is measured in docs/results/speed.md.
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
from labelnoise.norm import Statistics, normalises

BACKWARD = ("auto", "full", "selected")
GLANCE = 16  # steps with one pass between two looks at the fraction that counts
OVERHEAD = 1e7  # floating point operations that take as long as a second pass does besides its own

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
        backward: `"full"`, `"selected"`, or `"auto"` for the cheaper one.
    """

    def __init__(self, learner: Learner, backward: str) -> None:
        check_backward(backward)
        self._learner, self._backward = learner, backward
        self._normalises = normalises(learner.network)
        self._taken: Statistics | None = None  # what batch norm took from the last first pass
        self._limit: float | None = None  # below which fraction two passes are cheaper
        self._fraction = 1.0  # that counted in the last steps
        self._steps = 0

    def look(self, inputs: Tensor) -> Tensor:
        """Log-probabilities in training mode, to choose samples by and to give back to `descend`.

        They carry a gradient if this pass is the only one.
        """
        if not self._two(inputs):
            return self._learner.logits(inputs).log_softmax(dim=1)
        self._taken = Statistics() if self._normalises else None
        with torch.no_grad(), self._taken or nullcontext():
            return self._learner.logits(inputs).log_softmax(dim=1)

    def descend(self, losses: Losses, log_probs: Tensor, batch: Batch, weight: Tensor) -> Tensor:
        """Make one step on the mean of `losses` under `weight`; that mean, as it was before.

        Args:
            losses: The loss of every sample.
            log_probs: What `look` gave for the batch.
            batch: All samples.
            weight: (batch,) how much each of them counts, or which ones do.
        """
        loss = weighted_mean(losses(log_probs, batch.labels), weight)
        if log_probs.requires_grad:
            self._learner.descend(loss)
            if self._backward == "auto" and self._steps % GLANCE == 0:
                self._note(int(weight.count_nonzero()) / len(weight))
        else:
            self._descend_on(weight.nonzero().squeeze(1), losses, batch, weight)
        self._steps += 1
        return loss.detach()

    def state_dict(self) -> dict[str, float]:
        """What decides about the next step."""
        return {"fraction": self._fraction, "steps": self._steps}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Go back to it."""
        self._fraction, self._steps = state["fraction"], int(state["steps"])

    def _descend_on(self, rows: Tensor, losses: Losses, batch: Batch, weight: Tensor) -> None:
        """The second pass."""
        self._note(len(rows) / len(weight))
        if not len(rows):  # of none there is no gradient; of one with weight 0 it is 0
            rows = torch.zeros(1, dtype=rows.dtype, device=rows.device)
        labels, weight = batch.labels.index_select(0, rows), weight.index_select(0, rows)
        with Statistics(self._taken) if self._taken else nullcontext():
            logits = self._learner.aside(batch.inputs.index_select(0, rows))
        self._learner.descend(weighted_mean(losses(logits.log_softmax(dim=1), labels), weight))

    def _two(self, inputs: Tensor) -> bool:
        """Whether the next step takes two passes."""
        if self._backward != "auto":
            return self._backward == "selected"
        if self._limit is None:
            self._limit = break_even(self._learner, inputs)
        return self._fraction < self._limit

    def _note(self, fraction: float) -> None:
        self._fraction = (self._fraction + fraction) / 2


def break_even(learner: Learner, inputs: Tensor) -> float:
    """Below which fraction of samples that count two passes are cheaper than one; 0 for never.

    On other devices than a CPU, finding out how many count makes the host wait: never, until
    somebody has measured it there.
    """
    if inputs.device.type != "cpu":
        return 0.0
    probe = inputs[:2]
    with learner.untouched(), torch.enable_grad(), FlopCounterMode(display=False) as counter:
        logits = learner.logits(probe)
        forward = counter.get_total_flops()
        learner.gradient(logits.sum())
    both = counter.get_total_flops()
    if not both:
        return 0.0
    return float((both - forward - OVERHEAD * len(probe) / len(inputs)) / both)
