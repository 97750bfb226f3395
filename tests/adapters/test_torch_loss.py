"""BARELoss against cross-entropy on the samples that it selects."""

from __future__ import annotations

import copy
import io
import math
import pickle
from collections.abc import Callable
from typing import Any, Literal, get_args

import pytest
import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from labelnoise import BARELoss, LabelNoiseError, bare_select
from labelnoise.rules.thresholds import ByThreshold

Reduction = Literal["mean", "sum", "none"]
RULES = ("batch", "class", "midpoint")
NOTHING_PASSES = 5.0  # of 24 samples none can lie further than 23 / sqrt(24) = 4.7 deviations out


def batch(rows: int = 24, classes: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(rows, classes, generator=chance, dtype=torch.float64)
    return logits.requires_grad_(), torch.randint(classes, (rows,), generator=chance)


def gradient(loss: Tensor, logits: Tensor) -> Tensor:
    return torch.autograd.grad(loss.sum(), logits)[0]


@pytest.mark.parametrize("reduction", get_args(Reduction))
@pytest.mark.parametrize("threshold", RULES)
def test_value_and_gradient_are_those_of_cross_entropy_on_the_selected(
    threshold: str, reduction: Reduction
) -> None:
    for seed in range(5):
        logits, labels = batch(seed=seed)
        criterion = BARELoss(threshold=threshold, reduction=reduction)
        loss = criterion(logits, labels)
        keep = bare_select(logits.detach().softmax(dim=1), labels, threshold=threshold)
        assert 0 < int(keep.sum()) < len(keep)
        assert criterion.selected is not None
        assert criterion.selected.equal(keep)
        alone = functional.cross_entropy(logits[keep], labels[keep], reduction=reduction)
        if reduction == "none":
            assert loss.shape == labels.shape
            assert loss[~keep].tolist() == [0.0] * int((~keep).sum())
            assert torch.allclose(loss[keep], alone, rtol=0, atol=1e-12)
        else:
            assert torch.allclose(loss, alone, rtol=0, atol=1e-12)
        difference = gradient(loss, logits) - gradient(alone, logits)
        assert float(difference.abs().max()) <= 1e-12


def test_kappa_reaches_the_selection() -> None:
    logits, labels = batch()
    for kappa in (-1.0, 0.0, 0.5, 1.5):
        criterion = BARELoss(kappa=kappa, threshold="batch")
        criterion(logits, labels)
        expected = bare_select(logits.detach().softmax(dim=1), labels, kappa=kappa)
        assert criterion.selected is not None
        assert criterion.selected.equal(expected)


def test_gradients_pass_the_numerical_check() -> None:
    logits, labels = batch(rows=8)
    assert torch.autograd.gradcheck(lambda z: BARELoss()(z, labels), (logits,))


def test_nothing_is_selected_before_the_first_call() -> None:
    assert BARELoss().selected is None


def test_a_batch_in_which_nothing_passes_counts_whole() -> None:
    logits, labels = batch()
    criterion = BARELoss(kappa=NOTHING_PASSES, threshold="batch")
    loss = criterion(logits, labels)
    assert criterion.selected is not None
    assert criterion.selected.all()
    whole = functional.cross_entropy(logits, labels)
    assert torch.allclose(loss, whole, rtol=0, atol=1e-12)
    assert torch.allclose(gradient(loss, logits), gradient(whole, logits), rtol=0, atol=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_bad_logits_are_an_error_that_names_the_call(bad: float) -> None:
    logits, labels = batch()
    criterion = BARELoss()
    for _ in range(2):
        criterion(logits, labels)
    broken = logits.detach().clone()
    broken[0, 0] = bad
    with pytest.raises(LabelNoiseError, match=r"call 3.*logits contain NaN or infinite"):
        criterion(broken, labels)
    with pytest.raises(LabelNoiseError, match=r"call 4.*labels must lie in"):
        criterion(logits, labels + 4)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"threshold": "bath"}, "did you mean 'batch'"),
        ({"reduction": "means"}, "did you mean 'mean'"),
        ({"threshold": "midpoint", "kappa": 1.0}, "'midpoint' has no kappa"),
        ({"threshold": "batch", "kappa": math.nan}, "kappa must be a finite number"),
        ({"kappa": 1.0}, "'evidence' has no kappa"),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(LabelNoiseError, match=says):
        BARELoss(**arguments)


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8])
def test_labels_may_be_of_any_integer_type(dtype: torch.dtype) -> None:
    logits, labels = batch()
    assert BARELoss()(logits, labels.to(dtype)).equal(BARELoss()(logits, labels))


