"""From a spec to a finished run: read, split, corrupt, train, keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelnoise import dist, nets
from labelnoise.data import Columns, read
from labelnoise.data.augment import crop_and_flip, crop_to
from labelnoise.data.dataset import Dataset
from labelnoise.data.few_classes import check_few_classes
from labelnoise.data.scale import SCALES
from labelnoise.data.stored import Inputs
from labelnoise.data.train import Augment, Train
from labelnoise.engine import Held, fit
from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.ask import Ask
from labelnoise.experiment.estimate import estimated_rate, estimator
from labelnoise.experiment.header import header_of, samples_of
from labelnoise.experiment.learners import new_learners, weights_file
from labelnoise.experiment.machine import suitable_threads
from labelnoise.experiment.parts import Parts, digest, divide, undivided
from labelnoise.experiment.spec import Spec, Training
from labelnoise.experiment.supply import content_of, trusted_set, trusted_source
from labelnoise.learner import Learner
from labelnoise.method import Method
from labelnoise.nets.weights import Weights, content
from labelnoise.noise import parse
from labelnoise.problem import Problem
from labelnoise.record.run import HEADER, Row, Run, finished
from labelnoise.record.shared import Shared
from labelnoise.seeds import stream

Watch = Callable[[Spec, Row | None], None]
"""Called with the spec and `None` before a training, with the new row after every epoch."""


def train(
    data: str,
    *,
    label: str | None = None,
    image: str | None = None,
    text: str | None = None,
    method: str = "bare",
    noise: str = "none",
    noise_rate: float | str | None = None,
    trusted: int | str | None = None,
    net: str = "auto",
    weights: str | None = None,
    preset: str = "recommended",
    epochs: int | None = None,
    batch_size: int | None = None,
    classes_per_batch: int | None = None,
    changes: Mapping[str, Any] | None = None,
    trace: Sequence[int] = (),
    seed: int = 0,
    data_seed: int = 0,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    device: str = "auto",
    watch: Watch | None = None,
) -> Run:
    """Train one method on one data set, or go on with it, or find that it is done.

    Args:
        data: A data set's name or the path of a file.
        label: The label column of a table, or the file of labels of `.npy` embeddings.
        image: The column of a table that has the paths of images.
        text: The column of a table that has texts.
        method: A method's name.
        noise: Wrong labels to plant in the training and validation parts, such as
            `symmetric:0.5`; `none` takes the labels as they are.
        noise_rate: For a method that needs one: a number, `true` (the fraction that is wrong, where
            it is known; the default there), `nominal` (the rate of `noise`), or `auto` (estimated).
        trusted: For a method that needs verified samples: a file of them, or how many of the
            validation part to trust (by default all, where the true labels are known).
        net: A net's name, `auto`, or `package.module:name`.
        weights: A file of weights for the net to begin with, here or in the data directory.
        preset: How to train.
        epochs: How long; by default the preset's.
        batch_size: By default the preset's.
        classes_per_batch: Draw each mini-batch from so few classes, every class equally often; by
            default from all.
        changes: Fields of the method or of the training that differ from the preset.
        trace: Epochs, from 1, whose thresholds are kept for every mini-batch.
        seed: Initialisation and order of the samples.
        data_seed: Split and noise; the same for all methods that are to be compared.
        out: The folder of the run's folder.
        data_dir: Where data sets are; by default `LABELNOISE_DATA`.
        device: `auto`, `cpu`, `cuda`, `mps`.
        watch: Called with the spec and `None` before the training, the new row after every epoch;
            a rate that is estimated has a training of its own before.

    Returns:
        The finished run.
    """
    ask = Ask(
        data=data,
        method=method,
        noise=noise,
        noise_rate=noise_rate,
        trusted=trusted,
        net=net,
        preset=preset,
        epochs=epochs,
        batch_size=batch_size,
        classes_per_batch=classes_per_batch,
        changes={**(changes or {}), **({} if weights is None else {"weights": weights})},
        trace=trace,
        seed=seed,
        data_seed=data_seed,
        columns=Columns(label, image, text),
    )
    return fulfil(ask, out=out, data_dir=data_dir, device=device, watch=watch)


def fulfil(
    ask: Ask,
    *,
    out: str | Path = "runs",
    data_dir: str | Path | None = None,
    device: str = "auto",
    watch: Watch | None = None,
    expected: str | None = None,
    patience: float = 0,
) -> Run:
    """`train` what is asked.

    Args:
        ask: What is asked.
        out: As in `train`, and so are `data_dir`, `device` and `watch`.
        data_dir: Where data sets are.
        device: Where to train.
        watch: Is told of every epoch.
        expected: The identity that the run must have, if somebody knows it already.
        patience: Seconds to wait for another process that writes the same run.
    """
    folder = None if data_dir is None else Path(data_dir)
    place = dist.agreed(lambda: device_named(device))
    dataset, spec, weights = dist.agreed(lambda: understand(ask, folder))
    first = dist.from_first(spec.identity)
    dist.agreed(lambda: check_same(spec, first))
    if expected is not None:
        check_expected(spec, expected)
    path = Path(out) / spec.identity()
    if done := _finished(path):
        return done
    division = undivided if spec.whole else divide
    parts = division(dataset, parse(ask.noise), ask.data_seed)
    workplace = Workplace(dataset, parts, place, Path(out), watch, weights=weights)
    return train_on(spec, workplace, patience)


def understand(ask: Ask, data_dir: Path | None) -> tuple[Dataset, Spec, Path | None]:
    """The data that are asked for, what is asked of them, and the file of weights."""
    weights = check_words(ask, data_dir)
    dataset = read(ask.data, data_dir, ask.columns)
    return dataset, specify(ask, dataset, weights), weights


def check_same(spec: Spec, first: str) -> None:
    """Refuse to train together on data, or with settings, that differ between processes."""
    if spec.identity() != first:
        raise LabelNoiseError(
            "its data or settings differ from those of process 0: give all the same command and "
            "the same files"
        )


def check_expected(spec: Spec, identity: str) -> None:
    """Refuse to train on other data than the command was given for."""
    if spec.identity() != identity:
        raise LabelNoiseError(
            f"the data here ({spec.dataset}), the weights or the net are not those that the "
            "command was given for: give all machines the same files, and leave them alone"
        )


def check_words(ask: Ask, data_dir: Path | None = None) -> Path | None:
    """Say what is misspelt or missing at once, not after a download: the file of weights."""
    spec = ask.without_data()
    if ask.net != "auto":
        nets.net_named(ask.net)
    return weights_file(spec, data_dir)


def specify(ask: Ask, dataset: Dataset, weights: Path | None = None) -> Spec:
    """What an ask means on its data, with the weights that `check_words` has found."""
    shape = ask.without_data().training.sees(tuple(dataset.inputs.shape[1:]))
    net = nets.auto(shape) if ask.net == "auto" else ask.net
    noise = parse(ask.noise)
    known = noise.planted or dataset.knows_truth
    source = trusted_source(ask.trusted, ask.method, known=known)
    spec = ask.spec(
        dataset=dataset.name,
        digest=digest(
            dataset, noise.content, nets.content(net), content_of(source), content(weights)
        ),
        net=net,
        known=known,
    )
    if spec.training.augment and len(shape) < 3:
        raise LabelNoiseError(f"{dataset.name} has no images to augment: leave augment out")
    few = spec.training.classes_per_batch
    if few is not None:
        check_few_classes(few, spec.training.batch_size, len(dataset.classes))
    return spec


@dataclass(frozen=True)
class Workplace:
    """What a run shares with the one that estimates its noise rate.

    Attributes:
        dataset: All data.
        parts: What they were divided into.
        device: Where to train.
        out: The folder of runs' folders.
        watch: Is told of every epoch.
        folder: The run's own folder, if it is not to be named after its spec.
        prepare: What is made of the method before it trains.
        weights: The file that networks begin with, if any.
    """

    dataset: Dataset
    parts: Parts
    device: torch.device
    out: Path
    watch: Watch | None = None
    folder: Path | None = None
    prepare: Callable[[Method], Method] = lambda method: method
    weights: Path | None = None


def train_on(spec: Spec, place: Workplace, patience: float = 0) -> Run:
    """Train what the spec says, or go on with it, where everything is at hand."""
    shape, classes = tuple(place.dataset.inputs.shape[1:]), len(place.dataset.classes)
    weights = None if place.weights is None else Weights.read(place.weights)
    learners = new_learners(spec, shape, classes, place.device, weights)
    first = learners()
    with suitable_threads(first.network, spec.training.sees(shape), spec.training.batch_size):
        return _train_on(spec, place, patience, _one_before(first, learners))


def _one_before(first: Learner, others: Callable[[], Learner]) -> Callable[[], Learner]:
    """A maker of learners that was asked once already."""
    waiting = [first]
    return lambda: waiting.pop() if waiting else others()


def _train_on(
    spec: Spec, place: Workplace, patience: float, new_learner: Callable[[], Learner]
) -> Run:
    dataset, parts, device, watch = place.dataset, place.parts, place.device, place.watch
    path = place.folder or place.out / spec.identity()
    scaling = SCALES[spec.training.scale](parts.train.inputs).to(device)
    scaling = replace(scaling, crop=spec.training.crop)
    num_classes = len(dataset.classes)
    training = Train(
        inputs=parts.train.inputs.to(device),
        labels=parts.train.given.to(device),
        scaling=scaling,
        batch_size=spec.training.batch_size,
        seed=spec.seed,
        augment=_augment(spec.training),
        rank=dist.rank(),
        world=dist.processes(),
        classes_per_batch=spec.training.classes_per_batch,
    )
    supply = trusted_set(spec.trusted, dataset, parts.validation, spec.data_seed)
    problem = Problem(
        labels=training.labels,
        num_classes=num_classes,
        new_learner=new_learner,
        generator=stream(spec.seed, "method"),
        noise_rate=_noise_rate(spec, place),
        trusted=supply.as_train(training),
    )
    header = header_of(spec, dataset, parts, scaling, device)
    told = spec.settings.get("noise_rate")
    header["noise_rate"] = problem.noise_rate if told is None else told
    header["trusted_rows"] = supply.rows
    with Shared(path, header, patience) as journal:
        if done := _finished(path):  # by another process, while this one waited or read
            return done
        if watch is not None:
            watch(spec, None)
        _, tally = fit(
            place.prepare(spec.method_instance()),
            problem,
            training,
            epochs=spec.training.epochs,
            validation=_held(parts.validation.inputs, supply.validation, device),
            test=_held(parts.test.inputs, parts.test.labels, device),
            truth=None if parts.train.truth is None else parts.train.truth.to(device),
            trace=spec.trace,
            scope=spec.training.scope,
            journal=journal,
            watch=None if watch is None else partial(watch, spec),
        )
        return journal.finish(samples_of(parts.train, tally))


def _augment(training: Training) -> Augment | None:
    """What happens to mini-batches at random."""
    if not training.augment:
        return None
    return crop_and_flip if training.crop is None else crop_to(training.crop)


def _held(inputs: Inputs, labels: Tensor, device: torch.device) -> Held | None:
    """A part that is not trained on, where there is one."""
    return Held(inputs.to(device), labels.to(device)) if len(labels) else None


def _noise_rate(spec: Spec, place: Workplace) -> float | None:
    """What the method is told where its own field says nothing."""
    path, part = place.out / spec.identity(), place.parts.train
    if spec.noise_rate is None:
        return None
    if spec.noise_rate == "true":
        if part.truth is None:
            raise LabelNoiseError("the true noise rate is not known: pass --noise-rate R or auto")
        return float((part.given != part.truth).double().mean())
    begun = dist.from_first(lambda: _told_before(path))
    if begun is not None:
        return begun
    short = estimator(spec, len(part.given))
    # Runs that need the same estimate at the same time wait for the first of them.
    folder = place.out / short.identity()
    found = _finished(folder) or train_on(short, place, patience=-1)
    return dist.from_first(lambda: estimated_rate(found))


def _finished(path: Path) -> Run | None:
    """The run in a folder, if it is finished; the first process looks for all."""
    return dist.from_first(lambda: Run(path) if finished(path) else None)


def _told_before(path: Path) -> float | None:
    """The rate that was estimated when the run began, if it did."""
    if not (path / HEADER).exists():
        return None
    rate: float = Run(path).header["noise_rate"]
    return rate


def device_named(name: str) -> torch.device:
    """The device called `name`; `auto` is the best there is."""
    if name == "auto":
        cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
        name = "cuda" if cuda else "mps" if mps and not dist.started() else "cpu"
    if name == "cuda" and dist.started():  # one GPU for each process of a machine
        name = f"cuda:{dist.local_rank()}"
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise LabelNoiseError(f"device {name!r} is not to be had here: use auto or cpu") from error
