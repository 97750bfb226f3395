"""Leaving samples out gives the gradient of all, with batch norm by chance; `auto` is cheaper."""

from __future__ import annotations

import copy
import json
from contextlib import nullcontext
from dataclasses import fields, replace
from itertools import chain, count
from typing import Any

import pytest
import torch
from tests.methods.small import largest_difference, random_batch, set_up, small_problem, weights
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from labelnoise import Batch, LabelNoiseError, Learner
from labelnoise.learner import Recipe
from labelnoise.losses import cross_entropy, weighted_mean
from labelnoise.methods import METHODS
from labelnoise.methods.bare import BARE
from labelnoise.passes import BACKWARD, GLANCE, OVERHEAD, SHALLOW, WORTH, Passes, break_even
from labelnoise.skipping import STANDING, STANDING_FOR, Skipping, among_zeros, rows_of

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
    step(Passes(one, backward), batch, weight)
    return one


def step(passes: Passes, batch: Batch, weight: Tensor) -> Tensor:
    """One step on the losses under `weight`, and what was minimised."""
    loss = weighted_mean(cross_entropy(passes.look(batch.inputs), batch.labels), weight)
    passes.descend(loss, weight)
    return loss.detach()


# --- the same gradient ----------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [1, 2, 7, ROWS])
def test_samples_that_do_not_count_can_be_left_out(kept: int) -> None:
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
        loss = step(Passes(learner(), backward), replace(batch, views=(spoilt,)), weight)
        assert bool(loss.isnan())


# --- layers ---------------------------------------------------------------------------------------


