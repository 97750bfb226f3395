"""Evidence: how far given labels can be trusted, gathered while a network learns from them.

For a sample with probabilities q and given label y,

    p      = (q_y - rho leak) / (1 - rho (1 - own) - rho leak)      what q_y says of the true class
    right  = p stays / (p stays + (1 - p) strays)                   Bayes' rule
    weight = rho [right >= cut] + (1 - rho) right / now ** (1 - rho)

Every mini-batch leaves sums behind, from which the next one takes these.
- Samples that the network is surer about than it was on average about the class that it predicts
  vote with their given labels, which is an estimate of the noise: `stays` is the share of votes for
  y where y is predicted, `strays` where something else is that the sample may be instead.
- Their mean probabilities are the network's habits: `own` is what it usually gives to y where it
  sees y, `leak` what it gives to y where it sees something else.
- Of the samples labelled y: the `mean` of `right`; the variance of `right` within mini-batches
  over mean (1 - mean), the largest possible one, is the resolution `rho` of the class, 0
  while right labels cannot be told from wrong ones, 1 once they are for sure; the `cut` is halfway
  between the mean of what lies above `mean` and the mean of what lies below, as in the midpoint
  rule.

A class that by its votes loses more labels to another one than it keeps is not believed: that is
what a network's mistakes look like. While it is so, no label is doubted for looking like that class
(its `strays` and `leak` are 0), and its own labels are weighed against each other but not cut (its
`rho` is 0).

Only `now` is of the mini-batch itself: the mean of `right` over its samples labelled y and one more
that is as good as `mean`. So a network that takes to one class and leaves another from one step to
the next moves all labels of a class alike, and their weights not at all.

While nothing is resolved, weights are about 1 and training is cross-entropy; when all is, labels
count that look like the right ones of their class. No label is judged before the network has
learned from it once. What was long ago counts less: step s of t has a weight of about (s / t)^2.
There is nothing to set. Mini-batches are added up a few at a time, so that most of them cost no
more than a look into tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from labelnoise import dist
from labelnoise.errors import LabelNoiseError
from labelnoise.rules.statistics import FEW, in_pieces, most_probable, reaches, slack, sums_by
from labelnoise.rules.verdict import Verdict

# Of all mini-batches, one in so many waits to be added up at most, and so many at most, or as many
# as there are classes: for speed alone. What processes exchange then are tables of classes squared,
# a few numbers a class and mini-batch.
TOGETHER = 32
LARGE = 1 << 16  # probabilities of a mini-batch from which on they do not wait, but what is in them
LIMITS = torch.finfo(torch.float32)
ALMOST = 1 + LIMITS.eps
LEAST = LIMITS.tiny / LIMITS.eps


class Sums(NamedTuple):
    """What mini-batches leave behind.

    Attributes:
        votes: (given, predicted) how many sure predictions there were.
        habits: (predicted, class) the sum of the class's probability over sure predictions.
        taken: (predicted, 3) how many samples, the sum of their largest probabilities, and how many
            of them were sure.
        rights: (given, 7) the sum of `right`; of those whose `right` reached the mean and of the
            others, how many and the sum of what was missing to 1; squared differences from the mean
            of the label's samples in the same mini-batch, and how many of them were free.
    """

    votes: Tensor
    habits: Tensor
    taken: Tensor
    rights: Tensor


class Standing(NamedTuple):
    """What the labels of every class are like.

    Attributes:
        mean: (classes,) of `right`; 1 for a class without samples.
        resolution: (classes,) how well right ones can be told from wrong ones, 0 to 1; of a class
            that is not believed 0.
        cut: (classes,) from which value of `right` on a label is taken for right.
    """

    mean: Tensor
    resolution: Tensor
    cut: Tensor


class Tables(NamedTuple):
    """All that a judgement looks up, by given label.

    Attributes:
        others: (given, 2, class) minus `leak`, and `strays` over `stays`, by what else it may be;
            with few classes, on a CPU, (given, 3, class), and the given label itself.
        numbers: (4, given) `own`, `cut` less what rounding may do, and two parts of a weight: what
            it is anyway, and for a label that reaches the cut.
        soft: (given,) the third one, before it is divided: for a `right` of 1.
        power: (given,) of which power of the mini-batch's own mean that is.
        one: (given,) 1, for the sample that is as good as the mean.
        standing: What all that comes from.
        noise_rate: Of all labels.
    """

    others: Tensor
    numbers: Tensor
    soft: Tensor
    power: Tensor
    one: Tensor
    standing: Standing
    noise_rate: Tensor


class Evidence(nn.Module):
    """What the samples so far tell about the labels of the next ones.

    Args:
        num_classes: How many classes there are.
        samples: How many samples the training set has: in the first pass over them all count. With
            0, weights differ from the second mini-batch on.

    Attributes:
        votes, habits, taken, rights: What `Sums` says. What was added last has a weight of 1 in it,
            what was before it less.
        seen: How many samples were added.
        steps: How many mini-batches there were, those that wait to be added among them.
    """

    votes: Tensor
    habits: Tensor
    taken: Tensor
    rights: Tensor
    seen: Tensor

    def __init__(self, num_classes: int, samples: int = 0) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.samples = samples
        self.steps = 0
        self.register_buffer("votes", torch.zeros(num_classes, num_classes))
        self.register_buffer("habits", torch.zeros(num_classes, num_classes))
        self.register_buffer("taken", torch.zeros(num_classes, 3))
        self.register_buffer("rights", torch.zeros(num_classes, 7))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self._waiting: list[tuple[Tensor, ...]] = []
        self._new_habits: Tensor | None = None
        self._one_each = torch.empty(0)
        self._tables: Tables | None = None
        self._doubt: Tensor | None = None

    def judge(self, probs: Tensor, labels: Tensor) -> Verdict:
        """What the evidence so far says of a mini-batch; nothing is remembered.

        A weight that could not be seen next to 1 is exactly 0, so that the sample may be left out.
        It may come to pass that all of them are.
        """
        if probs.shape[1] != self.num_classes:
            raise LabelNoiseError(
                f"{probs.shape[1]} classes, but the evidence is about {self.num_classes}: every "
                "head of a network needs a rule of its own"
            )
        tables = self._look_up()
        if probs.requires_grad or probs.dtype != self.votes.dtype:
            probs = probs.detach().to(self.votes.dtype)
        own, cut, anyway, if_kept = tables.numbers.index_select(1, labels).unbind()
        # Sums over the other classes: averages times 1 - given.
        minus_leak, strays, given = _looks(tables.others, probs, labels)
        # Bayes' rule with p = (given - leak) / (own - leak), multiplied by all that it divides by.
        rest = ALMOST - given  # never 0, so that a label that is sure is right
        # Not 0 either: with no other class believed, 0 / 0.
        for_it = torch.addcmul(minus_leak, given, rest).clamp_(min=LEAST)
        right = for_it / torch.addcmul(for_it, own.sub_(given).clamp_(min=0), strays)
        keep = right >= cut
        weight = torch.addcmul(anyway, self._by_right(right, labels), right)
        torch.threshold_(weight.addcmul_(if_kept, keep), LIMITS.eps, 0)
        notes = {"thresholds": tables.standing.cut, "noise_rate": tables.noise_rate}
        return Verdict(right, keep, weight, notes)

    def remember(self, probs: Tensor, labels: Tensor, verdict: Verdict) -> None:
        """Add a mini-batch to the evidence; of all processes, where several train together.

        It may wait to be added, so that none of the three may be changed from here on.
        """
        seen = probs.detach(), labels, verdict.score
        self._waiting.append(seen if probs.numel() < LARGE else self._taken_in(*seen))
        self.steps += 1
        # The first ones at once: where nothing is known, each of them tells much.
        most = max(TOGETHER, self.num_classes)
        if len(self._waiting) >= min(self.steps / TOGETHER, most):
            self._add_up()

    @torch.no_grad()
    def _taken_in(self, probs: Tensor, labels: Tensor, right: Tensor) -> tuple[Tensor, ...]:
        """What is left of a mini-batch when its probabilities have been added to the new habits.

        Returns:
            (batch,) labels; `right`; the class predicted, its probability, and 1 where it is sure.
        """
        habits, bars = self._habits_to_be(), self._bars()
        classes, found = self.num_classes, []
        for piece in in_pieces(probs, classes):
            wide = piece.to(right.dtype)
            largest, predicted = most_probable(wide)
            sure = reaches(largest, bars.index_select(0, predicted)).to(right.dtype)
            if classes <= FEW:
                where = torch.zeros_like(wide).scatter_(1, predicted[:, None], sure[:, None])
                habits[:classes].addmm_(where.T, wide)
            else:
                habits.index_add_(0, torch.where(sure > 0, predicted, classes), wide)
            found.append((predicted, largest, sure))
        if len(found) == 1:
            return labels, right, *found[0]
        return labels, right, *(torch.cat(each) for each in zip(*found, strict=True))

    @torch.no_grad()
    def _add_up(self) -> None:
        """Add what waits to the sums, as if it were one mini-batch."""
        together, classes = len(self._waiting), self.num_classes
        sizes = [len(each[1]) for each in self._waiting]
        if all(len(each) == 3 for each in self._waiting):
            seen = self._taken_in(*(torch.cat(each) for each in zip(*self._waiting, strict=True)))
        else:
            parts = [self._taken_in(*x) if len(x) == 3 else x for x in self._waiting]
            seen = tuple(torch.cat(each) for each in zip(*parts, strict=True))
        labels, right, predicted, largest, sure = seen
        first = torch.arange(0, together * classes, classes).repeat_interleave(torch.tensor(sizes))
        place = first.to(labels.device).add_(labels)
        high = reaches(right, self._look_up().standing.mean.index_select(0, labels))
        high, wrong = high.to(right.dtype), 1 - right
        one, low, high_wrong = torch.ones_like(right), 1 - high, wrong * high
        votes = sure.new_zeros(classes * classes).index_add_(0, labels * classes + predicted, sure)
        taken = sums_by(predicted, classes, one, largest, sure)
        rights = sums_by(labels, classes, right, high, high_wrong, low, wrong * low)
        apart = sums_by(place, together * classes, one, wrong, wrong * wrong)
        habits = self._habits_to_be()[:classes]
        for each in (votes, habits, taken, rights, apart):
            dist.total(each)
        count, total, squares = apart.view(together, classes, 3).unbind(dim=2)
        differences = squares - total.square() / count.clamp(min=1)
        spread = [differences.clamp_(min=0).sum(dim=0), (count - 1).clamp_(min=0).sum(dim=0)]
        new = votes.view(classes, classes), habits, taken, torch.column_stack([rights, *spread])
        before = self._lateness(self.steps - together) / self._lateness(self.steps)
        for sums, each in zip(self.sums(), new, strict=True):
            sums.mul_(before).add_(each)
        self.seen += count.sum().long() * dist.stands_for()
        self._waiting, self._new_habits, self._tables, self._doubt = [], None, None, None

    def _habits_to_be(self) -> Tensor:
        """(predicted, class) what waits to be added to the habits; at last what was not sure."""
        if self._new_habits is None:
            self._new_habits = self.habits.new_zeros(self.num_classes + 1, self.num_classes)
        return self._new_habits

    def sums(self) -> Sums:
        """What all mini-batches so far have left behind."""
        return Sums(self.votes, self.habits, self.taken, self.rights)

    def right(self, probs: Tensor, labels: Tensor) -> Tensor:
        """The probability that each given label is the true one: (batch, classes) -> (batch,)."""
        return self.judge(probs, labels).score

    @torch.no_grad()
    def doubts(self) -> Tensor:
        """(given, true) how likely the label is there for every time that it is there by right.

        For `odds`. It is another tensor whenever the sums have changed. Who strays where is half
        what was voted, half even: where few labels are wrong, it hangs on a few votes.
        """
        if self._doubt is None:
            stays, strays = self._stays_and_strays()
            even = ((1 - stays).clamp(min=0) / max(1, self.num_classes - 1)).expand_as(strays)
            mixed = (strays + even).fill_diagonal_(0) / 2 * self._believed(stays, strays)
            self._doubt = mixed / stays.unsqueeze(1)
        return self._doubt

    def transition(self) -> Tensor:
        """(classes, classes) P(given = column, true = row), as far as it is known."""
        stays, strays = self._stays_and_strays()
        return strays.T + torch.diag(stays)

    def standing(self) -> Standing:
        """What the labels of every class are like."""
        return self._look_up().standing

    def noise_rate(self) -> Tensor:
        """The fraction of wrong labels, as far as it is known."""
        _, high, high_wrong, low, low_wrong, *_ = self.rights.sum(dim=0)
        count = high + low
        return torch.where(count > 0, (high_wrong + low_wrong) / count, 0.0)

    def extra_repr(self) -> str:
        """What `print` shows."""
        return f"num_classes={self.num_classes}, samples={self.samples}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Follow the network to another device, but not to another precision."""
        device = fn(torch.empty(0, device=self.votes.device)).device
        self._waiting = [_on(device, *each) for each in self._waiting]
        if self._new_habits is not None:
            self._new_habits = self._new_habits.to(device)
        self._tables = self._doubt = None
        super()._apply(lambda each: each.to(device), recurse)  # type: ignore[no-untyped-call]
        return self

    def get_extra_state(self) -> dict[str, Any]:
        """What waits to be added up, for a checkpoint."""
        found: dict[str, Any] = {"steps": self.steps, "waiting": list(self._waiting)}
        if self._new_habits is not None:
            found["habits"] = self._new_habits.clone()
        return found

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Go back to it."""
        self.steps = state["steps"]
        self._waiting = [_on(self.votes.device, *each) for each in state["waiting"]]
        habits = state.get("habits")
        self._new_habits = None if habits is None else habits.to(self.votes.device, copy=True)
        self._tables = self._doubt = None

    def _by_right(self, right: Tensor, labels: Tensor) -> Tensor:
        """By how much of `right` each label counts: less where its class looks good just now."""
        tables = self._look_up()
        if dist.world() > 1:
            here = dist.total(sums_by(labels, self.num_classes, right, self._ones(right)))
            total = tables.standing.mean + here[:, 0]
            count = tables.one + here[:, 1]
        else:
            total = tables.standing.mean.index_add(0, labels, right)
            count = tables.one.index_add(0, labels, self._ones(right))
        by_class = total.div_(count).pow_(tables.power).mul_(tables.soft)
        return by_class.index_select(0, labels)

    def _ones(self, like: Tensor) -> Tensor:
        """As many as there are samples; mini-batches mostly have the same size."""
        if self._one_each.shape != like.shape or self._one_each.device != like.device:
            with torch.inference_mode(mode=False):
                self._one_each = torch.ones_like(like)
        return self._one_each

    def _look_up(self) -> Tables:
        """What a judgement looks up, made anew after the sums have changed."""
        if self._tables is None:
            self._tables = self._made_tables()
        return self._tables

    @torch.no_grad()
    def _made_tables(self) -> Tables:
        standing, habits = self._standing(), self._habits()
        stays, strays = self._stays_and_strays()
        believed = self._believed(stays, strays)
        resolved = standing.resolution * believed
        own = 1 - resolved * (1 - habits.diagonal())
        # Not on a GPU, whose products may keep ten bits of what must be told from 1.
        rows = 3 if self.num_classes <= FEW and habits.is_cpu else 2
        others = habits.new_empty(self.num_classes, rows, self.num_classes)
        torch.mul(habits.T, -resolved.unsqueeze(1), out=others[:, 0]).fill_diagonal_(0)
        torch.div(strays, stays.unsqueeze(1), out=others[:, 1])
        others.mul_(believed)
        if rows == 3:
            others[:, 2] = torch.eye(self.num_classes, device=others.device)
        # In the first pass all count alike.
        judged = (self.seen >= self.samples).to(resolved.dtype).expand_as(resolved)
        cut = standing.cut / slack(standing.cut)
        numbers = torch.stack([own, cut, 1 - judged, resolved * judged])
        standing, soft = standing._replace(resolution=resolved), (1 - resolved) * judged
        power, one = resolved - 1, torch.ones_like(resolved)
        return Tables(others, numbers, soft, power, one, standing, self.noise_rate())

    def _standing(self) -> Standing:
        """By their `right` alone, whether or not the class is believed."""
        limits = torch.finfo(self.rights.dtype)
        right, high, high_wrong, low, low_wrong, squares, free = self.rights.unbind(dim=1)
        count = high + low
        mean = torch.where(count > 0, right / count, 1.0)
        missing = torch.where(count > 0, (high_wrong + low_wrong) / count, 0.0)
        most = mean * missing  # mean (1 - mean), precise next to 0 and to 1
        # With nothing to resolve, or with nothing but rounding, all labels of the class are alike.
        some = (free > 0) & (most > limits.eps)
        resolution = torch.where(some, squares / (free * most), 0.0).clamp(0, 1)
        above = torch.where(high > 0, 1 - high_wrong / high, 1.0)
        below = torch.where(low > 0, 1 - low_wrong / low, 0.0)
        return Standing(mean.clamp(min=limits.eps), resolution, (above + below) / 2)

    def _believed(self, stays: Tensor, strays: Tensor) -> Tensor:
        """(classes,) 1 for a class that keeps more of its labels than it loses to any other one."""
        return (stays > strays.amax(dim=0)).to(stays.dtype)

    def _bars(self) -> Tensor:
        """(classes,) from which probability on a prediction is sure: their mean so far."""
        count, total, _ = self.taken.unbind(dim=1)
        return total / count.clamp(min=torch.finfo(count.dtype).tiny)

    def _stays_and_strays(self) -> tuple[Tensor, Tensor]:
        """How likely the label of a class is right, and (given, true) which wrong one it is.

        A class begins with as many votes for its own label as there are classes, so that labels are
        trusted until something speaks against them; and with one vote for every other label, by
        which the first wrong ones are shared out.
        """
        own, all_votes, prior = self.votes.diagonal(), self.taken[:, 2], self.num_classes
        stays = (own + prior) / (all_votes + prior)
        share = (1 - stays).clamp(min=0) / ((all_votes - own).clamp(min=0) + max(1, prior - 1))
        return stays, (self.votes + 1).mul_(share).fill_diagonal_(0)

    def _habits(self) -> Tensor:
        """(predicted, class) mean probabilities, after so many perfect predictions as classes."""
        total = self.habits.clone()
        total.diagonal().add_(self.num_classes)
        return total.div_(self.taken[:, 2:] + self.num_classes)

    def _lateness(self, step: int) -> float:
        """The weight of a step in all sums, before they are divided by that of the last."""
        return step * (step + 1)


def odds(doubts: Tensor, probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What Bayes' rule makes of probabilities as they are, without the network's habits.

    For putting labels in order: `right` is 0 for whatever falls below a habit, these numbers still
    tell more from less.

    Args:
        doubts: (given, true) of `Evidence.doubts`.
        probs: (batch, classes) probabilities.
        labels: (batch,) labels as given.

    Returns:
        (batch,) the logarithm of the odds that the label is right; the class that it should be
        otherwise; and how likely that is among all others.
    """
    probs = probs.detach().to(doubts.dtype)
    instead = doubts.index_select(0, labels).mul_(probs)
    most, other = instead.max(dim=1)
    wrong = instead.sum(dim=1)
    limits = torch.finfo(probs.dtype)
    given = probs.gather(1, labels.unsqueeze(1)).squeeze(1)
    sure = -math.log(limits.eps)
    found = (given.clamp(min=limits.tiny) / wrong.clamp(min=limits.tiny)).log()
    return found.clamp(-sure, sure), other, most / wrong.clamp(min=limits.tiny)


def _looks(others: Tensor, probs: Tensor, labels: Tensor) -> Sequence[Tensor]:
    """(batch,) minus `leak` and `strays`, as sums over all other classes, and the label's own."""
    classes = probs.shape[1]
    if others.shape[1] == 3:
        found = probs.new_empty(len(probs), 3, 1)  # asked for, autocast leaves the product alone
        pieces = zip(*(in_pieces(each, classes) for each in (probs, labels, found)), strict=True)
        for p, y, room in pieces:
            torch.bmm(others.index_select(0, y), p.unsqueeze(2), out=room)
        return found.squeeze(2).unbind(dim=1)
    parts = zip(in_pieces(probs, classes), in_pieces(labels, classes), strict=True)
    sums = [others.index_select(0, y).mul_(p.unsqueeze(1)).sum(dim=2) for p, y in parts]
    given = probs.gather(1, labels.unsqueeze(1)).squeeze(1)
    return *torch.cat(sums).unbind(dim=1), given


def _on(device: torch.device, *tensors: Tensor) -> tuple[Tensor, ...]:
    return tuple(each.to(device) for each in tensors)
