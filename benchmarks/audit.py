"""Which labels are wrong: one run of ours beside cleanlab's five folds, on the same noisy labels.

    pip install -c constraints.txt 'cleanlab==2.9.0'
    LABELNOISE_DATA=... python benchmarks/audit.py [--only digits] [--seeds 3]

Ours is `labelnoise audit` as it is. cleanlab 2.9 gets out-of-sample probabilities from five folds
of the same network, trained with cross-entropy for the same epochs in the same batches, and is
asked by `find_label_issues` (which labels) and `get_label_quality_scores` (in which order). F1 is
of the flagged labels, average precision of the order; time is that of the training alone, measured
in one process, one thread, ours first in every row. Prints a Markdown table, a row as soon as
it is known: means over the seeds, how far the estimated noise rate is off, and the ratio of the
times.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score
from sklearn.model_selection import StratifiedKFold

from labelnoise.audit.audit import Audit, audit_labels
from labelnoise.data import read
from labelnoise.data.scale import SCALES
from labelnoise.data.train import Train
from labelnoise.engine import evaluate, fit
from labelnoise.experiment.learners import new_learners
from labelnoise.experiment.machine import keep_memory
from labelnoise.experiment.parts import Noisy, undivided
from labelnoise.experiment.spec import Spec
from labelnoise.methods.cce import CCE
from labelnoise.noise import parse
from labelnoise.problem import Problem
from labelnoise.seeds import stream

FOLDS = 5
KINDS = (
    "symmetric:0.1",
    "symmetric:0.2",
    "symmetric:0.5",
    "class-conditional:0.45",
    "instance:0.3",
)
ROWS = (
    *(("digits", noise) for noise in KINDS),
    *(("mnist", noise) for noise in KINDS),
    ("mnist:imbalance=50", "symmetric:0.3"),
    ("mnist:classes=0+2+4+6+8/rest,rows=20000", "symmetric:0.2"),
    ("breast-cancer", "symmetric:0.2"),
)
HEADINGS = ("precision", "recall", "F1", "average precision")
GOAL = 0.35  # of cleanlab's training time


@dataclass(frozen=True)
class Score:
    """How well wrong labels were found."""

    precision: float
    recall: float
    f1: float
    average_precision: float
    seconds: float
    off: float = 0.0  # the estimated noise rate, less the true one
    inside: bool = False  # whether the true one lies in the interval


def scored(
    wrong: NDArray[Any], flagged: NDArray[Any], quality: NDArray[Any], seconds: float
) -> Score:
    return Score(
        float(precision_score(wrong, flagged, zero_division=0)),
        float(recall_score(wrong, flagged)),
        float(f1_score(wrong, flagged)),
        float(average_precision_score(wrong, 1 - quality)),
        seconds,
    )


def ours(data: str, noise: str, seed: int, data_dir: Path | None, out: Path) -> Audit:
    return audit_labels(data, out=out, noise=noise, seed=seed, data_dir=data_dir, device="cpu")


def by_folds(spec: Spec, part: Noisy, classes: int) -> tuple[NDArray[Any], float]:
    """Probabilities of every row by a network that was not trained on it; seconds of training."""
    probs, seconds = np.zeros((len(part.given), classes), np.float32), 0.0
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=spec.seed)
    for fold, (seen, left) in enumerate(folds.split(np.zeros(len(part.given)), part.given)):
        inputs = part.inputs[seen]
        scaling = SCALES[spec.training.scale](inputs)
        train = Train(inputs, part.given[seen], scaling, spec.training.batch_size, spec.seed + fold)
        method = CCE()
        problem = Problem(
            labels=train.labels,
            num_classes=classes,
            new_learner=new_learners(spec, tuple(inputs.shape[1:]), classes),
            generator=stream(spec.seed, "method"),
        )
        rows, _ = fit(method, problem, train, epochs=spec.training.epochs)
        seconds += sum(row["train_seconds"] for row in rows)
        probs[left] = evaluate(method.log_probs, part.inputs[left], scaling).exp().numpy()
    return probs, seconds


def compared(data: str, noise: str, seed: int, data_dir: Path | None) -> tuple[Score, Score]:
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    with tempfile.TemporaryDirectory() as out:
        done = ours(data, noise, seed, data_dir, Path(out))
        spec, found = Spec.of(done.run.header["spec"]), done.findings
        seconds = done.summary()["train_seconds"]
    dataset = read(data, data_dir)
    part = undivided(dataset, parse(noise), data_seed=0).train
    assert part.truth is not None
    wrong, given = (part.given != part.truth).numpy(), part.given.numpy()
    assert (given == found.given).all()
    probs, their_seconds = by_folds(spec, part, len(dataset.classes))
    flagged = find_label_issues(given, probs, n_jobs=1)
    quality = get_label_quality_scores(given, probs)
    low, high = found.interval
    mine = scored(wrong, found.issue, found.quality, seconds)
    return (
        replace(
            mine,
            off=found.noise_rate - float(wrong.mean()),
            inside=bool(low <= wrong.mean() <= high),
        ),
        scored(wrong, flagged, quality, their_seconds),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="rows whose data set begins so")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_memory()
    headings = " | ".join(f"{heading}, ours / cleanlab" for heading in HEADINGS)
    print(f"| data set | noise | {headings} | noise rate off by | time |")
    print(f"|---|---|{'---|' * len(HEADINGS)}---:|---:|")
    met, inside = [], []
    for data, noise in ROWS:
        if not data.startswith(options.only):
            continue
        pairs = [compared(data, noise, seed, options.data_dir) for seed in range(options.seeds)]
        cells, means = [], {}
        for name in ("precision", "recall", "f1", "average_precision"):
            mine, theirs = (
                statistics.fmean(getattr(score, name) for score in each)
                for each in zip(*pairs, strict=True)
            )
            means[name] = mine - theirs
            cells.append(f"{mine:.3f} / {theirs:.3f}")
        ratio = statistics.median(mine.seconds / theirs.seconds for mine, theirs in pairs)
        met.append(means["f1"] > 0 and means["average_precision"] > 0 and ratio <= GOAL)
        off = statistics.fmean(mine.off for mine, _ in pairs)
        inside += [mine.inside for mine, _ in pairs]
        row = " | ".join((data, noise, *cells, f"{off:+.3f}", f"{ratio:.2f}"))
        print(f"| {row} |", flush=True)
    print(f"\nF1 and average precision higher, time at most {GOAL}: {sum(met)} of {len(met)} rows.")
    print(f"The interval holds the true noise rate in {sum(inside)} of {len(inside)} audits.")


if __name__ == "__main__":
    main()
