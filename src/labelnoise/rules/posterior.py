"""Posterior: the midpoint rule, and labels that are more likely right than wrong besides.

What "evidence" grew out of, kept to compare with. During an epoch, samples whose most probable
class reaches its midpoint threshold vote (predicted, given); in the next epoch the shares of the
votes are the transition matrix of Bayes' rule. A label is kept when the midpoint rule keeps it or
when it is at least as likely right as wrong. In the first epoch the midpoint rule is alone.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from labelnoise import dist
from labelnoise.errors import LabelNoiseError
from labelnoise.rules.thresholds import midpoint_thresholds, select
from labelnoise.rules.verdict import Verdict

HALF = 0.5


class Posterior(nn.Module):
    """The votes of this epoch and of the one before.

    Args:
        num_classes: How many classes there are.
        samples: How many samples an epoch has.

    Attributes:
        seen: How many samples of this epoch were seen.
        votes: (predicted, given) of this epoch.
        before: The same of the one before.
    """

    seen: Tensor
    votes: Tensor
    before: Tensor

    def __init__(self, num_classes: int, samples: int) -> None:
        super().__init__()
        if samples < 1:
            raise LabelNoiseError(
                "threshold 'posterior' must know when an epoch ends: pass samples, the number of "
                "rows of the training set"
            )
        self.samples = samples
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.register_buffer("votes", torch.zeros(num_classes, num_classes))
        self.register_buffer("before", torch.zeros(num_classes, num_classes))

    def judge(self, probs: Tensor, labels: Tensor) -> Verdict:
        """Keep what the midpoint rule keeps and what is at least as likely right as wrong."""
        probs = probs.detach().to(self.votes.dtype)
        right = self.right(probs, labels)
        bars = midpoint_thresholds(probs, labels)
        keep = select(probs, labels, bars) | (right >= HALF)
        return Verdict(right, keep, keep.to(probs.dtype), {"thresholds": bars})

    def right(self, probs: Tensor, labels: Tensor) -> Tensor:
        """The probability that each given label is right; 0 before the first epoch has ended."""
        place = labels.unsqueeze(1)
        total = self.before.sum(dim=1, keepdim=True)
        transition = self.before / total.clamp(min=1)
        own = probs.gather(1, place).squeeze(1) * transition.diagonal()[labels]
        given = (probs * transition.T[labels]).sum(dim=1)
        right: Tensor = own / given.clamp(min=torch.finfo(own.dtype).tiny)
        return right

    @torch.no_grad()
    def remember(self, probs: Tensor, labels: Tensor, verdict: Verdict) -> None:
        """Add the votes of a mini-batch; of all processes, where several train together."""
        largest, predicted = probs.max(dim=1)
        sure = largest >= verdict.notes["thresholds"][predicted]
        new = torch.zeros_like(self.votes)
        new.index_put_((predicted, labels), sure.to(new.dtype), accumulate=True)
        self.votes += dist.total(new)
        self.seen += dist.total(torch.full_like(self.seen, len(labels)))
        over = self.seen >= self.samples
        self.before.copy_(torch.where(over, self.votes, self.before))
        self.votes.mul_(~over)
        self.seen.mul_(~over)