def test_it_copies_pickles_and_saves_before_and_after_a_call() -> None:
    logits, labels = batch()
    criterion = BARELoss(kappa=0.5, threshold="class", reduction="sum")
    for _ in range(2):
        for other in (copy.deepcopy(criterion), pickle.loads(pickle.dumps(criterion))):  # noqa: S301
            assert repr(other) == repr(criterion)
            assert other(logits, labels).equal(BARELoss(0.5, "class", "sum")(logits, labels))
        stored = io.BytesIO()
        torch.save(criterion.state_dict(), stored)
        stored.seek(0)
        BARELoss(threshold="class").load_state_dict(torch.load(stored, weights_only=True))
        criterion(logits, labels)


def test_a_threshold_lives_in_a_module_without_adding_to_its_state() -> None:
    logits, labels = batch()
    criterion = BARELoss(threshold="midpoint")
    model = nn.ModuleDict({"layer": nn.Linear(2, 2), "criterion": criterion})
    names = set(model.state_dict())
    model["criterion"](logits, labels)
    assert set(model.state_dict()) == names == {"layer.weight", "layer.bias"}


def test_the_last_mask_keeps_no_graph() -> None:
    criterion = BARELoss()
    criterion(*batch())
    assert criterion.selected is not None
    assert criterion.selected.dtype == torch.bool
    assert not criterion.selected.requires_grad


def test_repr_shows_the_settings() -> None:
    shown = repr(BARELoss(kappa=0.5, threshold="class", reduction="none"))
    assert (
        shown
        == "BARELoss(kappa=0.5, threshold='class', reduction='none', samples=0, scope='global')"
    )


def test_bfloat16_under_autocast_trains() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    inputs, labels = torch.randn(40, 8), torch.arange(40) % 4
    criterion = BARELoss(threshold="batch")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = network(inputs)
        assert logits.dtype == torch.bfloat16
        loss = criterion(logits, labels)
    loss.backward()
    assert criterion.selected is not None
    keep = criterion.selected
    assert 0 < int(keep.sum()) < 40
    alone = functional.cross_entropy(logits.detach().float()[keep], labels[keep])
    assert float(loss.detach()) == pytest.approx(float(alone), rel=1e-2)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_averages_over_the_right_number_of_samples(dtype: torch.dtype) -> None:
    """float16 overflows at 65,504, and bfloat16 cannot tell 4,097 samples from 4,096."""
    rows = 4_097 if dtype == torch.bfloat16 else 70_000
    logits = torch.zeros(rows, 2, dtype=dtype, requires_grad=True)
    loss = BARELoss()(logits, torch.arange(rows) % 2)
    assert float(loss.detach()) == pytest.approx(math.log(2), rel=2**-8)


def test_it_selects_as_the_method_does() -> None:
    logits, labels = batch()
    criterion = BARELoss(threshold="class", kappa=0.5)
    value = criterion(logits, labels).detach()
    keep = ByThreshold("class", 0.5).judge(logits.detach().softmax(dim=1), labels).keep
    expected = functional.cross_entropy(logits.detach()[keep], labels[keep])
    assert float(value) == pytest.approx(float(expected), abs=1e-12)


# --- evidence: a rule that remembers --------------------------------------------------------------


def noisy_batches(count: int, rows: int = 64) -> list[tuple[Tensor, Tensor]]:
    """Sure and right predictions of four classes; every fourth label is wrong."""
    chance = torch.Generator().manual_seed(0)
    found = []
    for _ in range(count):
        truth = torch.randint(4, (rows,), generator=chance)
        logits = 6 * functional.one_hot(truth, 4) + torch.randn(rows, 4, generator=chance)
        wrong = torch.rand(rows, generator=chance) < 0.25
        found.append((logits.requires_grad_(), torch.where(wrong, (truth + 1) % 4, truth)))
    return found


def test_by_default_wrong_labels_lose_their_weight() -> None:
    criterion = BARELoss()
    for logits, labels in noisy_batches(40):
        loss = criterion(logits, labels)
    right = logits.argmax(dim=1) == labels
    assert criterion.weight is not None
    assert criterion.score is not None
    assert criterion.weight[right].mean() > 0.98
    assert criterion.weight[~right].mean() < 0.02
    assert criterion.selected is not None
    assert criterion.selected.equal(criterion.score >= 0.5)
    alone = functional.cross_entropy(logits, labels, reduction="none")
    expected = (alone * criterion.weight).sum() / criterion.weight.sum()
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-6)
    assert torch.allclose(gradient(loss, logits), gradient(expected, logits), atol=1e-7)


