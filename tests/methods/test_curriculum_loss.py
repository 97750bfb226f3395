"""Curriculum Loss against brute force and a slow reference in NumPy, its branches and its edges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from labelnoise import Batch, LabelNoiseError, Problem
from labelnoise.methods.curriculum_loss import (
    CurriculumLoss,
    hard_hinge,
    margins,
    select,
    soft_hinge,
)

from .regression import Array
from .small import mask, random_batch, set_up, small_problem

FEATURES, CLASSES, ROWS = 5, 4, 16


# --- the slow reference: NumPy float64, one sample after the other --------------------------------


def slow_margin(scores: Array, label: int) -> float:
    return float(scores[label] - max(s for j, s in enumerate(scores) if j != label))


def slow_hard(scores: Array, label: int) -> float:
    return max(0.0, 1 - slow_margin(scores, label))


def slow_soft(scores: Array, label: int) -> float:
    """On logits: the hinge where it is classified as labelled, else 1 - t_y + logsumexp(t)."""
    if slow_margin(scores, label) >= 0:
        return slow_hard(scores, label)
    total = math.log(math.fsum(math.exp(s) for s in scores))
    return max(0.0, 1 - float(scores[label]) + total)


def slow_soft_slope(scores: Array, label: int) -> Array:
    """The derivative of `slow_soft` by the logits."""
    slope = np.zeros(len(scores))
    margin = slow_margin(scores, label)
    if margin >= 1:
        return slope
    if margin >= 0:
        rival = max((j for j in range(len(scores)) if j != label), key=lambda j: scores[j])
        slope[rival], slope[label] = 1, -1
        return slope
    for j in range(len(scores)):
        slope[j] = math.exp(scores[j]) / math.fsum(math.exp(s) for s in scores)
    slope[label] -= 1
    return slope


def slow_select(losses: list[float], budget: float) -> list[int]:
    """Take samples from the smallest loss on while L_T <= C + 1 - T; one at least."""
    order = sorted(range(len(losses)), key=lambda i: losses[i])
    taken, total = 0, 0.0
    for number, i in enumerate(order, 1):
        total += losses[i]
        if total > budget + 1 - number:
            break
        taken = number
    return order[: max(taken, 1)]


def slow_keep(
    scores: Array, labels: list[int], rate: float, budget: str, select_on: str
) -> list[int]:
    rows = len(labels)
    wrong = sum(slow_margin(s, y) < 0 for s, y in zip(scores, labels, strict=True))
    room = (1 - rate) * rows if budget == "linear" else (1 - rate) ** 2 * rows + (1 - rate) * wrong
    chosen_by = slow_soft if select_on == "soft" else slow_hard
    return slow_select([chosen_by(s, y) for s, y in zip(scores, labels, strict=True)], room)


# --- a small problem ------------------------------------------------------------------------------


def linear() -> nn.Linear:
    torch.manual_seed(3)
    made = nn.Linear(FEATURES, CLASSES, dtype=torch.float64)
    with torch.no_grad():
        made.weight.mul_(4)
    return made


def scores_and_labels(rows: int = 40, seed: int = 0) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(rows, CLASSES, generator=chance, dtype=torch.float64)
    return scores, torch.randint(CLASSES, (rows,), generator=chance)


def problem(
    build: Callable[[], nn.Module] = linear, noise_rate: float | None = 0.3, **recipe: Any
) -> Problem:
    return small_problem(build, CLASSES, noise_rate=noise_rate, **recipe)


def batch(seed: int, time: float = 0.0, rows: int = ROWS) -> Batch:
    """Labels of which two thirds are what the network of `linear` predicts."""
    made = random_batch(seed, rows, FEATURES, CLASSES, time)
    kept = torch.rand(rows, generator=torch.Generator().manual_seed(seed)) < 2 / 3
    labels = torch.where(kept, linear()(made.inputs).argmax(dim=1), made.labels)
    return Batch((made.inputs,), labels, made.index, time)


# --- the hinges -----------------------------------------------------------------------------------


def test_margins_and_hinges_equal_the_slow_reference() -> None:
    scores, labels = scores_and_labels()
    pairs = list(zip(scores.numpy(), labels.tolist(), strict=True))
    for fast, slow in ((margins, slow_margin), (hard_hinge, slow_hard), (soft_hinge, slow_soft)):
        inputs = scores.log_softmax(dim=1) if fast is soft_hinge else scores
        expected = [slow(s, y) for s, y in pairs]
        assert fast(inputs, labels).tolist() == pytest.approx(expected, abs=1e-12)
    reached = {slow_margin(s, y) < 0 for s, y in pairs} | {slow_margin(s, y) > 1 for s, y in pairs}
    assert reached == {True, False}


def test_hinges_stay_when_a_constant_is_added_to_all_scores() -> None:
    scores, labels = scores_and_labels()
    for hinge in (margins, hard_hinge):
        moved = hinge(scores + torch.linspace(-9, 9, 40)[:, None], labels)
        assert torch.allclose(moved, hinge(scores, labels), rtol=0, atol=1e-12)


def test_the_gradient_of_the_soft_hinge_equals_the_slow_reference() -> None:
    scores, labels = scores_and_labels()
    scores.requires_grad_()
    soft_hinge(scores.log_softmax(dim=1), labels).sum().backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    for row, label, gradient in zip(scores.detach().numpy(), labels, scores.grad, strict=True):
        expected = slow_soft_slope(row, int(label))
        assert gradient.tolist() == pytest.approx(expected.tolist(), abs=1e-12)


def test_hinges_with_numbers() -> None:
    scores = torch.tensor([[2.0, 0.5, 0.0], [1.0, 0.5, 0.0], [0.0, 2.0, 1.0]], dtype=torch.float64)
    labels = torch.zeros(3, dtype=torch.long)
    assert margins(scores, labels).tolist() == pytest.approx([1.5, 0.5, -2.0])
    assert hard_hinge(scores, labels).tolist() == pytest.approx([0.0, 0.5, 3.0])
    # The last one is misclassified: 1 + log(e^0 + e^2 + e^1).
    by_hand = 1 + math.log(1 + math.exp(2) + math.exp(1))  # 3.407606
    soft = soft_hinge(scores.log_softmax(dim=1), labels)
    assert soft.tolist() == pytest.approx([0.0, 0.5, by_hand])


def test_the_runner_up_may_be_negative() -> None:
    """The BARE authors' code takes max(0, best other logit) and gets 1.15 here."""
    scores = torch.full((1, 10), -5.0)
    scores[0, 3] = -1.0
    labels = torch.tensor([3])
    assert float(hard_hinge(scores, labels)) == 0
    assert float(soft_hinge(scores.log_softmax(dim=1), labels)) == 0


