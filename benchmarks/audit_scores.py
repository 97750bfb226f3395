"""By what to judge a label after a training: scores side by side, on problems to choose them on.

    LABELNOISE_DATA=... python benchmarks/audit_scores.py [--only mnist] [--method cce]

None of these problems is a row of `benchmarks/audit.py`, by which the choice is judged. One run of
BARE a problem on all rows (batch size and epochs as `labelnoise audit` has them, one thread, seed
0), or with `--method cce` of cross-entropy, as in a loop of one's own; every score is made of what
that run saw of a label at its visits, and flags what is below one half. Prints F1 / average
precision; without noise, the fraction that is flagged.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, f1_score
from torch import Tensor

from labelnoise.audit.audit import paced
from labelnoise.data import read
from labelnoise.data.scale import SCALES
from labelnoise.data.train import Train
from labelnoise.engine import flushing_denormals
from labelnoise.experiment.ask import Ask
from labelnoise.experiment.learners import new_learners
from labelnoise.experiment.parts import undivided
from labelnoise.experiment.run import specify
from labelnoise.method import Method
from labelnoise.methods import method_named
from labelnoise.noise import parse
from labelnoise.problem import Problem
from labelnoise.rules.evidence import Evidence
from labelnoise.rules.evidence import odds as odds_of
from labelnoise.seeds import derive, stream

PROBLEMS = (
    ("digits", "none"),
    ("digits", "symmetric:0.05"),
    ("digits", "pair:0.2"),
    ("mnist:rows=20000", "none"),
    ("mnist:rows=20000", "symmetric:0.05"),
    ("mnist:rows=20000", "symmetric:0.3"),
    ("mnist:rows=20000", "class-conditional:0.3"),
    ("mnist:rows=20000", "pair:0.3"),
    ("mnist:rows=20000", "instance:0.2"),
    ("mnist:imbalance=20", "symmetric:0.15"),
    ("mnist:classes=3/rest,rows=20000", "symmetric:0.1"),
    ("breast-cancer", "symmetric:0.1"),
    ("hundred:rows=20000", "symmetric:0.1"),
    ("rare:rows=20000", "symmetric:0.05"),
    ("cifar10:rows=10000", "symmetric:0.1"),
)
NETS = {"cifar10:rows=10000": "lenet"}  # a net that is too weak for the data
Array = NDArray[Any]


class Visits:
    """What a run saw of every label, epoch by epoch."""

    def __init__(self, rows: int, epochs: int) -> None:
        names = ("probability", "right", "margin", "odds", "voted", "kept")
        self.seen = {name: np.zeros((epochs, rows), np.float32) for name in names}

    def take(
        self, epoch: int, index: Tensor, probs: Tensor, labels: Tensor, rule: Evidence
    ) -> None:
        """Look at a mini-batch."""
        place, least = labels.unsqueeze(1), torch.finfo(probs.dtype).eps
        given = probs.gather(1, place).squeeze(1).clamp(min=least)
        other = probs.scatter(1, place, 0).amax(dim=1).clamp(min=least)
        voted = (rule.transition().T[labels] * probs).scatter(1, place, 0).sum(dim=1)
        stays = rule.transition().diagonal()[labels]
        values = {
            "probability": given,
            "right": (verdict := rule.judge(probs, labels)).score,
            "kept": verdict.keep.float(),
            "margin": (given / other).log(),
            "odds": odds_of(rule.doubts(), probs, labels)[0],
            "voted": (given * stays / voted.clamp(min=least)).log().clamp(-16, 16),
        }
        for name, value in values.items():
            self.seen[name][epoch, index.numpy()] = value.numpy()


def by_visit(values: Array) -> Array:
    """The mean over visits, the n-th counting n times."""
    weight = np.arange(1, len(values) + 1)[:, None]
    mean: Array = (weight * values).sum(axis=0) / weight.sum()
    return mean


def sigmoid(odds: Array) -> Array:
    chance: Array = 1 / (1 + np.exp(-odds.astype(np.float64)))
    return chance


def taken(kept: Array) -> Array:
    """The logarithm of how often a label was kept to how often not, each counted once more."""
    visits = len(kept)
    share = by_visit(kept)
    odds: Array = np.log((share * visits + 1) / ((1 - share) * visits + 1))
    return odds


SCORES: dict[str, Callable[[dict[str, Array]], Array]] = {
    "probability, last": lambda seen: seen["probability"][-1],
    "probability, mean": lambda seen: seen["probability"].mean(axis=0),
    "right, last": lambda seen: seen["right"][-1],
    "right": lambda seen: by_visit(seen["right"]),
    "margin": lambda seen: sigmoid(by_visit(seen["margin"])),
    "odds by votes": lambda seen: sigmoid(by_visit(seen["voted"])),
    "odds, flat mean": lambda seen: sigmoid(seen["odds"].mean(axis=0)),
    "odds": lambda seen: sigmoid(by_visit(seen["odds"])),
    "kept": lambda seen: by_visit(seen["kept"]),
    "**odds and kept**": lambda seen: sigmoid(by_visit(seen["odds"]) + taken(seen["kept"])),
}


def visits(
    data: str, noise: str, kind: type[Method], data_dir: Path | None
) -> tuple[dict[str, Array], Array]:
    dataset = read(data, data_dir)
    part = undivided(dataset, parse(noise), data_seed=0).train
    ask = Ask(data, noise=noise, net=NETS.get(data, "auto"), whole=True)
    spec = specify(paced(ask, len(part.given)), dataset)
    scaling, classes = SCALES[spec.training.scale](part.inputs), len(dataset.classes)
    train = Train(part.inputs, part.given, scaling, spec.training.batch_size, spec.seed)
    method = kind()
    method.setup(
        Problem(
            labels=part.given,
            num_classes=classes,
            new_learner=new_learners(spec, tuple(part.inputs.shape[1:]), classes),
            generator=stream(spec.seed, "method"),
        )
    )
    found = Visits(len(part.given), spec.training.epochs)
    own = getattr(method, "rule", None)
    rule = own if isinstance(own, Evidence) else Evidence(classes)
    with flushing_denormals():
        for epoch in range(spec.training.epochs):
            torch.manual_seed(derive(spec.seed, "epoch", epoch))
            for step in method.epoch(train, epoch):
                assert step.probs is not None
                labels = part.given[step.index]
                if rule is not own:
                    rule.remember(step.probs, labels, rule.judge(step.probs, labels))
                found.take(epoch, step.index, step.probs, labels, rule)
            method.learner.advance(0.0)
    assert part.truth is not None
    return found.seen, (part.given != part.truth).numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="problems whose data set begins so")
    parser.add_argument("--method", default="bare", help="bare, or cce: a loop of one's own")
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"| data set | noise | {' | '.join(SCORES)} |\n|---|---|{'---|' * len(SCORES)}")
    for data, noise in PROBLEMS:
        if not data.startswith(options.only):
            continue
        seen, wrong = visits(data, noise, method_named(options.method), options.data_dir)
        cells = []
        for score in SCORES.values():
            quality = score(seen)
            flagged = quality < 0.5
            cells.append(
                f"{f1_score(wrong, flagged):.3f} / {average_precision_score(wrong, -quality):.3f}"
                if wrong.any()
                else f"{flagged.mean():.4f}"
            )
        print(f"| {data} | {noise} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
