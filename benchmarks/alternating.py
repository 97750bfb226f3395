"""Timing by turns: what is compared takes turns in one process, and ratios are of one round.

A busy machine then slows all of them alike.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Seconds = dict[str, list[float]]
"""What every contender took, round by round."""


def by_turns(
    contenders: Mapping[str, Callable[[int], None]],
    rounds: int,
    prepare: Callable[[str], None] = lambda name: None,
) -> Seconds:
    """Time every contender in every round; the first round warms up and does not count.

    Args:
        contenders: What is timed; called with the number of the round.
        rounds: How many count.
        prepare: Called with a contender's name before it, not timed.
    """
    seconds: Seconds = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, run in contenders.items():
            prepare(name)
            begin = time.perf_counter()
            run(number)
            if number:
                seconds[name].append(time.perf_counter() - begin)
    return seconds


@dataclass(frozen=True)
class Ratio:
    """A ratio with its spread over the rounds.

    Attributes:
        name: What of what.
        values: One a round.
        goal: What it should not exceed.
        note: What else to know.
    """

    name: str
    values: tuple[float, ...]
    goal: float | None = None
    note: str = ""

    @classmethod
    def of(
        cls, name: str, over: list[float], under: list[float], goal: float | None, note: str = ""
    ) -> Ratio:
        """Of times that were taken in the same rounds."""
        values = tuple(a / b for a, b in zip(over, under, strict=True))
        return cls(name, values, goal, note)

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    def row(self) -> str:
        """A line of a Markdown table: name, median, quartiles, goal, whether it is met, note."""
        low, high = self.values[0], self.values[-1]
        if len(self.values) > 1:
            low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        goal, met = "", ""
        if self.goal is not None:
            goal, met = f"{self.goal:.2f}", "yes" if self.median <= self.goal else "**no**"
        spread = f"{low:.2f} to {high:.2f}"
        return f"| {self.name} | {self.median:.2f} | {spread} | {goal} | {met} | {self.note} |"


def table(title: str, ratios: list[Ratio]) -> str:
    """A Markdown table of ratios."""
    head = f"| {title} | median | quartiles | goal | met | |\n|---|---:|---|---:|---|---|\n"
    return head + "\n".join(ratio.row() for ratio in ratios) + "\n"
