"""What torch.compile would gain, what it costs, and where the time of a plain step goes.

    taskset -c 0 python benchmarks/compiled.py [--rounds 15]
    taskset -c 0 python benchmarks/compiled.py --phases [--rounds 15]

The MLP on the shapes of MNIST and the CNN on those of CIFAR-10, batch 128, fused Adam, one thread,
on random pixels. The first command times one step of training (forward, loss, backward, optimiser)
as it is, with a compiled network, and with network, log-softmax and cross-entropy compiled as one
function; and BARE's selection by the `batch` threshold, as it is and compiled. Every comparison has
a process and an empty cache of its own, as on a user's first run; the seconds of compiling are
those of one core, the C++ compiler's included. It needs one (g++) at run time: without, the first
call raises an error. `Earned back` is after how many steps, and epochs, the seconds of compiling
are.

The second command takes the MLP's plain step apart, and tries what might make it shorter.

Contenders alternate, and every step is timed; a number is the quarter of the steps that were
fastest, at its upper end: others on the same core hold up a step now and then, and do not count.
"""

from __future__ import annotations

import os

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # in this process, to be counted

import argparse
import math
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from labelnoise.data.scale import unit
from labelnoise.data.train import Train
from labelnoise.experiment.machine import keep_memory
from labelnoise.learner import Learner, Recipe
from labelnoise.losses import cross_entropy
from labelnoise.nets import net_named
from labelnoise.rules.thresholds import batch_thresholds, select

BATCH, CLASSES, KAPPA = 128, 10, 1.0
Do = Callable[[], object]


class Case(NamedTuple):
    """A network, its inputs, the steps of an epoch, and how many are timed in a round."""

    net: str
    shape: tuple[int, int, int]
    epoch: int
    steps: int


CASES = {
    "MLP, MNIST": Case("mlp", (1, 28, 28), 375, 100),
    "CNN, CIFAR-10": Case("cnn", (3, 32, 32), 313, 1),
}
FORMS = ("network", "network and loss")


