"""Many trials at once: five seeds of a small network as one stacked network, against one by one.

    LABELNOISE_DATA=... taskset -c 0 python benchmarks/stacked.py [--rounds 5]
    LABELNOISE_DATA=... python benchmarks/stacked.py --cores 2 [--rounds 5]

MNIST (48,000 samples), the MLP, batch 128, fused Adam, preset `paper`, symmetric noise 0.5; cross-
entropy and BARE with its `batch` threshold. Every trial has its own weights and its own order of
the rows. Stacked, the trials' parameters are tensors with one more dimension: by hand every product
is one batched product; with `vmap` the library's own code is called on `functional_call`. Adam is
elementwise, so one optimiser over the stack is five optimisers; that both stacked forms train the
same networks as the ordinary loop is checked first. All of them leave their steps with a `Tally`.

The first command times all three in one process with one thread, in turn, by the time that the
process itself had on the core, so that others on it count little. The second compares ways to use
two cores by the clock on the wall: two processes of the ordinary loop, one stacked process with two
threads, and two stacked processes with one thread each; it says which share of both cores other
programs took meanwhile. Numbers are steps of trials a second in whole epochs without evaluation,
the median over the rounds and the best round; ratios are medians over the rounds of the ratio
within a round.
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

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from labelnoise.batch import Step
from labelnoise.data import read
from labelnoise.data.scale import raw
from labelnoise.data.train import Train
from labelnoise.engine import flushing_denormals
from labelnoise.experiment.machine import keep_memory
from labelnoise.experiment.parts import divide
from labelnoise.learner import Learner, Recipe
from labelnoise.losses import cross_entropy, weighted_mean
from labelnoise.method import Method
from labelnoise.methods.bare import BARE
from labelnoise.methods.cce import CCE
from labelnoise.nets.mlp import mlp
from labelnoise.noise import parse
from labelnoise.problem import Problem
from labelnoise.record.tally import Tally
from labelnoise.rules.statistics import reaches
from labelnoise.rules.thresholds import batch_thresholds, select

TRIALS, BATCH, CLASSES, LR, KAPPA = 5, 128, 10, 2e-4, 1.0
FEW, ALIKE = 3, 1e-4  # steps after which weights are compared, and how far rounding may go
Epochs = Callable[[int], int]  # trains epoch `number` of its trials, tells how many steps that is
Report = dict[str, dict[str, list[float]]]


# --- the three ways -------------------------------------------------------------------------------


def training_set(data_dir: Path | None) -> tuple[Tensor, Tensor]:
    parts = divide(read("mnist", data_dir), parse("symmetric:0.5"), data_seed=0)
    return parts.train.inputs, parts.train.given


def network(trial: int) -> nn.Module:
    torch.manual_seed(trial)
    return mlp((1, 28, 28), CLASSES)


def ordinary(
    inputs: Tensor, labels: Tensor, method: Method, trial: int = 0, limit: int | None = None
) -> tuple[Epochs, Method]:
    """What `fit` does between two evaluations, for one trial."""
    train = Train(inputs, labels, raw(inputs), BATCH, seed=trial)

    def new_learner() -> Learner:
        return Learner(network(trial), Recipe(lr=LR, schedule="constant"))

    method.setup(Problem(labels, CLASSES, new_learner, torch.Generator()))
    tally = Tally(labels)

    def epoch(number: int) -> int:
        steps = 0
        for step in islice(method.epoch(train, number), limit):
            tally.add(step)
            steps += 1
        tally.row(labels, epoch=number + 1)
        return steps

    return epoch, method


def stacked_batches(
    inputs: Tensor, labels: Tensor, number: int
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Inputs, labels and rows of all trials: (trials, batch, ...); one lookup for all of them."""
    pixels = inputs.flatten(1)
    trains = [Train(inputs, labels, raw(inputs), BATCH, seed=trial) for trial in range(TRIALS)]
    orders = torch.stack([order(train, number) for train in trains])
    for index in torch.split(orders, BATCH, dim=1):
        flat = index.flatten()
        values = pixels.index_select(0, flat).float().view(TRIALS, -1, pixels.shape[1])
        yield values, labels.index_select(0, flat).view(TRIALS, -1), index


def order(train: Train, number: int) -> Tensor:
    """The rows of an epoch in the order of `Train.batches`."""
    bare = Train(torch.empty(len(train), 0), train.labels, train.scaling, len(train), train.seed)
    return next(bare.batches(number)).index


