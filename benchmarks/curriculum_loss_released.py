"""Curriculum Loss with every deviation of the BARE authors' code, to see what they are worth.

    LABELNOISE_DATA=... python benchmarks/curriculum_loss_released.py [class-conditional:0.45 ...]

Linear budget, selection by the training loss, one sample more than the bound allows, a runner-up of
max(0, best other logit), one epoch more of burn-in, soft hinge; otherwise as
`labelnoise train mnist --preset paper --method curriculum-loss --noise-rate nominal`.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass

import torch
from torch import Tensor

from labelnoise import Batch, Step, train
from labelnoise.experiment.machine import keep_memory
from labelnoise.losses import weighted_mean
from labelnoise.methods import METHODS
from labelnoise.methods.curriculum_loss import CurriculumLoss

NAME = "curriculum-loss-released"


def released_hinge(logits: Tensor, labels: Tensor) -> Tensor:
    """Their soft hinge: the score of the given label is set to 0 instead of left out."""
    column = labels.unsqueeze(1)
    given = logits.gather(1, column).squeeze(1)
    margin = given - logits.scatter(1, column, 0.0).amax(dim=1)
    wrong = (1 - given + logits.logsumexp(dim=1)).clamp(min=0)
    return torch.where(margin >= 0, (1 - margin).clamp(min=0), wrong)


@dataclass
class Released(CurriculumLoss):
    """Curriculum Loss as the BARE authors' code has it."""

    def step(self, batch: Batch) -> Step:
        """Choose and descend by the same loss."""
        logits = self.learner.logits(batch.inputs)
        losses = released_hinge(logits, batch.labels)
        keep = torch.ones_like(batch.labels, dtype=torch.bool)
        if batch.time >= self.burn_in + 1:
            ordered, order = losses.detach().sort()
            budget = (1 - self.rate) * len(losses)
            within = ordered.cumsum(0) <= budget + 1 - torch.arange(len(losses))
            within[0] = True
            keep = torch.zeros_like(within).scatter_(0, order, within)
        loss = weighted_mean(losses, keep)
        self.learner.descend(loss)
        probs = logits.detach().softmax(dim=1)
        return Step(batch.index, keep.to(losses.dtype), loss.detach(), probs)


def main() -> None:
    torch.set_num_threads(1)
    keep_memory()
    METHODS[NAME] = Released
    for noise in sys.argv[1:] or ["class-conditional:0.45"]:
        with tempfile.TemporaryDirectory() as out:
            run = train(
                "mnist", method=NAME, noise=noise, noise_rate="nominal", preset="paper", out=out
            )
            print(f"{noise}: {100 * run.summary()['test_accuracy']:.2f} %", flush=True)


if __name__ == "__main__":
    main()
