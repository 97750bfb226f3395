from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from labelnoise.data.split import Split, paper_split, stratified_split
from labelnoise.seeds import stream


def split(how: Split, labels: Tensor, seed: int = 0) -> tuple[Tensor, Tensor]:
    return how(labels, stream(seed, "split"))


def uneven(*sizes: int) -> Tensor:
    return torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))


def test_paper_split_takes_80_percent_and_100_a_class() -> None:
    labels = torch.arange(10_000) % 10
    train, validation = split(paper_split, labels)
    assert len(train) == 8_000
    assert torch.bincount(labels[validation]).tolist() == [100] * 10


def test_paper_split_takes_what_there_is_of_a_rare_class() -> None:
    labels = uneven(1_000, 20)
    train, validation = split(paper_split, labels)
    assert len(train) == 816
    rest = 20 - int((labels[train] == 1).sum())
    assert torch.bincount(labels[validation], minlength=2).tolist() == [100, rest]


def test_stratified_split_sets_a_tenth_of_every_class_aside() -> None:
    labels = uneven(100, 55, 30)
    train, validation = split(stratified_split, labels)
    assert torch.bincount(labels[validation]).tolist() == [10, 5, 3]
    assert torch.bincount(labels[train]).tolist() == [90, 50, 27]


def test_stratified_split_takes_another_fraction() -> None:
    labels = uneven(100, 50)
    _, held_out = stratified_split(labels, stream(0, "split"), fraction=0.2)
    assert torch.bincount(labels[held_out]).tolist() == [20, 10]


def test_a_class_of_one_row_stays_in_training_and_one_of_two_is_shared() -> None:
    labels = uneven(1, 2, 40)
    train, validation = split(stratified_split, labels)
    assert torch.bincount(labels[train], minlength=3).tolist() == [1, 1, 36]
    assert torch.bincount(labels[validation], minlength=3).tolist() == [0, 1, 4]


@pytest.mark.parametrize("how", [paper_split, stratified_split])
def test_the_seed_alone_decides(how: Split) -> None:
    labels = torch.arange(500) % 5
    first, again, other = (split(how, labels, seed) for seed in (7, 7, 8))
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[1], other[1])


@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), st.integers(0, 1000))
def test_parts_are_disjoint_and_within_the_rows(values: list[int], seed: int) -> None:
    labels = torch.tensor(values)
    for how in (paper_split, stratified_split):
        train, validation = split(how, labels, seed)
        rows = torch.cat([train, validation])
        assert len(set(rows.tolist())) == len(rows)
        assert set(rows.tolist()) <= set(range(len(labels)))
    # The stratified parts are all there is, and every class is seen in training.
    train, validation = split(stratified_split, labels, seed)
    assert len(train) + len(validation) == len(labels)
    assert set(labels[train].tolist()) == set(values)
