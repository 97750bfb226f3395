"""How fast it is, in tables of ratios; docs/results/speed.md shows them.

    LABELNOISE_DATA=... python benchmarks/speed.py [--only bare,methods] [--rounds 7] [--runs speed]

1. `bare`: BARE over cross-entropy, in the state that epoch 5 leaves.
2. `products`: our cross-entropy over the products that it cannot do without.
3. `methods`: every method over cross-entropy, beside the paper's ratios.
4. `selection`: BARE's selection over softmax with cross-entropy, by batch and classes.
5. `jobs`: the experiment `mnist-accuracy`, two epochs, on one core and on two.
6. `size`: the time a sample from 6,000 to 48,000 rows.
7. `audit`: an audit over the training of the five folds that cleanlab needs.
8. `memory`: the most that a training has resident; not a ratio.

Preset `paper` (batch 128, Adam, raw pixels), one thread. What is compared takes turns in one
process; a ratio is of one round, the table shows the median of all and their quartiles. The states
of table 1 are runs of five epochs, which are trained once and kept in `--runs`; CIFAR-10's have
10,000 rows. A method is put back to its state before every turn. Cross-entropy, whose time depends
on no label, is one for all kinds of noise. `jobs` is one round, `audit` on MNIST three.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import audit
import selection_speed
from alternating import Ratio, Seconds, by_turns, table
from labelnoise.data import read
from labelnoise.data.scale import raw
from labelnoise.data.train import Train
from labelnoise.engine import flushing_denormals
from labelnoise.experiment.learners import new_learners
from labelnoise.experiment.machine import keep_memory
from labelnoise.experiment.parts import divide, undivided
from labelnoise.experiment.published import published
from labelnoise.experiment.run import train as train_run
from labelnoise.experiment.spec import Spec
from labelnoise.learner import Learner, Recipe
from labelnoise.method import Method
from labelnoise.methods import METHODS
from labelnoise.nets import auto, net_named
from labelnoise.noise import parse
from labelnoise.passes import Passes
from labelnoise.problem import Problem
from labelnoise.record.tally import Tally
from labelnoise.rules import RULES

BATCH, EPOCHS = 128, 5
STEPS = {"mnist": 125, "cifar10": 3}  # of one turn
DATA = {"mnist": "mnist", "cifar10": "cifar10:rows=12500"}
SYMMETRIC = ("symmetric:0.3", "symmetric:0.5", "symmetric:0.7")
NOISES = {
    "mnist": (*SYMMETRIC, "class-conditional:0.45"),
    "cifar10": (*SYMMETRIC, "class-conditional:0.4"),
}
SHOWN = ("batch", "evidence")  # rules of BARE
LIMIT = 1.03  # BARE over cross-entropy
GOALS = {("cifar10", "symmetric:0.5"): 0.90, ("cifar10", "symmetric:0.7"): 0.75}
WASTE = {"mnist": 1.8, "cifar10": 1.25}
COTEACHING = 1.8
SIZES = (6_000, 12_000, 24_000, 48_000)
CONSTANT = 1.10
WARM = 1100  # steps: the rule `evidence` adds up mini-batches more often before
EFFICIENT = 1 / 0.85  # two cores over half the time of one
FOLDS = 0.25
MOST_LOGITS = 10_000_000


@dataclass
class Options:
    """How and where to measure."""

    rounds: int = 7
    runs: Path = Path("speed")
    data_dir: Path | None = None


# --- a method at work -----------------------------------------------------------------------------


@dataclass
class Work:
    """A method and the mini-batches that it is timed on.

    Attributes:
        method: Set up, in some state.
        train: What it learns from.
        truth: True labels of that.
        steps: Of one turn.
        time: Epochs that the method is told to have behind it.
    """

    method: Method
    train: Train
    truth: Tensor
    steps: int
    time: int = EPOCHS
    state: dict[str, Any] = field(default_factory=dict)

    def keep(self) -> None:
        """Take the state that it is in for the one to be timed in."""
        self.state = copy.deepcopy(self.method.state_dict())

    def restore(self, name: str = "") -> None:
        """Go back to that state."""
        self.method.load_state_dict(copy.deepcopy(self.state))

    def __call__(self, number: int) -> None:
        """What `fit` does between two evaluations, for some steps."""
        tally = Tally(self.train.labels)
        for batch in islice(self.train.batches(self.time + number, self.method.views), self.steps):
            tally.add(self.method.step(batch))
        tally.row(self.truth, epoch=number + 1)


def turns(work: dict[str, Work], rounds: int) -> Seconds:
    """Time all of them in turn, each from its state."""
    with flushing_denormals():
        return by_turns(work, rounds, prepare=lambda name: work[name].restore())


def data_of(dataset: str, noise: str, data_dir: Path | None) -> tuple[Train, Tensor]:
    """The training part of a data set under noise, and its true labels."""
    parts = divide(read(dataset, data_dir), parse(noise), data_seed=0)
    assert parts.train.truth is not None
    inputs = parts.train.inputs
    return Train(inputs, parts.train.given, raw(inputs), BATCH, seed=0), parts.train.truth


def trained(dataset: str, noise: str, method: str, options: Options, **changes: Any) -> Work:
    """A method in the state that epoch 5 leaves."""
    run = train_run(
        DATA[dataset],
        method=method,
        noise=noise,
        preset="paper",
        epochs=EPOCHS,
        changes=changes,
        out=options.runs,
        data_dir=options.data_dir,
        device="cpu",
    )
    spec = Spec.of(run.header["spec"])
    train, truth = data_of(DATA[dataset], noise, options.data_dir)
    made, classes = spec.method_instance(), len(run.header["classes"])
    learners = new_learners(spec, tuple(train.inputs.shape[1:]), classes)
    made.setup(Problem(train.labels, classes, learners, torch.Generator()))
    made.load_state_dict(run.checkpoint()["method"])
    work = Work(made, train, truth, STEPS[dataset])
    work.keep()
    return work


# --- the seven tables -----------------------------------------------------------------------------


def bare(options: Options) -> str:
    """BARE over cross-entropy."""
    ratios = []
    for dataset in DATA:
        base = trained(dataset, "symmetric:0.5", "cce", options)
        work, names = {"cce": base}, {}
        for rule in SHOWN:
            for noise in NOISES[dataset]:
                name = f"{dataset}, {noise}, `{rule}`"
                work[name] = trained(dataset, noise, "bare", options, threshold=rule)
                names[name] = GOALS.get((dataset, noise), LIMIT)
        seconds = turns(work, options.rounds)
        for name, goal in names.items():
            note = _passes(work[name])
            ratios.append(Ratio.of(name, seconds[name], seconds["cce"], goal, note))
    return table("BARE over cross-entropy", ratios)


def _passes(work: Work) -> str:
    """How many samples counted at last, and what that means for the backward pass."""
    passes: Passes = work.method.passes  # type: ignore[attr-defined]
    selected = passes.selects(next(iter(work.train.batches(0))).inputs)
    way = "those go backward" if selected else "all go backward"
    return f"{100 * passes.fraction:.0f} % count, {way}"


def products(options: Options) -> str:
    """Our cross-entropy over the products of its network."""
    ratios = []
    for dataset, alone in (("mnist", mlp_products), ("cifar10", cnn_products)):
        work = trained(dataset, "symmetric:0.5", "cce", options)
        kinds = {"mnist": "the MLP's matrix products", "cifar10": "the CNN's convolutions"}
        contenders: dict[str, Callable[[int], None]] = {
            "ours": work,
            "alone": alone(STEPS[dataset]),
        }
        with flushing_denormals():
            seconds = by_turns(contenders, options.rounds, prepare=work.restore)
        name = f"{dataset}, cross-entropy over {kinds[dataset]}"
        ratios.append(Ratio.of(name, seconds["ours"], seconds["alone"], WASTE[dataset]))
    return table("Our step over what it cannot do without", ratios)


def mlp_products(steps: int) -> Callable[[int], None]:
    """Two products forward, two for weights, one for the hidden layer."""
    inputs, hidden, scores = torch.rand(BATCH, 784), torch.rand(BATCH, 256), torch.rand(BATCH, 10)
    first, second = torch.rand(256, 784), torch.rand(10, 256)

    def run(number: int) -> None:
        for _ in range(steps):
            inputs @ first.T
            hidden @ second.T
            scores.T @ hidden
            scores @ second
            hidden.T @ inputs

    return run


def cnn_products(steps: int) -> Callable[[int], None]:
    """Every convolution forward and backward; of the first one's input no gradient is wanted."""
    layers = []
    for before, after, side in ((3, 64, 32), (64, 128, 16), (128, 196, 8), (196, 16, 8)):
        shape = (BATCH, before, side, side)
        inputs = torch.rand(shape).contiguous(memory_format=torch.channels_last)
        weight = torch.rand(after, before, 3, 3).contiguous(memory_format=torch.channels_last)
        gradient = torch.rand(BATCH, after, side, side).contiguous(
            memory_format=torch.channels_last
        )
        layers.append((inputs, weight, torch.rand(after), gradient))

    def run(number: int) -> None:
        for _ in range(steps):
            for inputs, weight, bias, _ in layers:
                torch.conv2d(inputs, weight, bias, padding=1)
            for place, (inputs, weight, bias, gradient) in reversed(list(enumerate(layers))):
                torch.ops.aten.convolution_backward(
                    *(gradient, inputs, weight, bias.shape, (1, 1), (1, 1), (1, 1)),
                    *(False, (0, 0), 1, (place > 0, True, True)),
                )

    return run


