"""Co-teaching+: Yu et al., ICML 2019, arXiv 1901.04215; builds on Co-teaching.

The two networks exchange their small-loss samples only among those on which their predictions
disagree, which keeps them from becoming the same network. It needs the noise rate.

Deviations from the authors' code, and from the BARE paper's (register in docs/methods.md):
- cross-entropy is taken of the logits; both codes apply softmax twice in the disagreement part,
  which flattens its gradients (`double_softmax=True` does so too, to find out what it is worth,
  and in the rare batches in which the networks agree);
- the warm-up is Co-teaching with dropping for whole `warmup` epochs, as in the method's own code;
  the BARE paper says "without any sample selection" (`warmup_mode="full"`), its code does one epoch
  less of the former;
- the masks are those of the samples that were trained on: the BARE authors' log mixes up positions
  in the disagreement with positions in the batch, so their precision and recall curves of this
  method mean nothing.
Where dropping leaves none of the disagreement, all of it is kept, as in both codes. Where the
networks agree on a whole batch, both train on all of it during the first `agree_steps`
updates of the run; later the loss is 0, and an optimiser with momentum coasts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from labelnoise import dist
from labelnoise.batch import Batch, Step
from labelnoise.errors import at_least, unknown
from labelnoise.methods.coteaching import CoTeaching, Pair, forget_rate
from labelnoise.problem import Problem

WARMUP_MODES = {"coteaching": True, "full": False}  # and whether they drop samples


def small_loss_within(losses: Tensor, part: Tensor, forget: float) -> Tensor:
    """Which samples of `part` to keep: all but the fraction `forget` with the largest losses.

    Where that leaves none, all of `part` is kept.

    Args:
        losses: (batch,) losses.
        part: (batch,) mask of the samples to choose from.
        forget: Fraction of them to drop.
    """
    rank = losses.detach().masked_fill(~part, torch.inf).argsort().argsort()
    # Counted on the device; raised a little first, because 1 - 0.9 is a little less than a tenth.
    kept = (part.sum() * ((1 - forget) * (1 + 1e-6))).floor()
    return part & ((rank < kept) | (kept == 0))


@dataclass
class CoTeachingPlus(CoTeaching):
    """Co-teaching among the samples on which the two networks disagree.

    Attributes:
        noise_rate: Fraction of wrong labels; `None` is the problem's.
        ramp: Epochs until that fraction is dropped.
        exponent: How the ramp bends; 1 is a straight line.
        backward: Which samples go backward: all (`"full"`), those that count (`"selected"`), or
            what is cheaper (`"auto"`).
        warmup: Epochs before disagreement counts; the BARE paper has 5 on MNIST, 10 on CIFAR-10.
        warmup_mode: Until then `"coteaching"`, or `"full"`: all samples for both.
        agree_steps: Updates during which a batch without disagreement is trained on whole.
        double_softmax: Repeat the released codes' mistake.
    """

    title = "Co-teaching+"

    warmup: int = 5
    warmup_mode: str = "coteaching"
    agree_steps: int = 5000
    double_softmax: bool = False

    def __post_init__(self) -> None:
        """Refuse what does not exist."""
        super().__post_init__()
        at_least(0, warmup=self.warmup, agree_steps=self.agree_steps)
        if self.warmup_mode not in WARMUP_MODES:
            raise unknown("value of warmup_mode", self.warmup_mode, WARMUP_MODES)

    def setup(self, problem: Problem) -> None:
        """Two networks, and a count of the updates."""
        super().setup(problem)
        self.steps = torch.zeros((), dtype=torch.long, device=problem.labels.device)

    def step(self, batch: Batch) -> Step:
        """Count, then exchange as Co-teaching does."""
        done = super().step(batch)
        self.steps += 1
        return done

    def losses(self, time: float, log_probs: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy, unless the released codes' mistake is asked for."""
        if self.double_softmax and time >= self.warmup:
            log_probs = log_probs.exp().log_softmax(dim=1)
        return super().losses(time, log_probs, labels)

    def choose(self, time: float, log_probs: Pair, losses: Pair) -> Pair:
        """The masks that the networks hand to each other: small losses where they disagree."""
        if time < self.warmup:
            if WARMUP_MODES[self.warmup_mode]:
                return super().choose(time, log_probs, losses)
            every = torch.ones_like(losses[0], dtype=torch.bool)
            return every, every
        forget = forget_rate(self.rate, time, self.ramp, self.exponent)
        disagree = log_probs[0].argmax(dim=1) != log_probs[1].argmax(dim=1)
        agreed = dist.nowhere(disagree) & (self.steps < self.agree_steps)
        keep = partial(small_loss_within, forget=forget)
        return (
            dist.across(keep, losses[0], disagree) | agreed,
            dist.across(keep, losses[1], disagree) | agreed,
        )
