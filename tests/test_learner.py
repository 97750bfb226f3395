from __future__ import annotations

import copy
import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from labelnoise.errors import LabelNoiseError
from labelnoise.learner import OPTIMISERS, SCHEDULES, Learner, Recipe

INPUTS = torch.randn(12, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.arange(12) % 3


def network(seed: int = 0, *, norm: bool = False) -> nn.Module:
    torch.manual_seed(seed)
    middle = nn.BatchNorm1d(8) if norm else nn.Identity()
    return nn.Sequential(nn.Linear(5, 8), middle, nn.Tanh(), nn.Linear(8, 3)).double()


def learner(seed: int = 0, *, norm: bool = False, **recipe: Any) -> Learner:
    settings = {"optimiser": "sgd", "lr": 0.1, "schedule": "constant", **recipe}
    return Learner(network(seed, norm=norm), Recipe(**settings))


def loss_of(one: Learner) -> Tensor:
    return functional.cross_entropy(one.logits(INPUTS), LABELS)


def snapshot(one: Learner) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in one.network.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(one[name].equal(other[name]) for name in one)


# --- recipes --------------------------------------------------------------------------------------


def test_wrong_names_in_a_recipe_suggest_the_nearest() -> None:
    with pytest.raises(LabelNoiseError, match="did you mean 'adam'"):
        Recipe(optimiser="adm")
    with pytest.raises(LabelNoiseError, match="did you mean 'plateau'"):
        Recipe(schedule="platau")


def test_the_default_recipe_is_the_papers() -> None:
    default = Recipe()
    assert (default.optimiser, default.lr, default.schedule) == ("adam", 2e-4, "plateau")
    assert (default.weight_decay, default.epochs) == (0.0, 200)


# --- forward passes -------------------------------------------------------------------------------


def test_logits_train_and_log_probs_evaluate() -> None:
    one = learner(norm=True)
    before = snapshot(one)
    log_probs = one.log_probs(INPUTS)
    assert not log_probs.requires_grad
    assert same(before, snapshot(one))  # the running statistics stay
    assert torch.allclose(log_probs.exp().sum(dim=1), torch.ones(12, dtype=torch.float64))
    logits = one.logits(INPUTS)
    assert logits.requires_grad
    assert not same(before, snapshot(one))  # the running statistics move
    assert not torch.allclose(logits.log_softmax(dim=1), log_probs)
    assert not one.log_probs(INPUTS).equal(log_probs)


def test_dropout_acts_in_training_alone() -> None:
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 3, dtype=torch.float64))
    one = Learner(module, Recipe(schedule="constant"))
    assert not one.logits(INPUTS).equal(one.logits(INPUTS))
    assert one.log_probs(INPUTS).equal(one.log_probs(INPUTS))


# --- descend --------------------------------------------------------------------------------------


def test_descend_is_one_step_of_the_optimiser() -> None:
    one, other = learner(), network()
    loss = loss_of(one)
    one.descend(loss)
    gradients = torch.autograd.grad(
        functional.cross_entropy(other(INPUTS), LABELS), list(other.parameters())
    )
    for after, parameter, gradient in zip(
        one.network.parameters(), other.parameters(), gradients, strict=True
    ):
        assert torch.allclose(after, parameter - 0.1 * gradient, rtol=0, atol=1e-12)


def test_descend_forgets_the_gradient_of_the_step_before() -> None:
    one = learner()
    for _ in range(3):
        one.descend(loss_of(one))
        expected = torch.autograd.grad(loss_of(one), one.parameters)
        one.descend(loss_of(one))
        for parameter, gradient in zip(one.parameters, expected, strict=True):
            assert parameter.grad is not None
            assert torch.allclose(parameter.grad, gradient, rtol=0, atol=1e-12)


