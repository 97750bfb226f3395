"""Co-teaching against a slow reference in NumPy, its invariants, its properties and its edges."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from labelnoise import CCE, Batch, LabelNoiseError
from labelnoise.methods.coteaching import CoTeaching, forget_rate, small_loss

from .regression import Regression
from .small import largest_difference, mask, set_up, weights
from .two_networks import CLASSES, FEATURES, ROWS, batch, linear, problem

# --- the slow reference: two softmax regressions in NumPy, one sample after the other -------------


def slow_keep_rate(rate: float, epoch: int, ramp: int, exponent: float) -> float:
    """R(t) = 1 - rate * min(t^c / T_k, 1), t counted from 1."""
    return 1 - rate * min(math.pow(epoch + 1, exponent) / ramp, 1)


def slow_smallest(losses: list[float], keep_rate: float) -> list[int]:
    """Positions of the floor(R m) smallest losses, of one at least."""
    order = sorted(range(len(losses)), key=lambda i: losses[i])
    return order[: max(math.floor(keep_rate * len(losses) + 1e-9), 1)]


# --- a small problem ------------------------------------------------------------------------------


def with_norm(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES)
    ).double()


# --- the step against the reference ---------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.45, 0.7, 0.95])
@pytest.mark.parametrize(("ramp", "exponent"), [(10, 1.0), (1, 1.0), (4, 0.5), (20, 2.0)])
def test_steps_equal_the_slow_reference(rate: float, ramp: int, exponent: float) -> None:
    told = problem(noise_rate=rate)
    method = set_up(CoTeaching(ramp=ramp, exponent=exponent), told)
    first, second = (Regression(linear(number), lr=0.1) for number in (0, 1))
    for seed, time in enumerate((0.0, 0.9, 1.0, 3.5, 9.0, 9.99, 10.0, 57.2)):
        made = batch(seed, time)
        inputs, labels = made.inputs.numpy(), made.labels.tolist()
        keep_rate = slow_keep_rate(rate, math.floor(time), ramp, exponent)
        by_first, by_second = first.losses(inputs, labels), second.losses(inputs, labels)
        of_first = slow_smallest(by_first, keep_rate)
        of_second = slow_smallest(by_second, keep_rate)
        probs = np.array([first.probs(x) for x in inputs])
        loss = np.mean([by_first[i] for i in of_second])
        peer_loss = np.mean([by_second[i] for i in of_first])
        first.descend(inputs, labels, of_second)
        second.descend(inputs, labels, of_first)

        step = method.step(made)
        assert step.index is made.index
        assert step.weight.tolist() == mask(of_second, ROWS)
        assert step.notes["peer_weight"].tolist() == mask(of_first, ROWS)
        assert float(step.loss) == pytest.approx((loss + peer_loss) / 2, abs=1e-12)
        assert step.probs is not None
        assert np.allclose(step.probs.numpy(), probs, rtol=0, atol=1e-12)
    for learner, slow in ((method.learner, first), (method.peer, second)):
        expected = [torch.from_numpy(slow.weight), torch.from_numpy(slow.bias)]
        assert largest_difference(weights(learner.network), expected) <= 1e-12


# --- a worked example, with its numbers -----------------------------------------------------------


def test_worked_example_of_a_step() -> None:
    """Each network is sure of other samples; half of the batch is dropped from the start."""
    labels = torch.tensor([0, 0, 0, 0])
    given = torch.tensor([[0.9, 0.6, 0.3, 0.2], [0.2, 0.8, 0.1, 0.7]], dtype=torch.float64)
    probs = torch.stack([given, 1 - given], dim=1)  # (network, class, sample)
    networks = [nn.Linear(4, 2, bias=False, dtype=torch.float64) for _ in range(2)]
    for network, table in zip(networks, probs, strict=True):
        with torch.no_grad():  # sample i is unit vector i, so that its logits are column i
            network.weight.copy_(table.log())
    method = set_up(CoTeaching(ramp=1), problem(lambda number: networks[number], 0.5, lr=1.0))
    inputs = torch.eye(4, dtype=torch.float64)
    step = method.step(Batch((inputs,), labels, torch.arange(4), time=0.0))
    # The first finds 0 and 1 easy, its peer 1 and 3: each trains on what the other one found.
    assert step.weight.tolist() == [0, 1, 0, 1]
    assert step.notes["peer_weight"].tolist() == [1, 1, 0, 0]
    loss = -(math.log(0.6) + math.log(0.2)) / 2  # 1.060132
    peer_loss = -(math.log(0.2) + math.log(0.8)) / 2  # 0.916291
    assert float(step.loss) == pytest.approx((loss + peer_loss) / 2)  # 0.988211
    # Half of (p - onehot): sample 1 of the first network ((.6, .4) - (1, 0)) / 2.
    first, second = (network.weight.grad for network in networks)
    assert first is not None
    assert second is not None
    assert first[0].tolist() == pytest.approx([0, -0.2, 0, -0.4])
    assert first[1].tolist() == pytest.approx([0, 0.2, 0, 0.4])
    assert second[0].tolist() == pytest.approx([-0.4, -0.1, 0, 0])
    assert second[1].tolist() == pytest.approx([0.4, 0.1, 0, 0])


# --- the ramp -------------------------------------------------------------------------------------


def test_the_ramp_with_numbers() -> None:
    found = [forget_rate(0.5, epoch) for epoch in (0, 1, 4, 8, 9, 10, 199)]
    assert found == pytest.approx([0.05, 0.1, 0.25, 0.45, 0.5, 0.5, 0.5])
    bent = [forget_rate(0.5, epoch, ramp=4, exponent=2.0) for epoch in (0, 1, 2)]
    assert bent == pytest.approx([0.125, 0.5, 0.5])
    assert [forget_rate(0.3, epoch, ramp=1) for epoch in (0, 1)] == [0.3, 0.3]


def test_the_ramp_stays_the_same_within_an_epoch() -> None:
    for time in (3.0, 3.01, 3.5, 3.999):
        assert forget_rate(0.4, time) == forget_rate(0.4, 3.0) == pytest.approx(0.16)


@given(
    st.floats(0, 0.99),
    st.floats(0, 300),
    st.floats(0, 300),
    st.integers(1, 50),
    st.floats(0.1, 3),
)
def test_the_ramp_only_grows_and_never_beyond_the_rate(
    rate: float, one: float, other: float, ramp: int, exponent: float
) -> None:
    early, late = (forget_rate(rate, t, ramp, exponent) for t in (min(one, other), max(one, other)))
    assert 0 <= early <= late <= rate
    assert forget_rate(rate, (ramp + 1) ** 10, ramp, exponent) == rate


# --- small losses ---------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=40),
    st.integers(0, 100),
    st.sampled_from((torch.float32, torch.float64, torch.bfloat16)),
)
def test_it_keeps_exactly_the_smallest_losses_and_one_at_least(
    values: list[int], percent: int, dtype: torch.dtype
) -> None:
    losses = torch.tensor(values, dtype=dtype)
    keep = small_loss(losses, percent / 100)
    exact = (1 - Fraction(percent, 100)) * len(values)
    assert keep.dtype == torch.bool
    assert int(keep.sum()) == max(math.floor(exact), 1)
    kept = [value for value, chosen in zip(values, keep.tolist(), strict=True) if chosen]
    assert sorted(kept) == sorted(values)[: len(kept)]


def test_decimal_rates_drop_the_fraction_that_they_say() -> None:
    """In binary 1 - 0.9 is less than a tenth, and (1 - 0.9) * 10 less than one sample."""
    for percent in range(100):
        for rows in (10, 20, 50, 64, 75, 100, 128, 150, 180, 250, 1000):
            exact = math.floor((1 - Fraction(percent, 100)) * rows)
            kept = int(small_loss(torch.arange(float(rows)), percent / 100).sum())
            assert kept == max(exact, 1), (percent, rows)


def test_the_choice_carries_no_gradient_and_follows_the_order_of_the_batch() -> None:
    losses = torch.tensor([3.0, 1.0, 2.0, 5.0, 4.0], requires_grad=True)
    keep = small_loss(losses, 0.4)
    assert not keep.requires_grad
    assert keep.tolist() == [True, True, True, False, False]


def test_nan_losses_are_the_largest() -> None:
    losses = torch.tensor([math.nan, 1.0, math.inf, 2.0])
    assert small_loss(losses, 0.5).tolist() == [False, True, False, True]


# --- invariants -----------------------------------------------------------------------------------


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("build", [linear, with_norm])
def test_without_noise_it_is_two_runs_of_cross_entropy(
    build: Callable[[int], nn.Module], optimiser: str
) -> None:
    recipe = {"optimiser": optimiser, "lr": 0.05}
    method = set_up(CoTeaching(), problem(build, 0.0, **recipe))
    alone = [CCE(), CCE()]
    twins = problem(build, None, **recipe)
    for one in alone:
        one.setup(twins)
    for seed in range(12):
        made = batch(seed, time=float(seed))
        step = method.step(made)
        losses = [float(one.step(made).loss) for one in alone]
        assert step.weight.tolist() == step.notes["peer_weight"].tolist() == [1.0] * ROWS
        assert float(step.loss) == pytest.approx(sum(losses) / 2, abs=1e-12)
    for learner, one in zip(method.learners(), alone, strict=True):
        found, expected = learner.network.state_dict(), one.learner.network.state_dict()
        assert all(torch.allclose(found[k], expected[k], rtol=0, atol=1e-12) for k in expected)


def test_each_network_trains_on_what_its_peer_chose_and_not_on_its_own_choice() -> None:
    method = set_up(CoTeaching(ramp=1), problem(noise_rate=0.5))
    made = batch(0)
    step = method.step(made)
    assert not step.weight.equal(step.notes["peer_weight"])
    chosen_by_itself = small_loss(
        nn.functional.cross_entropy(linear(0)(made.inputs), made.labels, reduction="none"), 0.5
    )
    assert step.notes["peer_weight"].tolist() == chosen_by_itself.double().tolist()


def test_running_statistics_of_both_networks_move_once_a_step() -> None:
    method = set_up(CoTeaching(), problem(with_norm))
    copies = [copy.deepcopy(learner.network) for learner in method.learners()]
    made = batch(0)
    method.step(made)
    for learner, network in zip(method.learners(), copies, strict=True):
        network.train()(made.inputs)
        found, expected = dict(learner.network.named_buffers()), dict(network.named_buffers())
        assert all(found[name].equal(expected[name]) for name in expected)
        assert int(found["1.num_batches_tracked"]) == 1


def test_the_two_networks_begin_apart_and_stay_apart() -> None:
    method = set_up(CoTeaching(), problem())
    assert method.learners() == [method.learner, method.peer]
    for seed in range(5):
        assert largest_difference(*(weights(one.network) for one in method.learners())) > 0.1
        method.step(batch(seed, time=50.0))


# --- edges ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_rate_that_leaves_nothing_leaves_one_sample(rows: int) -> None:
    method = set_up(CoTeaching(ramp=1), problem(noise_rate=0.99))
    step = method.step(batch(0, rows=rows))
    assert float(step.weight.sum()) == float(step.notes["peer_weight"].sum()) == 1
    assert step.loss.isfinite()


def test_a_broken_sample_shows_even_if_nobody_chooses_it() -> None:
    method = set_up(CoTeaching(ramp=1), problem(noise_rate=0.5))
    made = batch(0)
    made.inputs[4, 0] = math.nan
    step = method.step(made)
    assert float(step.weight[4]) == 0
    assert not step.loss.isfinite()


def test_its_own_rate_goes_before_the_problems() -> None:
    assert set_up(CoTeaching(), problem(noise_rate=0.2)).rate == 0.2
    assert set_up(CoTeaching(noise_rate=0.6), problem(noise_rate=0.2)).rate == 0.6
    assert set_up(CoTeaching(noise_rate=0.0), problem(noise_rate=0.2)).rate == 0.0


def test_it_says_what_to_pass_where_the_rate_is_not_known() -> None:
    with pytest.raises(LabelNoiseError, match="Co-teaching needs the noise rate: pass --noise-r"):
        CoTeaching().setup(problem(noise_rate=None))


@pytest.mark.parametrize("rate", [1.0, -0.1, 1.5, math.nan])
def test_a_rate_outside_its_range_is_an_error(rate: float) -> None:
    with pytest.raises(LabelNoiseError, match=r"lies in \[0, 1\)"):
        CoTeaching().setup(problem(noise_rate=rate))
