"""Evidence: how far given labels can be trusted, gathered while a network learns from them.

Every mini-batch leaves sums behind, which say how the next one is weighed.
- Votes: the labels given to samples that the network surely takes for class j, surer than it was on
  average about j. Their shares are an estimate of transition[j], and Bayes' rule makes of it the
  probability that a label y is right: p_y transition[y, y] / sum_j p_j transition[j, y].
- The mean and the variance of that probability among the samples labelled c. The variance over
  mean * (1 - mean), its largest possible value, is the resolution of c: 0 while the network cannot
  tell right labels of c from wrong ones, 1 once it knows for sure.
- weight = resolution * [right >= 1/2] + (1 - resolution) * right / mean ** (1 - resolution).

While nothing is resolved all weights are about 1, and training is cross-entropy; when all is, only
labels that are more likely right than wrong count. No label is judged before the network has
learned from it once. What was long ago counts less: step s of t has a weight of about (s / t)^2.
There is nothing to set.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labelnoise import dist
from labelnoise.errors import LabelNoiseError
from labelnoise.rules.verdict import Verdict

HALF = 0.5  # Bayes' rule: from there on a label is more likely right than wrong


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
        taken: (classes, 3) samples predicted as a class: how many, the sum of their largest
            probabilities, and how many of them were sure.
        moments: (classes, 3) samples labelled with a class: how many, the sum of `right` and of
            its square.
    """

    steps: Tensor
    seen: Tensor
    votes: Tensor
    taken: Tensor
    moments: Tensor

    def __init__(self, num_classes: int, samples: int = 0) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.samples = samples
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.register_buffer("votes", torch.zeros(num_classes, num_classes))
        self.register_buffer("taken", torch.zeros(num_classes, 3))
        self.register_buffer("moments", torch.zeros(num_classes, 3))

    def judge(self, probs: Tensor, labels: Tensor) -> Verdict:
        """What the evidence so far says of a mini-batch; nothing is remembered."""
        if probs.shape[1] != self.num_classes:
            raise LabelNoiseError(
                f"{probs.shape[1]} classes, but the evidence is about {self.num_classes}: every "
                "head of a network needs a rule of its own"
            )
        right = self.right(probs, labels)
        keep = right >= HALF
        mean, resolved = self.resolution()
        sure = resolved[labels]
        soft = right / mean[labels] ** (1 - sure)
        weight = torch.lerp(soft, keep.to(right.dtype), sure)
        weight = torch.where(self.seen < self.samples, torch.ones_like(weight), weight)
        return Verdict(right, keep, weight, {"noise_rate": self.noise_rate()})

    @torch.no_grad()
    def remember(self, probs: Tensor, labels: Tensor, verdict: Verdict) -> None:
        """Add a mini-batch to the evidence; of all processes, where several train together."""
        largest, predicted = probs.max(dim=1)
        right = verdict.score
        columns = [labels, predicted, largest, right]
        rows = dist.gathered(torch.stack([column.to(right.dtype) for column in columns], dim=1))
        labels, predicted = rows[:, 0].long(), rows[:, 1].long()
        largest, right = rows[:, 2], rows[:, 3]
        one = torch.ones_like(right)
        count, total, _ = self.taken.unbind(dim=1)
        sure = (largest >= (total / count.clamp(min=1))[predicted]).to(right.dtype)
        self.steps += 1
        self.seen += len(rows)
        late = self._scale()
        places = labels * self.num_classes + predicted
        self.votes.view(-1).index_add_(0, places, sure * late)
        self.taken.index_add_(0, predicted, torch.stack([one, largest, sure], dim=1) * late)
        self.moments.index_add_(0, labels, torch.stack([one, right, right.square()], dim=1) * late)

    def right(self, probs: Tensor, labels: Tensor) -> Tensor:
        """The probability that each given label is the true one: (batch, classes) -> (batch,)."""
        probs = probs.detach().to(self.votes.dtype)
        place = labels.unsqueeze(1)
        stays, leaves = self._stays_and_leaves()
        own = probs.gather(1, place).squeeze(1) * stays[labels]
        others = (probs * leaves).scatter(1, place, 0)
        other = (others * (self.votes[labels] / self._scale() + 1)).sum(dim=1)
        # Where the label is impossible for the network, nothing speaks for it.
        right: Tensor = own / (own + other).clamp(min=torch.finfo(own.dtype).tiny)
        return right

    def transition(self) -> Tensor:
        """(classes, classes) P(given = column, true = row), as far as it is known."""
        stays, leaves = self._stays_and_leaves()
        others = (self.votes / self._scale() + 1).T * leaves.unsqueeze(1)
        return others.fill_diagonal_(0) + torch.diag(stays)

    def resolution(self) -> tuple[Tensor, Tensor]:
        """Mean of `right` and resolution of every class of given labels.

        A class without samples has mean 1 and resolution 0: its labels count as they are.
        """
        count, total, squares = self.moments.unbind(dim=1)
        tiny = torch.finfo(total.dtype).eps
        mean = torch.where(count > 0, total / count, 1.0)
        most = mean * (1 - mean)
        # With nothing to resolve, or with nothing but rounding, all labels of the class are alike.
        some = (count > 0) & (most > tiny)
        spread = torch.where(some, (squares / count - mean.square()) / most, 0.0)
        return mean.clamp(min=tiny), spread.clamp(0, 1)

    def noise_rate(self) -> Tensor:
        """The fraction of wrong labels, as far as it is known."""
        count, total, _ = self.moments.sum(dim=0)
        return torch.where(count > 0, 1 - total / count, 0.0)

    def extra_repr(self) -> str:
        """What `print` shows."""
        return f"num_classes={self.num_classes}, samples={self.samples}"

    def _stays_and_leaves(self) -> tuple[Tensor, Tensor]:
        """By true class: how likely a label is right, and what a vote for another label is worth.

        A class begins with as many votes for its own label as there are classes, so that labels are
        trusted until something speaks against them, and with one vote for every other label: a
        confusion that was not seen yet is not impossible.
        """
        own, all_votes = self.votes.diagonal() / self._scale(), self.taken[:, 2] / self._scale()
        stays = (own + self.num_classes) / (all_votes + self.num_classes)
        others = (all_votes - own).clamp(min=0) + self.num_classes - 1
        return stays, (1 - stays).clamp(min=0) / others.clamp(min=1)

    def _scale(self) -> Tensor:
        """The weight of the last step."""
        return (self.steps * (self.steps + 1)).clamp(min=1)
