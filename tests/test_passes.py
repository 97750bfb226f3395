"""Two passes give the gradient of one, and `auto` takes the cheaper way."""

from __future__ import annotations

import copy
from dataclasses import fields, replace
from itertools import count
from typing import Any

import pytest
import torch
from tests.methods.small import largest_difference, random_batch, set_up, small_problem, weights
from torch import Tensor, nn

from labelnoise import Batch, LabelNoiseError, Learner
from labelnoise.learner import Recipe
from labelnoise.losses import cross_entropy, weighted_mean
from labelnoise.methods import METHODS
from labelnoise.methods.bare import BARE
from labelnoise.norm import Statistics
from labelnoise.passes import BACKWARD, GLANCE, Passes, break_even

ROWS, FEATURES, CLASSES = 24, 6, 3

SELECTING = {
    name: kind
    for name, kind in METHODS.items()
    if "backward" in {field.name for field in fields(kind)}  # type: ignore[arg-type]
}
selecting = pytest.mark.parametrize("kind", SELECTING.values(), ids=SELECTING.keys())


def deep(seed: int = 0, *, norm: bool = False, width: int = 8) -> nn.Module:
    torch.manual_seed(seed)
    middle = nn.BatchNorm1d(width) if norm else nn.Identity()
    layers = [nn.Linear(FEATURES, width), middle, nn.Tanh(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, CLASSES)).double()


def learner(seed: int = 0, *, norm: bool = False, width: int = 8) -> Learner:
    recipe = Recipe(optimiser="sgd", lr=0.1, schedule="constant")
    return Learner(deep(seed, norm=norm, width=width), recipe)


def some(rows: int = ROWS, kept: int = 7) -> Tensor:
    """Uneven weights of which only the first `kept` in a random order are not 0."""
    chance = torch.Generator().manual_seed(1)
    weight = torch.rand(rows, generator=chance, dtype=torch.float64) + 0.1
    weight[torch.randperm(rows, generator=chance)[kept:]] = 0
    return weight


def stepped(backward: str, weight: Tensor, batch: Batch, *, norm: bool = False) -> Learner:
    one = learner(norm=norm)
    passes = Passes(one, backward)
    passes.descend(cross_entropy, passes.look(batch.inputs), batch, weight)
    return one


# --- the same gradient ----------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [2, 7, ROWS])
def test_the_gradient_of_two_passes_is_the_gradient_of_one(kept: int) -> None:
    batch, weight = random_batch(0, ROWS, FEATURES, CLASSES), some(kept=kept)
    one = learner()
    losses = cross_entropy(one.logits(batch.inputs).log_softmax(dim=1), batch.labels)
    expected = one.gradient(weighted_mean(losses, weight))
    for backward in ("full", "selected"):
        made = [p.grad for p in stepped(backward, weight, batch).parameters if p.grad is not None]
        assert largest_difference(made, list(expected)) < 1e-15


@pytest.mark.parametrize("weight", [some(kept=0), some(kept=1), some().bool()])
def test_none_one_and_a_mask_are_weights_too(weight: Tensor) -> None:
    batch = random_batch(0, ROWS, FEATURES, CLASSES)
    one, two = (stepped(backward, weight, batch) for backward in ("full", "selected"))
    assert largest_difference(weights(one.network), weights(two.network)) < 1e-15


@selecting
def test_methods_learn_the_same_either_way(kind: type[Any]) -> None:
    # On labels that are all wrong, the rule `evidence` cuts none.
    settings = {"threshold": "batch"} if kind is BARE else {}
    results = []
    for backward in ("full", "selected"):
        told = small_problem(map(deep, count()).__next__, CLASSES, noise_rate=0.4)
        method = set_up(kind(backward=backward, **settings), told)
        steps = [
            method.step(random_batch(number, ROWS, FEATURES, CLASSES, time=12.0))
            for number in range(20)
        ]
        results.append((steps, [w for one in method.learners() for w in weights(one.network)]))
    (full, ours), (selected, theirs) = results
    assert largest_difference(ours, theirs) < 1e-12
    for one, other in zip(full, selected, strict=True):
        assert one.weight.equal(other.weight)
        assert torch.allclose(one.loss, other.loss, rtol=1e-12, atol=0)
    assert any(0 < float((step.weight > 0).double().mean()) < 1 for step in full)


def test_a_loss_that_is_not_finite_is_seen_even_where_it_does_not_count() -> None:
    batch = random_batch(0, ROWS, FEATURES, CLASSES)
    weight = some()
    spoilt = batch.inputs.clone()
    spoilt[int((weight == 0).nonzero()[0])] = torch.nan
    for backward in ("full", "selected"):
        passes = Passes(learner(), backward)
        loss = passes.descend(
            cross_entropy, passes.look(spoilt), replace(batch, views=(spoilt,)), weight
        )
        assert bool(loss.isnan())


# --- batch norm -----------------------------------------------------------------------------------


def test_batch_norm_over_all_samples_is_what_it_is_in_one_pass() -> None:
    batch, weight = random_batch(0, ROWS, FEATURES, CLASSES), some(kept=ROWS)
    one, two = (stepped(backward, weight, batch, norm=True) for backward in ("full", "selected"))
    ours = two.network.state_dict()
    for name, value in one.network.state_dict().items():
        assert torch.allclose(ours[name], value, rtol=1e-12, atol=1e-15), name


