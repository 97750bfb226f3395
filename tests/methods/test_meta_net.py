"""Meta-Net against its meta-gradient's formula, finite differences, and steps written out."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from labelnoise import Batch, Learner
from labelnoise.data.train import Train
from labelnoise.learner import Recipe
from labelnoise.methods.meta_net import MetaNet, weight_net

from .meta import (
    CLASSES,
    FEATURES,
    LR,
    ROWS,
    batch,
    frozen,
    mlp,
    problem,
    trainable,
    trusted_set,
    trusted_train,
    with_norm,
)
from .small import largest_difference, set_up, weights

# --- networks and a small problem -----------------------------------------------------------------


NETS: tuple[Callable[[], nn.Module], ...] = (mlp, with_norm, frozen)


def found_gradient(method: MetaNet) -> list[Tensor]:
    """V's gradient of the step just made."""
    found = [parameter.grad for parameter in method.weight_net.parameters()]
    return [gradient.clone() for gradient in found if gradient is not None]


# --- references -----------------------------------------------------------------------------------


def slow_weight(parameters: list[Tensor], loss: float) -> Tensor:
    """V of one loss, one hidden unit after the other."""
    inner, inner_bias, outer, outer_bias = parameters
    total = outer_bias[0]
    for unit in range(len(inner)):
        before = inner[unit, 0] * loss + inner_bias[unit]
        total = total + outer[0, unit] * torch.clamp(before, min=0)
    return 1 / (1 + torch.exp(-total))


def sample_gradients(module: nn.Module, made: Batch) -> tuple[list[float], list[list[Tensor]]]:
    """The loss of every sample and its gradient, one after the other."""
    module = copy.deepcopy(module).train()
    losses, gradients = [], []
    for i in range(len(made.labels)):
        scores = module(made.inputs)  # of the whole batch, which BatchNorm ties together
        own = functional.cross_entropy(scores[i : i + 1], made.labels[i : i + 1])
        gradients.append(list(torch.autograd.grad(own, list(trainable(module).values()))))
        losses.append(float(own.detach()))
    return losses, gradients


def virtual(module: nn.Module, step: list[Tensor], alpha: float) -> nn.Module:
    """A copy of the network after a step of plain SGD."""
    moved = copy.deepcopy(module).train()
    with torch.no_grad():
        for parameter, slope in zip(trainable(moved).values(), step, strict=True):
            parameter.sub_(alpha * slope)
    return moved


def slow_meta_gradient(
    module: nn.Module, theta: list[Tensor], made: Batch, trusted: Train, alpha: float
) -> list[Tensor]:
    """-(alpha/m) sum_i <grad L_meta(theta_hat), grad l_i(theta)> dV(l_i)/dTheta."""
    losses, gradients = sample_gradients(module, made)
    rows = len(losses)
    theta = [part.detach().clone().requires_grad_() for part in theta]
    values = [slow_weight(theta, loss) for loss in losses]
    step = [
        sum((v.detach() * g for v, g in zip(values, parts, strict=True)), parts[0] * 0) / rows
        for parts in zip(*gradients, strict=True)
    ]
    ahead = virtual(module, step, alpha)
    meta_loss = functional.cross_entropy(ahead(trusted.inputs), trusted.labels)
    meta = torch.autograd.grad(meta_loss, list(trainable(ahead).values()))
    total = [torch.zeros_like(part) for part in theta]
    for value, own in zip(values, gradients, strict=True):
        product = sum(float((a * b).sum()) for a, b in zip(meta, own, strict=True))
        for place, slope in enumerate(torch.autograd.grad(value, theta)):
            total[place] = total[place] - alpha / rows * product * slope
    return total


def meta_loss_of(
    module: nn.Module, theta: list[Tensor], made: Batch, trusted: Train, alpha: float
) -> float:
    """L_meta after the virtual step under V with parameters `theta`: a function of theta alone."""
    module = copy.deepcopy(module).train()
    losses = functional.cross_entropy(module(made.inputs), made.labels, reduction="none")
    value = torch.stack([slow_weight(theta, float(loss)) for loss in losses.detach()])
    parameters = list(trainable(module).values())
    step = list(torch.autograd.grad((value * losses).mean(), parameters))
    ahead = virtual(module, step, alpha)
    loss = functional.cross_entropy(ahead(trusted.inputs), trusted.labels)
    return float(loss.detach())


# --- V --------------------------------------------------------------------------------------------