def methods(options: Options) -> str:
    """Every method over cross-entropy."""
    ratios = []
    for dataset in DATA:
        paper = paper_ratios(dataset)
        work = {name: untrained(dataset, name, options) for name in METHODS}
        seconds = turns(work, options.rounds)
        for name in METHODS:
            theirs = paper.get(name)
            goal = COTEACHING if name == "coteaching" else theirs
            note = "" if theirs is None else f"the paper: {theirs:.2f}"
            label = f"{dataset}, {name}"
            ratios.append(Ratio.of(label, seconds[name], seconds["cce"], goal, note))
    return table("Every method over cross-entropy", ratios)


def untrained(dataset: str, name: str, options: Options) -> Work:
    """A method after a few turns, told that every warm-up is over."""
    source = read(DATA[dataset], options.data_dir)
    parts = divide(source, parse("symmetric:0.5"), data_seed=0)
    assert parts.train.truth is not None
    assert parts.validation.truth is not None
    scaling = raw(parts.train.inputs)
    train = Train(parts.train.inputs, parts.train.given, scaling, BATCH, seed=0)
    trusted = Train(parts.validation.inputs, parts.validation.truth, scaling, BATCH, seed=0)
    shape, classes = tuple(source.inputs.shape[1:]), len(source.classes)
    seeds = iter(range(2))

    def new_learner() -> Learner:
        torch.manual_seed(next(seeds))
        network = net_named(auto(shape))(shape, classes)
        return Learner(network, Recipe(lr=2e-4, schedule="constant"))

    settings = {"trusted_batch": BATCH} if METHODS[name].needs_trusted else {}
    method = METHODS[name](**settings)
    method.setup(Problem(train.labels, classes, new_learner, torch.Generator(), 0.5, trusted))
    work = Work(method, train, parts.train.truth, STEPS[dataset], time=50)
    with flushing_denormals():
        for number in range(4):
            work(number)
    work.keep()
    return work


