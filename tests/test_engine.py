"""The training loop's own numbers: what stands in a row, and who is told which loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from labelnoise import Batch, Learner, Method, Problem, Step
from labelnoise.data.scale import raw
from labelnoise.data.train import Train
from labelnoise.engine import TESTED, Held, fit
from labelnoise.learner import Recipe
from labelnoise.seeds import stream

CLASSES = 3
TRUTH = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])


class Fixed(nn.Module):
    """Says of every row what it was told to say."""

    def __init__(self, answers: Sequence[int]) -> None:
        super().__init__()
        self.sureness = nn.Parameter(torch.tensor(5.0))
        self.answers = torch.tensor(answers)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.sureness * nn.functional.one_hot(self.answers[inputs[:, 0].long()], CLASSES)


@dataclass
class Two(Method):
    """Two networks that do not learn."""

    def setup(self, problem: Problem) -> None:
        self.learner, self.peer = problem.new_learner(), problem.new_learner()

    def step(self, batch: Batch) -> Step:
        for each in (self.learner, self.peer):
            each.descend(0 * each.logits(batch.inputs).sum())
        weight = torch.where(batch.labels == 0, 0.5, 0.0)
        return Step(batch.index, weight, torch.tensor(0.25))


def fitted(*answers: Sequence[int], epochs: int = 1, schedule: str = "constant") -> Any:
    """A row and the method, of two networks with these answers."""
    inputs = torch.arange(len(TRUTH), dtype=torch.float32)[:, None]
    networks = iter(Fixed(each) for each in answers)
    problem = Problem(
        TRUTH,
        CLASSES,
        lambda: Learner(next(networks), Recipe(schedule=schedule, lr=1.0)),
        stream(0, "method"),
    )
    held = Held(inputs, TRUTH)
    method = Two()
    train = Train(inputs, TRUTH, raw(inputs), batch_size=4, seed=0)
    rows, _ = fit(method, problem, train, epochs=epochs, validation=held, test=held, truth=TRUTH)
    return rows[-1], method


SIX = (0, 0, 0, 0, 1, 1, 1, 1)  # right, of classes 0, 1 and 2: 4 of 4, 2 of 2, 0 of 2
FOUR = (0, 1, 1, 1, 1, 1, 2, 0)  # 1 of 4, 2 of 2, 1 of 2


@pytest.mark.parametrize("answers", [(SIX, FOUR), (FOUR, SIX)])
def test_of_two_networks_the_better_one_counts_and_the_mean_stands_beside_it(
    answers: tuple[Sequence[int], Sequence[int]],
) -> None:
    row, _ = fitted(*answers)
    assert row["test_accuracy"] == 6 / 8
    assert row["test_accuracy_mean"] == 5 / 8
    assert row["test_accuracy_balanced"] == pytest.approx(2 / 3)  # the better one's own
    assert row["validation_accuracy"] == 5 / 8


def test_the_validation_loss_is_the_mean_of_both() -> None:
    row, _ = fitted(SIX, FOUR)
    alone = [fitted(each, each)[0]["validation_loss"] for each in (SIX, FOUR)]
    assert alone[0] < alone[1]
    assert row["validation_loss"] == pytest.approx(sum(alone) / 2)


def test_each_networks_schedule_is_told_its_own_validation_loss() -> None:
    _, method = fitted(SIX, FOUR, schedule="plateau")
    best = [learner.schedule.best for learner in method.learners()]
    alone = [fitted(each, each)[0]["validation_loss"] for each in (SIX, FOUR)]
    assert best == pytest.approx(alone)


def test_weights_that_are_not_0_or_1_show_in_their_mean() -> None:
    row, _ = fitted(SIX, FOUR)
    assert row["weight_mean"] == pytest.approx(0.5 * 4 / 8)
    assert row["selected_fraction"] == 4 / 8
    assert row["label_precision"] == 1


def test_with_nothing_held_out_the_training_loss_drives_the_schedule() -> None:
    inputs = torch.arange(len(TRUTH), dtype=torch.float32)[:, None]
    networks = iter(Fixed(each) for each in (SIX, FOUR))
    problem = Problem(
        TRUTH,
        CLASSES,
        lambda: Learner(next(networks), Recipe(schedule="plateau", lr=1.0)),
        stream(0, "method"),
    )
    method = Two()
    train = Train(inputs, TRUTH, raw(inputs), batch_size=4, seed=0)
    rows, _ = fit(method, problem, train, epochs=1)
    missing = {key for key, value in rows[0].items() if value is None}
    assert missing >= {*TESTED, "validation_loss", "validation_accuracy"}
    schedules = [learner.schedule for learner in method.learners()]
    assert all(isinstance(each, ReduceLROnPlateau) and each.best == 0.25 for each in schedules)
