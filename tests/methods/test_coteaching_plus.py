"""Co-teaching+ against a slow reference in NumPy, its branches, its properties and its edges."""

from __future__ import annotations

import io
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from labelnoise import CCE, Batch, LabelNoiseError
from labelnoise.methods.coteaching import CoTeaching
from labelnoise.methods.coteaching_plus import CoTeachingPlus, small_loss_within

from .regression import Regression
from .small import largest_difference, mask, set_up, weights
from .two_networks import ROWS, batch, linear, problem

# --- the slow reference: two softmax regressions in NumPy, one sample after the other -------------


def slow_smallest(losses: list[float], among: list[int], drop: float) -> list[int]:
    """The int((1 - drop) n) of the n samples in `among` with the smallest losses."""
    order = sorted(among, key=lambda i: losses[i])
    return order[: math.floor((1 - drop) * len(among) + 1e-9)]


def slow_choice(
    one: Regression,
    other: Regression,
    made: Batch,
    *,
    drop: float,
    warm: bool,
    step: int,
    agree_steps: int,
) -> tuple[list[int], list[int], str]:
    """What each network hands over, by the steps of ALGORITHMS.md 1.4, and which branch it was."""
    inputs, labels = made.inputs.numpy(), made.labels.tolist()
    every = list(range(len(labels)))
    losses = one.losses(inputs, labels), other.losses(inputs, labels)
    if warm:
        kept = [slow_smallest(each, every, drop) or [int(np.argmin(each))] for each in losses]
        return kept[0], kept[1], "warm-up"
    pairs = zip(one.predicted(inputs), other.predicted(inputs), strict=True)
    disagree = [i for i, (a, b) in enumerate(pairs) if a != b]
    if disagree:
        kept = [slow_smallest(each, disagree, drop) or disagree for each in losses]
        return kept[0], kept[1], "disagree"
    return (every, every, "agree") if step < agree_steps else ([], [], "idle")


# --- a small problem ------------------------------------------------------------------------------


def identical(number: int) -> nn.Module:
    return linear(0)


# --- the step against the reference ---------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("agree_steps", [0, 9, 5000])
@pytest.mark.parametrize("double_softmax", [False, True])
def test_steps_equal_the_slow_reference_in_every_branch(
    rate: float, agree_steps: int, double_softmax: bool
) -> None:
    method = set_up(
        CoTeachingPlus(warmup=2, ramp=4, agree_steps=agree_steps, double_softmax=double_softmax),
        problem(noise_rate=rate),
    )
    first, second = (Regression(linear(number), lr=0.1) for number in (0, 1))
    branches: list[str] = []
    # Batches of two are often agreed on, large ones never.
    for number, time in enumerate(np.linspace(0, 7.5, 31)):
        rows = 2 if number % 3 == 2 else ROWS
        made = batch(number, float(time), rows)
        first.twice = second.twice = double_softmax and time >= 2
        of_first, of_second, branch = slow_choice(
            first,
            second,
            made,
            drop=rate * min((math.floor(time) + 1) / 4, 1),
            warm=bool(time < 2),
            step=number,
            agree_steps=agree_steps,
        )
        branches.append(branch)
        inputs, labels = made.inputs.numpy(), made.labels.tolist()
        by_first, by_second = (one.losses(inputs, labels) for one in (first, second))
        loss = sum(by_first[i] for i in of_second) / max(len(of_second), 1)
        peer_loss = sum(by_second[i] for i in of_first) / max(len(of_first), 1)
        first.descend(inputs, labels, of_second)
        second.descend(inputs, labels, of_first)

        step = method.step(made)
        assert step.weight.tolist() == mask(of_second, rows), branch
        assert step.notes["peer_weight"].tolist() == mask(of_first, rows), branch
        assert float(step.loss) == pytest.approx((loss + peer_loss) / 2, abs=1e-12)
    assert set(branches) == {"warm-up", "disagree", "agree" if agree_steps == 5000 else "idle"} | (
        {"agree"} if agree_steps == 9 else set()
    )
    for learner, slow in ((method.learner, first), (method.peer, second)):
        expected = [torch.from_numpy(slow.weight), torch.from_numpy(slow.bias)]
        assert largest_difference(weights(learner.network), expected) <= 1e-12


