"""Digits with wrong labels, and what the library's own loop selects of them, batch by batch."""

from __future__ import annotations

from functools import cache

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from labelnoise import BARE, Batch, Learner, Problem, Step, fit
from labelnoise.data.scale import Scaling
from labelnoise.data.train import Train
from labelnoise.learner import Recipe
from labelnoise.seeds import stream

ROWS, BATCH, EPOCHS, CLASSES, LR = 240, 40, 25, 10, 0.1


@cache
def samples() -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, labels as given, and the true ones; every fifth label is wrong."""
    digits = load_digits()
    inputs = torch.tensor(digits.data[:ROWS] / 16, dtype=torch.float32)
    truth = torch.tensor(digits.target[:ROWS])
    chance = torch.Generator().manual_seed(0)
    other = (truth + torch.randint(1, CLASSES, (ROWS,), generator=chance)) % CLASSES
    return inputs, torch.where(torch.arange(ROWS) % 5 == 0, other, truth), truth


def network() -> nn.Module:
    """The same weights every time."""
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, CLASSES))


def optimiser(parameters: object) -> torch.optim.Optimizer:
    """The one that the recipe names."""
    return torch.optim.SGD(parameters, lr=LR, momentum=0.9, fused=True)  # type: ignore[arg-type]


class Watched(BARE):
    """Keeps every step."""

    steps: list[Step]

    def step(self, batch: Batch) -> Step:
        """As it is."""
        self.steps.append(super().step(batch))
        return self.steps[-1]


@cache
def own_loop() -> tuple[list[Tensor], list[list[bool]]]:
    """By `engine.fit`: the rows of every batch, and which of them were selected."""
    inputs, labels, _ = samples()
    train = Train(inputs, labels, Scaling(torch.tensor(0.0), torch.tensor(1.0)), BATCH, seed=0)
    recipe = Recipe("sgd", LR, schedule="constant")
    method = Watched()
    method.steps = []
    problem = Problem(labels, CLASSES, lambda: Learner(network(), recipe), stream(0, "method"))
    fit(method, problem, train, epochs=EPOCHS)
    kept = [step.keep.tolist() for step in method.steps if step.keep is not None]
    assert len(kept) == EPOCHS * ROWS // BATCH
    assert 0.6 < sum(kept[-1]) / BATCH < 0.95  # there is something to compare
    return [step.index for step in method.steps], kept


def order() -> Tensor:
    """All rows in the order in which the loop came by them, epoch after epoch."""
    return torch.cat(own_loop()[0])