def test_the_soft_hinge_bounds_the_hard_one_and_both_the_zero_one_loss() -> None:
    scores, labels = scores_and_labels(rows=500)
    hard, soft = hard_hinge(scores, labels), soft_hinge(scores.log_softmax(dim=1), labels)
    wrong = margins(scores, labels) < 0
    assert (soft >= hard - 1e-12).all()
    assert (hard >= wrong.double()).all()
    assert soft[~wrong].equal(hard[~wrong]) or torch.allclose(soft[~wrong], hard[~wrong])


# --- the selection --------------------------------------------------------------------------------


def objective(losses: list[Fraction], chosen: list[bool], budget: Fraction) -> Fraction:
    taken = sum((loss for loss, v in zip(losses, chosen, strict=True) if v), Fraction(0))
    return max(taken, budget - sum(chosen))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 24), min_size=1, max_size=8),
    st.integers(0, 48),
    st.sampled_from((torch.float32, torch.float64)),
)
def test_the_selection_is_the_best_of_all(
    quarters: list[int], budget_quarters: int, dtype: torch.dtype
) -> None:
    """In quarters, so that sums are exact and ties are frequent."""
    losses = [Fraction(value, 4) for value in quarters]
    budget = Fraction(budget_quarters, 4)
    keep = select(torch.tensor(quarters, dtype=dtype) / 4, torch.tensor(float(budget), dtype=dtype))
    assert keep.dtype == torch.bool
    assert keep.any()
    every = itertools.product((False, True), repeat=len(losses))
    best = min(objective(losses, list(v), budget) for v in every if any(v))
    assert objective(losses, keep.tolist(), budget) == best
    if min(losses) <= budget:  # then choosing nothing is no better either
        assert best <= budget
    taken = slow_select([float(loss) for loss in losses], float(budget))
    kept = [value for value, chosen in zip(quarters, keep.tolist(), strict=True) if chosen]
    assert sorted(kept) == sorted(quarters[i] for i in taken)


def test_of_equally_good_selections_it_takes_the_largest() -> None:
    """With a loss of 1 each sample gives what it costs, up to the middle."""
    keep = select(torch.tensor([1.0, 1.0, 1.0, 1.0]), torch.tensor(3.0))
    # Bounds by T: 3, 2, 2, 3, 4; T = 1 and T = 2 are as good.
    assert keep.tolist().count(True) == 2


def test_a_worked_selection() -> None:
    losses = torch.tensor([2.5, 0.0, 0.4, 1.1, 0.2])
    # Sorted 0, .2, .4, 1.1, 2.5 with sums 0, .2, .6, 1.7, 4.2; for C = 3.5 the bar C + 1 - T is
    # 3.5, 2.5, 1.5, 0.5, -0.5: three pass.
    assert select(losses, torch.tensor(3.5)).tolist() == [False, True, True, False, True]
    assert select(losses, torch.tensor(0.0)).tolist() == [False, True, False, False, False]
    assert select(losses, torch.tensor(9.3)).tolist() == [True] * 5