def images() -> nn.Module:
    """Convolutions of many kinds, and a dense layer on more than two dimensions."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, stride=2),
        nn.MaxPool2d(2),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 4, (1, 3), padding=(0, 1), groups=2, bias=False),
        nn.Conv2d(4, 6, 3, padding="same"),
        nn.Linear(4, 5),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(6 * 4 * 5, CLASSES),
    ).double()


def gradients(network: nn.Module, inputs: Tensor, weight: Tensor, *, skip: bool) -> list[Tensor]:
    torch.manual_seed(1)  # of the dropout
    skipping = Skipping(len(inputs), checked=False)
    with skipping if skip else nullcontext():
        outputs = network(inputs)
    skipping.leave_out(weight)
    (outputs.square().sum(dim=1) * weight).sum().backward()
    assert not skipping.mixed
    return [p.grad.clone() for p in network.parameters() if p.grad is not None]


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
def test_convolutions_dense_layers_and_dropout_are_exact(form: torch.memory_format) -> None:
    inputs = torch.randn(ROWS, 2, 16, 16, dtype=torch.float64).to(memory_format=form)
    made = []
    for skip in (False, True):
        network = images().to(memory_format=form)  # type: ignore[call-overload]
        made.append(gradients(network, inputs, some(), skip=skip))
    assert largest_difference(made[0], made[1]) < 1e-12


def test_inputs_that_want_a_gradient_get_it() -> None:
    inputs = torch.randn(ROWS, 2, 16, 16, dtype=torch.float64)
    found = []
    for skip in (False, True):
        leaf = inputs.clone().requires_grad_()
        gradients(images(), leaf, some(), skip=skip)
        assert leaf.grad is not None
        found.append(leaf.grad)
    assert torch.allclose(found[0], found[1], atol=1e-12)


def test_frozen_layers_stay_frozen() -> None:
    inputs = torch.randn(ROWS, 2, 16, 16, dtype=torch.float64)
    made = []
    for skip in (False, True):
        network = images()
        network[0].requires_grad_(False)  # type: ignore[index]
        made.append(gradients(network, inputs, some(), skip=skip))
    assert largest_difference(made[0], made[1]) < 1e-12


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
def test_rows_keep_their_order_of_memory(form: torch.memory_format) -> None:
    values = torch.randn(6, 4, 5, 3).contiguous(memory_format=form)
    rows = torch.tensor([4, 1])
    taken = rows_of(values, rows)
    assert taken.equal(values[rows])
    assert taken.is_contiguous(memory_format=form)
    back = among_zeros(taken, rows, values)
    assert back[rows].equal(taken)
    assert back.count_nonzero() == taken.count_nonzero()
    assert back.is_contiguous(memory_format=form)


class Centred(nn.Module):
    """A layer in which samples meet."""

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs - inputs.mean(dim=0)


def test_a_network_that_mixes_samples_is_noticed_and_trained_whole() -> None:
    batch, weight = random_batch(0, ROWS, FEATURES, CLASSES), some()
    results = []
    for backward in ("full", "selected"):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(FEATURES, 8), Centred(), nn.Linear(8, CLASSES)).double()
        one = Learner(network, Recipe(optimiser="sgd", lr=0.1, schedule="constant"))
        passes = Passes(one, backward)
        step(passes, batch, torch.ones_like(weight))  # nothing to be left out yet
        for _ in range(3):
            step(passes, batch, weight)
        results.append(weights(one.network))
    assert largest_difference(*results) < 1e-14
    assert not passes.selects(batch.inputs)
    resumed = Passes(one, backward)
    resumed.load_state_dict(passes.state_dict())
    assert not resumed.selects(batch.inputs)


class TimeFirst(nn.Module):
    """Dense layers on (time, samples, features): rows are samples by chance alone."""

    def __init__(self, time: int) -> None:
        super().__init__()
        self.time, self.inside = time, nn.Linear(FEATURES, FEATURES)
        self.out = nn.Linear(FEATURES, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        walk = torch.stack([inputs * (1 + each) for each in range(self.time)])
        outputs: Tensor = self.out(self.inside(walk).tanh().mean(dim=0))
        return outputs


def test_mini_batches_of_another_size_are_checked_anew() -> None:
    results = []
    for backward in ("full", "selected"):
        torch.manual_seed(0)
        recipe = Recipe(optimiser="sgd", lr=0.1, schedule="constant")
        one = Learner(TimeFirst(5).double(), recipe)
        passes = Passes(one, backward)
        for rows in (8, 5):
            batch = random_batch(rows, rows, FEATURES, CLASSES)
            step(passes, batch, some(rows, kept=2))
        results.append(weights(one.network))
    assert largest_difference(*results) < 1e-14


def test_what_others_have_a_hand_in_is_left_to_them() -> None:
    """Autocast, checkpoints and vmap, arguments by name, vectors: as without."""
    dense = nn.Linear(FEATURES, FEATURES)
    inputs = torch.randn(FEATURES, FEATURES)
    expected = dense(inputs)
    with Skipping(FEATURES, checked=False) as skipping:
        with torch.autocast("cpu", torch.bfloat16):
            half = dense(inputs)
        by_name = nn.functional.linear(input=inputs, weight=dense.weight, bias=dense.bias)
        vector = dense(inputs[0])
        mapped = torch.vmap(dense)(inputs)
        again = checkpoint(dense, inputs, use_reentrant=False)
    assert half.dtype == torch.bfloat16
    for made in (half.float(), by_name, vector.expand_as(expected), mapped, again):
        made.sum().backward()
    assert torch.allclose(by_name, expected)
    assert torch.allclose(mapped, expected, atol=1e-6)
    assert not skipping.asked


def test_a_mini_batch_of_one_is_for_pytorch_to_refuse() -> None:
    one = Passes(learner(norm=True), "selected")
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        one.look(torch.randn(1, FEATURES, dtype=torch.float64))


# --- batch norm -----------------------------------------------------------------------------------


def test_batch_norm_over_all_samples_is_what_it_is_otherwise() -> None:
    batch, weight = random_batch(0, ROWS, FEATURES, CLASSES), some(kept=ROWS)
    one, two = (stepped(backward, weight, batch, norm=True) for backward in ("full", "selected"))
    ours = two.network.state_dict()
    for name, value in one.network.state_dict().items():
        assert torch.allclose(ours[name], value, rtol=1e-12, atol=1e-15), name


def test_running_statistics_are_those_of_all_samples() -> None:
    batch = random_batch(0, ROWS, FEATURES, CLASSES)
    one, two = (stepped(way, some(), batch, norm=True) for way in ("full", "selected"))
    expected = dict(one.network.named_buffers())
    assert all(value.equal(expected[name]) for name, value in two.network.named_buffers())


MANY = 120  # samples of which so many can be left out that some of them stand for all


def test_in_batch_norm_some_samples_stand_for_those_left_out() -> None:
    chance = torch.Generator().manual_seed(0)
    inputs = torch.randn(MANY, 5, generator=chance, dtype=torch.float64)
    above = torch.randn(MANY, 5, generator=chance, dtype=torch.float64)
    keep = some(MANY, kept=20) > 0
    layer = nn.BatchNorm1d(5).double()
    with torch.no_grad():
        layer.weight.copy_(torch.rand(5, generator=chance))
    made: list[tuple[Tensor, ...]] = []
    for leave_out in (False, True):
        layer.zero_grad()
        values = inputs.clone().requires_grad_()
        with Skipping(MANY, checked=False) as skipping:
            outputs = layer(values)
        if leave_out:
            skipping.leave_out(keep)
        outputs.backward(above * keep.unsqueeze(1))
        assert values.grad is not None
        assert layer.weight.grad is not None
        assert layer.bias.grad is not None
        made.append((values.grad, layer.weight.grad.clone(), layer.bias.grad.clone()))
    (all_of_them, *expected), (ours, *found) = made
    assert all(torch.allclose(*pair) for pair in zip(expected, found, strict=True))
    assert torch.allclose(ours[keep], all_of_them[keep], rtol=1e-10)
    others = (~keep).nonzero().squeeze(1)
    drawn = others[::STANDING_FOR]
    assert len(drawn) >= STANDING
    for_how_many = len(others) / len(drawn)
    assert torch.allclose(ours[drawn], for_how_many * all_of_them[drawn], rtol=1e-10)
    assert int(ours.any(dim=1).sum()) == int(keep.sum()) + len(drawn)


def normed(*norms: nn.Module) -> nn.Module:
    """A convolution before each of the norms, and a dense layer."""
    torch.manual_seed(0)
    channels, layers = 2, []
    for norm in norms:
        layers += [nn.Conv2d(channels, 4, 3, padding=1), norm, nn.ReLU()]
        channels = 4
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 5 * 5, CLASSES)).double()


def norm(*, affine: bool = True, frozen: bool = False) -> nn.Module:
    return nn.BatchNorm2d(4, affine=affine).requires_grad_(not frozen)


@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    "norms",
    [
        (norm(), norm()),
        (norm(affine=False), norm()),
        (norm(), norm(frozen=True)),
        (norm().eval(), norm()),
    ],
    ids=["plain", "no parameters", "frozen", "evaluation"],
)
def test_where_few_are_left_out_batch_norm_is_exact(
    norms: tuple[nn.Module, ...], form: torch.memory_format
) -> None:
    network = normed(*norms).to(memory_format=form)  # type: ignore[call-overload]
    inputs = torch.randn(ROWS, 2, 5, 5, dtype=torch.float64).to(memory_format=form)
    found = []
    for skip in (False, True):
        network.zero_grad()
        found.append(gradients(network, inputs, some(kept=10), skip=skip))
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(*found, strict=True))


def drawn_and_full(*norms: nn.Module) -> tuple[Tensor, Tensor]:
    """Gradients for 200 orders of the same samples, and that of all samples."""
    chance = torch.Generator().manual_seed(1)
    inputs = torch.randn(MANY, 2, 5, 5, dtype=torch.float64, generator=chance)
    weight = some(MANY, kept=20)

    def gradient(order: Tensor, *, skip: bool) -> Tensor:
        network = normed(*map(copy.deepcopy, norms))
        found = gradients(network, inputs[order], weight[order], skip=skip)
        return torch.cat([part.flatten() for part in found])

    orders = [torch.randperm(MANY, generator=chance) for _ in range(200)]
    return torch.stack([gradient(each, skip=True) for each in orders]), gradient(
        torch.arange(MANY), skip=False
    )


def test_through_one_batch_norm_the_gradient_is_right_on_average() -> None:
    drawn, full = drawn_and_full(norm())
    off = float((drawn - full).norm(dim=1).mean() / full.norm())
    on_average = float((drawn.mean(dim=0) - full).norm() / full.norm())
    assert off > 0.01  # a draw makes a difference
    assert on_average < 1.5 * off / len(drawn) ** 0.5


def test_through_several_it_is_so_but_for_what_the_draws_have_in_common() -> None:
    drawn, full = drawn_and_full(norm(), norm(), norm())
    assert float((drawn.mean(dim=0) - full).norm() / full.norm()) < 0.05
    similar = torch.cosine_similarity(drawn, full.unsqueeze(0), dim=1)
    assert float(similar.min()) > 0.8


@pytest.mark.parametrize("kept", [0, 1])
def test_batch_norm_gets_along_with_less_than_two_samples_that_count(kept: int) -> None:
    made = stepped("selected", some(kept=kept), random_batch(0, ROWS, FEATURES, CLASSES), norm=True)
    assert all(bool(part.isfinite().all()) for part in weights(made.network))


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(8, affine=False), nn.BatchNorm1d(8).eval()])
def test_batch_norm_without_parameters_or_in_evaluation(layer: nn.BatchNorm1d) -> None:
    inputs = torch.randn(ROWS, 8)
    expected = layer(inputs)
    with Skipping(ROWS, checked=True):
        assert torch.allclose(layer(inputs), expected, atol=1e-6)


# --- which way ------------------------------------------------------------------------------------


def test_it_pays_as_far_as_the_products_of_the_backward_pass_outweigh_what_it_costs() -> None:
    inputs = torch.rand(128, 256)
    shallow = Learner(nn.Sequential(nn.Linear(256, 256), nn.Linear(256, 2)), Recipe())
    deep_one = Learner(nn.Sequential(*(nn.Linear(256, 256) for _ in range(12))), Recipe())
    products = 2 * 128 * 256 * 256
    small = 2 * 128 * 256 * 2
    pair = Learner(nn.Sequential(nn.Linear(256, 256), nn.Linear(256, 256)), Recipe())
    assert products + 2 * small < OVERHEAD
    assert break_even(shallow, inputs) == 0
    assert break_even(pair, inputs) == pytest.approx(1 - OVERHEAD / (3 * products))
    assert break_even(deep_one, inputs) == WORTH


def test_batch_norm_costs_more_and_takes_some_of_the_others_along() -> None:
    inputs, products = torch.rand(128, 512), 2 * 128 * 512 * 512

    def limit(norms: int) -> float:
        layers = [(nn.Linear(512, 512), nn.BatchNorm1d(512)) for _ in range(norms)]
        last = nn.Linear(512, 512)
        return break_even(Learner(nn.Sequential(*chain(*layers), last), Recipe()), inputs)

    worth = 1 - 3 * OVERHEAD / (5 * products)
    assert limit(2) + (1 - limit(2)) / STANDING_FOR == pytest.approx(min(WORTH, worth))
    assert limit(SHALLOW) > 0
    assert limit(SHALLOW + 1) == 0


def test_small_networks_take_all_samples() -> None:
    assert break_even(learner(), random_batch(0, ROWS, FEATURES, CLASSES).inputs) == 0
    table = Learner(nn.Sequential(nn.Embedding(4, 4), nn.Flatten()), Recipe())
    assert break_even(table, torch.zeros(8, 1, dtype=torch.long)) == 0


def test_finding_out_leaves_no_trace() -> None:
    one = Learner(nn.Sequential(deep(norm=True), nn.Dropout(0.5)), Recipe())
    before = copy.deepcopy(one.network.state_dict())
    chance = torch.get_rng_state()
    break_even(one, random_batch(0, ROWS, FEATURES, CLASSES).inputs)
    assert torch.get_rng_state().equal(chance)
    assert all(value.equal(before[name]) for name, value in one.network.state_dict().items())
    assert all(parameter.grad is None for parameter in one.parameters)


def wide_passes(*, norm: bool = False) -> tuple[Passes, Batch]:
    one = learner(width=1024, norm=norm)
    return Passes(one, "auto"), random_batch(0, 60, FEATURES, CLASSES)


def selects(passes: Passes, batch: Batch, weight: Tensor) -> bool:
    """Make a step; whether it left samples out."""
    selected = passes.selects(batch.inputs)
    step(passes, batch, weight)
    return selected


def test_auto_goes_by_the_fraction_of_the_last_steps() -> None:
    passes, batch = wide_passes()
    few, all_of_them = some(60, kept=6), some(60, kept=60)
    assert not any(selects(passes, batch, all_of_them) for _ in range(2 * GLANCE))
    taken = [selects(passes, batch, few) for _ in range(3 * GLANCE)]
    assert not taken[0]
    assert taken[-1]
    assert taken == sorted(taken)  # once it pays, it pays for all further ones
    back = [selects(passes, batch, all_of_them) for _ in range(8)]
    assert back[0]
    assert not back[-1]


def test_auto_leaves_samples_out_with_batch_norm_too() -> None:
    passes, batch = wide_passes(norm=True)
    few = some(60, kept=6)
    taken = [selects(passes, batch, few) for _ in range(3 * GLANCE)]
    assert taken[-1]


def test_auto_goes_on_as_it_would_have_without_a_stop() -> None:
    (whole, batch), (first, _) = wide_passes(), wide_passes()
    few = some(60, kept=6)
    expected = [selects(whole, batch, few) for _ in range(3 * GLANCE)]
    begun = [selects(first, batch, few) for _ in range(GLANCE + 3)]
    second = Passes(first._learner, "auto")
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    ended = [selects(second, batch, few) for _ in range(3 * GLANCE - len(begun))]
    assert begun + ended == expected
    assert len(set(expected)) == 2
    one, other = (weights(passes._learner.network) for passes in (whole, second))
    assert all(a.equal(b) for a, b in zip(one, other, strict=True))


@selecting
def test_a_way_that_does_not_exist_is_refused(kind: type[Any]) -> None:
    assert kind().backward == "auto"
    with pytest.raises(LabelNoiseError, match="did you mean 'selected'"):
        kind(backward="select")
    assert BACKWARD == ("auto", "full", "selected")
