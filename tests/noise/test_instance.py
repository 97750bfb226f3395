"""Instance-dependent noise against a slow reference, its rates, and what it depends on."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from labelnoise.errors import LabelNoiseError
from labelnoise.noise import corrupt, flip_rates, instance, instance_dependent, realised

CLASSES = 4


def stream(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def pixels() -> Tensor:
    images = torch.randint(0, 256, (3000, 1, 6, 6), generator=stream(1), dtype=torch.uint8)
    images[:, :, 0] = 17  # a border that never changes
    return images


@pytest.fixture
def truth() -> Tensor:
    return torch.randint(0, CLASSES, (3000,), generator=stream(2))


def probabilities(truth: Tensor, inputs: Tensor, rate: float = 0.3, seed: int = 3) -> Tensor:
    return instance_dependent(rate, CLASSES, truth=truth, inputs=inputs, generator=stream(seed))


def slowly(truth: Tensor, inputs: Tensor, rate: float, seed: int) -> Tensor:
    """Sample by sample, from the formula."""
    generator = stream(seed)
    rates = flip_rates(rate, len(truth), generator).tolist()
    flat = inputs.reshape(len(inputs), -1).double()
    kept = flat.amax(0) > flat.amin(0)
    flat = flat[:, kept]
    standard = (flat - flat.mean(0)) / flat.std(0, correction=0)
    projections = [
        torch.randn(len(kept), CLASSES, generator=generator, dtype=torch.float64)[kept]
        for _ in range(CLASSES)
    ]
    rows = []
    for features, label, flip in zip(standard, truth.tolist(), rates, strict=True):
        logits = (features @ projections[label] / math.sqrt(int(kept.sum()))).tolist()
        powers = [math.exp(logits[k]) if k != label else 0.0 for k in range(CLASSES)]
        row = [flip * power / sum(powers) for power in powers]
        row[label] = 1 - flip
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64)


def test_equals_the_slow_reference(pixels: Tensor, truth: Tensor) -> None:
    expected = slowly(truth[:200], pixels[:200], 0.3, 4)
    actual = probabilities(truth[:200], pixels[:200], 0.3, 4)
    assert torch.allclose(actual, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 1.0])
def test_rows_are_probabilities(pixels: Tensor, truth: Tensor, rate: float) -> None:
    table = probabilities(truth, pixels, rate)
    assert table.shape == (3000, CLASSES)
    assert table.dtype == torch.float64
    assert (table >= 0).all()
    assert torch.allclose(table.sum(dim=1), torch.ones(3000, dtype=torch.float64), atol=1e-12)


@pytest.mark.parametrize("rate", [0.2, 0.3, 0.4, 0.6])
def test_realised_rate_is_the_one_asked_for(pixels: Tensor, truth: Tensor, rate: float) -> None:
    given_labels = corrupt(truth, probabilities(truth, pixels, rate), stream(5), per_sample=True)
    assert realised(truth, given_labels, CLASSES)[0] == pytest.approx(rate, abs=0.04)  # 4 sigma


def test_bytes_and_unit_floats_give_the_same_noise(pixels: Tensor, truth: Tensor) -> None:
    of_bytes, of_floats = probabilities(truth, pixels), probabilities(truth, pixels / 255)
    assert torch.allclose(of_bytes, of_floats, rtol=1e-5, atol=1e-7)
    planted = corrupt(truth, of_bytes, stream(6), per_sample=True)
    assert planted.equal(corrupt(truth, of_floats, stream(6), per_sample=True))


def test_shape_of_a_sample_does_not_matter(pixels: Tensor, truth: Tensor) -> None:
    assert probabilities(truth, pixels).equal(probabilities(truth, pixels.flatten(1)))


def test_which_wrong_class_depends_on_the_inputs(truth: Tensor) -> None:
    inputs = torch.randn(3000, 20, generator=stream(7))
    inputs[1], truth[1] = inputs[0], truth[0]
    truth[2] = truth[0]
    shares = probabilities(truth, inputs)
    shares[torch.arange(3000), truth] = 0
    shares = shares / shares.sum(dim=1, keepdim=True)
    assert torch.allclose(shares[0], shares[1])  # same input, same confusions
    assert not torch.allclose(shares[0], shares[2], atol=0.01)
    assert 0.05 < shares[truth == 0, 1].std() < 0.4  # neither blind to the inputs nor saturated


def test_constant_features_count_for_nothing(pixels: Tensor, truth: Tensor) -> None:
    constant = torch.full((3000, 36), 0.1)  # not a binary fraction: its mean rounds
    table = probabilities(truth, constant)
    wrong = table.clone()
    wrong[torch.arange(3000), truth] = math.nan
    even = (1 - table[torch.arange(3000), truth, None]) / (CLASSES - 1)
    assert torch.allclose(wrong.nan_to_num(0), torch.where(wrong.isnan(), 0, even))


def test_chunks_do_not_matter(
    monkeypatch: pytest.MonkeyPatch, pixels: Tensor, truth: Tensor
) -> None:
    whole = probabilities(truth, pixels)
    monkeypatch.setattr(instance, "CHUNK", 36 * 97)
    assert torch.allclose(probabilities(truth, pixels), whole, rtol=1e-9)


def test_a_missing_class_does_not_shift_the_others(pixels: Tensor, truth: Tensor) -> None:
    without = torch.where(truth == 1, 2, truth)
    same = truth == without
    assert torch.allclose(probabilities(truth, pixels)[same], probabilities(without, pixels)[same])


def test_same_seed_same_probabilities(pixels: Tensor, truth: Tensor) -> None:
    assert probabilities(truth, pixels).equal(probabilities(truth, pixels))
    assert not probabilities(truth, pixels).equal(probabilities(truth, pixels, seed=8))


def test_no_samples() -> None:
    nothing = torch.empty(0, dtype=torch.int64)
    assert probabilities(nothing, torch.empty(0, 3)).shape == (0, CLASSES)


@pytest.mark.parametrize(
    ("rate", "mean"), [(0.0, 0.0798), (0.1, 0.1288), (0.2, 0.2055), (0.4, 0.4), (1.0, 0.9202)]
)
def test_flip_rates_have_the_mean_of_the_truncated_normal(rate: float, mean: float) -> None:
    rates = flip_rates(rate, 100_000, stream(9))
    assert rates.min() >= 0
    assert rates.max() <= 1
    assert float(rates.mean()) == pytest.approx(mean, abs=5 * 0.1 / math.sqrt(100_000))


def test_flip_rates_have_the_shape_of_the_normal_where_nothing_is_cut() -> None:
    rates = flip_rates(0.5, 100_000, stream(10))
    assert float(rates.std()) == pytest.approx(0.1, abs=0.002)
    assert float(((rates - 0.5).abs() < 0.1).double().mean()) == pytest.approx(0.6827, abs=0.008)


@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("draw", [0.0, 1 - 2**-53])
def test_flip_rates_of_extreme_draws(
    monkeypatch: pytest.MonkeyPatch, rate: float, draw: float
) -> None:
    monkeypatch.setattr(
        torch, "rand", lambda size, **_: torch.full((size,), draw, dtype=torch.float64)
    )
    assert 0 <= flip_rates(rate, 1, stream(11)).item() <= 1


@pytest.mark.parametrize("rate", [-0.1, 1.5, math.nan])
def test_rate_out_of_range(rate: float) -> None:
    with pytest.raises(LabelNoiseError, match=r"in \[0, 1\]"):
        probabilities(torch.tensor([0]), torch.ones(1, 2), rate)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_inputs_that_are_not_finite(bad: float) -> None:
    with pytest.raises(LabelNoiseError, match="finite inputs"):
        probabilities(torch.tensor([0, 1]), torch.tensor([[1.0], [bad]]))


def test_inputs_that_do_not_match_the_labels() -> None:
    with pytest.raises(LabelNoiseError, match=r"2 labels but inputs of shape \(3, 4\)"):
        probabilities(torch.tensor([0, 1]), torch.ones(3, 4))


def test_labels_outside_of_the_classes() -> None:
    with pytest.raises(LabelNoiseError, match="label 4 is outside of the 4 classes"):
        probabilities(torch.tensor([0, 4]), torch.ones(2, 4))


def test_a_single_class() -> None:
    with pytest.raises(LabelNoiseError, match="at least 2 classes"):
        instance_dependent(
            0.3, 1, truth=torch.tensor([0]), inputs=torch.ones(1, 2), generator=stream(12)
        )
