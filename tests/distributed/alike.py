"""One of two processes that train every way there is: `alike.py RANK WORLD FOLDER`.

What their networks are like in the end, and how much they have exchanged for it, is left in FOLDER.
Parts of mini-batches are uneven; some have one sample, some have none.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.profiler import ProfilerActivity

from labelnoise import Batch, Evidence, Learner, Method, Problem, dist
from labelnoise.data.scale import Scaling
from labelnoise.data.train import Train
from labelnoise.engine import Held, fit
from labelnoise.learner import Recipe
from labelnoise.methods import METHODS
from labelnoise.methods.bare import BARE
from labelnoise.rules import RULES
from labelnoise.seeds import stream

FEATURES, CLASSES, ROWS, STEPS = 6, 4, 24, 10
SIZES = ([12, 12], [22, 2], [24, 0], [1, 23])
CASES: dict[str, Callable[[], Method]] = {
    **METHODS,
    **{f"bare {rule}": partial(BARE, threshold=rule) for rule in RULES},
    "bare skip": lambda: BARE(threshold="batch", kappa=1.8, empty="skip"),
    "bare selected": lambda: BARE(threshold="batch", backward="selected"),
}


class Way(NamedTuple):
    """How to train."""

    case: str
    scope: str
    precision: str
    accumulate: int


WAYS = [
    Way(case, scope, precision, accumulate)
    for case in CASES
    for scope, precision, accumulate in (
        ("global", "bfloat16", 1),
        ("global", "float16", 3),
        ("local", "float32", 1),
        ("local", "float32", 3),
        ("local", "float16", 1),
    )
]


SHOWN = ("bare", "meta-net")  # with all that is sent, gradients too


class Setting(NamedTuple):
    """On what to count."""

    case: str
    scope: str
    classes: int
    rows: int


SETTINGS = [
    Setting(case, scope, classes, rows)
    for case in CASES
    for scope, classes, rows in (
        ("global", 8, 16),
        ("global", 8, 24),
        ("global", 64, 16),
        ("local", 8, 16),
    )
]


def new_learners(classes: int, recipe: Recipe, *, norm: bool) -> Callable[[], Learner]:
    numbers = itertools.count()

    def new_learner() -> Learner:
        torch.manual_seed(next(numbers))
        middle = nn.LayerNorm(16) if not norm else nn.BatchNorm1d(16)
        return Learner(
            nn.Sequential(nn.Linear(FEATURES, 16), middle, nn.ReLU(), nn.Linear(16, classes)),
            recipe,
        )

    return new_learner


def samples(rows: int, classes: int) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(rows)
    inputs = torch.randn(rows, FEATURES, generator=chance)
    return inputs, torch.randint(classes, (rows,), generator=chance)


def problem(labels: Tensor, new_learner: Callable[[], Learner], classes: int) -> Problem:
    scaling = Scaling(*torch.tensor([0.0, 1.0]))
    inputs = samples(len(labels), classes)[0]
    rank, world = dist.rank(), dist.processes()
    return Problem(
        labels,
        classes,
        new_learner,
        stream(0, "method"),
        noise_rate=0.3,
        trusted=Train(inputs[:40], labels[:40], scaling, 40, 0, rank=rank, world=world),
    )


def networks_of(way: Way) -> list[dict[str, Tensor]]:
    """Those of this process, after some steps and the end of an epoch."""
    inputs, labels = samples(240, CLASSES)
    recipe = Recipe("adam", 0.01, 0.0, "constant", 1, way.accumulate, way.precision)
    method = CASES[way.case]()
    method.setup(problem(labels, new_learners(CLASSES, recipe, norm=False), CLASSES))
    with nullcontext() if way.scope == "global" else dist.alone():
        for number in range(STEPS):
            rows = torch.randperm(240, generator=stream(0, "rows", number))[:ROWS]
            index = torch.split(rows, SIZES[(number + 1) % len(SIZES)])[dist.rank()]
            method.step(Batch((inputs[index],), labels[index], index, time=number / 2))
    for learner in method.learners():
        learner.settle()
    return [learner.network.state_dict() for learner in method.learners()]


@contextmanager
def counted() -> Iterator[list[int]]:
    """How many numbers each exchange hands over that is asked for by name: not DDP's gradients."""
    numbers: list[int] = []
    before = {name: getattr(distributed, name) for name in ("all_reduce", "all_gather")}

    def counting(call: Callable[..., Any]) -> Callable[..., Any]:
        def counts(*words: Any, **named: Any) -> Any:
            numbers.append(words[-1].numel())
            return call(*words, **named)

        return counts

    for name, call in before.items():
        setattr(distributed, name, counting(call))
    try:
        yield numbers
    finally:
        for name, call in before.items():
            setattr(distributed, name, call)


