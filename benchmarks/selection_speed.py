"""What a selection costs: each rule against softmax with cross-entropy on the same logits.

    python benchmarks/selection_speed.py [--rounds 7] [--rules batch evidence] [--memory]

A selection is `judge` and `remember` on probabilities that are there already, one thread. A rule
that adds up mini-batches together is timed over as many as it adds up, so that this is in it. Both
alternate, and processor time is counted, so that a busy machine disturbs little. Cells are medians
over the rounds of the ratio within a round, from 100,000 logits up, and microseconds below that;
what misses the goal is bold.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as functional
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from labelnoise.experiment.machine import keep_memory
from labelnoise.rules import RULES, new_rule
from labelnoise.rules.evidence import TOGETHER, Evidence

SMALL = 100_000  # logits below which the goal is in microseconds, from which on it is a ratio
GOAL_RATIO = 0.25
GOAL_MICROSECONDS = 60
MOST = 100_000_000  # logits: half a gigabyte, and three times that for the gradient
BATCHES = (64, 128, 512, 4096, 65_536)
CLASSES = (10, 100, 1000, 10_000)
SIZES = tuple(
    (batch, classes) for classes in CLASSES for batch in BATCHES if batch * classes < MOST
)
SKIPPED = tuple(
    (batch, classes) for classes in CLASSES for batch in BATCHES if batch * classes >= MOST
)
LEAST_SECONDS = 2e-3  # of a round, so that the clock is fine enough
EPOCH = 400  # mini-batches
LABELINGS = 8  # mini-batches in turn, so that not always the same rows of a table are at hand


def problem(batch: int, classes: int) -> tuple[Tensor, list[Tensor]]:
    """Logits of a network that has learned something, and labels of which a fifth is wrong."""
    chance = torch.Generator().manual_seed(batch + classes)
    logits = torch.randn(batch, classes, generator=chance)
    truth = torch.randint(classes, (batch,), generator=chance)
    logits[torch.arange(batch), truth] += 6
    labelings = []
    for _ in range(LABELINGS):
        wrong = torch.rand(batch, generator=chance) < 0.2
        other = torch.randint(classes, (batch,), generator=chance)
        labelings.append(torch.where(wrong, other, truth))
    return logits, labelings


def selection(rule_name: str, probs: Tensor, labelings: list[Tensor]) -> Callable[[], None]:
    """One selection after the other, of a rule that has seen something already."""
    batch, classes = probs.shape
    rule = new_rule(
        rule_name, None, num_classes=classes, samples=EPOCH * batch, device=probs.device
    )
    turn = 0

    def once() -> None:
        nonlocal turn
        turn = (turn + 1) % len(labelings)
        verdict = rule.judge(probs, labelings[turn])
        rule.remember(probs, labelings[turn], verdict)

    for _ in range(3):
        once()
    if isinstance(rule, Evidence):  # late in a training, when it adds up least often
        rule.steps = TOGETHER**2
    return once


def softmax(logits: Tensor, labels: Tensor) -> Callable[[], None]:
    """Softmax with cross-entropy, forward and backward."""
    logits.requires_grad_()

    def once() -> None:
        logits.grad = None
        functional.cross_entropy(logits, labels).backward()  # type: ignore[no-untyped-call]

    return once


def seconds_of(work: Callable[[], None], times: int) -> float:
    """Of one call, on average over so many."""
    begin = time.thread_time()
    for _ in range(times):
        work()
    return (time.thread_time() - begin) / times


def measure(
    rule_name: str, batch: int, classes: int, rounds: int
) -> tuple[list[float], list[float]]:
    """Seconds of a selection, and of softmax with cross-entropy, round by round.

    Args:
        rule_name: One of `labelnoise.rules.RULES`.
        batch: Samples in a mini-batch.
        classes: Classes.
        rounds: How often to measure both, in turns, after a round that warms up.
    """
    logits, labelings = problem(batch, classes)
    select = selection(rule_name, logits.softmax(dim=1), labelings)
    baseline = softmax(logits, labelings[0])
    baseline()
    enough = max(1, round(LEAST_SECONDS / seconds_of(baseline, 3)))
    period = TOGETHER if rule_name == "evidence" else 1
    times = -(-enough // period) * period
    selections, softmaxes = [], []
    for number in range(rounds + 1):
        taken = seconds_of(select, times), seconds_of(baseline, enough)
        if number:
            selections.append(taken[0])
            softmaxes.append(taken[1])
    return selections, softmaxes


def memory(rule_name: str, batch: int, classes: int) -> float:
    """The most that a selection holds at a time, over the bytes of the probabilities.

    What is kept for good counts too where it comes newly into being: tables made anew, mini-batches
    that wait. The probabilities themselves do not: they are the caller's.
    """
    logits, labelings = problem(batch, classes)
    probs = logits.softmax(dim=1)
    once = selection(rule_name, probs, labelings)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        for _ in range(TOGETHER if rule_name == "evidence" else 1):
            once()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    changes = [(e["ts"], e["args"]["Bytes"]) for e in events if e.get("name") == "[memory]"]
    now = most = 0
    for _, change in sorted(changes, key=lambda each: each[0]):
        now += change
        most = max(most, now)
    return most / (probs.numel() * probs.element_size())


def cell(rule_name: str, batch: int, classes: int, rounds: int, with_memory: bool) -> str:
    """A cell of the table; what misses the goal is bold."""
    selections, softmaxes = measure(rule_name, batch, classes, rounds)
    if batch * classes < SMALL:
        found = statistics.median(selections) * 1e6
        text, met = f"{found:.0f} us", found <= GOAL_MICROSECONDS
    else:
        found = statistics.median(a / b for a, b in zip(selections, softmaxes, strict=True))
        text, met = f"{found:.2f}", found <= GOAL_RATIO
    if not met:
        text = f"**{text}**"
    return f"{text}, {memory(rule_name, batch, classes):.1f}x" if with_memory else text


def main() -> None:
    """Print the table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rules", nargs="+", default=sorted(RULES), choices=RULES)
    parser.add_argument("--memory", action="store_true", help="extra bytes over those of probs too")
    parser.add_argument("--most", type=int, default=MOST, help="logits; what has more is left out")
    options = parser.parse_args()
    keep_memory()
    torch.set_num_threads(1)
    print("| batch | classes | " + " | ".join(options.rules) + " |")
    print("|--:|--:|" + "--:|" * len(options.rules))
    for batch, classes in SIZES:
        if batch * classes <= options.most:
            cells = [
                cell(name, batch, classes, options.rounds, options.memory) for name in options.rules
            ]
            print(f"| {batch} | {classes} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
