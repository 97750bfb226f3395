"""What BARE costs over cross-entropy: seconds an epoch, alternating in one run.

    LABELNOISE_DATA=... python benchmarks/overhead.py [--rounds 7]

MNIST (48,000 samples), the MLP, batch 128, Adam, one thread, preset `paper`, symmetric noise 0.5.
Each round times one epoch of each: the matrix products that a step cannot do without, a plain
PyTorch loop with cross-entropy, and our loop with cross-entropy and with BARE under each of its
rules. The rounds alternate, so that a busy machine slows all of them alike; ratios are medians
over the rounds of the ratio within a round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as functional

from labelnoise.data import read
from labelnoise.data.scale import raw
from labelnoise.data.train import Train
from labelnoise.engine import flushing_denormals
from labelnoise.experiment.parts import divide
from labelnoise.learner import Learner, Recipe
from labelnoise.method import Method
from labelnoise.methods.bare import BARE
from labelnoise.methods.cce import CCE
from labelnoise.nets.mlp import mlp
from labelnoise.noise import parse
from labelnoise.problem import Problem
from labelnoise.record.tally import Tally
from labelnoise.rules import RULES

BATCH = 128
GOAL = 1.10  # BARE over cross-entropy; the paper's own ratio is 1.35


def training_set(data_dir: Path | None) -> tuple[Train, torch.Tensor]:
    parts = divide(read("mnist", data_dir), parse("symmetric:0.5"), data_seed=0)
    inputs, given, truth = parts.train.inputs, parts.train.given, parts.train.truth
    assert truth is not None
    return Train(inputs, given, raw(inputs), BATCH, seed=0), truth


def new_learner() -> Learner:
    torch.manual_seed(0)
    return Learner(mlp((1, 28, 28), 10), Recipe(lr=2e-4, schedule="constant"))


def our_epochs(method: Method, train: Train, truth: torch.Tensor) -> Callable[[int], None]:
    """What `fit` does between two evaluations."""
    method.setup(Problem(train.labels, 10, new_learner, torch.Generator()))
    tally = Tally(train.labels)

    def epoch(number: int) -> None:
        for step in method.epoch(train, number):
            tally.add(step)
        tally.row(truth, epoch=number + 1)

    return epoch


def plain_epochs(train: Train) -> Callable[[int], None]:
    """The loop of a PyTorch tutorial, on floats in memory."""
    torch.manual_seed(0)
    network = mlp((1, 28, 28), 10)
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-4)
    inputs = train.inputs.float()

    def epoch(number: int) -> None:
        for index in torch.split(torch.randperm(len(train)), BATCH):
            loss = functional.cross_entropy(network(inputs[index]), train.labels[index])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    return epoch


def products(train: Train, number: int) -> None:
    """Only the products of a step: two forward, two for weights, one for the hidden layer."""
    inputs, hidden, scores = torch.rand(BATCH, 784), torch.rand(BATCH, 256), torch.rand(BATCH, 10)
    first, second = torch.rand(784, 256), torch.rand(256, 10)
    for _ in range(len(train) // BATCH):
        inputs @ first
        hidden @ second
        hidden.T @ scores
        scores @ second.T
        inputs.T @ hidden


def measured(contenders: dict[str, Callable[[int], None]], rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    with flushing_denormals():
        for number in range(rounds + 1):
            for name, epoch in contenders.items():
                begin = time.perf_counter()
                epoch(number)
                if number:  # the first round warms up
                    seconds[name].append(time.perf_counter() - begin)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    train, truth = training_set(options.data_dir)
    contenders: dict[str, Callable[[int], None]] = {
        "matrix products only": partial(products, train),
        "plain PyTorch loop, cross-entropy": plain_epochs(train),
        "cce": our_epochs(CCE(), train, truth),
    }
    for threshold in RULES:
        contenders[f"bare {threshold}"] = our_epochs(BARE(threshold=threshold), train, truth)
    seconds = measured(contenders, options.rounds)
    ratios = {
        name: statistics.median(s / c for s, c in zip(values, seconds["cce"], strict=True))
        for name, values in seconds.items()
    }
    if options.json:
        print(json.dumps({"seconds": seconds, "ratio_to_cce": ratios}))
        return
    print(f"{'seconds an epoch, median of ' + str(options.rounds):36} {'':>7} {'over cce':>9}")
    for name, values in seconds.items():
        print(f"{name:36} {statistics.median(values):7.3f} {ratios[name]:9.2f}")
    for name in ("bare batch", "bare evidence"):
        verdict = "met" if ratios[name] <= GOAL else "NOT met"
        print(f"goal, {name} over cce at most {GOAL}: {verdict} (the paper's ratio is 1.35)")


if __name__ == "__main__":
    main()