class Stack:
    """Five trials whose parameters are one tensor each; a subclass says how losses come about."""

    def __init__(self, inputs: Tensor, labels: Tensor, *, bare: bool) -> None:
        self.bare, self.inputs, self.labels = bare, inputs, labels
        self.parameters, _ = stack_module_state([network(trial) for trial in range(TRIALS)])
        self.optimiser = torch.optim.Adam(list(self.parameters.values()), lr=LR, fused=True)
        self.tally = Tally(labels.repeat(TRIALS))  # the record of all trials, one under another
        self.offset = torch.arange(TRIALS).unsqueeze(1) * len(labels)

    def losses(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(trials,) losses, (trials, batch) weights, (trials, batch, classes) probabilities."""
        raise NotImplementedError

    def epoch(self, number: int, limit: int | None = None) -> int:
        """Train all trials for epoch `number`; the steps of all of them."""
        steps = 0
        batches = stacked_batches(self.inputs, self.labels, number)
        for inputs, labels, index in islice(batches, limit):
            losses, weight, probs = self.losses(inputs, labels)
            loss = losses.sum()
            self.optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimiser.step()
            rows = (index + self.offset).flatten()
            self.tally.add(Step(rows, weight.flatten(), loss.detach(), probs.flatten(0, 1)))
            steps += TRIALS
        self.tally.row(self.tally.labels, epoch=number + 1)
        return steps


class ByHand(Stack):
    """Batched products, and the selection written with one more dimension."""

    def losses(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """All in one go."""
        first, bias, second, last = self.parameters.values()
        hidden = torch.baddbmm(bias.unsqueeze(1), inputs, first.mT).relu_()
        logits = torch.baddbmm(last.unsqueeze(1), hidden, second.mT)
        log_probs = logits.log_softmax(dim=2)
        probs = log_probs.detach().exp()
        flat = cross_entropy(log_probs.flatten(0, 1), labels.flatten()).view_as(labels)
        if not self.bare:
            return flat.mean(dim=1), torch.ones_like(flat), probs
        deviation, mean = torch.std_mean(probs, dim=1)
        bars = mean.add_(deviation, alpha=KAPPA).gather(1, labels)
        keep = reaches(probs.gather(2, labels.unsqueeze(2)).squeeze(2), bars)
        weight = (keep | ~keep.any(dim=1, keepdim=True)).float()
        return (flat * (weight / weight.sum(dim=1, keepdim=True))).sum(dim=1), weight, probs


class ByVmap(Stack):
    """The library's own functions under `vmap`."""

    def __init__(self, inputs: Tensor, labels: Tensor, *, bare: bool) -> None:
        super().__init__(inputs, labels, bare=bare)
        skeleton = network(0).to("meta")

        def one(
            parameters: dict[str, Tensor], inputs: Tensor, labels: Tensor
        ) -> tuple[Tensor, ...]:
            log_probs = functional_call(skeleton, parameters, (inputs,)).log_softmax(dim=1)
            probs, losses = log_probs.detach().exp(), cross_entropy(log_probs, labels)
            if not bare:
                return losses.mean(), torch.ones_like(losses), probs
            weight = select(probs, labels, batch_thresholds(probs, labels, KAPPA)).float()
            weight = weight + ~weight.any()
            return weighted_mean(losses, weight), weight, probs

        self.all = vmap(one)

    def losses(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One trial's code, on all of them."""
        losses, weight, probs = self.all(self.parameters, inputs, labels)
        return losses, weight, probs


def check(inputs: Tensor, labels: Tensor, *, bare: bool) -> None:
    """That a stack trains the networks that the ordinary loop trains."""
    stacks = [kind(inputs, labels, bare=bare) for kind in (ByHand, ByVmap)]
    for stack in stacks:
        stack.epoch(0, limit=FEW)
    for trial in range(TRIALS):
        epoch, method = ordinary(inputs, labels, fresh(bare=bare), trial, FEW)
        epoch(0)
        for name, weights in method.learner.network.named_parameters():
            for stack in stacks:
                apart = float((stack.parameters[name][trial] - weights).detach().abs().max())
                assert apart < ALIKE, f"{type(stack).__name__} differs by {apart} in {name}"


def fresh(*, bare: bool) -> Method:
    return BARE(threshold="batch") if bare else CCE()


# --- one core -------------------------------------------------------------------------------------


def one_core(data_dir: Path | None, rounds: int, *, bare: bool) -> dict[str, list[float]]:
    """Steps of trials a second of this process's own time, one thread, in turn."""
    prepare(threads=1)
    inputs, labels = training_set(data_dir)
    with flushing_denormals():
        check(inputs, labels, bare=bare)
        epoch, _ = ordinary(inputs, labels, fresh(bare=bare))
        ways: dict[str, Epochs] = {
            "ordinary loop": epoch,
            "stacked by hand": ByHand(inputs, labels, bare=bare).epoch,
            "stacked by vmap": ByVmap(inputs, labels, bare=bare).epoch,
        }
        speeds: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(rounds + 1):
            for name, way in ways.items():
                begin = time.process_time()
                steps = way(number)
                if number:  # the first round warms up
                    speeds[name].append(steps / (time.process_time() - begin))
    return speeds


def prepare(threads: int) -> None:
    torch.set_num_threads(threads)
    keep_memory()


# --- two cores ------------------------------------------------------------------------------------

EPOCHS: list[Epochs] = []  # what a worker process trains


def begin_worker(data_dir: Path | None, way: str, threads: int, bare: bool) -> None:
    prepare(threads)
    torch.set_flush_denormal(True)
    inputs, labels = training_set(data_dir)
    if way == "ordinary":
        EPOCHS.append(ordinary(inputs, labels, fresh(bare=bare))[0])
    else:
        EPOCHS.append(ByHand(inputs, labels, bare=bare).epoch)


def work(numbers: range) -> tuple[int, float]:
    """Steps of trials, and seconds of all cores that they took."""
    begin = time.process_time()
    steps = sum(EPOCHS[0](number) for number in numbers)
    return steps, time.process_time() - begin


def two_cores(
    data_dir: Path | None, rounds: int, *, bare: bool
) -> tuple[dict[str, list[float]], list[float]]:
    """Steps of trials a second of ways to use two cores, and the share that others took."""
    ways = {  # what each process does, threads, processes, epochs of a round
        "2 processes x 1 thread, ordinary": ("ordinary", 1, 2, 3),
        "1 process x 2 threads, stacked by hand": ("stacked", 2, 1, 1),
        "2 processes x 1 thread, stacked by hand": ("stacked", 1, 2, 1),
    }
    context = multiprocessing.get_context("spawn")
    pools = {
        name: [
            ProcessPoolExecutor(1, context, begin_worker, (data_dir, way, threads, bare))
            for _ in range(processes)
        ]
        for name, (way, threads, processes, _) in ways.items()
    }
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    taken = []
    for number in range(rounds + 1):
        for name, (_, _, _, epochs) in ways.items():
            numbers = range(number * epochs, (number + 1) * epochs)
            begin, busy = time.perf_counter(), busy_seconds()
            done = [f.result() for f in [pool.submit(work, numbers) for pool in pools[name]]]
            seconds = time.perf_counter() - begin
            others = busy_seconds() - busy - sum(used for _, used in done)
            if number:
                speeds[name].append(sum(steps for steps, _ in done) / seconds)
                taken.append(max(others, 0) / seconds / 2)
    for pool in (pool for group in pools.values() for pool in group):
        pool.shutdown()
    return speeds, taken


def busy_seconds() -> float:
    """How long all cores have worked since the system began (Linux)."""
    user, nice, system = Path("/proc/stat").read_text().split()[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


# --- the table ------------------------------------------------------------------------------------


def show(report: Report) -> None:
    print("| method | way | steps of trials/s, median | best round | over the first, median |")
    print("|---|---|---|---|---|")
    for method, speeds in report.items():
        first = next(iter(speeds.values()))
        for way, values in speeds.items():
            ratio = statistics.median(v / f for v, f in zip(values, first, strict=True))
            middle, best = statistics.median(values), max(values)
            print(f"| {method} | {way} | {middle:.0f} | {best:.0f} | {ratio:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, choices=(1, 2), default=1)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    report: Report = {}
    for name, bare in {"cce": False, "bare batch": True}.items():
        if options.cores == 1:
            report[name] = one_core(options.data_dir, options.rounds, bare=bare)
        else:
            report[name], others = two_cores(options.data_dir, options.rounds, bare=bare)
            print(f"{name}: others took {min(others):.0%} to {max(others):.0%} of both cores")
    show(report)


if __name__ == "__main__":
    main()
