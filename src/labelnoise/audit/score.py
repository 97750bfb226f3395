"""From the record of every sample to what an audit says of its label.

The quality of a label is the probability that it is right. Its odds are those of Bayes' rule, the
mean over the visits of their logarithm, times those of being taken for right: how often it was so
to how often not, each counted once more than it happened. The first tell more from less; the second
hold where a network has learned wrong labels by half, because there the rule still compares a label
with others of its class. Below one half it is an issue, and nothing is to be tuned. What it should
be instead is the class that won the vote over the visits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labelnoise.audit.findings import Findings, Numbers

HALF = 0.5
HIDDEN = 3  # labels; the rule of three, for 95 % when nothing was found
DEVIATIONS = 2  # of a mean of as many labels, on either side of the estimated noise rate

Record = Mapping[str, NDArray[Any]]


def findings_of(record: Record, ids: tuple[str, ...], classes: tuple[str, ...]) -> Findings:
    """What the record of a training says.

    Args:
        record: By name, one entry a sample: `seen`, `given`, `kept`, `odds`, `candidate`, `support`
            as the recorder keeps them.
        ids: What each sample is called.
        classes: What each label is called.
    """
    seen, given = record["seen"], record["given"]
    weight = seen * (seen + 1) / 2  # of all visits together
    selected = record["kept"].astype(np.float64) / weight
    taken = np.log((selected * seen + 1) / ((1 - selected) * seen + 1))
    quality = 1 / (1 + np.exp(-record["odds"].astype(np.float64) / weight - taken))
    issue = quality < HALF
    predicted = np.where(issue, record["candidate"], given)
    share = np.clip(record["support"] / weight, 0, 1)
    rate = float((1 - quality).mean())
    return Findings(
        classes=classes,
        ids=ids,
        given=given,
        quality=quality,
        predicted=predicted,
        confidence=np.where(issue, (1 - quality) * share, quality),
        selected=selected,
        issue=issue,
        noise_rate=rate,
        interval=rate_interval(quality),
        transition=estimated_transition(quality, given, record["candidate"], len(classes)),
    )


def rate_interval(quality: Numbers) -> tuple[float, float]:
    """Where the fraction of wrong labels lies, if what looks surely right or wrong is so.

    As far from the estimate as labels are in doubt (so many are on the wrong side of one half if
    qualities mean what they say), and by what chance does in a mean over so many labels; above by
    three labels more, which may be wrong although none was found.
    """
    rate = float((1 - quality).mean())
    doubt = float(np.minimum(quality, 1 - quality).mean())
    off = doubt + DEVIATIONS * math.sqrt(rate * (1 - rate) / len(quality))
    return max(0.0, rate - off), min(1.0, rate + off + HIDDEN / len(quality))


def estimated_transition(
    quality: Numbers, given: NDArray[np.int64], instead: NDArray[np.int64], classes: int
) -> Numbers:
    """P(given = column, true = row): every label is right by its quality, else `instead`."""
    counts = np.zeros((classes, classes))
    np.add.at(counts, (given, given), quality)
    np.add.at(counts, (instead, given), 1 - quality)
    total = counts.sum(axis=1, keepdims=True)
    certain: Numbers = np.where(total > 0, counts / np.where(total > 0, total, 1), np.eye(classes))
    return certain
