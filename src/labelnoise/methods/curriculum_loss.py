"""Curriculum Loss in its noise-pruned form (NPCL): Lyu and Tsang, ICLR 2020, arXiv 1905.10045.

The batch's samples are taken from the smallest loss on, as long as that tightens an upper bound of
the 0-1 loss; a budget that shrinks with the noise rate makes it leave out the wrong labels. It
needs the noise rate.

Deviations (register in docs/methods.md):
- samples are chosen by their hard hinge and trained with the soft hinge, with the budget
  (1 - rate)^2 m + (1 - rate) E, as in the method's own code; the BARE authors' code chooses by the
  soft hinge and has the budget (1 - rate) m (`select_on="soft"`, `budget="linear"`), stops one
  sample later, takes max(0, best other logit) for the runner-up, burns in for one epoch more, and
  trains cross-entropy unless told otherwise;
- the minimum over the selections is exact; the method's own code adds one more sample at times.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from labelnoise import dist
from labelnoise.batch import Batch, Step
from labelnoise.errors import at_least, noise_rate_lies_in_range, unknown
from labelnoise.losses import weighted_mean
from labelnoise.method import Method
from labelnoise.passes import Passes, check_backward
from labelnoise.problem import Problem


def margins(scores: Tensor, labels: Tensor) -> Tensor:
    """The score of the given label above the best other one: (batch, classes) -> (batch,)."""
    column = labels.unsqueeze(1)
    others = scores.scatter(1, column, -torch.inf)
    return scores.gather(1, column).squeeze(1) - others.amax(dim=1)


def hinge(margin: Tensor) -> Tensor:
    """max(0, 1 - margin)."""
    return (1 - margin).clamp(min=0)


def hard_hinge(log_probs: Tensor, labels: Tensor) -> Tensor:
    """The hinge of every sample's margin."""
    return hinge(margins(log_probs, labels))


def soft_hinge(log_probs: Tensor, labels: Tensor) -> Tensor:
    """The hinge where the sample is classified as labelled, else 1 + cross-entropy.

    Both parts stay the same when a constant is added to all scores, so log-probabilities, whose
    exponentials sum to 1, do as well as logits.
    """
    margin = margins(log_probs, labels)
    given = log_probs.gather(1, labels.unsqueeze(1)).squeeze(1)
    return torch.where(margin >= 0, hinge(margin), 1 - given)


def npcl_budget(clean: float, size: int, wrong: Tensor) -> Tensor:
    """c^2 m + c E for a clean fraction c, m samples, E of them not classified as labelled."""
    return clean**2 * size + clean * wrong


def linear_budget(clean: float, size: int, wrong: Tensor) -> Tensor:
    """The clean fraction of the batch, whatever the network thinks of it."""
    return clean * size + 0 * wrong


BUDGETS = {"npcl": npcl_budget, "linear": linear_budget}
SELECT_ON = {"hard": hard_hinge, "soft": soft_hinge}


def select(losses: Tensor, budget: Tensor) -> Tensor:
    """The selection v that minimises max(sum v_i losses_i, budget - sum v_i); never none.

    With the T smallest losses taken the first term grows and the second one falls by 1, so the
    minimum is at the largest T with sum of T losses <= budget + 1 - T.
    """
    ordered, order = losses.detach().sort()
    taken = torch.arange(1, len(losses) + 1, device=losses.device)
    within = ordered.cumsum(0) <= budget + 1 - taken
    within[:1] = True
    return torch.zeros_like(within).scatter_(0, order, within)


@dataclass
class CurriculumLoss(Method):
    """Train the soft hinge on the samples that tighten a bound of the 0-1 loss.

    Attributes:
        noise_rate: Fraction of wrong labels; `None` is the problem's.
        burn_in: Epochs on all samples; the BARE paper has 5 on MNIST, 10 on CIFAR-10.
        budget: `"npcl"`, (1 - rate)^2 m + (1 - rate) E with E misclassified samples among the m of
            the batch, or `"linear"`, (1 - rate) m.
        select_on: Choose by the `"hard"` or the `"soft"` hinge.
        backward: Which samples go backward: all (`"full"`), those that count (`"selected"`), or
            what is cheaper (`"auto"`).
    """

    noise_rate: float | None = None
    burn_in: int = 5
    budget: str = "npcl"
    select_on: str = "hard"
    backward: str = "auto"

    def __post_init__(self) -> None:
        """Refuse what does not exist."""
        noise_rate_lies_in_range(self.noise_rate)
        at_least(0, burn_in=self.burn_in)
        if self.budget not in BUDGETS:
            raise unknown("budget", self.budget, BUDGETS)
        if self.select_on not in SELECT_ON:
            raise unknown("value of select_on", self.select_on, SELECT_ON)
        check_backward(self.backward)

    def setup(self, problem: Problem) -> None:
        """One network."""
        self.rate = problem.rate(self.noise_rate, "Curriculum Loss")
        self.learner = problem.new_learner()
        self.passes = Passes(self.learner, self.backward)

    def step(self, batch: Batch) -> Step:
        """Choose by one loss, descend on the mean of the other one."""
        log_probs = self.passes.look(batch.inputs)
        keep = self._keep(batch.time, log_probs.detach(), batch.labels)
        loss = weighted_mean(soft_hinge(log_probs, batch.labels), keep)
        self.passes.descend(loss, keep)
        return Step(
            index=batch.index,
            weight=keep.to(log_probs.dtype),
            loss=loss.detach(),
            probs=log_probs.detach().exp(),
        )

    def validation_loss(self, log_probs: Tensor, labels: Tensor) -> Tensor:
        """The mean soft hinge over all validation samples."""
        return soft_hinge(log_probs, labels).mean()

    def _keep(self, time: float, log_probs: Tensor, labels: Tensor) -> Tensor:
        if time < self.burn_in:
            return torch.ones_like(labels, dtype=torch.bool)
        losses = SELECT_ON[self.select_on](log_probs, labels)
        # A sum over the batch: half precision would run out of digits.
        losses = losses.to(torch.promote_types(losses.dtype, torch.float32))
        return dist.across(self._choose, losses, margins(log_probs, labels) < 0)

    def _choose(self, losses: Tensor, wrong: Tensor) -> Tensor:
        budget = BUDGETS[self.budget](1 - self.rate, len(losses), wrong.sum())
        return select(losses, budget)