def paper_ratios(dataset: str) -> dict[str, float]:
    """The paper's run times over that of cross-entropy."""
    times = {n.method: n.mean for n in published().tables["T1"] if n.dataset == dataset}
    return {str(method): seconds / times["cce"] for method, seconds in times.items()}


def selection(options: Options) -> str:
    """BARE's selection over softmax with cross-entropy."""
    rules = sorted(RULES)
    lines = [f"| batch | classes | {' | '.join(rules)} |", f"|--:|--:|{'--:|' * len(rules)}"]
    for batch, classes in selection_speed.SIZES:
        if batch * classes <= MOST_LOGITS:
            cells = [selection_speed.cell(r, batch, classes, options.rounds, False) for r in rules]
            lines.append(f"| {batch:,} | {classes:,} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def jobs(options: Options) -> str:
    """A whole experiment on one core and on two."""
    one, two = (_reproduced(cores, options) for cores in (1, 2))
    note = f"{one:.0f} s on one core, {two:.0f} s on two; efficiency {one / two / 2:.2f}"
    name = "mnist-accuracy, one trial, two epochs: twice the time on two cores over that on one"
    return table("Two jobs over one", [Ratio(name, (2 * two / one,), EFFICIENT, note)])


def _reproduced(cores: int, options: Options) -> float:
    """Seconds of the experiment on so many cores, a job each."""
    words = ["reproduce", "mnist-accuracy", "--trials", "1", "--epochs", "2", "--jobs", str(cores)]
    if options.data_dir is not None:
        words += ["--data-dir", str(options.data_dir)]
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cores])  # children have what their parent has
    try:
        with tempfile.TemporaryDirectory() as out:
            begin = time.perf_counter()
            subprocess.run(  # noqa: S603 - our own command
                [sys.executable, "-m", "labelnoise", *words, "--out", out],
                check=True,
                capture_output=True,
            )
            return time.perf_counter() - begin
    finally:
        os.sched_setaffinity(0, before)