def test_chosen_samples_come_out_of_batch_norm_as_they_did_beside_all_others() -> None:
    batch, weight = random_batch(0, ROWS, FEATURES, CLASSES), some()
    one = learner(norm=True)
    passes, seen = Passes(one, "selected"), []
    log_probs = passes.look(batch.inputs)

    def losses(scores: Tensor, labels: Tensor) -> Tensor:
        seen.append(scores.detach())
        return cross_entropy(scores, labels)

    passes.descend(losses, log_probs, batch, weight)
    everyone, chosen = seen
    assert torch.allclose(chosen, everyone[weight > 0], rtol=1e-12)
    # Running statistics have moved once, by the whole mini-batch.
    other = learner(norm=True)
    other.logits(batch.inputs)
    expected = dict(other.network.named_buffers())
    for name, buffer in one.network.named_buffers():
        assert torch.allclose(buffer, expected[name], rtol=1e-12), name


def test_gradients_through_batch_norm_point_where_those_of_one_pass_do() -> None:
    batch = random_batch(0, ROWS, FEATURES, CLASSES)
    made = []
    for backward in ("full", "selected"):
        parts = stepped(backward, some(kept=16), batch, norm=True).parameters
        made.append(torch.cat([p.grad.flatten() for p in parts if p.grad is not None]))
    assert float(torch.cosine_similarity(made[0], made[1], dim=0)) > 0.9


@pytest.mark.parametrize("kept", [0, 1])
def test_batch_norm_gets_along_with_less_than_two_samples_that_count(kept: int) -> None:
    made = stepped("selected", some(kept=kept), random_batch(0, ROWS, FEATURES, CLASSES), norm=True)
    assert all(bool(part.isfinite().all()) for part in weights(made.network))


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(8, affine=False), nn.BatchNorm1d(8).eval()])
def test_layers_without_parameters_or_with_statistics_that_stay(layer: nn.BatchNorm1d) -> None:
    inputs = torch.randn(ROWS, 8)
    with torch.no_grad(), Statistics() as taken:
        expected = layer(inputs)
    assert len(taken.moments) == layer.training
    with Statistics(taken):
        assert torch.allclose(layer(inputs[:5]), expected[:5], atol=1e-6)


# --- which way ------------------------------------------------------------------------------------


def test_two_passes_pay_below_two_thirds_in_deep_networks_and_half_in_shallow_ones() -> None:
    inputs = torch.rand(65536, 256)
    recipe = Recipe()
    shallow = Learner(nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2)), recipe)
    deep_one = Learner(nn.Sequential(*(nn.Linear(256, 256) for _ in range(12))), recipe)
    assert break_even(shallow, inputs) == pytest.approx(1 / 2, abs=0.01)
    assert break_even(deep_one, inputs) == pytest.approx(2 / 3, abs=0.02)


def test_small_networks_never_take_two_passes() -> None:
    assert break_even(learner(), random_batch(0, ROWS, FEATURES, CLASSES).inputs) < 0
    parameterless = nn.Sequential(nn.Flatten(), nn.Embedding(4, 4).requires_grad_(True))
    assert break_even(Learner(parameterless, Recipe()), torch.zeros(8, 1, dtype=torch.long)) == 0


def test_finding_out_leaves_no_trace() -> None:
    one = Learner(nn.Sequential(deep(norm=True), nn.Dropout(0.5)), Recipe())
    before = copy.deepcopy(one.network.state_dict())
    chance = torch.get_rng_state()
    break_even(one, random_batch(0, ROWS, FEATURES, CLASSES).inputs)
    assert torch.get_rng_state().equal(chance)
    assert all(value.equal(before[name]) for name, value in one.network.state_dict().items())
    assert all(parameter.grad is None for parameter in one.parameters)


def wide_passes() -> tuple[Passes, Batch]:
    one = learner(width=512)
    return Passes(one, "auto"), random_batch(0, 60, FEATURES, CLASSES)


def two_passes(passes: Passes, batch: Batch, weight: Tensor) -> bool:
    """Make a step; whether it took two passes."""
    log_probs = passes.look(batch.inputs)
    passes.descend(cross_entropy, log_probs, batch, weight)
    return not log_probs.requires_grad


def test_auto_goes_by_the_fraction_of_the_last_steps() -> None:
    passes, batch = wide_passes()
    few, all_of_them = some(60, kept=6), some(60, kept=60)
    assert not any(two_passes(passes, batch, all_of_them) for _ in range(2 * GLANCE))
    taken = [two_passes(passes, batch, few) for _ in range(3 * GLANCE)]
    assert not taken[0]
    assert taken[-1]
    assert taken == sorted(taken)  # once it pays, it pays for all further ones
    back = [two_passes(passes, batch, all_of_them) for _ in range(4)]
    assert back[0]
    assert not back[-1]


def test_auto_goes_on_as_it_would_have_without_a_stop() -> None:
    (whole, batch), (first, _) = wide_passes(), wide_passes()
    (second, _), few = wide_passes(), some(60, kept=6)
    expected = [two_passes(whole, batch, few) for _ in range(3 * GLANCE)]
    begun = [two_passes(first, batch, few) for _ in range(GLANCE + 3)]
    second.load_state_dict(first.state_dict())
    ended = [two_passes(second, batch, few) for _ in range(3 * GLANCE - len(begun))]
    assert begun + ended == expected
    assert len(set(expected)) == 2


@selecting
def test_a_way_that_does_not_exist_is_refused(kind: type[Any]) -> None:
    assert kind().backward == "auto"
    with pytest.raises(LabelNoiseError, match="did you mean 'selected'"):
        kind(backward="select")
    assert BACKWARD == ("auto", "full", "selected")
