from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from labelnoise.metrics.selection import label_precision, label_recall, selected_fraction


def mask(rows: int, seed: int) -> Tensor:
    return torch.rand(rows, generator=torch.Generator().manual_seed(seed)) < 0.4


@pytest.mark.parametrize("rows", [5, 40, 1_000])
def test_precision_recall_and_fraction_equal_loops(rows: int) -> None:
    selected, right = mask(rows, 0), mask(rows, 1)
    both = chosen = correct = 0
    for one, other in zip(selected.tolist(), right.tolist(), strict=True):
        both += one and other
        chosen += one
        correct += other
    assert float(label_precision(selected, right)) == pytest.approx(both / chosen, abs=1e-12)
    assert float(label_recall(selected, right)) == pytest.approx(both / correct, abs=1e-12)
    assert float(selected_fraction(selected)) == pytest.approx(chosen / rows, abs=1e-12)


def test_with_numbers() -> None:
    selected = torch.tensor([True, True, True, False, False])
    right = torch.tensor([True, True, False, True, False])
    assert float(label_precision(selected, right)) == pytest.approx(2 / 3)
    assert float(label_recall(selected, right)) == pytest.approx(2 / 3)
    assert float(selected_fraction(selected)) == pytest.approx(3 / 5)


def test_nothing_selected_has_no_precision_and_recall_0() -> None:
    nothing, right = torch.zeros(4, dtype=torch.bool), torch.tensor([True, False, True, True])
    assert math.isnan(float(label_precision(nothing, right)))
    assert float(label_recall(nothing, right)) == 0
    assert float(selected_fraction(nothing)) == 0


def test_nothing_right_has_no_recall_and_precision_0() -> None:
    selected, nothing = torch.tensor([True, False, True]), torch.zeros(3, dtype=torch.bool)
    assert math.isnan(float(label_recall(selected, nothing)))
    assert float(label_precision(selected, nothing)) == 0


def test_counts_beyond_float32_stay_exact() -> None:
    rows = 2**24 + 1
    selected = torch.ones(rows, dtype=torch.bool)
    right = selected.clone()
    right[0] = False
    assert float(label_precision(selected, right)) == 2**24 / rows
