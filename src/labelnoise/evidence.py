"""Evidence: how far given labels can be trusted, gathered while a network learns from them.

Every mini-batch leaves three sums behind, which say how the next one is weighed.
- Votes: the labels given to samples that the network surely takes for class j, surer than it was on
  average about j. Their shares are an estimate of transition[j], and Bayes' rule makes of it the
  probability that a label y is right: p_y transition[y, y] / sum_j p_j transition[j, y].
- The mean and the variance of that probability among the samples labelled c. The variance over
  mean * (1 - mean), its largest possible value, is the resolution of c: 0 while the network cannot
  tell right labels of c from wrong ones, 1 once it knows for sure.
- weight = resolution * [right >= 1/2] + (1 - resolution) * right / mean ** (1 - resolution).

While nothing is resolved all weights are 1, and training is cross-entropy; when all is, only labels
that are more likely right than wrong count. What was long ago counts less: the sums are means over
the history in which step t has a weight proportional to t. There is nothing to set.
"""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor, nn


def transition_by_votes(votes: Tensor) -> Tensor:
    """Row-stochastic estimate of P(given, true) from votes[predicted, given].

    A class begins with as many votes for its own label as there are classes, so that labels are
    trusted until something speaks against them, and the wrong labels of a class with one vote for
    each other class: a confusion that was not seen yet is not impossible.
    """
    classes = len(votes)
    own, all_votes = votes.diagonal(), votes.sum(dim=1)
    stays = (own + classes) / (all_votes + classes)
    others = (votes + 1).fill_diagonal_(0)
    share = others / others.sum(dim=1, keepdim=True).clamp(min=1)
    return share * (1 - stays).unsqueeze(1) + torch.diag(stays)


def probability_right(probs: Tensor, labels: Tensor, transition: Tensor) -> Tensor:
    """The probability that each given label is the true one: (batch, classes) -> (batch,)."""
    place = labels.unsqueeze(1)
    right = probs.gather(1, place).squeeze(1) * transition.diagonal()[labels]
    given = (probs @ transition).gather(1, place).squeeze(1)
    # Where the label is impossible for the network, nothing speaks for it.
    return (right / given.clamp(min=torch.finfo(probs.dtype).tiny)).clamp(max=1)


def resolution(moments: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and resolution of each class, from the count, sum and sum of squares of `right`.

    A class without samples has mean 1 and resolution 0: its labels count as they are.
    """
    count, total, squares = moments.unbind(dim=1)
    seen = count > 0
    mean = torch.where(seen, total / count, 1.0)
    most = mean * (1 - mean)
    spread = (squares / count - mean.square()) / most
    # Without anything to resolve, or with nothing but rounding, all labels of the class are alike.
    tiny = torch.finfo(moments.dtype).eps
    return mean, torch.where(seen & (most > tiny), spread, 0.0).clamp(0, 1)


def weigh(right: Tensor, labels: Tensor, mean: Tensor, resolved: Tensor) -> Tensor:
    """The weight of each sample, from how likely its label is right and what its class is like."""
    sure = resolved[labels]
    whole = mean.clamp(min=torch.finfo(mean.dtype).eps)[labels] ** (1 - sure)
    return torch.lerp(right / whole, (right >= 0.5).to(right.dtype), sure)


class Evidence(nn.Module):
    """What the samples so far tell about the labels of the next ones.

    Args:
        num_classes: How many classes there are.

    Attributes:
        steps: How many mini-batches there were.
        votes: (classes, classes) given labels, by predicted class, of the sure predictions.
        sureness: (classes, 2) how many samples were taken for a class, and the sum of their
            largest probabilities.
        moments: (classes, 3) how many samples were labelled with a class, and the sum of `right`
            and of its square.
    """

    steps: Tensor
    votes: Tensor
    sureness: Tensor
    moments: Tensor

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("votes", torch.zeros(num_classes, num_classes))
        self.register_buffer("sureness", torch.zeros(num_classes, 2))
        self.register_buffer("moments", torch.zeros(num_classes, 3))

    def transition(self) -> Tensor:
        """(classes, classes) P(given = column, true = row), as far as it is known."""
        return transition_by_votes(self.votes)

    def right(self, probs: Tensor, labels: Tensor) -> Tensor:
        """The probability that each given label is right; nothing is remembered."""
        return probability_right(probs.detach().to(self.votes.dtype), labels, self.transition())

    def weights(self, right: Tensor, labels: Tensor) -> Tensor:
        """How much each sample should count; nothing is remembered."""
        return weigh(right, labels, *resolution(self.moments))

    def remember(self, probs: Tensor, labels: Tensor, right: Tensor) -> None:
        """Add a mini-batch to the sums."""
        given = functional.one_hot(labels, self.num_classes).to(right.dtype)
        largest, predicted = probs.detach().to(right.dtype).max(dim=1)
        taken = functional.one_hot(predicted, self.num_classes).to(right.dtype)
        count, total = self.sureness.unbind(dim=1)
        bar = total / count.clamp(min=1)
        sure = (largest >= bar[predicted]).to(right.dtype)
        one = torch.ones_like(right)
        self.steps += 1
        fade = (self.steps - 1) / (self.steps + 1)  # makes weights that grow with the step
        self.votes.mul_(fade).add_(taken.T @ (given * sure.unsqueeze(1)))
        self.sureness.mul_(fade).add_(taken.T @ torch.stack([one, largest], dim=1))
        self.moments.mul_(fade).add_(given.T @ torch.stack([one, right, right.square()], dim=1))

    def noise_rate(self) -> Tensor:
        """The fraction of wrong labels, as far as it is known."""
        return 1 - self.moments[:, 1].sum() / self.moments[:, 0].sum()
