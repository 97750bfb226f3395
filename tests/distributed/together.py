"""One of several processes that take the same steps: `together.py RANK WORLD FOLDER`.

Every method learns from the same joined mini-batches, of which each process has a part; what came
out is left in FOLDER. With WORLD 1 nobody is asked.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, distributed, nn

from labelnoise import Batch, Learner, Method, Problem
from labelnoise.data.scale import Scaling
from labelnoise.data.train import Train
from labelnoise.learner import Recipe
from labelnoise.methods import METHODS
from labelnoise.methods.bare import BARE
from labelnoise.methods.coteaching_plus import CoTeachingPlus
from labelnoise.methods.curriculum_loss import CurriculumLoss
from labelnoise.rules import RULES
from labelnoise.seeds import stream

ROWS, FEATURES, CLASSES, STEPS = 240, 6, 4, 45
# How many of 24 samples each process has: as many as the others, few, in the last step none.
SIZES = {
    1: [[24]],
    2: [[12, 12], [22, 2], [5, 19], [23, 1]],
    3: [[8, 8, 8], [20, 3, 1], [1, 1, 22], [12, 0, 12]],
}

CASES: dict[str, Callable[[], Method]] = {
    **METHODS,
    **{f"bare {rule}": partial(BARE, threshold=rule) for rule in RULES},
    "bare all left out": lambda: BARE(threshold="batch", kappa=50.0),
    "bare skip": lambda: BARE(threshold="batch", kappa=50.0, empty="skip"),
    "bare selected": lambda: BARE(threshold="batch", backward="selected"),
    "coteaching-plus at once": lambda: CoTeachingPlus(warmup=0, ramp=1),
    "curriculum-loss at once": lambda: CurriculumLoss(burn_in=0),
}
ACCUMULATED = {f"{name}, three a step": make for name, make in CASES.items()}


def samples() -> tuple[Tensor, Tensor]:
    """Four classes that can be learned; a third of the labels are wrong."""
    chance = torch.Generator().manual_seed(1)
    truth = torch.arange(ROWS) % CLASSES
    centres = 3 * torch.randn(CLASSES, FEATURES, generator=chance, dtype=torch.float64)
    noise = torch.randn(ROWS, FEATURES, generator=chance, dtype=torch.float64)
    labels = torch.where(torch.rand(ROWS, generator=chance) < 0.3, (truth + 1) % CLASSES, truth)
    return centres[truth] + noise, labels


def new_learners(accumulate: int) -> Callable[[], Learner]:
    numbers = itertools.count()

    def new_learner() -> Learner:
        torch.manual_seed(next(numbers))
        layers = nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, CLASSES)
        recipe = Recipe(optimiser="sgd", lr=0.05, schedule="constant", accumulate=accumulate)
        return Learner(nn.Sequential(*layers).double(), recipe)

    return new_learner


def problem(rank: int, world: int, accumulate: int = 1) -> Problem:
    inputs, labels = samples()
    scaling = Scaling(*torch.tensor([0.0, 1.0], dtype=torch.float64))
    trusted = Train(inputs[:40], labels[:40], scaling, 40, 0, rank=rank, world=world)
    return Problem(
        labels,
        CLASSES,
        new_learners(accumulate),
        stream(0, "method"),
        noise_rate=0.3,
        trusted=trusted,
    )


def batches(rank: int, world: int) -> Iterator[Batch]:
    """This process's part of every joined mini-batch."""
    inputs, labels = samples()
    for number in range(STEPS):
        rows = torch.randperm(ROWS, generator=stream(0, "rows", number))[:24]
        sizes = SIZES[world][number % len(SIZES[world])]
        index = torch.split(rows, sizes)[rank]
        yield Batch((inputs[index],), labels[index], index, time=number / 10)


def steps_of(method: Method, rank: int, world: int, accumulate: int) -> list[dict[str, Any]]:
    """What every step chose and how it moved the networks."""
    method.setup(problem(rank, world, accumulate))
    kept = []
    for batch in batches(rank, world):
        step = method.step(batch)
        keep = step.weight > 0 if step.keep is None else step.keep
        parameters = [p for learner in method.learners() for p in learner.parameters]
        # Those of several mini-batches are each process's own until the last of them.
        gradients = [p.grad for p in parameters] if accumulate == 1 else []
        kept.append(
            {
                "index": step.index,
                "weight": step.weight.double(),
                "keep": keep,
                "loss": step.loss.double(),
                "gradients": [None if g is None else g.clone() for g in gradients],
                "parameters": [p.detach().clone() for p in parameters],
            }
        )
    return kept


def main() -> None:
    rank, world, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    if world > 1:
        meet = f"file://{folder}/meet-{world}"
        distributed.init_process_group("gloo", init_method=meet, rank=rank, world_size=world)
    found = {name: steps_of(make(), rank, world, 1) for name, make in CASES.items()}
    found |= {name: steps_of(make(), rank, world, 3) for name, make in ACCUMULATED.items()}
    torch.save(found, f"{folder}/{world}-{rank}.pt")
    if world > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
