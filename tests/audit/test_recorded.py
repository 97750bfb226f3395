"""Recorded: a method learns the same whether or not it is watched."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from labelnoise import BARE, CCE, Batch, Learner, Method, Problem, Recorder, Step
from labelnoise.audit.recorded import RECORDER, Recorded
from labelnoise.data.scale import Scaling
from labelnoise.data.train import Train
from labelnoise.engine import fit
from labelnoise.learner import Recipe
from labelnoise.methods.coteaching import CoTeaching
from labelnoise.rules.evidence import Evidence
from labelnoise.seeds import stream

SAMPLES, CLASSES = 90, 3


def data() -> tuple[Tensor, Tensor, Tensor]:
    """Three clouds; every seventh label is wrong."""
    chance = torch.Generator().manual_seed(0)
    truth = torch.arange(SAMPLES) % CLASSES
    inputs = 3 * torch.eye(CLASSES)[truth] + torch.randn(SAMPLES, CLASSES, generator=chance) / 2
    wrong = torch.arange(SAMPLES) % 7 == 0
    return inputs, torch.where(wrong, (truth + 1) % CLASSES, truth), truth


def train() -> Train:
    inputs, labels, _ = data()
    return Train(inputs, labels, Scaling(torch.zeros(()), torch.ones(())), 30, seed=0)


def problem() -> Problem:
    def learner() -> Learner:
        torch.manual_seed(0)
        return Learner(nn.Linear(CLASSES, CLASSES), Recipe("sgd", 0.1, schedule="constant"))

    return Problem(data()[1], CLASSES, learner, stream(0, "method"), noise_rate=1 / 7)


METHODS: dict[str, Callable[[], Method]] = {
    "evidence": BARE,
    "batch": lambda: BARE(threshold="batch"),
    "cross-entropy": CCE,
    "two networks": CoTeaching,
}


@pytest.mark.parametrize("new", METHODS.values(), ids=METHODS)
def test_a_method_learns_the_same_whether_or_not_it_is_watched(new: Callable[[], Method]) -> None:
    plain, watched = new(), Recorded(new())
    rows = [
        [row["train_loss"] for row in fit(each, problem(), train(), epochs=4)[0]]
        for each in (plain, watched)
    ]
    assert rows[0] == rows[1]
    inputs = data()[0]
    assert watched.predict(inputs).equal(plain.predict(inputs))
    assert len(watched.learners()) == len(plain.learners())
    assert watched.views == plain.views


@pytest.mark.parametrize("new", METHODS.values(), ids=METHODS)
def test_wrong_labels_are_found_by_whatever_method(new: Callable[[], Method]) -> None:
    watched = Recorded(new())
    fit(watched, problem(), train(), epochs=25)
    found = watched.recorder.issues()
    _, labels, truth = data()
    assert found.ids == tuple(map(str, range(SAMPLES)))
    assert np.array_equal(found.given, labels.numpy())
    wrong = (labels != truth).numpy()
    assert (found.issue == wrong).mean() > 0.92  # 0.86 if nothing were flagged
    assert np.array_equal(found.predicted[found.issue & wrong], truth.numpy()[found.issue & wrong])


class Watched(BARE):
    """Tells what it was told by its rule."""

    seen: list[Step]

    def step(self, batch: Batch) -> Step:
        step = super().step(batch)
        self.seen.append(step)
        return step


def test_evidence_is_gathered_once_and_what_was_kept_is_what_the_method_kept() -> None:
    method = Watched()
    method.seen = []
    watched = Recorded(method)
    fit(watched, problem(), train(), epochs=5)
    assert watched.recorder.rule is method.rule
    assert isinstance(method.rule, Evidence)
    assert int(method.rule.seen) == 5 * SAMPLES
    kept, visits = np.zeros(SAMPLES), np.zeros(SAMPLES)
    for step in method.seen:
        assert step.keep is not None
        visits[step.index] += 1
        chosen = step.index[step.keep]
        kept[chosen] += visits[chosen]
    assert np.allclose(watched.recorder.issues().selected, kept / (1 + 2 + 3 + 4 + 5))


def test_a_method_without_evidence_is_watched_with_the_recorders_own() -> None:
    method = BARE(threshold="batch")
    watched = Recorded(method)
    fit(watched, problem(), train(), epochs=2)
    assert isinstance(watched.recorder.rule, Evidence)
    other = Recorder(SAMPLES)
    again = BARE(threshold="batch")
    again.setup(problem())
    for number in range(2):
        torch.manual_seed(number)
        for batch in train().batches(number):
            step = again.step(batch)
            assert step.probs is not None
            other.update(step.probs.log(), batch.labels, batch.index)
    assert np.allclose(watched.recorder.issues().quality, other.issues().quality, atol=1e-5)


@pytest.mark.parametrize("new", METHODS.values(), ids=METHODS)
def test_a_state_in_mid_run_goes_on(new: Callable[[], Method]) -> None:
    def some(method: Recorded, epochs: range) -> None:
        for number in epochs:
            torch.manual_seed(number)
            for _ in method.epoch(train(), number):
                pass

    whole, first, second = (Recorded(new()) for _ in range(3))
    for each in (whole, first, second):
        each.setup(problem())
    some(whole, range(6))
    some(first, range(3))
    state = copy.deepcopy(first.state_dict())
    assert RECORDER in state
    second.load_state_dict(state)
    some(second, range(3, 6))
    one, other = whole.recorder.issues(), second.recorder.issues()
    for name in ("quality", "predicted", "confidence", "selected"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert second.predict(data()[0]).equal(whole.predict(data()[0]))
