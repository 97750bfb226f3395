"""What each method costs over cross-entropy, beside the paper's ratios.

    LABELNOISE_DATA=... python benchmarks/run_time.py [--rounds 7] [--datasets mnist,cifar10]

Preset `paper` (batch 128, Adam), symmetric noise 0.5, one thread; the trusted batch of the meta
methods is as large as the training batch. Every round times the same mini-batches with each method
in turn, with the epoch set behind every warm-up, so that a busy machine slows all of them alike;
the ratio is the median over the rounds of the ratio within a round. Seconds an epoch are scaled up
from the part that was timed. Evaluation, which costs all methods alike for each of their networks,
is left out, as is the first round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from labelnoise.data import read
from labelnoise.data.scale import raw
from labelnoise.data.train import Train
from labelnoise.engine import flushing_denormals
from labelnoise.experiment.machine import keep_memory
from labelnoise.experiment.parts import divide
from labelnoise.experiment.published import published
from labelnoise.learner import Learner, Recipe
from labelnoise.methods import METHODS
from labelnoise.nets import auto, net_named
from labelnoise.noise import parse
from labelnoise.problem import Problem
from labelnoise.record.tally import Tally

BATCH = 128
LATER = 50  # an epoch behind every warm-up
STEPS = {"mnist": 94, "cifar10": 4}  # of an epoch, timed in every round
SETTINGS = {"meta-ren": {"trusted_batch": BATCH}, "meta-net": {"trusted_batch": BATCH}}
BASE = "cce"


def contenders(dataset: str, data_dir: Path | None) -> tuple[dict[str, Callable[[int], None]], int]:
    """A function for every method that trains on a part of an epoch, and an epoch's batches."""
    source = read(dataset, data_dir)
    parts = divide(source, parse("symmetric:0.5"), data_seed=0)
    assert parts.train.truth is not None
    assert parts.validation.truth is not None
    scaling = raw(parts.train.inputs)
    train = Train(parts.train.inputs, parts.train.given, scaling, BATCH, seed=0)
    trusted = Train(parts.validation.inputs, parts.validation.truth, scaling, BATCH, seed=0)
    shape = tuple(source.inputs.shape[1:])
    rows = torch.arange(STEPS[dataset] * BATCH)

    def new_learner() -> Learner:
        network = net_named(auto(shape))(shape, len(source.classes))
        return Learner(network, Recipe(lr=2e-4, schedule="constant"))

    def slices(name: str) -> Callable[[int], None]:
        torch.manual_seed(0)
        method = METHODS[name](**SETTINGS.get(name, {}))
        method.setup(
            Problem(
                labels=train.labels,
                num_classes=len(source.classes),
                new_learner=new_learner,
                generator=torch.Generator(),
                noise_rate=0.5,
                trusted=trusted,
            )
        )
        tally = Tally(train.labels)

        def part(number: int) -> None:
            for batch in train.batches(LATER + number, method.views, rows):
                tally.add(method.step(batch))
            tally.row(parts.train.truth, epoch=number + 1)

        return part

    return {name: slices(name) for name in METHODS}, -(-len(train) // BATCH)


def measured(parts: dict[str, Callable[[int], None]], rounds: int) -> dict[str, list[float]]:
    """Seconds of every round; the first one warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in parts}
    with flushing_denormals():
        for number in range(rounds + 1):
            for name, part in parts.items():
                begin = time.perf_counter()
                part(number)
                if number:
                    seconds[name].append(time.perf_counter() - begin)
    return seconds


def paper_ratios(dataset: str) -> dict[str, float]:
    """The paper's run times over that of cross-entropy."""
    times = {n.method: n.mean for n in published().tables["T1"] if n.dataset == dataset}
    return {str(method): seconds / times[BASE] for method, seconds in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--datasets", default="mnist,cifar10")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    report = {}
    for dataset in options.datasets.split(","):
        parts, batches = contenders(dataset, options.data_dir)
        seconds = measured(parts, options.rounds)
        paper = paper_ratios(dataset)
        if not options.json:
            print(f"{dataset:16} {'s/epoch':>8} {'over ' + BASE:>9} {'paper':>6}")
        for name, values in seconds.items():
            ratio = statistics.median(s / b for s, b in zip(values, seconds[BASE], strict=True))
            epoch = statistics.median(values) * batches / STEPS[dataset]
            theirs = paper.get(name)
            report[f"{dataset} {name}"] = {"seconds": epoch, "ratio": ratio, "paper": theirs}
            if not options.json:
                verdict = "" if theirs is None or ratio <= theirs else "  above the paper's"
                shown = "-" if theirs is None else f"{theirs:.2f}"
                print(f"{name:16} {epoch:8.2f} {ratio:9.2f} {shown:>6}{verdict}")
    if options.json:
        print(json.dumps(report))


if __name__ == "__main__":
    main()