def test_it_never_chooses_nothing() -> None:
    keep = select(torch.tensor([7.0, 5.0, 9.0]), torch.tensor(1.0))
    assert keep.tolist() == [False, True, False]


@pytest.mark.parametrize("rows", [1, 7, 128])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.5, 0.75])
def test_a_well_separated_batch_fills_the_budget(rows: int, rate: float) -> None:
    """All hinges are 0: one sample beyond the budget still costs nothing."""
    kept = int(select(torch.zeros(rows), torch.tensor((1 - rate) * rows)).sum())
    assert kept == min(math.floor((1 - Fraction(rate).limit_denominator(100)) * rows) + 1, rows)


def test_the_selection_carries_no_gradient_and_moves_with_the_batch() -> None:
    losses = torch.tensor([2.5, 0.0, 0.4, 1.1, 0.2], requires_grad=True)
    order = [3, 0, 4, 2, 1]
    keep = select(losses, torch.tensor(3.5))
    assert not keep.requires_grad
    assert select(losses[order], torch.tensor(3.5)).equal(keep[order])


# --- the step against the reference ---------------------------------------------------------------


@pytest.mark.parametrize("select_on", ["hard", "soft"])
@pytest.mark.parametrize("budget", ["npcl", "linear"])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.45, 0.7])
def test_steps_equal_the_slow_reference(rate: float, budget: str, select_on: str) -> None:
    method = set_up(
        CurriculumLoss(burn_in=2, budget=budget, select_on=select_on), problem(noise_rate=rate)
    )
    start = linear()
    weight, bias = start.weight.detach().numpy().copy(), start.bias.detach().numpy().copy()
    momentum = [np.zeros_like(weight), np.zeros_like(bias)]
    fewer = False
    for seed, time in enumerate((0.0, 1.0, 1.99, 2.0, 2.5, 7.0, 80.0)):
        made = batch(seed, time)
        inputs, labels = made.inputs.numpy(), made.labels.tolist()
        scores = inputs @ weight.T + bias
        keep = list(range(ROWS)) if time < 2 else slow_keep(scores, labels, rate, budget, select_on)
        loss = math.fsum(slow_soft(scores[i], labels[i]) for i in keep) / len(keep)
        slopes = [np.zeros_like(weight), np.zeros_like(bias)]
        for i in keep:
            slope = slow_soft_slope(scores[i], labels[i]) / len(keep)
            slopes[0] += np.outer(slope, inputs[i])
            slopes[1] += slope
        momentum = [0.9 * m + s for m, s in zip(momentum, slopes, strict=True)]
        weight, bias = weight - 0.1 * momentum[0], bias - 0.1 * momentum[1]

        step = method.step(made)
        assert step.index is made.index
        assert step.weight.bool().tolist() == mask(keep, ROWS)
        assert float(step.loss) == pytest.approx(loss, abs=1e-12)
        assert step.probs is not None
        expected = torch.from_numpy(scores).softmax(dim=1)
        assert torch.allclose(step.probs, expected, rtol=0, atol=1e-12)
        fewer |= len(keep) < ROWS
    assert fewer or rate == 0
    found = method.learner.network.state_dict()
    assert np.allclose(found["weight"].numpy(), weight, rtol=0, atol=1e-12)
    assert np.allclose(found["bias"].numpy(), bias, rtol=0, atol=1e-12)


def test_worked_example_of_a_step() -> None:
    """Four samples of class 0 with margins 2, 0.5, 0 and -3; half of the labels are wrong."""
    network = nn.Linear(4, 2, bias=False, dtype=torch.float64)
    with torch.no_grad():  # sample i is unit vector i, so that its logits are column i
        network.weight.copy_(torch.tensor([[2.0, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 3.0]]))
    told = problem(lambda: network, 0.5, lr=1.0)
    method = set_up(CurriculumLoss(burn_in=0), told)
    inputs = torch.eye(4, dtype=torch.float64)
    step = method.step(Batch((inputs,), torch.zeros(4).long(), torch.arange(4), time=0.0))
    # C = .5^2 * 4 + .5 * 1 = 1.5; hard hinges 0, .5, 1, 4 sum to 0, .5, 1.5, 5.5 against the bars
    # 1.5, .5, -.5, -1.5.
    assert step.weight.tolist() == [1, 1, 0, 0]
    assert float(step.loss) == pytest.approx(0.25)
    # Sample 0 is beyond the hinge; sample 1 pulls its two logits apart with half a vote.
    assert network.weight.grad is not None
    assert network.weight.grad.tolist() == [[0, -0.5, 0, 0], [0, 0.5, 0, 0]]


# --- invariants -----------------------------------------------------------------------------------


