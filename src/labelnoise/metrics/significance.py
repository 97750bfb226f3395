"""Whether a difference over a few paired trials means anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import sqrt
from statistics import fmean as mean
from statistics import stdev

LEVEL = 0.05  # of significance, and one minus the confidence of the intervals


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values of several tests, adjusted so that all of them together keep the level."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def paired_t(differences: Sequence[float]) -> tuple[float | None, tuple[float, float] | None]:
    """Two-sided p-value of no difference, and the 95 % interval of the mean difference.

    Equal differences have no spread to compare their mean with: p is 1 if all are zero, otherwise
    it does not exist, and there is no interval.
    """
    from scipy.special import betainc, stdtrit  # type: ignore[import-untyped]

    centre, free = mean(differences), len(differences) - 1
    error = stdev(differences) / sqrt(len(differences))
    if error == 0:
        return (None if centre else 1.0), None
    reach = float(stdtrit(free, 1 - LEVEL / 2)) * error
    square = (centre / error) ** 2
    # Both are Student's tail; each is exact where the other one rounds: near 1, and near 0.
    if square < free:
        p = 1 - betainc(0.5, free / 2, square / (free + square))
    else:
        p = betainc(free / 2, 0.5, free / (free + square))
    return float(p), (centre - reach, centre + reach)


def signed_rank(differences: Sequence[float]) -> float:
    """Two-sided p-value of Wilcoxon's test, exact with ties too; differences of zero do not count.

    Without an effect every difference is as likely to be negative, so the p-value is a share of all
    ways to give signs to the ranks.
    """
    from scipy.stats import rankdata  # type: ignore[import-untyped]

    counting = [value for value in differences if value]
    # Twice the ranks, which are whole numbers although ties share the mean of theirs.
    ranks: list[int] = [round(2 * rank) for rank in rankdata([abs(value) for value in counting])]
    ways = Counter({0: 1})  # by the sum of the ranks with a plus
    for rank in ranks:
        ways += Counter({total + rank: number for total, number in ways.items()})
    plus = sum(rank for rank, value in zip(ranks, counting, strict=True) if value > 0)
    smaller = min(plus, sum(ranks) - plus)
    tail = sum(number for total, number in ways.items() if total <= smaller)
    return min(1.0, 2 * tail / 2.0 ** len(ranks))
