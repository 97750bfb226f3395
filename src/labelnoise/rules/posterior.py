"""Posterior: the midpoint rule, and labels that are more likely right than wrong besides.

What "evidence" grew out of, kept to compare with. During an epoch, samples whose most probable
class reaches its midpoint threshold vote (predicted, given); in the next epoch the shares of the
votes are the transition matrix of Bayes' rule. A label is kept when the midpoint rule keeps it or
when it is at least as likely right as wrong. In the first epoch the midpoint rule is alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from labelnoise import dist
from labelnoise.errors import LabelNoiseError
from labelnoise.rules.statistics import in_pieces, most_probable
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
        votes: (predicted, given) of this epoch, and of this process until it ends.
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
        self._by_given: tuple[Tensor, Tensor] | None = None

    def judge(self, probs: Tensor, labels: Tensor) -> Verdict:
        """Keep what the midpoint rule keeps and what is at least as likely right as wrong."""
        probs = probs.detach().to(self.votes.dtype)
        right = self.right(probs, labels)
        bars = midpoint_thresholds(probs, labels)
        keep = select(probs, labels, bars) | (right >= HALF)
        return Verdict(right, keep, keep.to(probs.dtype), {"thresholds": bars})

    def right(self, probs: Tensor, labels: Tensor) -> Tensor:
        """The probability that each given label is right; 0 before the first epoch has ended."""
        stays, by_given = self._looked_up()
        own = probs.gather(1, labels.unsqueeze(1)).squeeze(1) * stays.index_select(0, labels)
        classes = probs.shape[1]
        parts = zip(in_pieces(probs, classes), in_pieces(labels, classes), strict=True)
        given = [by_given.index_select(0, y).mul_(p).sum(dim=1) for p, y in parts]
        right: Tensor = own / torch.cat(given).clamp_(min=torch.finfo(own.dtype).tiny)
        return right

    @torch.no_grad()
    def remember(self, probs: Tensor, labels: Tensor, verdict: Verdict) -> None:
        """Add the votes of a mini-batch; of all processes, where several train together."""
        found = [most_probable(each) for each in in_pieces(probs, probs.shape[1])]
        largest, predicted = (torch.cat(each) for each in zip(*found, strict=True))
        sure = largest >= verdict.notes["thresholds"].index_select(0, predicted)
        place = predicted * len(self.votes) + labels
        self.votes.view(-1).index_add_(0, place, sure.to(self.votes.dtype))
        self.seen += dist.total(torch.full_like(self.seen, len(labels) * dist.stands_for()))
        over = self.seen >= self.samples
        # Elsewhere the host would have to wait for the answer; with others it does, so that votes
        # are exchanged once an epoch.
        if (over.is_cpu or dist.world() > 1) and not bool(over):
            return
        dist.total(self.votes)
        self.before.copy_(torch.where(over, self.votes, self.before))
        self.votes.mul_(~over)
        self.seen.mul_(~over)
        self._by_given = None

    def _looked_up(self) -> tuple[Tensor, Tensor]:
        """(classes,) how many votes were for the class's own label; (given, predicted) for which.

        Shares of the votes of the class predicted, made anew when an epoch has ended.
        """
        if self._by_given is None:
            shares = self.before / self.before.sum(dim=1, keepdim=True).clamp_(min=1)
            self._by_given = shares.diagonal().clone(), shares.T.contiguous()
        return self._by_given

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Forget what was looked up where it was."""
        self._by_given = None
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call,no-any-return]

    def _load_from_state_dict(self, *args: Any) -> None:
        """Forget what was looked up before."""
        self._by_given = None
        super()._load_from_state_dict(*args)