def exchanged_by(setting: Setting, *, profile: bool = False) -> dict[str, Any]:
    """How many numbers every exchange of some steps has handed over.

    Args:
        setting: On what to count.
        profile: Whether to count all of them by torch's profiler, which takes its time.
    """
    steps = max(32, setting.classes)
    inputs, labels = samples(setting.rows * dist.processes() * steps, setting.classes)
    recipe = Recipe("sgd", 0.01, schedule="constant")
    method = CASES[setting.case]()
    learners = new_learners(setting.classes, recipe, norm=True)
    method.setup(problem(labels, learners, setting.classes))
    chunks = torch.arange(len(labels)).view(steps, dist.processes(), -1)[:, dist.rank()]
    with nullcontext() if setting.scope == "global" else dist.alone():
        for number in range(2):  # in which the network is handed over
            method.step(Batch((inputs[chunks[number]],), labels[chunks[number]], chunks[number], 6))
        if isinstance(method, BARE) and isinstance(method.rule, Evidence):
            method.rule.steps = 1 << 20  # where mini-batches wait as long as they may
        watching = (
            torch.profiler.profile(activities=[ProfilerActivity.CPU], record_shapes=True)
            if profile
            else nullcontext()
        )
        with counted() as numbers, watching as seen:
            for index in chunks:
                method.step(Batch((inputs[index],), labels[index], index, time=6))
    if seen is not None:
        shapes = [e.input_shapes[0] for e in seen.events() if e.name.startswith("gloo:")]
        numbers = [torch.Size(shape).numel() for shape in shapes]
    return {
        "numbers": numbers,
        "steps": steps,
        "gradients": [sum(p.numel() for p in each.parameters) for each in method.learners()],
    }


def watched() -> float:
    """What a schedule has seen of the validation part after an epoch with a scope of its own."""
    inputs, labels = samples(240, CLASSES)
    scaling, held = Scaling(*torch.tensor([0.0, 1.0])), Held(inputs[:40], labels[:40])
    train = Train(inputs, labels, scaling, 12, 0, rank=dist.rank(), world=dist.processes())
    method = BARE(threshold="evidence")
    learners = new_learners(CLASSES, Recipe("adam", 0.01), norm=True)
    told = problem(labels, learners, CLASSES)
    fit(method, told, train, epochs=3, validation=held, scope="local")
    return float(method.learner.state_dict()["schedule"]["best"])


def overflows() -> list[dict[str, Any]]:
    """The states of a learner in half precision before and after only the second overflows."""
    recipe = Recipe("adam", 0.01, schedule="constant", precision="float16")
    learner = new_learners(CLASSES, recipe, norm=False)()
    inputs, labels = samples(ROWS, CLASSES)
    states = []
    for factor in (1.0, 1e30 if dist.rank() == 1 else 1.0, 1.0):
        learner.descend(factor * nn.functional.cross_entropy(learner.logits(inputs), labels))
        states.append(
            {
                "network": {n: v.clone() for n, v in learner.network.state_dict().items()},
                "scale": learner.state_dict()["scaler"]["scale"],
            }
        )
    return states


def main() -> None:
    rank, world, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    meet = f"file://{folder}/meet-{world}"
    distributed.init_process_group("gloo", init_method=meet, rank=rank, world_size=world)
    found = {
        "networks": {tuple(way): networks_of(way) for way in WAYS},
        "exchanged": {tuple(setting): exchanged_by(setting) for setting in SETTINGS},
        "all": {case: exchanged_by(Setting(case, "local", 8, 16), profile=True) for case in SHOWN},
        "overflows": overflows(),
        "watched": watched(),
    }
    torch.save(found, f"{folder}/{world}-{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
