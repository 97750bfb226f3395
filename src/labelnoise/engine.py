"""fit, the only training loop, and evaluate, the only test loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from statistics import fmean as mean
from time import perf_counter

import torch
from torch import Tensor

from labelnoise import dist
from labelnoise.data.scale import Scaling
from labelnoise.data.stored import Inputs, broken, readable, unread, walk
from labelnoise.data.train import Train
from labelnoise.errors import LabelNoiseError
from labelnoise.method import Method
from labelnoise.metrics.accuracy import accuracy, balanced_accuracy
from labelnoise.problem import Problem
from labelnoise.record.run import Row
from labelnoise.record.shared import Shared
from labelnoise.record.tally import Tally
from labelnoise.seeds import derive

EVALUATION_BATCH = {"cpu": 256}  # samples at a time: there, activations stay in the caches
LARGEST_BATCH = 2048  # anywhere else
LARGEST_VALUES = 1 << 25  # numbers in a batch: 128 MB of large images, before the first layer
TESTED = ("test_accuracy", "test_accuracy_mean", "test_accuracy_balanced")


@dataclass(frozen=True)
class Held:
    """A part that is not trained on: inputs as stored, and labels to compare with."""

    inputs: Inputs
    labels: Tensor


def fit(
    method: Method,
    problem: Problem,
    train: Train,
    *,
    epochs: int,
    validation: Held | None = None,
    test: Held | None = None,
    truth: Tensor | None = None,
    trace: Collection[int] = (),
    scope: str = "global",
    journal: Shared | None = None,
    watch: Callable[[Row], None] | None = None,
) -> tuple[list[Row], Tally]:
    """Train `method` and record every epoch.

    Args:
        method: What learns; it is set up here.
        problem: What it is told beforehand.
        train: What it learns from.
        epochs: When to stop.
        validation: Labels as given; drives the schedule. Without, the loss of the training does.
        test: Labels that are right; nothing is chosen by it. Without, its numbers are `None`.
        truth: True labels of the training set, for precision and recall alone.
        trace: Epochs, from 1, whose thresholds are kept for every mini-batch.
        scope: Whether processes that train together share the statistics of their mini-batches
            (`"global"`), or their gradients alone (`"local"`).
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
            apart = (train.rank,) if train.rank else ()
            seed_chance(derive(train.seed, "epoch", number, *apart), train)
            with nullcontext() if scope == "global" else dist.alone():
                for step in method.epoch(train, number):
                    tally.add(step)
            for learner in method.learners():
                learner.settle()
            # The one place where the host waits for the device.
            row = tally.row(truth, epoch=number + 1, trace=number + 1 in trace)
            trained = perf_counter()
            row["lr"] = method.learners()[0].lr
            # With a scope of its own each process has its own opinion of the labels; schedules
            # must not part, so that the first one's counts.
            losses, validated = dist.everyones(_validate(method, train.scaling, validation))[0]
            row |= validated
            row |= _test(method, train.scaling, test, problem.num_classes)
            _check(losses, number + 1)
            losses = losses or [row["train_loss"]] * len(method.learners())
            for learner, loss in zip(method.learners(), losses, strict=True):
                learner.advance(loss)
            row["train_seconds"] = trained - begin
            row["evaluation_seconds"] = perf_counter() - trained
            skipped = unread(train.inputs, *(held.inputs for held in (validation, test) if held))
            if skipped:
                row["skipped"] = len(skipped)
            rows.append(row)
            if journal is not None:
                journal.commit(row, method, tally, skipped)
            if watch is not None:
                watch(row)
    return rows, tally


def evaluate(forward: Callable[[Tensor], Tensor], inputs: Inputs, scaling: Scaling) -> Tensor:
    """What `forward` makes of stored inputs, in order and in chunks: (rows, ...) -> (rows, ...).

    Where several processes train together, each does its part, and all have the whole.
    """
    size = EVALUATION_BATCH.get(inputs.device.type, LARGEST_BATCH)
    size = max(1, min(size, LARGEST_VALUES // max(1, inputs.shape[1:].numel())))
    shared = 1 < dist.processes() <= len(inputs)
    own = inputs[dist.part(len(inputs))] if shared else inputs
    chunks = walk(own, size, lasting=False)
    found = torch.cat([forward(scaling(chunk)) for chunk in chunks])
    if not shared:
        return found
    for others in dist.everyones(broken(inputs)):  # what one could not read, all leave out
        broken(inputs).update(others)
    return dist.gathered(found)


def _validate(method: Method, scaling: Scaling, held: Held | None) -> tuple[list[float], Row]:
    """Each network's loss on the validation part, where there is one, and what to record of it."""
    if held is None:
        return [], {"validation_loss": None, "validation_accuracy": None}
    losses, accuracies = [], []
    for opinion in method.opinions():
        scores, labels = _read(held, evaluate(opinion, held.inputs, scaling))
        with dist.alone():  # each process has all scores
            losses.append(float(method.validation_loss(scores, labels)))
        accuracies.append(float(accuracy(scores.argmax(dim=1).cpu(), labels.cpu())))
    return losses, {"validation_loss": mean(losses), "validation_accuracy": mean(accuracies)}


def _test(method: Method, scaling: Scaling, held: Held | None, num_classes: int) -> Row:
    """How many of the test part are right.

    Of several networks the one that is better on the test part stands in the row, as in the paper,
    with the mean of all beside it; nothing is chosen by either.
    """
    if held is None:
        return dict.fromkeys(TESTED)
    plain, balanced = [], []
    for opinion in method.opinions():
        scores, labels = _read(held, evaluate(opinion, held.inputs, scaling))
        predicted, right = scores.argmax(dim=1).cpu(), labels.cpu()
        plain.append(float(accuracy(predicted, right)))
        balanced.append(float(balanced_accuracy(predicted, right, num_classes)))
    better = plain.index(max(plain))
    return dict(zip(TESTED, (plain[better], mean(plain), balanced[better]), strict=True))


def _read(held: Held, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and labels of the rows whose files could be read."""
    keep = readable(held.inputs)
    if keep is None:
        return scores, held.labels
    if not keep.any():
        name, why = next(iter(unread(held.inputs).items()))
        raise LabelNoiseError(f"none of the images to validate or test can be read: {name} ({why})")
    here = keep.to(scores.device)
    return scores[here], held.labels[here]


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


def seed_chance(seed: int, train: Train) -> None:
    """Begin what networks draw by themselves anew."""
    if train.labels.device.type == "cpu":
        # torch.manual_seed also formats stack traces, for a GPU that may be used later.
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


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