def test_v_is_one_hidden_layer_of_rectified_units_under_a_sigmoid() -> None:
    net = weight_net(7).double()
    assert [tuple(p.shape) for p in net.parameters()] == [(7, 1), (7,), (1, 7), (1,)]
    losses = torch.linspace(0, 8, 9, dtype=torch.float64)
    expected = [float(slow_weight(weights(net), float(loss))) for loss in losses]
    found = net(losses[:, None])
    assert found.shape == (9,)
    assert found.tolist() == pytest.approx(expected, abs=1e-12)
    assert all(0 < value < 1 for value in expected)


def test_the_defaults_are_the_methods_own() -> None:
    method = set_up(MetaNet(), problem())
    assert len(weights(method.weight_net)[0]) == 100
    (group,) = method.weight_optimiser.param_groups
    assert (group["lr"], group["weight_decay"]) == (1e-3, 1e-4)


def test_v_is_initialised_from_the_problems_seed_and_nothing_else() -> None:
    found = []
    for seed, global_seed in ((0, 1), (0, 2), (1, 1)):
        torch.manual_seed(global_seed)
        told = problem(lambda: nn.Linear(FEATURES, CLASSES), seed=seed)
        found.append(weights(set_up(MetaNet(), told).weight_net))
    assert largest_difference(found[0], found[1]) == 0
    assert largest_difference(found[0], found[2]) > 0.01


def test_setting_up_v_leaves_the_callers_chance_alone() -> None:
    network = mlp()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    set_up(MetaNet(), problem(lambda: network))
    assert torch.get_rng_state().equal(before)


# --- the meta-gradient ----------------------------------------------------------------------------


@pytest.mark.parametrize("inner_lr", [None, 0.02, 2.0])
@pytest.mark.parametrize("build", NETS)
def test_the_meta_gradient_equals_the_formula(
    build: Callable[[], nn.Module], inner_lr: float | None
) -> None:
    trusted = trusted_train()
    method = set_up(MetaNet(hidden=4, inner_lr=inner_lr), problem(build, trusted))
    alpha = LR if inner_lr is None else inner_lr
    for seed in range(2):
        made = batch(seed)
        module, theta = copy.deepcopy(method.learner.network), weights(method.weight_net)
        expected = slow_meta_gradient(module, theta, made, trusted, alpha)
        method.step(made)
        found = found_gradient(method)
        assert max(float(part.abs().max()) for part in expected) > 1e-5
        assert largest_difference(found, expected) <= 1e-12


@pytest.mark.parametrize("build", NETS)
def test_the_meta_gradient_equals_finite_differences(build: Callable[[], nn.Module]) -> None:
    trusted, made = trusted_train(), batch()
    method = set_up(MetaNet(hidden=3, inner_lr=1.0), problem(build, trusted))
    module, theta = copy.deepcopy(method.learner.network), weights(method.weight_net)
    method.step(made)
    for place, gradient in enumerate(found_gradient(method)):
        for entry in range(gradient.numel()):
            losses = []
            for nudge in (1e-5, -1e-5):
                moved = [part.clone() for part in theta]
                moved[place].view(-1)[entry] += nudge
                losses.append(meta_loss_of(module, moved, made, trusted, alpha=1.0))
            difference = (losses[0] - losses[1]) / 2e-5
            assert float(gradient.flatten()[entry]) == pytest.approx(difference, abs=1e-9)


# --- the step -------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", NETS)
def test_steps_equal_the_reference_written_out(build: Callable[[], nn.Module]) -> None:
    """AdamW on V by its formula, SGD with momentum on the main network by its."""
    trusted, decay, meta_lr = trusted_train(), 0.05, 0.02
    method = set_up(
        MetaNet(hidden=4, meta_lr=meta_lr, meta_decay=decay, inner_lr=0.5), problem(build, trusted)
    )
    module, theta = build(), weights(method.weight_net)
    first = [torch.zeros_like(part) for part in theta]
    second = [torch.zeros_like(part) for part in theta]
    momentum = [torch.zeros_like(p) for p in trainable(module).values()]
    for number in range(1, 5):
        made = batch(number)
        gradient = slow_meta_gradient(module, theta, made, trusted, alpha=0.5)
        for place, slope in enumerate(gradient):
            first[place] = 0.9 * first[place] + 0.1 * slope
            second[place] = 0.999 * second[place] + 0.001 * slope**2
            mean = first[place] / (1 - 0.9**number)
            deviation = (second[place] / (1 - 0.999**number)).sqrt()
            theta[place] = (1 - meta_lr * decay) * theta[place] - meta_lr * mean / (
                deviation + 1e-8
            )
        losses, gradients = sample_gradients(module, made)
        value = [float(slow_weight(theta, loss)) for loss in losses]  # by the new V
        slopes = [
            sum((v * g for v, g in zip(value, parts, strict=True)), parts[0] * 0) / ROWS
            for parts in zip(*gradients, strict=True)
        ]
        momentum = [0.9 * m + s for m, s in zip(momentum, slopes, strict=True)]
        module.train()(made.inputs)  # moves the running statistics
        with torch.no_grad():
            for parameter, step in zip(trainable(module).values(), momentum, strict=True):
                parameter.sub_(LR * step)

        done = method.step(made)
        assert done.index is made.index
        assert done.weight.tolist() == pytest.approx(value, abs=1e-9)
        total = math.fsum(v * loss for v, loss in zip(value, losses, strict=True)) / ROWS
        assert float(done.loss) == pytest.approx(total, abs=1e-9)
        assert largest_difference(weights(method.weight_net), theta) <= 1e-9
        found, expected = method.learner.network.state_dict(), module.state_dict()
        assert all(torch.allclose(found[k], expected[k], rtol=0, atol=1e-9) for k in expected)


