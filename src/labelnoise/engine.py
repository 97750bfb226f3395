"""fit, the only training loop, and evaluate, the only test loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from statistics import fmean as mean
from time import perf_counter

import torch
from torch import Tensor

from labelnoise.data.scale import Scaling
from labelnoise.data.train import Train
from labelnoise.errors import LabelNoiseError
from labelnoise.method import Method
from labelnoise.metrics.accuracy import accuracy, balanced_accuracy
from labelnoise.problem import Problem
from labelnoise.record.journal import Journal
from labelnoise.record.run import Row
from labelnoise.record.tally import Tally
from labelnoise.seeds import derive

EVALUATION_BATCH = 2048


@dataclass(frozen=True)
class Held:
    """A part that is not trained on: inputs as stored, and labels to compare with."""

    inputs: Tensor
    labels: Tensor


def fit(
    method: Method,
    problem: Problem,
    train: Train,
    *,
    epochs: int,
    validation: Held,
    test: Held,
    truth: Tensor | None = None,
    trace: Collection[int] = (),
    journal: Journal | None = None,
    watch: Callable[[Row], None] | None = None,
) -> tuple[list[Row], Tally]:
    """Train `method` and record every epoch.

    Args:
        method: What learns; it is set up here.
        problem: What it is told beforehand.
        train: What it learns from.
        epochs: When to stop.
        validation: Labels as given; drives the schedule.
        test: Labels that are right; nothing is chosen by it.
        truth: True labels of the training set, for precision and recall alone.
        trace: Epochs, from 1, whose thresholds are kept for every mini-batch.
        journal: Where rows and state are kept; training goes on from what it holds.
        watch: Called with every new row.

    Returns:
        All rows, those of an earlier part of the run included, and the per-sample tally.
    """
    method.setup(problem)
    tally = Tally(problem.labels)
    rows: list[Row] = [] if journal is None else journal.restore(method, tally)
    with flushing_denormals(), own_chance(train):
        for number in range(len(rows), epochs):
            begin = perf_counter()
            torch.manual_seed(derive(train.seed, "epoch", number))
            for step in method.epoch(train, number):
                tally.add(step)
            # The one place where the host waits for the device.
            row = tally.row(truth, epoch=number + 1, trace=number + 1 in trace)
            trained = perf_counter()
            row["lr"] = method.learners()[0].lr
            losses, assessed = _assess(method, train.scaling, validation, test, problem.num_classes)
            row |= assessed
            _check(losses, number + 1)
            for learner, loss in zip(method.learners(), losses, strict=True):
                learner.advance(loss)
            row["train_seconds"] = trained - begin
            row["evaluation_seconds"] = perf_counter() - trained
            rows.append(row)
            if journal is not None:
                journal.commit(row, method, tally)
            if watch is not None:
                watch(row)
    return rows, tally


def evaluate(forward: Callable[[Tensor], Tensor], inputs: Tensor, scaling: Scaling) -> Tensor:
    """What `forward` makes of stored inputs, in order and in chunks: (rows, ...) -> (rows, ...)."""
    return torch.cat([forward(scaling(chunk)) for chunk in torch.split(inputs, EVALUATION_BATCH)])


def _assess(
    method: Method, scaling: Scaling, validation: Held, test: Held, num_classes: int
) -> tuple[list[float], Row]:
    """The numbers of an epoch on data that it did not train on; each network's validation loss.

    Of several networks the one that is better on the test part stands in the row, as in the paper,
    with the mean of all beside it; nothing is chosen by either.
    """
    losses, validated, tested, balanced = [], [], [], []
    for opinion in method.opinions():
        scores = evaluate(opinion, validation.inputs, scaling)
        losses.append(float(method.validation_loss(scores, validation.labels)))
        guessed = scores.argmax(dim=1).cpu()
        validated.append(float(accuracy(guessed, validation.labels.cpu())))
        predicted = evaluate(opinion, test.inputs, scaling).argmax(dim=1).cpu()
        tested.append(float(accuracy(predicted, test.labels.cpu())))
        balanced.append(float(balanced_accuracy(predicted, test.labels.cpu(), num_classes)))
    better = tested.index(max(tested))
    return losses, {
        "validation_loss": mean(losses),
        "validation_accuracy": mean(validated),
        "test_accuracy": tested[better],
        "test_accuracy_mean": mean(tested),
        "test_accuracy_balanced": balanced[better],
    }


def _check(losses: list[float], epoch: int) -> None:
    if not all(math.isfinite(loss) for loss in losses):
        raise LabelNoiseError(
            f"the validation loss is NaN or infinite after the last step of epoch {epoch}: "
            "lower the learning rate (--set lr=...) or check the validation inputs"
        )


def own_chance(train: Train) -> AbstractContextManager[None]:
    """Keep what networks draw by themselves, such as dropout, apart from the caller's chance."""
    device = train.labels.device
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


@contextmanager
def flushing_denormals() -> Iterator[None]:
    """Treat numbers below 1e-38 as 0: raw pixels make many of them, each a hundred times slower."""
    tiny = torch.tensor(1e-39)
    was_flushing = bool(tiny * 1 == 0)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(was_flushing)
