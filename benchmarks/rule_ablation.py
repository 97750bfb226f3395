"""What each part of the rule `evidence` is worth: the rule without it, on the problems of a bench.

    LABELNOISE_DATA=... python benchmarks/rule_ablation.py [--problems "NAME;NAME"] [--seeds 2]

Balanced test accuracy in percent after the last epoch, mean over the seeds, on the half of the
bench that the rule was designed on (`rule-design`). One thread. Prints a Markdown table as it goes.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from labelnoise import nets
from labelnoise.data import read
from labelnoise.data.scale import SCALES
from labelnoise.data.train import Train
from labelnoise.engine import Held, fit
from labelnoise.errors import unknown
from labelnoise.experiment.grid import experiment_named
from labelnoise.experiment.learners import new_learners
from labelnoise.experiment.parts import divide
from labelnoise.experiment.spec import expand
from labelnoise.methods.bare import BARE
from labelnoise.noise import parse
from labelnoise.problem import Problem
from labelnoise.rules.evidence import Evidence, Standing
from labelnoise.seeds import stream


class NoFirstPass(Evidence):
    """Judges from the second mini-batch on."""

    def __init__(self, num_classes: int, samples: int) -> None:
        super().__init__(num_classes, samples=0)


class NoHabits(Evidence):
    """Takes the network's probabilities as they are."""

    def _habits(self) -> Tensor:
        return torch.eye(self.num_classes)


class Half(Evidence):
    """Cuts at one half."""

    def _standing(self) -> Standing:
        found = super()._standing()
        return found._replace(cut=torch.full_like(found.cut, 0.5))


class Hard(Evidence):
    """Cuts from the beginning, whether or not anything is resolved."""

    def _standing(self) -> Standing:
        found = super()._standing()
        return found._replace(resolution=torch.ones_like(found.resolution))


class Soft(Evidence):
    """Never cuts."""

    def _standing(self) -> Standing:
        found = super()._standing()
        return found._replace(resolution=torch.zeros_like(found.resolution))


class NoMean(Evidence):
    """Does not divide by the mean of the class."""

    def _by_right(self, right: Tensor, labels: Tensor) -> Tensor:
        return self._look_up().soft[labels]


class SlowMean(Evidence):
    """Divides by the mean over all steps instead of the mini-batch's own."""

    def _by_right(self, right: Tensor, labels: Tensor) -> Tensor:
        tables = self._look_up()
        mean, resolution, _ = tables.standing
        return (tables.soft * mean ** (resolution - 1))[labels]


class Believing(Evidence):
    """Believes a class that loses most of its labels too."""

    def _believed(self, stays: Tensor, strays: Tensor) -> Tensor:
        return torch.ones_like(stays)


class NoFading(Evidence):
    """Gives all steps of the history the same weight."""

    def _lateness(self, step: int) -> float:
        return 1


RULES: dict[str, type[Evidence]] = {
    "whole": Evidence,
    "no first pass": NoFirstPass,
    "no habits": NoHabits,
    "cut at 1/2": Half,
    "cut from the start": Hard,
    "never cut": Soft,
    "not by mean": NoMean,
    "by slow mean": SlowMean,
    "all believed": Believing,
    "no fading": NoFading,
}


class With(BARE):
    """BARE with another rule."""

    kind: type[Evidence]

    def setup(self, problem: Problem) -> None:
        """The same network."""
        super().setup(problem)
        self.rule = self.kind(problem.num_classes, len(problem.labels))


def accuracy(rule: type[Evidence], problem: dict[str, Any], seed: int, data_dir: Path) -> float:
    dataset = read(problem["dataset"], data_dir)
    parts, shape = divide(dataset, parse(problem["noise"]), 0), tuple(dataset.inputs.shape[1:])
    changes = {key: problem[key] for key in ("batch_size",) if key in problem}
    spec = expand(
        dataset=dataset.name,
        digest="",
        method="bare",
        noise=problem["noise"],
        net=problem.get("net", nets.auto(shape)),
        preset="recommended",
        changes={"epochs": problem.get("epochs", 20), **changes},
        seed=seed,
    )
    train = Train(
        inputs=parts.train.inputs,
        labels=parts.train.given,
        scaling=SCALES[spec.training.scale](parts.train.inputs),
        batch_size=spec.training.batch_size,
        seed=seed,
    )
    classes, device = len(dataset.classes), torch.device("cpu")
    method = With()
    method.kind = rule
    rows, _ = fit(
        method,
        Problem(
            labels=train.labels,
            num_classes=classes,
            new_learner=new_learners(spec, shape, classes, device),
            generator=stream(seed, "method"),
        ),
        train,
        epochs=spec.training.epochs,
        validation=Held(parts.validation.inputs, parts.validation.given),
        test=Held(parts.test.inputs, parts.test.labels),
    )
    return 100 * float(rows[-1]["test_accuracy_balanced"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", help="names, separated by semicolons; default: all")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    axis = experiment_named("rule-design").axes["problem"]
    problems = {str(each["name"]): each for each in axis if isinstance(each, dict)}
    names = options.problems.split(";") if options.problems else list(problems)
    for name in names:
        if name not in problems:
            raise SystemExit(str(unknown("problem", name, problems)))
    print(f"| | {' | '.join(RULES)} |\n|---|{'---:|' * len(RULES)}")
    for name in names:
        found = [
            statistics.fmean(
                accuracy(rule, problems[name], seed, options.data_dir)
                for seed in range(options.seeds)
            )
            for rule in RULES.values()
        ]
        print(f"| {name} | {' | '.join(f'{value:.2f}' for value in found)} |", flush=True)


if __name__ == "__main__":
    main()
