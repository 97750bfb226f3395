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
There is nothing to set.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from labelnoise import dist
from labelnoise.errors import LabelNoiseError
from labelnoise.rules.verdict import Verdict


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

    def judge(self, probs: Tensor, labels: Tensor) -> Verdict:
        """What the evidence so far says of a mini-batch; nothing is remembered."""
        if probs.shape[1] != self.num_classes:
            raise LabelNoiseError(
                f"{probs.shape[1]} classes, but the evidence is about {self.num_classes}: every "
                "head of a network needs a rule of its own"
            )
        standing = self.standing()
        mean, resolved, cut = (each[labels] for each in standing)
        right = self._right(probs, labels, resolved)
        keep = right >= cut
        weight = torch.lerp(right / mean ** (1 - resolved), keep.to(right.dtype), resolved)
        weight = torch.where(self.seen < self.samples, torch.ones_like(weight), weight)
        return Verdict(right, keep, weight, {"noise_rate": self.noise_rate()})

    @torch.no_grad()
    def remember(self, probs: Tensor, labels: Tensor, verdict: Verdict) -> None:
        """Add a mini-batch to the evidence; of all processes, where several train together."""
        columns = torch.stack([labels, verdict.score], dim=1)
        rows = dist.gathered(torch.cat([columns, probs.to(columns.dtype)], dim=1))
        labels, right, probs = rows[:, 0].long(), rows[:, 1], rows[:, 2:]
        high = (right >= self.standing().mean[labels]).to(right.dtype)
        largest, predicted = probs.max(dim=1)
        one = torch.ones_like(right)
        count, total, _ = self.taken.unbind(dim=1)
        sure = (largest >= (total / count.clamp(min=1))[predicted]).to(right.dtype)
        self.steps += 1
        self.seen += len(rows)
        late = self._scale()
        places = labels * self.num_classes + predicted
        self.votes.view(-1).index_add_(0, places, sure * late)
        self.habits.index_add_(1, predicted, probs.T * (sure * late))
        self.taken.index_add_(0, predicted, torch.stack([one, largest, sure], dim=1) * late)
        pairs = torch.stack([one, right], dim=1) * late
        self.above.index_add_(0, labels, pairs * high.unsqueeze(1))
        self.below.index_add_(0, labels, pairs * (1 - high).unsqueeze(1))
        self.squares.index_add_(0, labels, right.square() * late)

    def right(self, probs: Tensor, labels: Tensor) -> Tensor:
        """The probability that each given label is the true one: (batch, classes) -> (batch,)."""
        return self._right(probs, labels, self.standing().resolution[labels])

    def _right(self, probs: Tensor, labels: Tensor, resolved: Tensor) -> Tensor:
        probs = probs.detach().to(self.votes.dtype)
        tiny, place = torch.finfo(probs.dtype).tiny, labels.unsqueeze(1)
        given = probs.gather(1, place).squeeze(1)
        # What the sample may be instead, and how likely; nothing where the label is all it can be.
        others = probs.scatter(1, place, 0)
        others = others / others.sum(dim=1, keepdim=True).clamp(min=tiny)
        shares, scale = self._shares(), self._scale()
        leak = resolved * (others * self.habits[labels] / scale).mul_(shares.habit).sum(dim=1)
        own = 1 - resolved * (1 - shares.own[labels])
        true = torch.where(own > leak, (given - leak) / (own - leak), given).clamp(0, 1)
        strays = (others * (self.votes[labels] / scale + 1)).mul_(shares.vote).sum(dim=1)
        for_it = true * shares.stays[labels]
        right: Tensor = for_it / (for_it + (1 - true) * strays).clamp(min=tiny)
        return right

    def transition(self) -> Tensor:
        """(classes, classes) P(given = column, true = row), as far as it is known."""
        shares = self._shares()
        others = (self.votes / self._scale() + 1).T * shares.vote.unsqueeze(1)
        return others.fill_diagonal_(0) + torch.diag(shares.stays)

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

    def _shares(self) -> Shares:
        """What votes and habits are worth.

        A class begins with as many sure samples as there are classes, all of them labelled and
        recognised as what they are, so that labels are trusted until something speaks against
        them; and with one vote for every other label: a confusion that was not seen yet is not
        impossible.
        """
        scale, prior = self._scale(), self.num_classes
        sure, votes = self.taken[:, 2] / scale, self.votes.diagonal() / scale
        stays = (votes + prior) / (sure + prior)
        others = (sure - votes).clamp(min=0) + max(1, self.num_classes - 1)
        habit = 1 / (sure + prior)
        own = (self.habits.diagonal() / scale + prior) * habit
        return Shares(stays, (1 - stays).clamp(min=0) / others, own, habit)

    def _scale(self) -> Tensor:
        """The weight of the last step."""
        return (self.steps * (self.steps + 1)).clamp(min=1)


class Shares(NamedTuple):
    """What turns sums into shares, by true class.

    Attributes:
        stays: How likely its label is right.
        vote: What a vote for another label is worth.
        own: The probability that it has where it is seen.
        habit: What a sum of probabilities is worth.
    """

    stays: Tensor
    vote: Tensor
    own: Tensor
    habit: Tensor
