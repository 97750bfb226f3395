"""The tables that come along or are drawn."""

from __future__ import annotations

import pytest
import torch

from labelnoise.data import read


def test_breast_cancer() -> None:
    found = read("breast-cancer")
    assert found.inputs.shape == (569, 30)
    assert found.inputs.dtype == torch.float32
    assert found.classes == ("malignant", "benign")
    assert torch.bincount(found.labels).tolist() == [212, 357]
    assert found.verified


@pytest.mark.parametrize(("name", "classes"), [("hundred", 100), ("rare", 2)])
def test_what_is_drawn_is_always_the_same(name: str, classes: int) -> None:
    one, same = read(name), read(name)
    assert torch.equal(one.inputs, same.inputs)
    assert torch.equal(one.labels, same.labels)
    assert one.inputs.shape == (60_000, 20)
    assert one.test_inputs is not None
    assert one.test_labels is not None
    assert one.test_inputs.shape == (10_000, 20)
    for labels in (one.labels, one.test_labels):
        assert len(torch.bincount(labels)) == len(one.classes) == classes
    assert not torch.equal(one.inputs[:10_000], one.test_inputs)


def test_one_in_ten_is_rare_and_even_the_best_rule_misses_two_thirds_of_them() -> None:
    found = read("rare")
    positive = found.labels == 1
    assert float(positive.double().mean()) == pytest.approx(0.1, abs=0.005)
    assert found.inputs[:, 1:].abs().mean() == pytest.approx((2 / torch.pi) ** 0.5, abs=0.01)
    # The likelihood ratio of the first number, with the odds of nine to one.
    odds = torch.log(torch.cosh(2 * found.inputs[:, 0])) - 2 - torch.log(torch.tensor(9.0))
    recall = (odds > 0)[positive].double().mean()
    assert float(recall) == pytest.approx(0.32, abs=0.02)


def test_the_best_rule_for_a_hundred_classes_is_right_in_nine_of_ten() -> None:
    found = read("hundred")
    assert found.test_inputs is not None
    assert found.test_labels is not None
    # Class means are poor (two clusters a class), so nearest neighbours stand in for the rule.
    near = torch.cdist(found.test_inputs[:2000], found.inputs).topk(25, largest=False).indices
    predicted = found.labels[near].mode(dim=1).values
    share = (predicted == found.test_labels[:2000]).double().mean()
    assert 0.8 < float(share) < 0.91