def test_worked_example_of_a_step() -> None:
    """All probabilities are 1/2, all losses log 2, and V with one unit gives them 2/3."""

    def indifferent() -> nn.Linear:
        network = nn.Linear(2, 2, bias=False, dtype=torch.float64)
        nn.init.zeros_(network.weight)
        return network

    one = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    trusted = trusted_set(one, torch.tensor([0]), batch_size=1)
    method = set_up(
        MetaNet(hidden=1, inner_lr=6.0, meta_lr=0.1, meta_decay=0.0),
        problem(indifferent, trusted, lr=1.0),
    )
    with torch.no_grad():
        for parameter, value in zip(method.weight_net.parameters(), (1, 0, 1, 0), strict=True):
            parameter.fill_(value)
    inputs = torch.eye(2, dtype=torch.float64)
    step = method.step(Batch((inputs,), torch.tensor([0, 0]), torch.arange(2), time=0.0))
    # The virtual step: 6 * (1/2) * (2/3) * (+-1/2) makes the weights +-1, the trusted logits 1 and
    # -1, so that 1 - p = 0.119203. Sample 0 agrees with it by 0.119203, sample 1 by 0; dV is
    # (2/3)(1/3) by the outer bias: -(6/2) * 0.119203 * 2/9 = -0.079469, the others times log 2.
    by_bias = -3 * 0.11920292202211755 * 2 / 9
    by_weight = by_bias * math.log(2)
    found = [float(part) for part in found_gradient(method)]
    assert found == pytest.approx([by_weight, by_bias, by_weight, by_bias], abs=1e-12)
    # Adam's first step is 0.1 against each sign: V is now sigmoid(1.1 * (1.1 log 2 + .1) + .1).
    assert [float(part) for part in weights(method.weight_net)] == pytest.approx(
        [1.1, 0.1, 1.1, 0.1], abs=1e-6
    )
    weight = 1 / (1 + math.exp(-(1.1 * (1.1 * math.log(2) + 0.1) + 0.1)))  # 0.740522
    assert step.weight.tolist() == pytest.approx([weight, weight], abs=1e-6)
    assert float(step.loss) == pytest.approx(weight * math.log(2), abs=1e-6)
    after = weights(method.learner.network)[0]
    assert after[0].tolist() == pytest.approx([weight / 4, weight / 4], abs=1e-6)
    assert after[1].tolist() == pytest.approx([-weight / 4, -weight / 4], abs=1e-6)


@pytest.mark.parametrize("optimiser", ["adam", "adamw", "sgd"])
def test_with_any_optimiser_the_step_is_one_on_the_weighted_mean(optimiser: str) -> None:
    recipe: dict[str, Any] = {"optimiser": optimiser, "lr": 0.01, "weight_decay": 0.1}
    method = set_up(MetaNet(), problem(mlp, **recipe))
    alone = Learner(mlp(), Recipe(schedule="constant", **recipe))
    for seed in range(4):
        made = batch(seed)
        weight = method.step(made).weight
        losses = functional.cross_entropy(alone.logits(made.inputs), made.labels, reduction="none")
        alone.descend((weight * losses).sum() / ROWS)
        now = weights(method.learner.network)
        assert largest_difference(now, weights(alone.network)) <= 1e-9


def test_the_virtual_step_follows_the_learning_rate_of_the_moment() -> None:
    trusted = trusted_train()
    told = problem(mlp, trusted, schedule="cosine", epochs=4)
    method = set_up(MetaNet(hidden=4), told)
    for seed in range(3):
        made = batch(seed)
        module, theta = copy.deepcopy(method.learner.network), weights(method.weight_net)
        rate = LR * (1 + math.cos(math.pi * seed / 4)) / 2
        expected = slow_meta_gradient(module, theta, made, trusted, rate)
        method.step(made)
        assert largest_difference(found_gradient(method), expected) <= 1e-12
        method.learner.advance(1.0)


