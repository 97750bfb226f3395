"""The three parts of a data set, with noise planted in all but the test part."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from labelnoise.data.dataset import Dataset
from labelnoise.data.split import TEST_FRACTION, stratified_split
from labelnoise.data.stored import Inputs
from labelnoise.engine import Held
from labelnoise.errors import LabelNoiseError
from labelnoise.noise import Noise
from labelnoise.seeds import stream


@dataclass(frozen=True)
class Noisy:
    """A part of a data set whose labels may be wrong.

    Attributes:
        rows: (rows,) where its samples stand in the data set, or in its official part.
        inputs: (rows, ...) as stored.
        given: (rows,) labels, noise included.
        truth: (rows,) true labels, where they are known.
    """

    rows: Tensor
    inputs: Inputs
    given: Tensor
    truth: Tensor | None


@dataclass(frozen=True)
class Parts:
    """The three parts of a data set; of one that is trained on whole, the last two are empty."""

    train: Noisy
    validation: Noisy
    test: Held


def divide(dataset: Dataset, noise: Noise, data_seed: int) -> Parts:
    """Split a data set and plant noise in all but the test part."""
    rows = torch.arange(len(dataset.labels))
    if dataset.test_inputs is not None and dataset.test_labels is not None:
        test = Held(dataset.test_inputs, dataset.test_labels)
    else:
        chance = stream(data_seed, "test")
        rows, held = stratified_split(dataset.labels, chance, TEST_FRACTION)
        test = Held(dataset.inputs[held], dataset.labels[held])
    inputs, labels = dataset.validation_inputs, dataset.validation_labels
    if inputs is not None and labels is not None:
        official = replace(dataset, inputs=inputs, labels=labels, truth=None, verified=True)
        return Parts(
            train=_corrupted(dataset, rows, noise, data_seed, "train"),
            validation=_corrupted(official, torch.arange(len(labels)), noise, data_seed, "rest"),
            test=test,
        )
    training, validation = dataset.split(dataset.labels[rows], stream(data_seed, "split"))
    if not (len(training) and len(validation) and len(test.labels)):
        raise LabelNoiseError(
            f"{dataset.name} has too few rows ({len(dataset.labels)}) to set a validation and a "
            "test part aside: three rows of at least one class are needed"
        )
    return Parts(
        train=_corrupted(dataset, rows[training], noise, data_seed, "train"),
        validation=_corrupted(dataset, rows[validation], noise, data_seed, "rest"),
        test=test,
    )


def undivided(dataset: Dataset, noise: Noise, data_seed: int) -> Parts:
    """Every row in the training part, noise planted; an official test part is left aside."""
    train = _corrupted(dataset, torch.arange(len(dataset.labels)), noise, data_seed, "train")
    nothing = Noisy(train.rows[:0], train.inputs[:0], train.given[:0], train.given[:0])
    return Parts(train, nothing, Held(nothing.inputs, nothing.given))


def digest(dataset: Dataset, *others: bytes) -> str:
    """A hash of the data and of others that may change under the same name."""
    state = dataset.fingerprint.copy()
    for content in others:
        state.update(content)
    hashed: str = state.hexdigest()
    return hashed


def _corrupted(dataset: Dataset, rows: Tensor, noise: Noise, data_seed: int, part: str) -> Noisy:
    labels, inputs = dataset.labels[rows], dataset.inputs[rows]
    if dataset.truth is not None:
        if noise.planted:
            raise LabelNoiseError(
                f"{dataset.name} has wrong labels of its own: leave --noise out, or plant noise in "
                "a data set whose labels are right"
            )
        return Noisy(rows, inputs, labels, dataset.truth[rows])
    given = noise.plant(
        labels,
        num_classes=len(dataset.classes),
        inputs=inputs,
        flips=dataset.flips,
        generator=stream(data_seed, "noise", part),
        rule=stream(data_seed, "noise", "rule"),
    )
    known = noise.planted or dataset.verified
    return Noisy(rows, inputs, given, labels if known else None)
