"""Mini-batches of a few classes each."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from labelnoise import LabelNoiseError
from labelnoise.data.few_classes import check_few_classes, few_classes


def epoch(labels: Tensor, batch_size: int, classes: int, seed: int = 0) -> list[list[int]]:
    chance = torch.Generator().manual_seed(seed)
    return [batch.tolist() for batch in few_classes(labels, batch_size, classes, chance)]


def equal(rows: int, classes: int) -> Tensor:
    """`rows` of every class, in some order."""
    chance = torch.Generator().manual_seed(1)
    return torch.randperm(rows * classes, generator=chance) % classes


@st.composite
def problems(draw: st.DrawFn) -> tuple[Tensor, int, int]:
    labels = draw(st.lists(st.integers(0, 12), min_size=1, max_size=120))
    batch_size = draw(st.integers(2, 40))
    return torch.tensor(labels), batch_size, draw(st.integers(2, batch_size))


@settings(max_examples=200, deadline=None)
@given(problems())
def test_few_classes_a_batch_and_every_class_equally_often(
    problem: tuple[Tensor, int, int],
) -> None:
    labels, batch_size, classes = problem
    size = Counter(labels.tolist())
    places = -(-len(labels) // len(size))
    batches = epoch(labels, batch_size, classes)
    for batch in batches:
        assert 1 <= len(batch) <= batch_size
        assert len({int(labels[row]) for row in batch}) <= classes
    drawn = [row for batch in batches for row in batch]
    assert Counter(labels[drawn].tolist()) == dict.fromkeys(size, places)
    # No row of a class comes twice more often than another one, and none is forgotten needlessly.
    times = Counter(drawn)
    for name, rows in size.items():
        often = [times[row] for row in (labels == name).nonzero().squeeze(1).tolist()]
        assert max(often) - min(often) <= 1
        assert min(often) == places // rows


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 30), st.integers(2, 12), st.integers(2, 30).flatmap(
        lambda size: st.tuples(st.just(size), st.integers(2, size))
    ),
)  # fmt: skip
def test_classes_of_equal_size_have_every_row_once(
    rows: int, classes: int, batch: tuple[int, int]
) -> None:
    batch_size, few = batch
    batches = epoch(equal(rows, classes), batch_size, few)
    assert sorted(row for batch in batches for row in batch) == list(range(rows * classes))


def test_batches_are_as_large_as_asked_and_alike_where_it_comes_out_even() -> None:
    labels = equal(48, 100)
    batches = epoch(labels, 128, 8)
    # 300 pieces of 16, eight of them a batch, need 38 batches; four of these have one less.
    assert [len(batch) for batch in batches] == [128] * 34 + [112] * 4
    assert [len(set(labels[batch].tolist())) for batch in batches] == [8] * 34 + [7] * 4


def test_a_remainder_is_spread_instead_of_a_last_batch_of_one_class() -> None:
    labels = equal(6, 9)  # nine pieces of six, four of them a batch
    batches = epoch(labels, 24, 4)
    assert [len(batch) for batch in batches] == [18, 18, 18]
    assert all(len({int(labels[row]) for row in batch}) == 3 for batch in batches)


@pytest.mark.parametrize(("rows", "classes"), [(6, 3), (12, 3), (40, 9), (5, 7)])
def test_two_classes_a_batch_are_never_one(rows: int, classes: int) -> None:
    labels = equal(rows, classes)
    batches = epoch(labels, 8, 2)
    assert {len({int(labels[row]) for row in batch}) for batch in batches} == {2}
    assert max(map(len, batches)) <= 8
    assert sorted(row for batch in batches for row in batch) == list(range(rows * classes))


def test_all_classes_come_once_before_any_comes_again() -> None:
    labels = equal(12, 10)
    turns = [label for batch in epoch(labels, 8, 2) for label in set(labels[batch].tolist())]
    for begin in range(0, len(turns), 10):
        assert sorted(turns[begin : begin + 10]) == list(range(10))


def test_a_small_class_repeats_its_rows_and_a_large_one_leaves_others_out_every_epoch() -> None:
    labels = torch.tensor([0] * 2 + [1] * 6 + [2] * 10)
    left_out = []
    for seed in range(20):
        times = Counter(row for batch in epoch(labels, 6, 3, seed) for row in batch)
        assert [times[row] for row in range(8)] == [3, 3, 1, 1, 1, 1, 1, 1]
        left_out.append(frozenset(range(8, 18)) - times.keys())
    assert all(len(rows) == 4 for rows in left_out)
    assert frozenset().union(*left_out) == set(range(8, 18))


def test_the_order_depends_on_the_generator_alone() -> None:
    labels = equal(10, 20)
    torch.manual_seed(5)
    assert epoch(labels, 16, 4) == epoch(labels, 16, 4)
    assert epoch(labels, 16, 4) != epoch(labels, 16, 4, seed=1)
    together = {frozenset(labels[batch].tolist()) for batch in epoch(labels, 16, 4)}
    assert len(together) > 5  # classes do not come in the same company every time


@pytest.mark.parametrize(
    ("classes", "batch_size", "known", "message"),
    [
        (1, 128, 10, "2 or more"),
        (11, 128, 10, "there are 10 classes: take at most 10"),
        (9, 8, 10, "a mini-batch has 8 rows"),
    ],
)
def test_what_cannot_be_had_is_an_error(
    classes: int, batch_size: int, known: int, message: str
) -> None:
    with pytest.raises(LabelNoiseError, match=message):
        check_few_classes(classes, batch_size, known)
    check_few_classes(2, 2, 2)