def test_the_first_pass_over_the_samples_counts_all() -> None:
    batches = noisy_batches(20)
    criterion = BARELoss(samples=16 * 64)
    for number, (logits, labels) in enumerate(batches):
        loss = criterion(logits, labels)
        whole = functional.cross_entropy(logits, labels)
        same = float(loss.detach()) == pytest.approx(float(whole.detach()), rel=1e-6)
        assert same is (number < 16)


def test_the_evidence_grows_in_training_only() -> None:
    first, second, third = noisy_batches(3)
    criterion, other = BARELoss(), BARELoss()
    criterion(*first)
    criterion.eval()
    criterion(*second)
    criterion.train()
    other(*first)
    assert criterion(*third).equal(other(*third))


@pytest.mark.parametrize(
    "threshold", ["evidence", "posterior", "batch-remembered", "class-remembered"]
)
@pytest.mark.parametrize("without_gradient", [torch.no_grad, torch.inference_mode])
def test_a_validation_teaches_nothing_even_before_the_first_step(
    threshold: str, without_gradient: Callable[[], Any]
) -> None:
    """A loop of one's own puts the network into evaluation mode, and seldom the loss."""
    first, second, third = noisy_batches(3)
    criterion, other = (BARELoss(threshold=threshold, samples=96) for _ in range(2))
    with without_gradient():
        criterion(*first)
    for each in (second, third):
        assert criterion(*each).equal(other(*each))


def test_labels_may_lie_in_a_buffer_that_is_used_again() -> None:
    batches = noisy_batches(80)
    criterion, other = BARELoss(), BARELoss()
    buffer = torch.empty_like(batches[0][1])
    for logits, labels in batches:
        assert criterion(logits, buffer.copy_(labels)).equal(other(logits, labels))


def test_autocast_changes_nothing_in_what_the_evidence_says() -> None:
    batches = noisy_batches(40)
    criterion, other = BARELoss(), BARELoss()
    for logits, labels in batches:
        other(logits, labels)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            criterion(logits, labels)
        assert criterion.score is not None
        assert other.score is not None
        assert criterion.score.equal(other.score)


def test_the_evidence_keeps_its_precision_in_a_module_that_is_halved() -> None:
    module = torch.nn.ModuleDict({"net": torch.nn.Linear(2, 2), "loss": BARELoss()})
    for each in noisy_batches(40):
        module["loss"](*each)
    module.half()
    assert module["net"].weight.dtype == torch.float16
    assert {b.dtype for b in module["loss"].buffers() if b.is_floating_point()} == {torch.float32}
    assert module["loss"](*noisy_batches(1)[0]).isfinite()


@pytest.mark.parametrize("threshold", ["evidence", "batch-remembered", "class-remembered"])
def test_what_is_remembered_is_saved_and_goes_on(threshold: str) -> None:
    batches = noisy_batches(75)
    criterion = BARELoss(threshold=threshold)
    for each in batches[:71]:  # some of them wait to be added up
        criterion(*each)
    stored = io.BytesIO()
    torch.save(criterion.state_dict(), stored)
    stored.seek(0)
    state = torch.load(stored, weights_only=True)
    fresh = BARELoss(threshold=threshold)
    fresh.load_state_dict(state)
    used = BARELoss(threshold=threshold)
    used(*batches[7])
    used.load_state_dict(state)
    for each in batches[71:]:
        expected = criterion(*each)
        assert fresh(*each).equal(expected)
        assert used(*each).equal(expected)
        assert copy.deepcopy(fresh)(*batches[7]).isfinite()


def test_another_number_of_classes_is_an_error() -> None:
    criterion = BARELoss()
    criterion(*batch(classes=4))
    with pytest.raises(LabelNoiseError, match="5 classes, but the evidence is about 4"):
        criterion(*batch(classes=5))


def test_posterior_must_know_when_an_epoch_ends() -> None:
    with pytest.raises(LabelNoiseError, match="pass samples"):
        BARELoss(threshold="posterior")(*batch())
    BARELoss(threshold="posterior", samples=100)(*batch())
