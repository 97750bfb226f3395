"""Co-teaching: Han et al., NeurIPS 2018, arXiv 1804.06872.

Two networks see the same mini-batch; each picks the samples on which its own loss is small and
hands them to the other one, which trains on those alone. It needs the noise rate: that fraction of
a batch is dropped, after a ramp over the first epochs.

Deviations from the authors' code (register in docs/methods.md):
- the ramp is the paper's, R(t) = 1 - rate * min(t^exponent / ramp, 1) with t = 1 in the first
  epoch; the code counts from 0 and, for other exponents than 1, jumps at its end;
- the loss is the mean over the chosen samples; the code divides that mean by their number again;
- at least one sample is kept where the code would divide by zero.
The learning rate, its schedule and the networks are those of the run, as in the BARE paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from labelnoise import dist
from labelnoise.batch import Batch, Step
from labelnoise.errors import at_least, noise_rate_lies_in_range
from labelnoise.losses import cross_entropy, weighted_mean
from labelnoise.method import Method
from labelnoise.passes import Passes, check_backward
from labelnoise.problem import Problem

Pair = tuple[Tensor, Tensor]
"""Something of the first network and the same of its peer."""


def forget_rate(rate: float, time: float, ramp: int = 10, exponent: float = 1.0) -> float:
    """The fraction to drop at `time`, in epochs from 0; with exponent 1 it is all after `ramp`."""
    epoch = float(int(time) + 1)
    return rate * min(math.pow(epoch, exponent) / ramp, 1.0)


def small_loss(losses: Tensor, forget: float) -> Tensor:
    """Which samples to keep: all but the fraction `forget` with the largest losses."""
    # Rounded first: 1 - 0.9 is a little less than a tenth.
    kept = min(max(int(round((1 - forget) * len(losses), 9)), 1), len(losses))
    smallest = losses.detach().topk(kept, largest=False, sorted=False).indices
    return torch.zeros_like(losses, dtype=torch.bool).scatter_(0, smallest, True)


@dataclass
class CoTeaching(Method):
    """Two networks, each trained on the samples that the other one finds easy.

    Attributes:
        noise_rate: Fraction of wrong labels; `None` is the problem's.
        ramp: Epochs until that fraction is dropped.
        exponent: How the ramp bends; 1 is a straight line.
        backward: Which samples go backward: all (`"full"`), those that count (`"selected"`), or
            what is cheaper (`"auto"`).
    """

    title = "Co-teaching"

    noise_rate: float | None = None
    ramp: int = 10
    exponent: float = 1.0
    backward: str = "auto"

    def __post_init__(self) -> None:
        """Refuse a rate that is none and a ramp that leads nowhere."""
        noise_rate_lies_in_range(self.noise_rate)
        at_least(1, ramp=self.ramp)
        at_least(0, exponent=self.exponent)
        check_backward(self.backward)

    def setup(self, problem: Problem) -> None:
        """Two networks that differ by their initialisation."""
        self.rate = problem.rate(self.noise_rate, self.title)
        self.learner, self.peer = problem.new_learner(), problem.new_learner()
        self.passes = Passes(self.learner, self.backward)
        self.peer_passes = Passes(self.peer, self.backward)

    def step(self, batch: Batch) -> Step:
        """Each network chooses, the other one learns; the step reports the first one's update."""
        log_probs = self.passes.look(batch.inputs)
        peer_log_probs = self.peer_passes.look(batch.inputs)
        losses = self.losses(batch.time, log_probs, batch.labels)
        peer_losses = self.losses(batch.time, peer_log_probs, batch.labels)
        keep, peer_keep = self.choose(
            batch.time, (log_probs, peer_log_probs), (losses, peer_losses)
        )
        loss = weighted_mean(losses, peer_keep)
        peer_loss = weighted_mean(peer_losses, keep)
        self.passes.descend(loss, peer_keep)
        self.peer_passes.descend(peer_loss, keep)
        return Step(
            index=batch.index,
            weight=peer_keep.to(losses.dtype),
            loss=(loss.detach() + peer_loss.detach()) / 2,
            probs=log_probs.detach().exp(),
            notes={"peer_weight": keep.to(losses.dtype)},
        )

    def losses(self, time: float, log_probs: Tensor, labels: Tensor) -> Tensor:
        """What samples are chosen by and trained on."""
        return cross_entropy(log_probs, labels)

    def choose(self, time: float, log_probs: Pair, losses: Pair) -> Pair:
        """The mask that each of the two networks hands to the other one."""
        forget = forget_rate(self.rate, time, self.ramp, self.exponent)
        keep = partial(small_loss, forget=forget)
        return dist.across(keep, losses[0]), dist.across(keep, losses[1])
