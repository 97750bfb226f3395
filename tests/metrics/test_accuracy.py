from __future__ import annotations

import math

import pytest
import torch

from labelnoise.metrics.accuracy import accuracy, balanced_accuracy


def random_labels(rows: int, classes: int, seed: int) -> torch.Tensor:
    return torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("rows", "classes"), [(1, 2), (10, 3), (200, 7), (5, 50)])
def test_both_accuracies_equal_loops(rows: int, classes: int) -> None:
    labels = random_labels(rows, classes, 0)
    predicted = labels.where(random_labels(rows, 2, 1) == 0, random_labels(rows, classes, 2))
    pairs = list(zip(predicted.tolist(), labels.tolist(), strict=True))
    plain = sum(one == other for one, other in pairs) / rows
    assert float(accuracy(predicted, labels)) == pytest.approx(plain, abs=1e-12)
    by_class = []
    for c in range(classes):
        own = [one == c for one, other in pairs if other == c]
        if own:
            by_class.append(sum(own) / len(own))
    expected = sum(by_class) / len(by_class)
    found = balanced_accuracy(predicted, labels, classes)
    assert float(found) == pytest.approx(expected, abs=1e-12)


def test_the_balanced_one_weighs_classes_alike() -> None:
    labels = torch.tensor([0] * 9 + [1])
    predicted = torch.zeros(10, dtype=torch.long)
    assert float(accuracy(predicted, labels)) == pytest.approx(0.9)
    assert float(balanced_accuracy(predicted, labels, 2)) == pytest.approx(0.5)


def test_a_class_that_does_not_occur_does_not_count() -> None:
    labels, predicted = torch.tensor([0, 0, 2, 2]), torch.tensor([0, 1, 2, 2])
    assert float(balanced_accuracy(predicted, labels, 4)) == pytest.approx(0.75)


def test_nothing_to_predict_has_no_accuracy() -> None:
    none = torch.zeros(0, dtype=torch.long)
    assert math.isnan(float(accuracy(none, none)))
    assert math.isnan(float(balanced_accuracy(none, none, 3)))