# --- what V learns --------------------------------------------------------------------------------


def test_v_learns_to_weigh_small_losses_more_where_large_ones_are_wrong() -> None:
    """A third of the labels is wrong and the network is good: large losses mislead."""
    chance = torch.Generator().manual_seed(0)
    centres = 3 * torch.eye(CLASSES, FEATURES, dtype=torch.float64)

    def samples(rows: int) -> tuple[Tensor, Tensor]:
        truth = torch.arange(rows) % CLASSES
        return centres[truth] + 0.5 * torch.randn(rows, FEATURES, generator=chance), truth

    inputs, truth = samples(40)
    trusted = trusted_set(inputs, truth, batch_size=40)
    method = set_up(MetaNet(meta_lr=0.02, inner_lr=1.0), problem(mlp, trusted, lr=0.01))
    for _ in range(100):
        inputs, truth = samples(60)
        scores = method.learner.logits(inputs)
        method.learner.descend(functional.cross_entropy(scores, truth))
    for _ in range(40):
        inputs, truth = samples(60)
        labels = torch.where(torch.arange(60) % 3 == 0, (truth + 1) % CLASSES, truth)
        step = method.step(Batch((inputs,), labels, torch.arange(60), time=0.0))
    wrong = torch.arange(60) % 3 == 0
    assert float(step.weight[wrong].mean()) < 0.5 * float(step.weight[~wrong].mean())


# --- BatchNorm, graphs, state ---------------------------------------------------------------------


def test_the_virtual_network_normalises_trusted_samples_by_their_own_batch() -> None:
    trusted, made = trusted_train(), batch()
    method = set_up(MetaNet(hidden=3, inner_lr=1.0), problem(with_norm, trusted))
    module, theta = copy.deepcopy(method.learner.network), weights(method.weight_net)
    with torch.no_grad():
        for buffer in method.learner.network.buffers():
            buffer.mul_(7)  # running statistics have no say in training
    method.step(made)
    expected = slow_meta_gradient(module, theta, made, trusted, alpha=1.0)
    assert largest_difference(found_gradient(method), expected) <= 1e-12


def test_it_takes_as_many_trusted_samples_a_step_as_it_is_told() -> None:
    trusted = trusted_train()
    method = set_up(MetaNet(hidden=4, trusted_batch=4), problem(mlp, trusted))
    for drawn in itertools.islice(trusted.forever(4), 4):
        part = Train(trusted.inputs[drawn.index], drawn.labels, trusted.scaling, 4, seed=0)
        module, theta = copy.deepcopy(method.learner.network), weights(method.weight_net)
        made = batch(int(drawn.index[0]))
        expected = slow_meta_gradient(module, theta, made, part, LR)
        method.step(made)
        assert largest_difference(found_gradient(method), expected) <= 1e-12


def test_v_its_optimiser_and_the_place_in_the_trusted_set_are_part_of_the_state() -> None:
    whole = set_up(MetaNet(trusted_batch=3), problem(mlp))
    resumed = set_up(MetaNet(trusted_batch=3), problem(with_other_start, seed=5))
    for seed in range(5):
        whole.step(batch(seed))
    state = copy.deepcopy(whole.state_dict())
    assert set(state) == {"learner", "trusted", "weight_net", "weight_optimiser"}
    assert state["trusted"] == {"drawn": 5}
    resumed.load_state_dict(state)
    for seed in range(5, 9):
        assert whole.step(batch(seed)).weight.equal(resumed.step(batch(seed)).weight)
    assert largest_difference(*(weights(m.weight_net) for m in (whole, resumed))) == 0
    assert whole.learners() == [whole.learner]  # V is none: it neither predicts nor has a schedule


def with_other_start() -> nn.Module:
    made = mlp()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3)
    return made


def test_neither_network_keeps_a_gradient_of_the_others_step() -> None:
    """V's weights are constants of the real step; the real step's gradient is no part of V's."""
    method = set_up(MetaNet(hidden=3), problem(mlp))
    made = batch()
    before = copy.deepcopy(method.learner.network)
    step = method.step(made)
    losses = functional.cross_entropy(before(made.inputs), made.labels, reduction="none")
    expected = torch.autograd.grad((step.weight * losses).mean(), list(before.parameters()))
    found = [p.grad for p in method.learner.parameters]
    for gradient, other in zip(found, expected, strict=True):
        assert gradient is not None
        assert torch.allclose(gradient, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_v_is_never_narrower_than_single_precision(dtype: torch.dtype) -> None:
    method = set_up(MetaNet(), problem(lambda: mlp().to(dtype)))
    assert {p.dtype for p in method.weight_net.parameters()} == {torch.float32}
