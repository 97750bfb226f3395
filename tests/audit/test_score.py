"""From the record of samples to findings: worked numbers and loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelnoise.audit.score import estimated_transition, findings_of, rate_interval


def test_findings_of_three_samples_with_numbers() -> None:
    """By Bayes 1:3 after one visit, e^2:1 after two (1 + 2 times 2), 1:1 after three.

    Taken for right never, always, and half of the time: 1:2, 3:1 and 1:1 with one more of each.
    """
    record = {
        "seen": np.array([1, 2, 3]),
        "given": np.array([0, 1, 1]),
        "kept": np.array([0.0, 3.0, 3.0], dtype=np.float32),
        "odds": np.array([-math.log(3), 6.0, 0.0], dtype=np.float32),
        "candidate": np.array([1, 0, 0]),
        "support": np.array([0.8, 3.0, 1.5], dtype=np.float32),
    }
    found = findings_of(record, ("a", "b", "c"), ("no", "yes"))
    sure = 3 * math.exp(2) / (1 + 3 * math.exp(2))
    assert found.quality.tolist() == pytest.approx([1 / 7, sure, 0.5])
    assert found.issue.tolist() == [True, False, False]
    assert found.predicted.tolist() == [1, 1, 1]
    assert found.confidence.tolist() == pytest.approx([6 / 7 * 0.8, sure, 0.5])
    assert found.selected.tolist() == pytest.approx([0, 1, 0.5])
    assert found.noise_rate == pytest.approx((6 / 7 + 1 - sure + 0.5) / 3)
    ones = [sure + 0.5, 1 - sure + 0.5]  # labels 1 that are right, that should be 0
    assert found.transition[0].tolist() == pytest.approx(
        [1 / 7 / (1 / 7 + ones[1]), ones[1] / (1 / 7 + ones[1])]
    )
    assert found.transition[1].tolist() == pytest.approx(
        [6 / 7 / (6 / 7 + ones[0]), ones[0] / (6 / 7 + ones[0])]
    )


def test_support_beyond_its_weight_is_no_more_than_certain() -> None:
    """Rounding may add a little to a share of 1."""
    one = np.array([1])
    record = {"seen": one, "given": one, "kept": one, "odds": np.array([-40.0]),
              "candidate": one - 1, "support": np.array([1.0000001])}  # fmt: skip
    assert findings_of(record, ("a",), ("0", "1")).confidence[0] <= 1


def test_the_interval_with_numbers() -> None:
    """75 sure labels, 25 surely wrong ones: two deviations of 100 draws."""
    quality = np.array([1.0] * 75 + [0.0] * 25)
    off = 2 * math.sqrt(0.25 * 0.75 / 100)
    assert rate_interval(quality) == pytest.approx((0.25 - off, 0.25 + off + 0.03))
    doubtful = np.array([0.9] * 100)  # a tenth wrong, any of them
    off = 0.1 + 2 * math.sqrt(0.1 * 0.9 / 100)
    assert rate_interval(doubtful) == pytest.approx((0, 0.1 + off + 0.03))


def test_no_noise_leaves_room_for_three_labels() -> None:
    assert rate_interval(np.ones(50)) == (0.0, 3 / 50)
    assert rate_interval(np.ones(2)) == (0.0, 1.0)


def test_the_interval_holds_the_rate_of_qualities_that_mean_what_they_say() -> None:
    chance = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        quality = chance.beta(0.5, 0.2, size=300)
        wrong = chance.random(300) > quality
        low, high = rate_interval(quality)
        inside += low <= wrong.mean() <= high
    assert inside >= 190


def slow_transition(
    quality: list[float], given_labels: list[int], instead: list[int], classes: int
) -> list[list[float]]:
    found = []
    for true in range(classes):
        row = []
        for label in range(classes):
            count = 0.0
            for q, y, other in zip(quality, given_labels, instead, strict=True):
                count += q * (y == true == label) + (1 - q) * (y == label and other == true)
            row.append(count)
        total = sum(row)
        alone = [float(label == true) for label in range(classes)]
        found.append([count / total for count in row] if total else alone)
    return found


@given(
    st.integers(2, 4).flatmap(
        lambda classes: st.tuples(
            st.just(classes),
            st.lists(
                st.tuples(
                    st.sampled_from([0.0, 0.25, 0.5, 1.0]),
                    st.integers(0, classes - 1),
                    st.integers(0, classes - 1),
                ),
                min_size=1,
                max_size=12,
            ),
        )
    )
)
def test_the_transition_equals_a_loop(drawn: tuple[int, list[tuple[float, int, int]]]) -> None:
    classes, samples = drawn
    quality, labels, instead = (list(each) for each in zip(*samples, strict=True))
    found = estimated_transition(np.array(quality), np.array(labels), np.array(instead), classes)
    assert np.allclose(found, slow_transition(quality, labels, instead, classes))
    assert np.allclose(found.sum(axis=1), 1)
