"""Meta-Ren against its literal definition, per-sample gradients, and a slow reference in NumPy."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from torch.func import functional_call

from labelnoise import Batch, Learner
from labelnoise.data.train import Train
from labelnoise.learner import Recipe
from labelnoise.methods.meta_ren import MetaRen, slopes

from .meta import (
    ROWS,
    TRUSTED,
    batch,
    frozen,
    linear,
    mlp,
    problem,
    trainable,
    trusted_set,
    trusted_train,
    with_norm,
)
from .regression import Array
from .small import largest_difference, set_up, weights

# --- networks and a small problem -----------------------------------------------------------------


NETS: tuple[Callable[[], nn.Module], ...] = (linear, mlp, with_norm, frozen)


# --- references -----------------------------------------------------------------------------------


def by_inner_products(module: nn.Module, made: Batch, trusted: Train) -> list[float]:
    """<grad l_i, grad L_trusted>, clipped and normalised, one sample after the other."""
    module = copy.deepcopy(module).train()
    parameters = list(trainable(module).values())
    loss = functional.cross_entropy(module(trusted.inputs), trusted.labels)
    direction = torch.autograd.grad(loss, parameters)
    found = []
    for i in range(len(made.labels)):
        scores = module(made.inputs)  # of the whole batch, which BatchNorm ties together
        own = functional.cross_entropy(scores[i : i + 1], made.labels[i : i + 1])
        gradient = torch.autograd.grad(own, parameters)
        product = sum(float((a * b).sum()) for a, b in zip(gradient, direction, strict=True))
        found.append(max(product, 0.0))
    total = math.fsum(found)
    return [value / total if total else 0.0 for value in found]


def by_definition(module: nn.Module, made: Batch, trusted: Train, alpha: float) -> list[float]:
    """-dL_trusted(theta - alpha * sum eps_i grad l_i) / d eps_i at eps = 0, by second order."""
    module = copy.deepcopy(module).train()
    epsilon = torch.zeros(len(made.labels), dtype=torch.float64, requires_grad=True)
    losses = functional.cross_entropy(module(made.inputs), made.labels, reduction="none")
    parameters = trainable(module)
    gradients = torch.autograd.grad(
        (epsilon * losses).sum(), list(parameters.values()), create_graph=True
    )
    moved = {
        name: parameter - alpha * gradient
        for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True)
    }
    scores = functional_call(module, moved, (trusted.inputs,))
    (found,) = torch.autograd.grad(functional.cross_entropy(scores, trusted.labels), epsilon)
    raw = [max(-float(value), 0.0) for value in found]
    total = math.fsum(raw)
    return [value / (total + float(total == 0)) for value in raw]


def weighted_gradient(module: nn.Module, made: Batch, weight: list[float]) -> list[Tensor]:
    """Of sum w_i l_i, a sum and not a mean."""
    module = copy.deepcopy(module).train()
    losses = functional.cross_entropy(module(made.inputs), made.labels, reduction="none")
    loss = sum((w * one for w, one in zip(weight, losses, strict=True)), losses.sum() * 0)
    return list(torch.autograd.grad(loss, list(trainable(module).values())))


# --- the step against the references --------------------------------------------------------------


@pytest.mark.parametrize("build", NETS)
def test_weights_and_step_equal_per_sample_inner_products(build: Callable[[], nn.Module]) -> None:
    trusted = trusted_train()
    method = set_up(MetaRen(), problem(build, trusted))
    for seed in range(4):
        made = batch(seed)
        before = copy.deepcopy(method.learner.network)
        moving = method.learner.optimiser.state
        momentum = [
            moving[p]["momentum_buffer"].clone() if p in moving else torch.zeros_like(p)
            for p in method.learner.parameters
        ]
        expected = by_inner_products(before, made, trusted)
        assert 0 < sum(value == 0 for value in expected) < ROWS
        step = method.step(made)
        assert step.index is made.index
        assert step.weight.tolist() == pytest.approx(expected, abs=1e-12)
        losses = functional.cross_entropy(
            copy.deepcopy(before).train()(made.inputs), made.labels, reduction="none"
        ).tolist()
        total = math.fsum(w * loss for w, loss in zip(expected, losses, strict=True))
        assert float(step.loss) == pytest.approx(total, abs=1e-12)
        gradients = weighted_gradient(before, made, expected)
        started = [p.detach() for p in trainable(before).values()]
        after = [
            p - 0.1 * (0.9 * m + g) for p, m, g in zip(started, momentum, gradients, strict=True)
        ]
        now = [p.detach() for p in trainable(method.learner.network).values()]
        assert largest_difference(now, after) <= 1e-12


@pytest.mark.parametrize("alpha", [1e-3, 2e-3, 1.0, 10.0])
@pytest.mark.parametrize("build", NETS)
def test_weights_equal_the_literal_definition_whatever_the_length_of_the_virtual_step(
    build: Callable[[], nn.Module], alpha: float
) -> None:
    trusted, made = trusted_train(), batch()
    expected = by_definition(build(), made, trusted, alpha)
    step = set_up(MetaRen(), problem(build, trusted)).step(made)
    assert step.weight.tolist() == pytest.approx(expected, abs=1e-10)
    assert math.fsum(expected) == pytest.approx(1)


def test_weights_and_step_equal_numpy_loops_on_softmax_regression() -> None:
    """<grad l_i, G> = sum over classes of (p_i - y_i) * (G x_i + g), G and g of the trusted set."""
    trusted, made, start = trusted_train(), batch(), linear()
    weight, bias = start.weight.detach().numpy(), start.bias.detach().numpy()

    def errors(inputs: Tensor, labels: Tensor) -> list[Array]:
        found = []
        for x, y in zip(inputs.numpy(), labels.tolist(), strict=True):
            unnormalised = np.exp(weight @ x + bias)
            error: Array = unnormalised / unnormalised.sum()
            error[y] -= 1
            found.append(error)
        return found

    trusted_errors = errors(trusted.inputs, trusted.labels)
    pairs = list(zip(trusted_errors, trusted.inputs.numpy(), strict=True))
    direction = sum(np.outer(error, x) for error, x in pairs) / TRUSTED
    direction_bias = sum(trusted_errors) / TRUSTED
    own = errors(made.inputs, made.labels)
    raw = [
        max(float(error @ (direction @ x + direction_bias)), 0.0)
        for error, x in zip(own, made.inputs.numpy(), strict=True)
    ]
    expected = [value / math.fsum(raw) for value in raw]
    shares = list(zip(expected, own, made.inputs.numpy(), strict=True))
    step_weight = weight - 0.1 * sum(w * np.outer(error, x) for w, error, x in shares)
    step_bias = bias - 0.1 * sum(w * error for w, error, _ in shares)

    method = set_up(MetaRen(), problem(linear, trusted))
    step = method.step(made)
    assert step.weight.tolist() == pytest.approx(expected, abs=1e-12)
    found = method.learner.network.state_dict()
    assert np.allclose(found["weight"].numpy(), step_weight, rtol=0, atol=1e-12)
    assert np.allclose(found["bias"].numpy(), step_bias, rtol=0, atol=1e-12)


# --- a worked example, with its numbers -----------------------------------------------------------


def indifferent() -> nn.Linear:
    network = nn.Linear(2, 2, bias=False, dtype=torch.float64)
    nn.init.zeros_(network.weight)
    return network


def one_trusted(label: int = 0) -> Train:
    inputs = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    return trusted_set(inputs, torch.tensor([label]), batch_size=1)


EXAMPLE = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [3.0, 0.0]], dtype=torch.float64)


def test_worked_example_of_a_step() -> None:
    """All probabilities are 1/2; the trusted sample is (1, 0) of class 0."""
    method = set_up(MetaRen(), problem(indifferent, one_trusted(), lr=1.0))
    labels = torch.tensor([0, 1, 0, 0])
    step = method.step(Batch((EXAMPLE,), labels, torch.arange(4), time=0.0))
    # Its gradient is ((-.5, 0), (.5, 0)); with it those of the samples make .5, -.5, 0 and 1.5.
    assert step.weight.tolist() == pytest.approx([0.25, 0, 0, 0.75])
    assert float(step.loss) == pytest.approx(math.log(2))
    # .25 * (-.5) * 1 + .75 * (-.5) * 3 = -1.25
    network = method.learner.network
    assert isinstance(network, nn.Linear)
    assert network.weight.grad is not None
    assert network.weight.grad.flatten().tolist() == pytest.approx([-1.25, 0, 1.25, 0])
    assert network.weight.flatten().tolist() == pytest.approx([1.25, 0, -1.25, 0])


def test_slopes_with_numbers() -> None:
    log_probs = torch.tensor([[0.7, 0.2, 0.1], [0.7, 0.2, 0.1]]).log()
    drift = torch.tensor([[1.0, -1.0, 2.0], [1.0, -1.0, 2.0]])
    # The mean of the drift is .7 - .2 + .2 = .7; the cross-entropy of class c falls by drift_c.
    found = slopes(log_probs, torch.tensor([0, 1]), drift)
    assert found.tolist() == pytest.approx([-0.3, 1.7])


def test_slopes_are_the_derivative_of_cross_entropy() -> None:
    chance = torch.Generator().manual_seed(0)
    logits, drift = torch.randn(2, 20, 5, generator=chance, dtype=torch.float64)
    labels = torch.randint(5, (20,), generator=chance)

    def losses(length: float) -> Tensor:
        return functional.cross_entropy(logits + length * drift, labels, reduction="none")

    expected = (losses(1e-5) - losses(-1e-5)) / 2e-5
    assert torch.allclose(slopes(logits.log_softmax(dim=1), labels, drift), expected, atol=1e-8)


# --- invariants -----------------------------------------------------------------------------------


def test_weights_are_a_distribution() -> None:
    method = set_up(MetaRen(), problem(mlp))
    for seed in range(6):
        step = method.step(batch(seed))
        assert (step.weight >= 0).all()
        assert float(step.weight.sum()) == pytest.approx(1, abs=1e-12)


def test_the_order_of_the_batch_does_not_matter() -> None:
    made, order = batch(), torch.randperm(ROWS, generator=torch.Generator().manual_seed(1))
    moved = Batch((made.inputs[order],), made.labels[order], made.index[order], time=0.0)
    one, other = (set_up(MetaRen(), problem(with_norm)).step(b) for b in (made, moved))
    assert torch.allclose(one.weight[order], other.weight, rtol=0, atol=1e-12)


@pytest.mark.parametrize("optimiser", ["adam", "adamw", "sgd"])
def test_with_any_optimiser_the_step_is_one_on_the_weighted_sum(optimiser: str) -> None:
    trusted = trusted_train()
    recipe: dict[str, Any] = {"optimiser": optimiser, "lr": 0.01, "weight_decay": 0.1}
    method = set_up(MetaRen(), problem(mlp, trusted, **recipe))
    alone = Learner(mlp(), Recipe(schedule="constant", **recipe))
    for seed in range(4):
        made = batch(seed)
        weight = torch.tensor(by_inner_products(alone.network, made, trusted), dtype=torch.float64)
        losses = functional.cross_entropy(alone.logits(made.inputs), made.labels, reduction="none")
        alone.descend((weight * losses).sum())
        method.step(made)
        now = weights(method.learner.network)
        assert largest_difference(now, weights(alone.network)) <= 1e-9


# --- when nothing agrees --------------------------------------------------------------------------


def test_if_all_samples_pull_the_other_way_nothing_is_learned() -> None:
    method = set_up(MetaRen(), problem(indifferent, one_trusted()))
    step = method.step(Batch((EXAMPLE[:2],), torch.tensor([1, 1]), torch.arange(2), time=0.0))
    assert step.weight.tolist() == [0, 0]
    assert float(step.loss) == 0
    assert weights(method.learner.network)[0].tolist() == [[0, 0], [0, 0]]


def test_then_adam_still_moves_by_its_moments() -> None:
    told = problem(indifferent, one_trusted(), optimiser="adam", lr=0.1)
    method = set_up(MetaRen(), told)
    method.step(Batch((EXAMPLE[:2],), torch.tensor([0, 0]), torch.arange(2), time=0.0))
    before = weights(method.learner.network)
    step = method.step(Batch((EXAMPLE[:2],), torch.tensor([1, 1]), torch.arange(2), time=0.0))
    assert step.weight.tolist() == [0, 0]
    assert largest_difference(weights(method.learner.network), before) > 0.01


def test_weights_whose_sum_is_tiny_are_still_normalised() -> None:
    """The trusted sample is as good as certain: its gradient is about e^-50."""

    def certain() -> nn.Linear:
        network = nn.Linear(2, 2, bias=False, dtype=torch.float64)
        with torch.no_grad():
            network.weight.copy_(torch.tensor([[25.0, 0.0], [-25.0, 0.0]]))
        return network

    method = set_up(MetaRen(), problem(certain, one_trusted()))
    inputs = torch.tensor([[0.01, 0.0], [0.02, 1.0], [-0.01, 0.0]], dtype=torch.float64)
    step = method.step(Batch((inputs,), torch.tensor([0, 0, 0]), torch.arange(3), time=0.0))
    assert float(step.weight.sum()) == pytest.approx(1, abs=1e-12)
    assert float(step.weight[2]) == 0
    assert float(step.loss) > 0.1


# --- the trusted set ------------------------------------------------------------------------------


def test_it_takes_as_many_trusted_samples_a_step_as_it_is_told() -> None:
    trusted = trusted_train()
    method = set_up(MetaRen(trusted_batch=4), problem(linear, trusted))
    drawn = [b.index for _, b in zip(range(3), trusted.forever(4), strict=False)]
    for rows in drawn:
        part = Train(trusted.inputs[rows], trusted.labels[rows], trusted.scaling, 4, seed=0)
        made = batch(int(rows[0]))
        expected = by_inner_products(method.learner.network, made, part)
        assert method.step(made).weight.tolist() == pytest.approx(expected, abs=1e-12)


def test_where_it_stands_in_the_trusted_set_is_part_of_its_state() -> None:
    whole, resumed = (set_up(MetaRen(trusted_batch=3), problem(mlp)) for _ in range(2))
    for seed in range(5):
        whole.step(batch(seed))
    resumed.load_state_dict(copy.deepcopy(whole.state_dict()))
    assert whole.state_dict()["trusted"] == {"drawn": 5}
    for seed in range(5, 9):
        assert whole.step(batch(seed)).weight.equal(resumed.step(batch(seed)).weight)