# --- a worked example, with its numbers -----------------------------------------------------------


def test_worked_example_of_a_step() -> None:
    """They disagree on samples 1, 2, 3 and 4; a quarter of these is dropped."""
    labels = torch.tensor([0, 0, 0, 0, 0])
    given = torch.tensor([[0.9, 0.8, 0.6, 0.4, 0.3], [0.9, 0.3, 0.1, 0.8, 0.6]])
    probs = torch.stack([given, 1 - given], dim=1).double()  # (network, class, sample)
    networks = [nn.Linear(5, 2, bias=False, dtype=torch.float64) for _ in range(2)]
    for network, table in zip(networks, probs, strict=True):
        with torch.no_grad():  # sample i is unit vector i, so that its logits are column i
            network.weight.copy_(table.log())
    told = problem(lambda number: networks[number], 0.25, lr=1.0)
    method = set_up(CoTeachingPlus(ramp=1, warmup=0), told)
    inputs = torch.eye(5, dtype=torch.float64)
    step = method.step(Batch((inputs,), labels, torch.arange(5), time=0.0))
    # The first drops 4 (0.3), its peer 2 (0.1); 0 has the smallest losses, but they agree on it.
    assert step.weight.tolist() == [0, 1, 0, 1, 1]
    assert step.notes["peer_weight"].tolist() == [0, 1, 1, 1, 0]
    loss = -(math.log(0.8) + math.log(0.4) + math.log(0.3)) / 3
    peer_loss = -(math.log(0.3) + math.log(0.1) + math.log(0.8)) / 3
    assert float(step.loss) == pytest.approx((loss + peer_loss) / 2, abs=1e-7)
    # A third of (p - 1): cross-entropy of the logits, not of their softmax once more.
    first, second = (network.weight.grad for network in networks)
    assert first is not None
    assert second is not None
    assert first[0].tolist() == pytest.approx([0, -0.2 / 3, 0, -0.6 / 3, -0.7 / 3], abs=1e-7)
    assert second[0].tolist() == pytest.approx([0, -0.7 / 3, -0.9 / 3, -0.2 / 3, 0], abs=1e-7)


# --- small losses within a part -------------------------------------------------------------------


@settings(deadline=None)
@given(st.data(), st.integers(0, 100), st.sampled_from((torch.float32, torch.float64)))
def test_it_keeps_the_smallest_losses_of_the_part_and_nothing_else(
    data: st.DataObject, percent: int, dtype: torch.dtype
) -> None:
    rows = data.draw(st.integers(1, 30))
    values = data.draw(st.lists(st.integers(0, 9), min_size=rows, max_size=rows))
    part = data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    keep = small_loss_within(
        torch.tensor(values, dtype=dtype), torch.tensor(part), percent / 100
    ).tolist()
    within = sorted(value for value, here in zip(values, part, strict=True) if here)
    exact = math.floor((1 - Fraction(percent, 100)) * len(within))
    assert all(here for here, kept in zip(part, keep, strict=True) if kept)
    kept_values = sorted(value for value, kept in zip(values, keep, strict=True) if kept)
    assert kept_values == (within[:exact] or within)


def test_decimal_rates_drop_the_fraction_of_the_part_that_they_say() -> None:
    wrong = []
    for percent in range(100):
        for size in (1, 2, 10, 20, 50, 64, 75, 100, 128, 150, 180, 250, 256, 500, 512):
            part = torch.arange(600) < size
            exact = math.floor((1 - Fraction(percent, 100)) * size)
            kept = int(small_loss_within(torch.arange(600.0), part, percent / 100).sum())
            if kept != (exact or size):
                wrong.append((percent, size, exact, kept))
    assert not wrong


