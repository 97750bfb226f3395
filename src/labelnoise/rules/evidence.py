"""Evidence: how far given labels can be trusted, gathered while a network learns from them.

For a sample with probabilities q and given label y,

    p      = (q_y - rho leak) / (1 - rho (1 - own) - rho leak)      what q_y says of the true class
    right  = p stays / (p stays + (1 - p) strays)                   Bayes' rule
    weight = rho [right >= cut] + (1 - rho) right / mean ** (1 - rho)

Every mini-batch leaves sums behind, from which the next one takes these.
- Samples that the network is surer about than it was on average about the class that it predicts
  vote with their given labels, which is an estimate of the noise: `stays` is the share of votes for
  y where y is predicted, `strays` where something else is that the sample may be instead.
- Their mean probabilities are the network's habits: `own` is what it usually gives to y where it
  sees y, `leak` what it gives to y where it sees something else.
- Of the samples labelled y: the `mean` of `right`; its variance over mean (1 - mean), the largest
  possible one, is the resolution `rho` of the class, 0 while right labels cannot be told from wrong
  ones, 1 once they are for sure; the `cut` is halfway between the mean of what lies above `mean`
  and the mean of what lies below, as in the midpoint rule.

While nothing is resolved, weights are about 1 and training is cross-entropy; when all is, labels
count that look like the right ones of their class. No label is judged before the network has
learned from it once. What was long ago counts less: step s of t has a weight of about (s / t)^2.
There is nothing to set. Mini-batches are added up a few at a time, which makes the rule as cheap as
a threshold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from labelnoise import dist
from labelnoise.errors import LabelNoiseError
from labelnoise.rules.verdict import Verdict

TOGETHER = 8  # mini-batches that are added up at once, for speed alone


class Standing(NamedTuple):
    """What the labels of every class are like.

    Attributes:
        mean: (classes,) of `right`; 1 for a class without samples.
        resolution: (classes,) how well right ones can be told from wrong ones, 0 to 1.
        cut: (classes,) from which value of `right` on a label is taken for right.
    """

    mean: Tensor
    resolution: Tensor
    cut: Tensor


class Tables(NamedTuple):
    """All that a judgement looks up, by given label.

    Attributes:
        others: (given, 3, predicted) `leak`, `strays` and 1, by what the sample may be instead.
        numbers: (given, 6) `own`, `stays`, `cut`, the weight of a label without and with `right`,
            and how much of it is a cut.
        noise_rate: Of all labels.
    """

    others: Tensor
    numbers: Tensor
    noise_rate: Tensor


class Evidence(nn.Module):
    """What the samples so far tell about the labels of the next ones.

    Args:
        num_classes: How many classes there are.
        samples: How many samples the training set has: in the first pass over them all count. With
            0, weights differ from the second mini-batch on.

    Attributes:
        steps: How many mini-batches there were.
        seen: How many samples.
        votes: (given, predicted) how many sure predictions there were. All sums are weighted by
            the step, s * (s + 1) for step s.
        habits: (class, predicted) the sum of the class's probability over sure predictions.
        taken: (predicted, 3) how many samples, the sum of their largest probabilities, and how many
            of them were sure.
        above: (given, 2) samples whose `right` reached the mean: how many, and its sum.
        below: (given, 2) the same of those that did not.
        squares: (given,) the sum of the square of `right`.
    """

    steps: Tensor
    seen: Tensor
    votes: Tensor
    habits: Tensor
    taken: Tensor
    above: Tensor
    below: Tensor
    squares: Tensor

    def __init__(self, num_classes: int, samples: int = 0) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.samples = samples
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.register_buffer("votes", torch.zeros(num_classes, num_classes))
        self.register_buffer("habits", torch.zeros(num_classes, num_classes))
        self.register_buffer("taken", torch.zeros(num_classes, 3))
        self.register_buffer("above", torch.zeros(num_classes, 2))
        self.register_buffer("below", torch.zeros(num_classes, 2))
        self.register_buffer("squares", torch.zeros(num_classes))
        self._waiting: list[tuple[Tensor, Tensor, Tensor]] = []
        self._batches = 0
        self._tables: Tables | None = None

    def judge(self, probs: Tensor, labels: Tensor) -> Verdict:
        """What the evidence so far says of a mini-batch; nothing is remembered."""
        if probs.shape[1] != self.num_classes:
            raise LabelNoiseError(
                f"{probs.shape[1]} classes, but the evidence is about {self.num_classes}: every "
                "head of a network needs a rule of its own"
            )
        tables = self._look_up()
        probs = probs.detach().to(self.votes.dtype)
        own, stays, cut, plain, by_right, hard = tables.numbers[labels].unbind(dim=1)
        given = probs.gather(1, labels.unsqueeze(1)).squeeze(1)
        tiny = torch.finfo(probs.dtype).tiny
        others = torch.bmm(tables.others[labels], probs.unsqueeze(2)).squeeze(2)
        # Averages over what the sample may be instead; 0 where the label is all that it can be.
        leak, strays, _ = (others / others[:, 2:].clamp(min=tiny)).unbind(dim=1)
        # Bayes' rule with p = (given - leak) / (own - leak), multiplied by what it is divided by.
        for_it = (given - leak).clamp_(min=0) * stays
        against = (own - given).clamp_(min=0) * strays
        right = for_it / (for_it + against).clamp_(min=tiny)
        keep = right >= cut
        weight = torch.lerp(torch.addcmul(plain, by_right, right), keep.to(right.dtype), hard)
        return Verdict(right, keep, weight, {"noise_rate": tables.noise_rate})

    def remember(self, probs: Tensor, labels: Tensor, verdict: Verdict) -> None:
        """Add a mini-batch to the evidence; of all processes, where several train together."""
        self._waiting.append((probs.detach(), labels, verdict.score))
        self._batches += 1
        # The first ones at once: where nothing is known, each of them tells much.
        if self._batches % TOGETHER == 0 or self._batches & (self._batches - 1) == 0:
            self._add_up()

    @torch.no_grad()
    def _add_up(self) -> None:
        """Add what waits to the sums."""
        probs, labels, right, late = (dist.gathered(each) for each in self._rows())
        largest, predicted = probs.max(dim=1)
        count, total, _ = self.taken.unbind(dim=1)
        high = (right >= self.standing().mean[labels]).to(right.dtype) * late
        sure = (largest >= (total / count.clamp(min=1))[predicted]).to(right.dtype) * late
        places = labels * self.num_classes + predicted
        self.votes.view(-1).index_add_(0, places, sure)
        self.habits.index_add_(1, predicted, (probs * sure.unsqueeze(1)).T)
        self.taken.index_add_(0, predicted, torch.stack([late, largest * late, sure], dim=1))
        self.above.index_add_(0, labels, torch.stack([high, right * high], dim=1))
        low = late - high
        self.below.index_add_(0, labels, torch.stack([low, right * low], dim=1))
        self.squares.index_add_(0, labels, right.square() * late)
        self.steps += len(self._waiting)
        self.seen += len(labels)
        self._waiting, self._tables = [], None

    def _rows(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What waits: probabilities, labels, `right`, and the weight of the step they came in."""
        probs, labels, right = (torch.cat(each) for each in zip(*self._waiting, strict=True))
        sizes = torch.tensor([len(each) for _, each, _ in self._waiting], device=labels.device)
        steps = self.steps + torch.arange(1, len(sizes) + 1, device=labels.device)
        return probs.to(right.dtype), labels, right, self._lateness(steps).repeat_interleave(sizes)

    def right(self, probs: Tensor, labels: Tensor) -> Tensor:
        """The probability that each given label is the true one: (batch, classes) -> (batch,)."""
        return self.judge(probs, labels).score

    def transition(self) -> Tensor:
        """(classes, classes) P(given = column, true = row), as far as it is known."""
        stays, strays = self._stays_and_strays()
        return strays.T + torch.diag(stays)

    def standing(self) -> Standing:
        """What the labels of every class are like."""
        tiny = torch.finfo(self.squares.dtype).eps
        count, total = (self.above + self.below).unbind(dim=1)
        mean = torch.where(count > 0, total / count, 1.0)
        most = mean * (1 - mean)
        # With nothing to resolve, or with nothing but rounding, all labels of the class are alike.
        some = (count > 0) & (most > tiny)
        spread = torch.where(some, (self.squares / count - mean.square()) / most, 0.0)
        high = torch.where(self.above[:, 0] > 0, self.above[:, 1] / self.above[:, 0], 1.0)
        low = torch.where(self.below[:, 0] > 0, self.below[:, 1] / self.below[:, 0], 0.0)
        return Standing(mean.clamp(min=tiny), spread.clamp(0, 1), (high + low) / 2)

    def noise_rate(self) -> Tensor:
        """The fraction of wrong labels, as far as it is known."""
        count, total = (self.above + self.below).sum(dim=0)
        return torch.where(count > 0, 1 - total / count, 0.0)

    def extra_repr(self) -> str:
        """What `print` shows."""
        return f"num_classes={self.num_classes}, samples={self.samples}"

    def get_extra_state(self) -> dict[str, Any]:
        """What waits to be added up, for a checkpoint."""
        return {"batches": self._batches, "waiting": list(self._waiting)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Go back to it."""
        device = self.votes.device
        self._batches = state["batches"]
        self._waiting = [(p.to(device), y.to(device), r.to(device)) for p, y, r in state["waiting"]]
        self._tables = None

    def _look_up(self) -> Tables:
        """What a judgement looks up, made anew after the sums have changed."""
        if self._tables is None or self._tables.numbers.device != self.votes.device:
            self._tables = self._made_tables()
        return self._tables

    @torch.no_grad()
    def _made_tables(self) -> Tables:
        standing, habits = self.standing(), self._habits()
        stays, strays = self._stays_and_strays()
        resolved = standing.resolution
        own = 1 - resolved * (1 - habits.diagonal())
        leak = (habits * resolved.unsqueeze(1)).fill_diagonal_(0)
        # In the first pass all count alike.
        judged = (self.seen >= self.samples).to(resolved.dtype).expand_as(resolved)
        by_right = standing.mean ** (resolved - 1) * judged
        numbers = [own, stays, standing.cut, 1 - judged, by_right, resolved * judged]
        others = [leak, strays, torch.ones_like(leak).fill_diagonal_(0)]
        return Tables(torch.stack(others, dim=1), torch.stack(numbers, dim=1), self.noise_rate())

    def _stays_and_strays(self) -> tuple[Tensor, Tensor]:
        """How likely the label of a class is right, and (given, true) which wrong one it is.

        A class begins with as many votes for its own label as there are classes, so that labels are
        trusted until something speaks against them; and with one vote for every other label: a
        confusion that was not seen yet is not impossible.
        """
        votes, prior = self.votes / self._scale(), self.num_classes
        own, all_votes = votes.diagonal(), self.taken[:, 2] / self._scale()
        stays = (own + prior) / (all_votes + prior)
        share = (1 - stays).clamp(min=0) / ((all_votes - own).clamp(min=0) + max(1, prior - 1))
        return stays, ((votes + 1) * share).fill_diagonal_(0)

    def _habits(self) -> Tensor:
        """(class, predicted) the mean probability of a class, after as many perfect predictions."""
        prior = self.num_classes * torch.eye(self.num_classes, device=self.habits.device)
        sure = self.taken[:, 2] / self._scale()
        return (self.habits / self._scale() + prior) / (sure + self.num_classes)

    def _scale(self) -> Tensor:
        """The weight of the last step."""
        return self._lateness(self.steps).clamp(min=1)

    def _lateness(self, step: Tensor) -> Tensor:
        """The weight of a step in all sums."""
        return step * (step + 1)