def sure_network(sureness: float) -> nn.Linear:
    network = nn.Linear(CLASSES, CLASSES, bias=False, dtype=torch.float64)
    with torch.no_grad():
        network.weight.copy_(sureness * torch.eye(CLASSES))
    return network


@pytest.mark.parametrize("select_on", ["hard", "soft"])
@pytest.mark.parametrize("budget", ["npcl", "linear"])
def test_without_noise_and_without_losses_it_selects_everything(
    budget: str, select_on: str
) -> None:
    labels = torch.arange(ROWS) % CLASSES
    inputs = torch.eye(CLASSES, dtype=torch.float64)[labels]
    method = set_up(
        CurriculumLoss(burn_in=0, budget=budget, select_on=select_on),
        problem(lambda: sure_network(5.0), 0.0),
    )
    step = method.step(Batch((inputs,), labels, torch.arange(ROWS), time=0.0))
    assert step.weight.tolist() == [1.0] * ROWS
    assert float(step.loss) == 0


def test_without_noise_it_is_the_curriculum_loss_of_the_definition() -> None:
    """Q = min over v of max(sum v_i l_i, m - sum v_i + number of mistakes), by brute force."""
    for seed in range(8):
        made = batch(seed, rows=8)
        scores = linear()(made.inputs).detach()
        losses = [slow_hard(s, int(y)) for s, y in zip(scores.numpy(), made.labels, strict=True)]
        mistakes = int((scores.argmax(dim=1) != made.labels).sum())

        def bound(chosen: list[bool], losses: list[float], mistakes: int) -> float:
            taken = math.fsum(loss for loss, v in zip(losses, chosen, strict=True) if v)
            return max(taken, 8 - sum(chosen) + mistakes)

        every = itertools.product((False, True), repeat=8)
        best = min(bound(list(v), losses, mistakes) for v in every)
        step = set_up(CurriculumLoss(burn_in=0), problem(noise_rate=0.0)).step(made)
        found = bound(step.weight.bool().tolist(), losses, mistakes)
        assert found == pytest.approx(best, abs=1e-5)
        assert mistakes <= best + 1e-9  # it is an upper bound of the 0-1 loss


def test_a_higher_rate_never_selects_more() -> None:
    for seed in range(5):
        kept = []
        for rate in (0.0, 0.2, 0.4, 0.6, 0.8):
            method = set_up(CurriculumLoss(burn_in=0), problem(noise_rate=rate))
            kept.append(method.step(batch(seed)).weight.bool())
        assert all(not (more & ~less).any() for less, more in itertools.pairwise(kept))
        assert int(kept[0].sum()) > int(kept[-1].sum())


def test_the_burn_in_takes_everything_until_its_last_step() -> None:
    method = set_up(CurriculumLoss(burn_in=3), problem(noise_rate=0.8))
    kept = [method.step(batch(0, time)).weight.sum() for time in (0.0, 2.999, 3.0)]
    assert [float(count) for count in kept[:2]] == [ROWS, ROWS]
    assert float(kept[2]) < ROWS


# --- validation and edges -------------------------------------------------------------------------


def test_the_validation_loss_is_the_mean_soft_hinge_of_all_samples() -> None:
    scores, labels = scores_and_labels()
    expected = np.mean([slow_soft(s, int(y)) for s, y in zip(scores.numpy(), labels, strict=True)])
    found = CurriculumLoss(noise_rate=0.9).validation_loss(scores.log_softmax(dim=1), labels)
    assert float(found) == pytest.approx(float(expected), abs=1e-12)


def test_unknown_choices_suggest_the_nearest() -> None:
    with pytest.raises(LabelNoiseError, match="did you mean 'linear'"):
        CurriculumLoss(budget="liner")
    with pytest.raises(LabelNoiseError, match="did you mean 'soft'"):
        CurriculumLoss(select_on="softt")


def test_it_says_what_to_pass_where_the_rate_is_not_known() -> None:
    with pytest.raises(LabelNoiseError, match="Curriculum Loss needs the noise rate: pass --noise"):
        CurriculumLoss().setup(problem(noise_rate=None))
    assert set_up(CurriculumLoss(noise_rate=0.1), problem(noise_rate=None)).rate == 0.1


@pytest.mark.parametrize("rows", [1, 2])
def test_tiny_batches_train(rows: int) -> None:
    step = set_up(CurriculumLoss(burn_in=0), problem(noise_rate=0.9)).step(batch(0, rows=rows))
    assert float(step.weight.sum()) >= 1
    assert step.loss.isfinite()


def test_a_broken_sample_shows_even_if_it_is_not_selected() -> None:
    made = batch(0)
    made.inputs[4, 0] = math.nan
    step = set_up(CurriculumLoss(burn_in=0), problem(noise_rate=0.5)).step(made)
    assert not step.loss.isfinite()