def test_descend_touches_only_its_own_parameters() -> None:
    one, peer = learner(0), learner(1)
    before = snapshot(peer)
    agreement = (one.logits(INPUTS) - peer.logits(INPUTS)).square().mean()
    one.descend(agreement + loss_of(one) + loss_of(peer))
    assert same(before, snapshot(peer))
    assert all(parameter.grad is None for parameter in peer.parameters)
    assert not same(snapshot(one), network(0).state_dict())


def test_descend_leaves_frozen_parameters() -> None:
    module = network()
    first = next(module.parameters())
    first.requires_grad_(False)
    one = Learner(module, Recipe(lr=0.1, schedule="constant"))
    before = snapshot(one)
    one.descend(loss_of(one))
    changed = {name for name, value in snapshot(one).items() if not value.equal(before[name])}
    assert changed == {"0.bias", "3.weight", "3.bias"}


# --- logits along a direction ---------------------------------------------------------------------


class Attention(nn.Module):
    """Self-attention over five tokens of eight numbers, with or without its weights."""

    def __init__(self, *, need_weights: bool) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 3)
        self.need_weights = need_weights

    def forward(self, inputs: Tensor) -> Tensor:
        mixed, _ = self.attend(inputs, inputs, inputs, need_weights=self.need_weights)
        scores: Tensor = self.head(mixed.mean(dim=1))
        return scores


