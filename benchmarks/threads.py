"""Jobs and threads: how two cores are used best, for one run and for many.

    python benchmarks/threads.py [--rounds 15]

For the MLP on the shapes of MNIST and of the digits, LeNet on those of MNIST and the CNN on those
of CIFAR-10, on random pixels: steps a second of our loop with cross-entropy in one process with one
thread, in one with two threads, and in two processes with one thread each, together. The rounds
alternate over all of them. Speeds are by the clock on the wall; a machine with something else to do
slows two threads, which wait for each other, more than anything else: the line above the table says
which share of both cores other programs took. Where others took little, the best round is
what an idle machine does; else no column tells that. Ratios are of the best rounds; medians over
the rounds stand in brackets.

MFLOP are those of the products and convolutions of one step, forward and backward.
"""

from __future__ import annotations

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # as cli.py does, before torch comes in

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from labelnoise.batch import Batch
from labelnoise.data.scale import unit
from labelnoise.data.train import Train
from labelnoise.experiment.machine import keep_memory
from labelnoise.learner import Learner, Recipe
from labelnoise.methods.cce import CCE
from labelnoise.nets import net_named
from labelnoise.problem import Problem
from labelnoise.record.tally import Tally

CLASSES = 10


class Case(NamedTuple):
    """What is trained, and how many steps of it are timed in a round."""

    net: str
    rows: int
    shape: tuple[int, int, int]
    batch: int
    steps: int


CASES = {
    "MLP, digits, batch 32": Case("mlp", 1797, (1, 8, 8), 32, 1500),
    "MLP, digits, batch 128": Case("mlp", 1797, (1, 8, 8), 128, 1200),
    "MLP, MNIST, batch 128": Case("mlp", 48000, (1, 28, 28), 128, 400),
    "LeNet, MNIST, batch 128": Case("lenet", 48000, (1, 28, 28), 128, 150),
    "CNN, CIFAR-10, batch 128": Case("cnn", 40000, (3, 32, 32), 128, 5),
}
WAYS = {"1 x 1": (1, 1), "1 x 2": (1, 2), "2 x 1": (2, 1)}  # processes, threads of each


# --- in a worker process --------------------------------------------------------------------------

TRAIN: dict[str, Callable[[int], None]] = {}  # trains so many steps


def begin_worker(threads: int) -> None:
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    keep_memory()
    TRAIN.update({name: trainer(case) for name, case in CASES.items()})


def work(name: str, steps: int) -> float:
    """Seconds of all cores that they took."""
    begin = time.process_time()
    TRAIN[name](steps)
    return time.process_time() - begin


def trainer(case: Case) -> Callable[[int], None]:
    """What `fit` does between two evaluations."""
    torch.manual_seed(0)
    inputs = torch.randint(256, (case.rows, *case.shape), dtype=torch.uint8)
    labels = torch.randint(CLASSES, (case.rows,))
    train = Train(inputs, labels, unit(inputs), case.batch, seed=0)

    def new_learner() -> Learner:
        return Learner(net_named(case.net)(case.shape, CLASSES), Recipe(schedule="constant"))

    method = CCE()
    method.setup(Problem(labels, CLASSES, new_learner, torch.Generator()))
    tally, batches = Tally(labels), endless(train)

    def steps(count: int) -> None:
        for batch in islice(batches, count):
            tally.add(method.step(batch))
        tally.row(labels, epoch=1)

    return steps


def endless(train: Train) -> Iterator[Batch]:
    number = 0
    while True:
        yield from train.batches(number)
        number += 1


# --- in this process ------------------------------------------------------------------------------


def measured(rounds: int) -> tuple[dict[tuple[str, str], list[float]], list[float]]:
    """Steps a second by case and way, and the share of both cores that others took."""
    context = multiprocessing.get_context("spawn")
    single = [ProcessPoolExecutor(1, context, begin_worker, (1,)) for _ in range(2)]
    double = ProcessPoolExecutor(1, context, begin_worker, (2,))
    pools = {"1 x 1": single[:1], "1 x 2": [double], "2 x 1": single}
    speeds: dict[tuple[str, str], list[float]] = {(c, w): [] for c in CASES for w in WAYS}
    taken = []
    for number in range(rounds + 1):
        for (name, way), values in speeds.items():
            steps = CASES[name].steps
            begin, busy = time.perf_counter(), busy_seconds()
            futures = [pool.submit(work, name, steps) for pool in pools[way]]
            used = sum(future.result() for future in futures)
            seconds = time.perf_counter() - begin
            if number:  # the first round warms up
                values.append(len(futures) * steps / seconds)
                taken.append(max(busy_seconds() - busy - used, 0) / seconds / 2)
    for pool in [*single, double]:
        pool.shutdown()
    return speeds, taken


def busy_seconds() -> float:
    """How long all cores have worked since the system began (Linux)."""
    user, nice, system = Path("/proc/stat").read_text().split()[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def megaflop(case: Case) -> float:
    """Of the products and convolutions of one step, forward and backward."""
    network = net_named(case.net)(case.shape, CLASSES)
    counter = FlopCounterMode(display=False)
    with counter:
        network(torch.zeros(case.batch, *case.shape)).sum().backward()
    return counter.get_total_flops() / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    speeds, taken = measured(options.rounds)
    quartiles = statistics.quantiles(taken, n=4)
    print("others took, by quartile: " + ", ".join(f"{share:.0%}" for share in quartiles))
    print(f"| steps/s | MFLOP | {' | '.join(WAYS)} | 1 x 2 over 1 x 1 | 2 x 1 over 1 x 2 |")
    print("|---" * (len(WAYS) + 4) + "|")
    for name, case in CASES.items():
        best = {way: max(speeds[name, way]) for way in WAYS}
        told = [f"{best[way]:.0f} ({statistics.median(speeds[name, way]):.0f})" for way in WAYS]
        ratios = best["1 x 2"] / best["1 x 1"], best["2 x 1"] / best["1 x 2"]
        cells = [name, f"{megaflop(case):.0f}", *told, *(f"{ratio:.2f}" for ratio in ratios)]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