def test_an_empty_part_stays_empty() -> None:
    keep = small_loss_within(torch.arange(5.0), torch.zeros(5, dtype=torch.bool), 0.3)
    assert keep.tolist() == [False] * 5


# --- agreement ------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_identical_networks_train_on_everything_at_first(optimiser: str) -> None:
    recipe: dict[str, Any] = {"optimiser": optimiser, "lr": 0.05}
    method = set_up(CoTeachingPlus(warmup=0), problem(identical, 0.5, **recipe))
    plain = CCE()
    plain.setup(problem(identical, **recipe))
    for seed in range(5):
        made = batch(seed, time=20.0)
        step = method.step(made)
        expected = plain.step(made)
        assert step.weight.tolist() == step.notes["peer_weight"].tolist() == [1.0] * ROWS
        assert float(step.loss) == pytest.approx(float(expected.loss), abs=1e-12)
    for learner in method.learners():
        difference = largest_difference(weights(learner.network), weights(plain.learner.network))
        assert difference <= 1e-12


def test_identical_networks_stand_still_later() -> None:
    method = set_up(CoTeachingPlus(warmup=0, agree_steps=0), problem(identical))
    before = weights(method.learner.network)
    for seed in range(3):
        step = method.step(batch(seed, time=20.0))
        assert step.weight.tolist() == step.notes["peer_weight"].tolist() == [0.0] * ROWS
        assert float(step.loss) == 0
    for learner in method.learners():
        assert largest_difference(weights(learner.network), before) == 0


def test_after_the_last_of_the_agree_steps_only_the_momentum_goes_on() -> None:
    method = set_up(CoTeachingPlus(warmup=0, agree_steps=3), problem(identical))
    for seed in range(3):
        assert method.step(batch(seed, time=20.0)).weight.tolist() == [1.0] * ROWS
    before = weights(method.learner.network)
    state = method.learner.optimiser.state
    momentum = [state[p]["momentum_buffer"].clone() for p in method.learner.parameters]
    assert method.step(batch(3, time=20.0)).weight.tolist() == [0.0] * ROWS
    coasted = [w - 0.1 * 0.9 * m for w, m in zip(before, momentum, strict=True)]
    assert largest_difference(weights(method.learner.network), coasted) <= 1e-12


def test_updates_of_the_warm_up_count_among_the_agree_steps() -> None:
    method = set_up(CoTeachingPlus(warmup=1, agree_steps=2), problem(identical, 0.0))
    found = []
    for number, time in enumerate((0.0, 0.5, 1.0)):
        found.append(method.step(batch(number, time)).weight.tolist())
    assert found == [[1.0] * ROWS, [1.0] * ROWS, [0.0] * ROWS]
    assert int(method.steps) == 3


def test_the_count_of_updates_survives_a_checkpoint() -> None:
    method = set_up(CoTeachingPlus(warmup=0, agree_steps=3), problem(identical))
    for seed in range(3):
        method.step(batch(seed, time=20.0))
    stored = io.BytesIO()
    torch.save(method.state_dict(), stored)
    stored.seek(0)
    resumed = set_up(CoTeachingPlus(warmup=0, agree_steps=3), problem())
    resumed.load_state_dict(torch.load(stored, weights_only=True))
    assert int(resumed.steps) == 3
    made = batch(3, time=20.0)
    assert resumed.step(made).weight.equal(method.step(made).weight)
    assert largest_difference(*(weights(m.learner.network) for m in (method, resumed))) == 0


# --- warm-up --------------------------------------------------------------------------------------