def alternated(contenders: dict[str, Do], steps: int, rounds: int) -> dict[str, float]:
    """Microseconds of each; the first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, do in contenders.items():
            for _ in range(steps):
                begin = time.perf_counter()
                do()
                if number:
                    times[name].append((time.perf_counter() - begin) * 1e6)
    return {name: lower_quartile(values) for name, values in times.items()}


def lower_quartile(values: list[float]) -> float:
    return statistics.quantiles(values, n=4)[0]


# --- compiled -------------------------------------------------------------------------------------


class Compiled(NamedTuple):
    """Seconds of compiling, microseconds of a step before and after."""

    compiling: float
    before: float
    after: float

    def row(self, what: str, epoch: int) -> str:
        """As Markdown."""
        saved = self.before - self.after
        steps = self.compiling * 1e6 / saved if saved > 0 else 0
        earned = f"{steps:.0f} steps, {steps / epoch:.0f} epochs" if saved > 0 else "never"
        times = f"{self.before:.0f} | {self.after:.0f} | {self.after / self.before:.2f}"
        return f"| {what} | {self.compiling:.1f} | {times} | {earned} |"


def compared(plain: Do, compiled: Do, steps: int, rounds: int) -> Compiled:
    plain()
    begin = sum(os.times()[:4])  # with the children's, and so the compiler's
    compiled()
    seconds = sum(os.times()[:4]) - begin
    times = alternated({"plain": plain, "compiled": compiled}, steps, rounds)
    return Compiled(seconds, times["plain"], times["compiled"])


def plain_loss(network: Callable[[Tensor], Tensor], inputs: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(network(inputs).log_softmax(dim=1), labels).mean()


def new_learner(case: Case) -> Learner:
    torch.manual_seed(0)
    return Learner(net_named(case.net)(case.shape, CLASSES), Recipe(schedule="constant"))


def training_step(case: Case, form: str) -> Do:
    inputs, labels = torch.rand(BATCH, *case.shape), torch.randint(CLASSES, (BATCH,))
    learner = new_learner(case)
    network = torch.compile(learner.network) if form == "network" else learner.network
    loss = torch.compile(plain_loss) if form == "network and loss" else plain_loss
    return lambda: learner.descend(loss(network, inputs, labels))


def train_compiled(case: Case, form: str, rounds: int) -> Compiled:
    return compared(training_step(case, "plain"), training_step(case, form), case.steps, rounds)


def selection(probs: Tensor, labels: Tensor) -> Tensor:
    return select(probs, labels, batch_thresholds(probs, labels, KAPPA))


def select_compiled(rounds: int) -> Compiled:
    probs, labels = torch.rand(BATCH, CLASSES).softmax(dim=1), torch.randint(CLASSES, (BATCH,))
    compiled = torch.compile(selection)
    found = compared(
        lambda: selection(probs, labels), lambda: compiled(probs, labels), 1000, rounds
    )
    assert torch.equal(compiled(probs, labels), selection(probs, labels))
    return found


def prepare(cache: str | None = None) -> None:
    if cache is not None:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    keep_memory()


def alone(measure: Callable[[], Compiled]) -> Compiled:
    """In a new process, with an empty cache."""
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as cache,
        ProcessPoolExecutor(1, context, prepare, (cache,)) as pool,
    ):
        return pool.submit(measure).result()


def show_compiled(rounds: int) -> None:
    print("| what | compiling, s | before, us | after, us | ratio | earned back after |")
    print("|---|---|---|---|---|---|")
    for name, case in CASES.items():
        for form in FORMS:
            found = alone(partial(train_compiled, case, form, rounds))
            print(found.row(f"{name}: {form}", case.epoch))
    print(alone(partial(select_compiled, rounds)).row("BARE's selection, 128 x 10", 375))


# --- taken apart ----------------------------------------------------------------------------------


def training_set(case: Case) -> Train:
    stored = torch.randint(256, (48000, *case.shape), dtype=torch.uint8)
    return Train(stored, torch.randint(CLASSES, (48000,)), unit(stored), BATCH, seed=0)


def phases(train: Train, epochs: int) -> dict[str, float]:
    """Microseconds of what follows each other in a step with cross-entropy."""
    learner = new_learner(CASES["MLP, MNIST"])
    times: dict[str, list[float]] = {}
    for number in range(epochs):
        last = time.perf_counter()

        def mark(name: str) -> None:
            nonlocal last
            times.setdefault(name, []).append((time.perf_counter() - last) * 1e6)
            last = time.perf_counter()

        for batch in train.batches(number):
            mark("batch: look up, to floats, scale")
            logits = learner.logits(batch.inputs)
            mark("network forward")
            log_probs = logits.log_softmax(dim=1)
            losses = cross_entropy(log_probs, batch.labels)
            loss = losses.mean()
            mark("log-softmax, cross-entropy, mean")
            learner.optimiser.zero_grad()
            mark("zero_grad")
            loss.backward(inputs=learner.parameters)  # type: ignore[no-untyped-call]
            mark("backward")
            learner.optimiser.step()
            mark("optimiser.step")
            torch.ones_like(losses), log_probs.detach().exp()
            mark("for the record: weights, probabilities")
    return {name: lower_quartile(values) for name, values in times.items()}


def operations(train: Train) -> dict[str, float]:
    """Microseconds of a step by operation of torch and its shapes, as the profiler sees them."""
    learner = new_learner(CASES["MLP, MNIST"])
    steps = len(train) // BATCH
    # The second time, after the first one's records were read: while the heap grows by them, a step
    # has 190 page faults, and the product that first writes there seems to take half as long again.
    for number in range(2):
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
            for batch in train.batches(number):
                learner.descend(plain_loss(learner.network, batch.inputs, batch.labels))
        found = list(profiler.events() or ())
    events: dict[str, list[float]] = {}
    for event in found:
        shapes = " ".join("x".join(map(str, shape)) for shape in event.input_shapes if shape)
        name = f"{event.name} {shapes[:40]}".strip()
        events.setdefault(name, []).append(event.self_cpu_time_total)
    times = {n: lower_quartile(v) * len(v) / steps for n, v in events.items() if len(v) >= steps}
    return dict(sorted(times.items(), key=lambda item: -item[1])[:16])


def shorter(train: Train, rounds: int) -> dict[str, float]:
    """Microseconds of a step on one batch, as it is and otherwise; the last one is a floor."""
    batch = next(train.batches(0))

    def way(descend: Callable[[Learner, Tensor], None]) -> Do:
        learner = new_learner(CASES["MLP, MNIST"])
        learner.descend(plain_loss(learner.network, batch.inputs, batch.labels))
        return lambda: descend(learner, plain_loss(learner.network, batch.inputs, batch.labels))

    contenders: dict[str, Do] = {
        "as it is": way(Learner.descend),
        "gradients dropped by hand instead of zero_grad": way(dropped),
        "torch.autograd.grad instead of backward": way(asked),
        "dropped, and torch._fused_adam_ called directly": way(directly),
    }
    times = alternated(contenders, 100, rounds)
    case, hidden = CASES["MLP, MNIST"], torch.rand(BATCH, 256)
    inputs, weight = torch.rand(BATCH, math.prod(case.shape)), torch.rand(256, 784)
    last, scores = torch.rand(CLASSES, 256), torch.rand(BATCH, CLASSES)

    def products() -> None:
        inputs @ weight.T
        hidden @ last.T
        scores.T @ hidden
        scores @ last
        hidden.T @ inputs

    return times | alternated({"the five matrix products alone": products}, 100, rounds)


def dropped(learner: Learner, loss: Tensor) -> None:
    for parameter in learner.parameters:
        parameter.grad = None
    loss.backward(inputs=learner.parameters)  # type: ignore[no-untyped-call]
    learner.optimiser.step()


def asked(learner: Learner, loss: Tensor) -> None:
    gradients = torch.autograd.grad(loss, learner.parameters)
    for parameter, gradient in zip(learner.parameters, gradients, strict=True):
        parameter.grad = gradient
    learner.optimiser.step()


@torch.no_grad()
def directly(learner: Learner, loss: Tensor) -> None:
    for parameter in learner.parameters:
        parameter.grad = None
    loss.backward(inputs=learner.parameters)  # type: ignore[no-untyped-call]
    states = [learner.optimiser.state[parameter] for parameter in learner.parameters]
    counts = [state["step"] for state in states]
    torch._foreach_add_(counts, 1)
    torch._fused_adam_(
        list[Tensor](learner.parameters),
        [parameter.grad for parameter in learner.parameters if parameter.grad is not None],
        [state["exp_avg"] for state in states],
        [state["exp_avg_sq"] for state in states],
        [],
        counts,
        lr=2e-4,
        beta1=0.9,
        beta2=0.999,
        weight_decay=0.0,
        eps=1e-8,
        amsgrad=False,
        maximize=False,
    )


def show_phases(rounds: int) -> None:
    train = training_set(CASES["MLP, MNIST"])
    for title, times in {
        "phase of the MLP's step": phases(train, 4),
        "operation": operations(train),
        "step without its batch": shorter(train, rounds),
    }.items():
        print(f"\n| {title} | microseconds |\n|---|---|")
        for name, value in times.items():
            print(f"| {name} | {value:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--phases", action="store_true")
    options = parser.parse_args()
    if options.phases:
        prepare()
        show_phases(options.rounds)
    else:
        show_compiled(options.rounds)


if __name__ == "__main__":
    main()
