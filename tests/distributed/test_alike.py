"""Two processes keep one network, whatever the way, and send no more than they must."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.distributed import alike
from tests.distributed.processes import left, started

from labelnoise.rules import RULES

pytestmark = pytest.mark.long

WEIGHT_NET = 301  # parameters of Meta-Net's network of weights: 1 to 100 to 1


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of them left."""
    folder = tmp_path_factory.mktemp("alike")
    return left(started(alike, folder, 2), folder)


@pytest.mark.parametrize("way", alike.WAYS, ids=lambda way: "-".join(map(str, way)))
def test_both_have_the_same_networks(found: list[dict[str, Any]], way: alike.Way) -> None:
    first, second = (each["networks"][way] for each in found)
    for mine, other in zip(first, second, strict=True):
        assert all(value.isfinite().all() for value in mine.values())
        assert all(torch.equal(value, other[name]) for name, value in mine.items())


def a_step(one: dict[str, Any]) -> float:
    """Numbers besides gradients."""
    return float(sum(one["numbers"]) / one["steps"])


@pytest.mark.parametrize("case", alike.CASES)
def test_with_a_scope_of_its_own_nothing_but_gradients_is_asked_for(
    found: list[dict[str, Any]], case: str
) -> None:
    sent = found[0]["exchanged"][case, "local", 8, 16]
    # Those of the network of weights, and what a pass that DDP knows nothing of has made.
    own = {"meta-net": {WEIGHT_NET}, "meta-ren": set(sent["gradients"])}.get(case, set())
    assert set(sent["numbers"]) == own
    assert len(sent["numbers"]) == len(own) * sent["steps"]


@pytest.mark.parametrize("case", alike.SHOWN)
def test_with_a_scope_of_its_own_nothing_but_gradients_is_sent(
    found: list[dict[str, Any]], case: str
) -> None:
    sent = found[0]["all"][case]
    meta = [WEIGHT_NET] if case == "meta-net" else []
    assert sorted(sent["numbers"]) == sorted([*sent["gradients"], *meta] * sent["steps"])


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_sends_a_few_numbers_a_class(found: list[dict[str, Any]], rule: str) -> None:
    exchanged = found[0]["exchanged"]
    for classes in (8, 64):
        sent = a_step(exchanged[f"bare {rule}", "global", classes, 16])
        assert 0 < sent <= 8 * (classes + 1), classes
    few, more = (exchanged[f"bare {rule}", "global", 8, rows] for rows in (16, 24))
    assert few["numbers"] == more["numbers"]  # however many samples there are


@pytest.mark.parametrize("case", ["coteaching", "coteaching-plus", "curriculum-loss"])
def test_where_losses_are_ranked_samples_send_numbers_and_classes_none(
    found: list[dict[str, Any]], case: str
) -> None:
    exchanged = found[0]["exchanged"]
    sent = [
        a_step(exchanged[case, "global", classes, rows])
        for classes, rows in ((8, 16), (64, 16), (8, 24))
    ]
    assert sent[0] == sent[1] < sent[2] <= 2 * 2 * 24 + 16


def test_an_overflow_of_one_process_is_one_of_both(found: list[dict[str, Any]]) -> None:
    first, second = (each["overflows"] for each in found)
    for mine, other in zip(first, second, strict=True):
        assert mine["scale"] == other["scale"]
        assert all(torch.equal(v, other["network"][name]) for name, v in mine["network"].items())
    before, overflown, after = (each["network"]["0.weight"] for each in first)
    assert torch.equal(before, overflown)
    assert not torch.equal(overflown, after)
    assert first[1]["scale"] == first[0]["scale"] / 2


def test_schedules_watch_the_same_loss(found: list[dict[str, Any]]) -> None:
    assert found[0]["watched"] == found[1]["watched"]