def test_the_warm_up_is_co_teaching_to_the_bit() -> None:
    method = set_up(CoTeachingPlus(warmup=5, ramp=2), problem())
    plain = CoTeaching(ramp=2)
    plain.setup(problem())
    for seed, time in enumerate((0.0, 0.5, 1.0, 3.0, 4.99)):
        one, other = method.step(batch(seed, time)), plain.step(batch(seed, time))
        assert one.weight.equal(other.weight)
        assert one.loss.equal(other.loss)
    for here, there in zip(method.learners(), plain.learners(), strict=True):
        assert largest_difference(weights(here.network), weights(there.network)) == 0
    made = batch(9, time=5.0)  # the first batch on which disagreement counts
    assert not method.step(made).weight.equal(plain.step(made).weight)


def test_a_full_warm_up_is_two_runs_of_cross_entropy() -> None:
    method = set_up(CoTeachingPlus(warmup=2, warmup_mode="full"), problem(noise_rate=0.6))
    twins, alone = problem(), (CCE(), CCE())
    for one in alone:
        one.setup(twins)
    for seed, time in enumerate((0.0, 0.5, 1.0, 1.99)):
        step = method.step(batch(seed, time))
        assert step.weight.tolist() == step.notes["peer_weight"].tolist() == [1.0] * ROWS
        for one in alone:
            one.step(batch(seed, time))
    for learner, one in zip(method.learners(), alone, strict=True):
        expected = weights(one.learner.network)
        assert largest_difference(weights(learner.network), expected) <= 1e-12
    assert float(method.step(batch(4, time=2.0)).weight.sum()) < ROWS


def test_a_softmax_of_the_softmax_flattens_the_loss() -> None:
    """The probabilities (.9, .1) count as logits: e^.9 / (e^.9 + e^.1) = .689974."""
    log_probs = torch.tensor([[0.9, 0.1]], dtype=torch.float64).log()
    label = torch.tensor([0])
    method = CoTeachingPlus(warmup=5, double_softmax=True)
    assert float(method.losses(5.0, log_probs, label)) == pytest.approx(-math.log(0.6899744811))
    assert float(method.losses(4.9, log_probs, label)) == pytest.approx(-math.log(0.9))
    plain = CoTeachingPlus(warmup=5)
    assert float(plain.losses(5.0, log_probs, label)) == pytest.approx(-math.log(0.9))


def test_the_defaults_are_the_papers_on_mnist() -> None:
    default = CoTeachingPlus()
    assert not default.double_softmax
    assert (default.warmup, default.warmup_mode, default.agree_steps) == (5, "coteaching", 5000)
    assert (default.ramp, default.exponent, default.noise_rate) == (10, 1.0, None)


# --- edges ----------------------------------------------------------------------------------------


def test_an_unknown_warm_up_suggests_the_nearest() -> None:
    with pytest.raises(LabelNoiseError, match="did you mean 'coteaching'"):
        CoTeachingPlus(warmup_mode="coteach")


def test_it_says_what_to_pass_where_the_rate_is_not_known() -> None:
    with pytest.raises(LabelNoiseError, match=r"Co-teaching\+ needs the noise rate: pass"):
        CoTeachingPlus().setup(problem(noise_rate=None))


def test_a_rate_that_leaves_nothing_keeps_all_disagreement() -> None:
    method = set_up(CoTeachingPlus(warmup=0, ramp=1), problem(noise_rate=0.99))
    made = batch(0)
    predicted = [linear(seed)(made.inputs).argmax(dim=1) for seed in (0, 1)]
    disagree = predicted[0] != predicted[1]
    assert 0 < int(disagree.sum()) < ROWS
    step = method.step(made)
    assert step.weight.tolist() == step.notes["peer_weight"].tolist() == disagree.double().tolist()


def test_a_broken_sample_shows_even_if_nobody_chooses_it() -> None:
    method = set_up(CoTeachingPlus(warmup=0), problem())
    made = batch(0)
    made.inputs[4, 0] = math.nan
    assert not method.step(made).loss.isfinite()