def size(options: Options) -> str:
    """The time a sample by the number of samples."""
    ratios = []
    for name in ("cce", "bare"):
        work = {}
        for rows in SIZES:
            train, truth = data_of(f"mnist:rows={rows * 5 // 4}", "symmetric:0.5", options.data_dir)
            assert len(train) == rows
            made, spec = METHODS[name](), Recipe(lr=2e-4, schedule="constant")
            learner = partial(_new_mlp, spec)
            made.setup(Problem(train.labels, 10, learner, torch.Generator()))
            work[str(rows)] = Work(made, train, truth, steps=-(-rows // BATCH))
            with flushing_denormals():
                for number in range(WARM // work[str(rows)].steps + 1):
                    work[str(rows)](number)
            work[str(rows)].keep()
        seconds = turns(work, options.rounds)
        most = str(SIZES[-1])
        for rows in SIZES[:-1]:
            here = [s / rows for s in seconds[str(rows)]]
            there = [s / SIZES[-1] for s in seconds[most]]
            label = f"{name}, {SIZES[-1]:,} samples over {rows:,}"
            ratios.append(Ratio.of(label, there, here, CONSTANT))
    return table("Time a sample", ratios)


def _new_mlp(recipe: Recipe) -> Learner:
    torch.manual_seed(0)
    return Learner(net_named("mlp")((1, 28, 28), 10), recipe)


def folds(options: Options) -> str:
    """An audit's training over that of five folds."""
    ratios = []
    for data, rounds in (
        ("mnist", 3),
        ("digits", options.rounds),
        ("breast-cancer", options.rounds),
    ):
        over, under = [], []
        for seed in range(rounds):
            with tempfile.TemporaryDirectory() as out:
                done = audit.ours(data, "symmetric:0.2", seed, options.data_dir, Path(out))
                over.append(done.summary()["train_seconds"])
                spec = Spec.of(done.run.header["spec"])
            dataset = read(data, options.data_dir)
            part = undivided(dataset, parse("symmetric:0.2"), data_seed=0).train
            under.append(audit.by_folds(spec, part, len(dataset.classes))[1])
        note = f"{statistics.median(over):.1f} against {statistics.median(under):.1f} s"
        ratios.append(Ratio.of(f"{data}, symmetric:0.2", over, under, FOLDS, note))
    return table("An audit over five folds", ratios)


def memory(options: Options) -> str:
    """The most that a training has resident, in a process of its own."""
    lines = ["| training, two epochs | MB resident at most | goal |", "|---|---:|---:|"]
    for dataset, methods in (("mnist", ("cce", "bare", "meta-net")), ("cifar10", ("bare",))):
        for method in methods:
            data, goal = DATA[dataset], {"mnist": "700"}.get(dataset, "")
            code = (
                "import resource, labelnoise;"
                "from labelnoise.experiment.machine import keep_memory;"
                "keep_memory();"
                f"labelnoise.train({data!r}, method={method!r}, noise='symmetric:0.5',"
                f" epochs=2, out=OUT, data_dir={str(options.data_dir or '') or None!r});"
                "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
            )
            with tempfile.TemporaryDirectory() as out:
                words = [sys.executable, "-c", f"OUT = {out!r}; {code}"]
                done = subprocess.run(words, check=True, capture_output=True, text=True)  # noqa: S603
            lines.append(f"| {dataset}, {method} | {done.stdout.strip()} | {goal} |")
    return "\n".join(lines) + "\n"


TABLES: dict[str, Callable[[Options], str]] = {
    "bare": bare,
    "products": products,
    "methods": methods,
    "selection": selection,
    "jobs": jobs,
    "size": size,
    "audit": folds,
    "memory": memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(TABLES), help="tables, with commas between them")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--runs", type=Path, default=Path("speed"), help="where states are kept")
    parser.add_argument("--data-dir", type=Path)
    chosen = parser.parse_args()
    options = Options(chosen.rounds, chosen.runs, chosen.data_dir)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    keep_memory()
    for name in chosen.only.split(","):
        print(f"## {name}\n\n{TABLES[name](options)}", flush=True)


if __name__ == "__main__":
    main()