class Recurrent(nn.Module):
    """The last state of a recurrent net over five tokens of eight numbers."""

    def __init__(self, kind: type[nn.GRU] | type[nn.LSTM]) -> None:
        super().__init__()
        self.walk = kind(8, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        states, _ = self.walk(inputs)
        scores: Tensor = self.head(states[:, -1])
        return scores


class Tied(nn.Module):
    """One layer used twice, under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(40, 40)
        self.second = self.first
        self.head = nn.Linear(40, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.head(self.second(self.first(inputs.flatten(1)).tanh()))
        return scores


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 5)),
        nn.Conv2d(1, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 3),
    )


def partly_frozen() -> nn.Module:
    made = nn.Sequential(nn.Flatten(), nn.Linear(40, 9), nn.Tanh(), nn.Linear(9, 3))
    made[1].weight.requires_grad_(False)
    made[3].bias.requires_grad_(False)
    return made


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=12, dropout=0.0, batch_first=True)
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(40, 3))


NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(40, 9), nn.ReLU(), nn.Linear(9, 3)),
    "convolution, batch norm, max pool": convolutional,
    "layer norm, gelu": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(40, 9), nn.LayerNorm(9), nn.GELU(), nn.Linear(9, 3)
    ),
    "partly frozen": partly_frozen,
    "tied": Tied,
    "attention": lambda: Attention(need_weights=True),
    "fused attention": lambda: Attention(need_weights=False),
    "transformer layer": transformer,
    "gru": lambda: Recurrent(nn.GRU),
    "lstm": lambda: Recurrent(nn.LSTM),
}
TOKENS = torch.randn(6, 5, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

every_net = pytest.mark.parametrize("build", NETS.values(), ids=NETS.keys())


def along(
    build: Callable[[], nn.Module], dtype: torch.dtype = torch.float64
) -> tuple[Learner, list[Tensor]]:
    torch.manual_seed(0)
    one = Learner(build().to(dtype), Recipe(optimiser="sgd", lr=0.1, schedule="constant"))
    return one, [torch.randn_like(parameter) for parameter in one.parameters]


def moved(one: Learner, direction: Sequence[Tensor], length: float) -> nn.Module:
    """A copy of the network, in training, its trainable parameters moved along `direction`."""
    network = copy.deepcopy(one.network).train()
    trainable = [parameter for parameter in network.parameters() if parameter.requires_grad]
    with torch.no_grad():
        for parameter, step in zip(trainable, direction, strict=True):
            parameter.add_(step, alpha=length)
    return network


@every_net
def test_logits_along_are_the_logits_and_their_finite_differences(
    build: Callable[[], nn.Module],
) -> None:
    one, direction = along(build)
    alone = copy.deepcopy(one.network).train()
    ahead, behind = (moved(one, direction, length)(TOKENS) for length in (1e-6, -1e-6))
    logits, drift = one.logits_along(TOKENS, direction)
    assert torch.allclose(logits, alone(TOKENS), rtol=0, atol=1e-12)
    expected = (ahead - behind).detach() / 2e-6
    assert float(expected.abs().max()) > 0.1
    assert torch.allclose(drift, expected, rtol=1e-6, atol=1e-7)
    assert same(snapshot(one), alone.state_dict())  # running statistics moved once, and alike


@every_net
def test_logits_along_work_in_single_precision(build: Callable[[], nn.Module]) -> None:
    """Some kernels, such as those of recurrent nets, exist in single precision alone."""
    wide, direction = along(build)
    _, expected = wide.logits_along(TOKENS, direction)
    one, _ = along(build, torch.float32)
    _, drift = one.logits_along(TOKENS.float(), [step.float() for step in direction])
    assert torch.allclose(drift.double(), expected, rtol=1e-3, atol=1e-4)


@every_net
def test_logits_along_carry_the_usual_gradient_and_their_derivative_none(
    build: Callable[[], nn.Module],
) -> None:
    one, direction = along(build)
    labels = torch.arange(6) % 3
    alone = copy.deepcopy(one.network).train()
    logits, drift = one.logits_along(TOKENS, direction)
    assert not drift.requires_grad
    one.descend(functional.cross_entropy(logits, labels))
    trainable = [parameter for parameter in alone.parameters() if parameter.requires_grad]
    expected = torch.autograd.grad(functional.cross_entropy(alone(TOKENS), labels), trainable)
    for parameter, gradient in zip(one.parameters, expected, strict=True):
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad, gradient, rtol=0, atol=1e-12)


@every_net
def test_the_first_time_is_like_every_other(build: Callable[[], nn.Module]) -> None:
    """Whether layers have a forward mode is found out then: dropout is drawn as if it was known.

    A run that goes on finds it out again.
    """
    one, direction = along(build, torch.float32)  # some layers' kernels have none there
    dropping = nn.Sequential(nn.Dropout(0.5), one.network)
    again = Learner(dropping, Recipe(schedule="constant"))
    before = copy.deepcopy(dropping.state_dict())
    found = []
    for _ in range(2):
        dropping.load_state_dict(before)
        torch.manual_seed(0)
        logits, drift = again.logits_along(TOKENS.float(), direction)
        found.append((logits.detach(), drift, torch.get_rng_state()))
    assert all(first.equal(second) for first, second in zip(*found, strict=True))


def test_dropout_masks_the_logits_and_their_derivative_alike() -> None:
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 5, bias=False, dtype=torch.float64))
    one = Learner(module, Recipe(schedule="constant"))
    with torch.no_grad():
        one.parameters[0].copy_(torch.eye(5))
    torch.manual_seed(0)
    logits, drift = one.logits_along(INPUTS, [3 * torch.eye(5, dtype=torch.float64)])
    dropped = logits == 0
    assert 0.2 < float(dropped.double().mean()) < 0.8
    assert torch.allclose(logits[~dropped], 2 * INPUTS[~dropped])
    assert torch.allclose(drift, 3 * logits)
    torch.manual_seed(0)
    assert one.logits(INPUTS).equal(logits)


def test_logits_along_a_direction_without_effect_do_not_change() -> None:
    class Idle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used = nn.Linear(5, 3, dtype=torch.float64).requires_grad_(False)
            self.idle = nn.Linear(5, 3, dtype=torch.float64)

        def forward(self, inputs: Tensor) -> Tensor:
            scores: Tensor = self.used(inputs)
            return scores

    one = Learner(Idle(), Recipe(schedule="constant"))
    logits, drift = one.logits_along(INPUTS, [torch.ones_like(p) for p in one.parameters])
    assert torch.allclose(logits, one.network(INPUTS))
    assert drift.equal(torch.zeros(12, 3, dtype=torch.float64))


def test_logits_along_want_one_tensor_a_parameter() -> None:
    one = learner()
    with pytest.raises(ValueError, match="shorter"):
        one.logits_along(INPUTS, [torch.ones_like(p) for p in one.parameters][:2])


def test_logits_along_train_even_after_an_evaluation() -> None:
    one = learner(norm=True)
    one.log_probs(INPUTS)
    logits, _ = one.logits_along(INPUTS, [torch.ones_like(p) for p in one.parameters])
    assert torch.allclose(logits, network(norm=True).train()(INPUTS), rtol=0, atol=1e-12)


# --- aside and gradient ---------------------------------------------------------------------------


def test_aside_gives_the_logits_of_training_and_leaves_no_trace() -> None:
    one, other = learner(norm=True), network(norm=True)
    one.log_probs(INPUTS)  # leaves the network in evaluation
    before = snapshot(one)
    logits = one.aside(INPUTS)
    assert torch.allclose(logits, other.train()(INPUTS), rtol=0, atol=1e-12)
    assert same(before, snapshot(one))
    one.gradient(functional.cross_entropy(logits, LABELS))
    assert same(before, snapshot(one))
    assert all(parameter.grad is None for parameter in one.parameters)


def test_aside_leaves_no_trace_of_statistics_that_are_not_saved() -> None:
    class Counting(nn.Module):
        seen: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(5, 3, dtype=torch.float64)
            self.register_buffer("seen", torch.zeros(()), persistent=False)

        def forward(self, inputs: Tensor) -> Tensor:
            self.seen += len(inputs)
            scores: Tensor = self.head(inputs)
            return scores

    module = Counting()
    one = Learner(module, Recipe(schedule="constant"))
    one.aside(INPUTS)
    assert float(module.seen) == 0
    one.logits(INPUTS)
    assert float(module.seen) == 12


def test_gradient_is_one_tensor_a_trainable_parameter() -> None:
    module = network()
    next(module.parameters()).requires_grad_(False)
    one = Learner(module, Recipe(schedule="constant"))
    found = one.gradient(loss_of(one))
    assert [g.shape for g in found] == [p.shape for p in one.parameters]
    loss_of(one).backward()  # type: ignore[no-untyped-call]
    for gradient, parameter in zip(found, one.parameters, strict=True):
        assert parameter.grad is not None
        assert torch.allclose(gradient, parameter.grad, rtol=0, atol=1e-12)


def test_gradient_by_a_part_that_is_not_used_is_zero() -> None:
    """`descend` takes such networks, a second head say; a look ahead must, too."""
    module = nn.ModuleList([network(0), network(1)])
    module.forward = module[0].forward
    one = Learner(module, Recipe(optimiser="sgd", lr=0.1, schedule="constant"))
    found = one.gradient(loss_of(one))
    assert [bool((g == 0).all()) for g in found] == [False] * 4 + [True] * 4
    ahead = one.lookahead(loss_of(one), lr=0.5)(INPUTS)
    assert not torch.allclose(ahead, one.logits(INPUTS))


# --- lookahead ------------------------------------------------------------------------------------


def test_lookahead_is_the_forward_pass_after_a_step_of_sgd() -> None:
    one, other = learner(), network()
    ahead = one.lookahead(loss_of(one), lr=0.5)(INPUTS)
    plain = torch.optim.SGD(other.parameters(), lr=0.5)
    functional.cross_entropy(other(INPUTS), LABELS).backward()  # type: ignore[no-untyped-call]
    plain.step()
    assert torch.allclose(ahead, other(INPUTS), rtol=0, atol=1e-12)


def test_lookahead_changes_neither_parameters_nor_buffers() -> None:
    one = learner(norm=True)
    loss = loss_of(one)
    before = snapshot(one)
    ahead = one.lookahead(loss, lr=0.5)
    functional.cross_entropy(ahead(INPUTS), LABELS).backward()  # type: ignore[no-untyped-call]
    assert same(before, snapshot(one))


def test_lookahead_carries_gradients_back_to_the_weights_of_the_samples() -> None:
    """The meta-gradient of every sample's weight, against central differences."""
    one, lr = learner(), 0.5

    def after(weight: Tensor) -> Tensor:
        losses = functional.cross_entropy(one.logits(INPUTS), LABELS, reduction="none")
        ahead = one.lookahead((losses * weight).sum(), lr)
        return functional.cross_entropy(ahead(INPUTS[:4]), LABELS[:4])

    weight = torch.full((12,), 0.1, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(after(weight), weight)
    nudge = 1e-5 * torch.eye(12, dtype=torch.float64)
    for row, gradient in zip(nudge, found, strict=True):
        difference = after(weight.detach() + row) - after(weight.detach() - row)
        assert float(gradient) == pytest.approx(float(difference.detach()) / 2e-5, rel=1e-5)
    assert float(found.abs().max()) > 1e-4


# --- schedules ------------------------------------------------------------------------------------


def rates(one: Learner, validation_losses: list[float]) -> list[float]:
    found = [one.lr]
    for value in validation_losses:
        one.descend(loss_of(one))
        one.advance(value)
        found.append(one.lr)
    return found


def test_plateau_divides_by_ten_after_six_epochs_without_progress_down_to_a_floor() -> None:
    one = learner(optimiser="adam", lr=2e-4, schedule="plateau")
    found = rates(one, [1.0] * 20)
    expected = [2e-4] * 7 + [2e-5] * 6 + [1e-5] * 8
    assert found == pytest.approx(expected)


def test_plateau_waits_while_the_loss_falls() -> None:
    one = learner(lr=2e-4, schedule="plateau")
    assert rates(one, [1.0 - 0.01 * epoch for epoch in range(20)]) == pytest.approx([2e-4] * 21)


def test_cosine_falls_to_zero_over_the_epochs_of_the_recipe() -> None:
    one = learner(lr=0.1, schedule="cosine", epochs=8)
    expected = [0.05 * (1 + math.cos(math.pi * epoch / 8)) for epoch in range(9)]
    assert rates(one, [1.0] * 8) == pytest.approx(expected, abs=1e-12)


def test_constant_stays() -> None:
    assert rates(learner(lr=0.1), [1.0] * 8) == [0.1] * 9


# --- state ----------------------------------------------------------------------------------------


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    stored = io.BytesIO()
    torch.save(state, stored)
    stored.seek(0)
    loaded: dict[str, Any] = torch.load(stored, weights_only=True)
    return loaded


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_a_restored_learner_goes_on_to_the_bit(optimiser: str, schedule: str) -> None:
    recipe: dict[str, Any] = {"optimiser": optimiser, "schedule": schedule, "epochs": 14}
    if schedule == "steps":
        recipe["milestones"] = (3, 6)
    settings = {**recipe, "lr": 0.01, "weight_decay": 1e-3, "norm": True}
    whole = learner(0, **settings)
    rates(whole, [1.0] * 4)
    resumed = learner(1, **settings)
    resumed.load_state_dict(through_a_file(whole.state_dict()))
    assert rates(resumed, [1.0] * 10) == rates(whole, [1.0] * 10)
    assert same(snapshot(whole), snapshot(resumed))


@pytest.mark.parametrize(("decay", "after"), [(0.5, [8, 8, 4, 4, 4, 2, 2]), (1, [8] * 7)])
def test_steps_lower_the_rate_after_their_milestones(decay: float, after: list[float]) -> None:
    recipe = Recipe("sgd", lr=8.0, schedule="steps", milestones=(2, 5), decay=decay)
    made = Learner(torch.nn.Linear(2, 2), recipe)
    found = []
    for _ in range(7):
        found.append(made.lr)
        made.optimiser.step()
        made.advance(0.0)
    assert found == pytest.approx(after)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"schedule": "steps"}, r"'steps' needs the epochs.*milestones"),
        ({"schedule": "cosine", "milestones": (3,)}, r"'cosine' has no milestones.*'steps'"),
    ],
)
def test_steps_and_milestones_go_together(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(LabelNoiseError, match=said):
        Recipe(**wrong)


def test_loading_a_state_copies_it() -> None:
    one, other = learner(0), learner(1)
    one.descend(loss_of(one))
    state = one.state_dict()
    other.load_state_dict(state)
    before = copy.deepcopy(snapshot(one))
    other.descend(loss_of(other))
    assert same(before, snapshot(one))


# --- several mini-batches a step, and fewer digits ------------------------------------------------


def test_mini_batches_that_make_one_step_count_by_their_shares() -> None:
    whole, parts = learner(), learner(accumulate=3)
    weight = torch.linspace(0, 1, 12, dtype=torch.float64)
    losses = functional.cross_entropy(whole.logits(INPUTS), LABELS, reduction="none")
    whole.descend((losses * weight).sum() / weight.sum())
    before = snapshot(parts)
    for part in torch.split(torch.arange(12), [2, 7, 3]):
        assert same(before, snapshot(parts))  # nothing moves before the last one
        logits, own = parts.logits(INPUTS[part]), weight[part]
        losses = functional.cross_entropy(logits, LABELS[part], reduction="none")
        parts.descend((losses * own).sum() / own.sum(), own)
    for name, value in snapshot(parts).items():
        assert torch.allclose(value, snapshot(whole)[name], rtol=0, atol=1e-12), name


def test_what_is_left_over_at_the_end_of_an_epoch_makes_a_step_of_its_own() -> None:
    one, other = learner(), learner(accumulate=4)
    one.descend(loss_of(one))
    other.descend(loss_of(other), 12)
    assert not same(snapshot(one), snapshot(other))
    other.settle()
    assert all(torch.allclose(a, snapshot(one)[n]) for n, a in snapshot(other).items())
    before = snapshot(other)
    other.settle()
    assert same(before, snapshot(other))


def test_a_step_in_which_nothing_counts_stays_finite() -> None:
    one = learner(accumulate=2)
    for _ in range(2):
        one.descend(0 * loss_of(one), torch.zeros(12))
    assert all(value.isfinite().all() for value in snapshot(one).values())


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_learns_what_single_precision_does(precision: str, optimiser: str) -> None:
    torch.manual_seed(0)
    settings: dict[str, Any] = {"optimiser": optimiser, "lr": 0.02, "schedule": "constant"}
    inputs, built = INPUTS.float(), network().float()
    ends = {}
    for each in ("float32", precision):
        one = Learner(copy.deepcopy(built), Recipe(**settings, precision=each))
        for _ in range(40):
            logits = one.logits(inputs)
            assert logits.dtype == torch.float32
            one.descend(functional.cross_entropy(logits, LABELS))
        assert all(p.dtype == torch.float32 for p in one.parameters)
        ends[each] = float(functional.nll_loss(one.log_probs(inputs), LABELS))
    assert ends[precision] == pytest.approx(ends["float32"], rel=0.1)
    assert ends[precision] < 0.9 * math.log(3)


def test_an_overflow_in_half_precision_skips_the_step_and_lowers_the_scale() -> None:
    one = Learner(network().float(), Recipe("sgd", 0.1, schedule="constant", precision="float16"))
    state = one.state_dict()["scaler"]
    before = snapshot(one)
    one.descend(1e30 * functional.cross_entropy(one.logits(INPUTS.float()), LABELS))
    assert same(before, snapshot(one))
    assert one.state_dict()["scaler"]["scale"] < state["scale"]


def test_a_precision_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(LabelNoiseError, match="did you mean 'bfloat16'"):
        Recipe(precision="bfloat")
