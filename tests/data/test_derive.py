"""Data sets that are made from others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from labelnoise.data import name_of, read
from labelnoise.data.dataset import Dataset
from labelnoise.data.derive import derive, parse_change
from labelnoise.errors import LabelNoiseError


def lettered(per_class: int = 100) -> Dataset:
    """Three classes, a row's number as its input, and a test part of one row each."""
    labels = torch.arange(3 * per_class) % 3
    inputs = torch.arange(3.0 * per_class).unsqueeze(1)
    test = torch.arange(3)
    return Dataset(
        "letters", inputs, labels, ("a", "b", "c"), test.unsqueeze(1).float(), test, {0: 1}, True
    )


def changed(text: str, per_class: int = 100) -> Dataset:
    return derive(lettered(per_class), parse_change(text), "new")


@pytest.mark.parametrize("groups", ["b/rest", "b/a+c", "b/c+a"])
def test_groups_become_classes(groups: str) -> None:
    found = changed(f"classes={groups}")
    assert found.classes == tuple(groups.split("/"))
    before = lettered()
    assert torch.equal(found.labels, (before.labels != 1).long())
    assert found.test_labels is not None
    assert found.test_labels.tolist() == [1, 0, 1]
    assert torch.equal(found.inputs, before.inputs)
    assert found.flips is None
    assert found.verified
    assert found.name == "new"


def test_imbalance_is_a_geometric_sequence_of_rows_that_keep_their_labels() -> None:
    found = changed("imbalance=25")
    assert torch.bincount(found.labels).tolist() == [100, 20, 4]
    assert torch.equal(found.labels, found.inputs.squeeze(1).long() % 3)
    assert len(torch.unique(found.inputs)) == len(found.inputs)
    assert found.test_labels is not None
    assert found.test_labels.tolist() == [0, 1, 2]


def test_a_class_never_vanishes() -> None:
    assert torch.bincount(changed("imbalance=1000", per_class=10).labels).tolist() == [10, 1, 1]


def test_rows_are_a_fixed_sample() -> None:
    one, same = changed("rows=50"), changed("rows=50")
    assert len(one.labels) == 50
    assert torch.equal(one.inputs, same.inputs)
    assert torch.equal(one.labels, one.inputs.squeeze(1).long() % 3)
    assert len(torch.unique(one.inputs)) == 50


def test_all_of_them_together() -> None:
    found = changed("rows=60,imbalance=10,classes=c/rest")
    assert len(found.labels) == 60
    share = torch.bincount(found.labels) / 60
    assert float(share[0]) == pytest.approx(10 / 11, abs=0.1)  # now as many as the first class


def test_equal_changes_have_one_name() -> None:
    name = "digits:classes=9/rest,imbalance=2,rows=100"
    assert name_of("digits:rows=100,imbalance=2.0,classes=9/rest") == name
    assert name_of(name) == name
    assert read("digits:rows=100,imbalance=2.0,classes=9/rest").name == name


def test_a_changed_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez(path, x=np.eye(8), y=np.arange(8) % 2)
    assert len(read(f"{path}:rows=3").labels) == 3


def test_a_file_whose_name_looks_like_a_change(tmp_path: Path) -> None:
    path = tmp_path / "own:rows=3.npz"
    np.savez(path, x=np.eye(8), y=np.arange(8) % 2)
    assert len(read(str(path)).labels) == 8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("row=3", "did you mean 'rows'"),
        ("rows=0", "'rows=0' is not understood: write DATA:classes="),
        ("rows=many", "'rows=many' is not understood"),
        ("imbalance=0.5", "'imbalance=0.5' is not understood"),
        ("imbalance=inf", "'imbalance=inf' is not understood"),
        ("classes=a", "'classes=a' is not understood"),
        ("classes=a/", "'classes=a/' is not understood"),
        ("classes=a/bb", "unknown class 'bb': did you mean 'b'"),
        ("classes=a/b", "no group has class 'c': add /rest, or name it"),
        ("classes=a+b/b+c", "class 'b' stands in two groups"),
        ("rows=5,rows=7", "'rows=5,rows=7' has rows twice"),
        ("rows=301", "there are only 300 rows, not 301"),
    ],
)
def test_what_makes_no_sense_is_an_error(text: str, said: str) -> None:
    with pytest.raises(LabelNoiseError) as error:
        changed(text)
    assert said in str(error.value)
