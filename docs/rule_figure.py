"""Draws docs/images/rule.png: what the published rule and ours see of an easy and a hard problem.

    LABELNOISE_DATA=... python docs/rule_figure.py

Trains the MLP four times for 20 epochs, one seed, on one thread: about a minute.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from labelnoise.data import read
from labelnoise.data.scale import standardised
from labelnoise.data.train import Train
from labelnoise.engine import flushing_denormals
from labelnoise.experiment.figure import COLOURS, PANEL, STYLE
from labelnoise.experiment.parts import divide
from labelnoise.losses import cross_entropy, weighted_mean
from labelnoise.nets.mlp import mlp
from labelnoise.noise import parse
from labelnoise.rules import new_rule
from labelnoise.rules.verdict import or_all

PICTURE = Path(__file__).parent / "images" / "rule.png"
EPOCHS, BATCH, LEARNING_RATE = 20, 128, 1e-3  # the preset `recommended`, shorter
PROBLEMS = {
    "Easy: ten digits, 40 % of the labels wrong": ("mnist:rows=20000", "symmetric:0.4"),
    "Hard: one in ten positive, classes overlap, 20 % wrong": ("rare:rows=20000", "symmetric:0.2"),
}
RULES = {
    "batch": "published: probability of the label",
    "evidence": "evidence: is the label right?",
}
RIGHT, WRONG = COLOURS[0], COLOURS[1]
BINS = 25


class Seen(NamedTuple):
    """What a rule saw in an epoch: a score for every sample, and what it is compared with."""

    labels: Tensor
    is_right: Tensor
    score: Tensor
    keep: Tensor
    bars: Tensor


def seen_by(threshold: str, dataset: str, noise: str) -> list[Seen]:
    """Train with a rule; what it saw in every epoch."""
    parts = divide(read(dataset), parse(noise), data_seed=0)
    inputs, labels = parts.train.inputs, parts.train.given
    is_right = torch.as_tensor(labels == parts.train.truth)
    classes, device = int(labels.max()) + 1, labels.device
    train = Train(inputs, labels, standardised(inputs), BATCH, seed=0)
    torch.manual_seed(0)
    network = mlp(tuple(inputs.shape[1:]), classes)
    optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    rule = new_rule(threshold, None, num_classes=classes, samples=len(labels), device=device)
    found = []
    for number in range(EPOCHS):
        verdicts, order = [], []
        for batch in train.batches(number):
            log_probs = network(batch.inputs).log_softmax(dim=1)
            verdict = rule.judge(log_probs.detach().exp(), batch.labels)
            rule.remember(log_probs.detach().exp(), batch.labels, verdict)
            losses = cross_entropy(log_probs, batch.labels)
            optimiser.zero_grad()
            weighted_mean(losses, or_all(verdict.weight)).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            verdicts.append(verdict)
            order.append(batch.index)
        schedule.step()
        rows = torch.cat(order)
        found.append(
            Seen(
                labels=labels[rows],
                is_right=is_right[rows],
                score=torch.cat([each.score for each in verdicts]),
                keep=torch.cat([each.keep for each in verdicts]),
                bars=torch.stack([each.notes["thresholds"] for each in verdicts]).nanmean(dim=0),
            )
        )
    return found


def draw_scores(axis: Any, seen: Seen) -> None:
    """For every class, right labels to the left and wrong ones to the right, and the bar."""
    for label, bar in enumerate(seen.bars.tolist()):
        mine = seen.labels == label
        most = float(torch.histc(seen.score[mine], BINS, 0, 1).max().sqrt())
        for chosen, side, colour in ((seen.is_right, -1, RIGHT), (~seen.is_right, 1, WRONG)):
            counts = torch.histc(seen.score[mine & chosen], BINS, 0, 1).sqrt() / most
            heights = (torch.arange(BINS) + 0.5) / BINS
            width = (0.42 * side * counts).tolist()
            axis.barh(heights, width, 1 / BINS, left=label, color=colour, linewidth=0)
        axis.plot([label - 0.45, label + 0.45], [min(bar, 1.08)] * 2, color="black", linewidth=1.5)
    kept = seen.keep & seen.is_right, seen.keep & ~seen.is_right
    right, wrong = (
        100 * float(part.sum() / whole.sum())
        for part, whole in zip(kept, (seen.is_right, ~seen.is_right), strict=True)
    )
    axis.set_title(f"keeps {right:.0f} % of the right, {wrong:.0f} % of the wrong", fontsize=8)
    axis.set_xticks(range(len(seen.bars)))
    axis.set_ylim(-0.02, 1.12)
    axis.grid(visible=False)


def draw_epochs(axis: Any, history: list[Seen]) -> None:
    """Mean scores of right and of wrong labels over the epochs, and the mean bar between them."""
    epochs = range(1, len(history) + 1)
    lines = {
        "right labels": ([float(s.score[s.is_right].mean()) for s in history], RIGHT),
        "wrong labels": ([float(s.score[~s.is_right].mean()) for s in history], WRONG),
        "cut": ([float(s.bars.mean()) for s in history], "black"),
    }
    for name, (values, colour) in lines.items():
        axis.plot(epochs, values, color=colour, label=name)
    axis.set_title("evidence: means over the epochs", fontsize=8)
    axis.set_ylim(-0.02, 1.12)


def draw_problem(figure: Any, title: str, histories: dict[str, list[Seen]]) -> None:
    """What both rules saw in the last epoch, and how ours got there."""
    figure.suptitle(title, fontweight="bold")
    *scores, last = figure.subplots(1, len(RULES) + 1)
    for axis, (rule, says) in zip(scores, RULES.items(), strict=True):
        draw_scores(axis, histories[rule][-1])
        axis.set_ylabel(says)
        axis.set_xlabel("given label")
    draw_epochs(last, histories["evidence"])
    last.set_xlabel("epoch")
    last.legend(frameon=False, loc="center right", bbox_to_anchor=(1, 0.32))


def main() -> None:
    """Train and draw."""
    torch.set_num_threads(1)
    with plt.rc_context(STYLE):  # type: ignore[arg-type]
        figure = plt.figure(figsize=(4 * PANEL[0], 3 * PANEL[1]), layout="constrained")
        parts: Any = figure.subfigures(len(PROBLEMS), 1, hspace=0.06)
        for part, (title, problem) in zip(parts, PROBLEMS.items(), strict=True):
            with flushing_denormals():
                histories = {rule: seen_by(rule, *problem) for rule in RULES}
            draw_problem(part, title, histories)
        figure.savefig(PICTURE, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main()
