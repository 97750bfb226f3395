"""The sampler against a slow one, against the matrix it samples, and its exact properties."""

from __future__ import annotations

import importlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from labelnoise.errors import LabelNoiseError
from labelnoise.noise import class_conditional, corrupt, named, realised, symmetric

# The package's `corrupt` is the function; this is the module of the same name.
module = importlib.import_module("labelnoise.noise.corrupt")

MNIST_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_FLIPS = {7: 1, 2: 7, 3: 8, 5: 6, 6: 5}
CLASSES = 5

labels = st.lists(st.integers(0, CLASSES - 1), max_size=60).map(
    lambda values: torch.tensor(values, dtype=torch.int64)
)
seeds = st.integers(0, 2**31)
weights = st.sampled_from([0.0, 0.0, 1e-12, 0.1, 1.0, 7.0])
probability_rows = st.lists(weights, min_size=CLASSES, max_size=CLASSES).filter(any)
quick = settings(deadline=None, max_examples=60)


def stream(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normalised(rows: list[list[float]]) -> Tensor:
    table = torch.tensor(rows, dtype=torch.float64)
    return table / table.sum(dim=1, keepdim=True)


def slowly(truth: Tensor, probabilities: Tensor, seed: int, *, per_sample: bool) -> list[int]:
    """Walk along each row until the running sum passes the draw."""
    draws = torch.rand(len(truth), generator=stream(seed), dtype=torch.float64).tolist()
    table = probabilities.tolist()
    given_labels = []
    for i, (true, draw) in enumerate(zip(truth.tolist(), draws, strict=True)):
        row = table[i] if per_sample else table[true]
        total = 0.0
        for entry in row:
            total += entry
        running = 0.0
        for label, entry in enumerate(row):
            running += entry
            if draw * total < running:
                given_labels.append(label)
                break
    return given_labels


@given(truth=labels, rows=st.lists(probability_rows, min_size=5, max_size=5), seed=seeds)
@quick
def test_equals_the_slow_reference_by_class(
    truth: Tensor, rows: list[list[float]], seed: int
) -> None:
    table = normalised(rows)
    expected = slowly(truth, table, seed, per_sample=False)
    assert corrupt(truth, table, stream(seed)).tolist() == expected


@given(rows=st.lists(probability_rows, max_size=30), seed=seeds)
@quick
def test_equals_the_slow_reference_by_sample(rows: list[list[float]], seed: int) -> None:
    table = normalised(rows) if rows else torch.zeros(0, CLASSES)
    truth = torch.arange(len(rows)) % CLASSES
    expected = slowly(truth, table, seed, per_sample=True)
    assert corrupt(truth, table, stream(seed), per_sample=True).tolist() == expected


def test_equals_the_slow_reference_on_the_papers_matrix() -> None:
    truth = torch.randint(0, 10, (5000,), generator=stream(1))
    table = named("mnist-arbitrary")
    expected = slowly(truth, table, 2, per_sample=False)
    assert corrupt(truth, table, stream(2)).tolist() == expected


@pytest.mark.parametrize("name", ["mnist-arbitrary", "cifar10-arbitrary"])
@pytest.mark.parametrize("per_sample", [False, True])
def test_frequencies_follow_the_matrix(name: str, per_sample: bool) -> None:
    size = 20_000
    table = named(name)
    truth = torch.arange(10).repeat_interleave(size)
    probabilities = table[truth] if per_sample else table
    _, observed = realised(truth, corrupt(truth, probabilities, stream(3)), 10)
    sigma = (table * (1 - table) / size).sqrt()
    assert ((observed - table).abs() <= 5 * sigma + 1e-12).all()


def test_chi_square_of_symmetric_noise() -> None:
    size, table = 50_000, symmetric(0.5, 10)
    truth = torch.full((size,), 4)
    given_labels = corrupt(truth, table, stream(4))
    expected = table[4] * size
    chi_square = ((torch.bincount(given_labels, minlength=10) - expected) ** 2 / expected).sum()
    assert chi_square < 33.7  # 1e-4 of the distribution with 9 degrees of freedom lies above


def test_realises_the_papers_rate_on_mnist() -> None:
    truth = torch.arange(10).repeat_interleave(torch.tensor(MNIST_COUNTS))
    given_labels = corrupt(truth, class_conditional(0.45, MNIST_FLIPS, 10), stream(5))
    rate, _ = realised(truth, given_labels, 10)
    assert rate == pytest.approx(0.223, abs=0.006)


@given(truth=labels, seed=seeds)
@quick
def test_identity_changes_nothing(truth: Tensor, seed: int) -> None:
    given_labels = corrupt(truth, torch.eye(CLASSES), stream(seed))
    assert given_labels.equal(truth)
    assert given_labels.dtype == torch.int64


@given(truth=labels, permutation=st.permutations(range(CLASSES)), seed=seeds)
@quick
def test_permutation_is_applied(truth: Tensor, permutation: list[int], seed: int) -> None:
    table = torch.eye(CLASSES)[permutation]
    assert corrupt(truth, table, stream(seed)).equal(torch.tensor(permutation)[truth])


@given(truth=labels, rows=st.lists(probability_rows, min_size=5, max_size=5), seed=seeds)
@quick
def test_probability_zero_is_never_drawn(truth: Tensor, rows: list[list[float]], seed: int) -> None:
    table = normalised(rows)
    assert (table[truth, corrupt(truth, table, stream(seed))] > 0).all()


@pytest.mark.parametrize("draw", [0.0, 2**-53, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("total", [1 - 9e-6, 1 - 2**-53, 1.0, 1 + 2**-52, 1 + 9e-6])
def test_extreme_draws_stay_inside(draw: float, total: float) -> None:
    cumulative = torch.tensor([[0, 0, total / 2, total, total]], dtype=torch.float64)
    drawn = module._invert(cumulative, torch.tensor([draw], dtype=torch.float64))
    assert drawn.item() == (2 if draw < 0.5 else 3)


@given(truth=labels, seed=seeds)
@quick
def test_same_seed_same_labels(truth: Tensor, seed: int) -> None:
    table = symmetric(0.5, CLASSES)
    assert corrupt(truth, table, stream(seed)).equal(corrupt(truth, table, stream(seed)))


@given(truth=labels, other=labels, seed=seeds)
@quick
def test_a_label_depends_only_on_its_own_truth_and_draw(
    truth: Tensor, other: Tensor, seed: int
) -> None:
    size = min(len(truth), len(other))
    truth, other = truth[:size], other[:size]
    table = symmetric(0.5, CLASSES)
    same = truth == other
    first, second = corrupt(truth, table, stream(seed)), corrupt(other, table, stream(seed))
    assert first[same].equal(second[same])


def test_truth_is_left_alone() -> None:
    truth = torch.arange(5)
    given_labels = corrupt(truth, symmetric(1.0, 5), stream(6))
    assert truth.equal(torch.arange(5))
    assert (given_labels != truth).all()


@pytest.mark.parametrize("chunk", [1, 7, 64, 10_000])
@pytest.mark.parametrize("per_sample", [False, True])
def test_chunks_do_not_matter(
    monkeypatch: pytest.MonkeyPatch, chunk: int, per_sample: bool
) -> None:
    truth = torch.randint(0, 5, (300,), generator=stream(7))
    table = symmetric(0.6, 5)
    probabilities = table[truth] if per_sample else table
    whole = corrupt(truth, probabilities, stream(8))
    monkeypatch.setattr(module, "CHUNK", chunk)
    assert corrupt(truth, probabilities, stream(8)).equal(whole)


def test_by_class_and_by_sample_agree() -> None:
    truth = torch.randint(0, 5, (300,), generator=stream(9))
    table = symmetric(0.6, 5)
    assert corrupt(truth, table, stream(10)).equal(corrupt(truth, table[truth], stream(10)))


def test_as_many_samples_as_classes() -> None:
    truth = torch.tensor([2, 2, 2])
    table = torch.eye(3)
    assert corrupt(truth, table, stream(11)).tolist() == [2, 2, 2]
    assert corrupt(truth, table, stream(11), per_sample=True).tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_any_whole_number_type(dtype: torch.dtype) -> None:
    truth = torch.tensor([0, 1, 2, 2], dtype=dtype)
    given_labels = corrupt(truth, torch.eye(3), stream(12))
    assert given_labels.dtype == torch.int64
    assert given_labels.tolist() == [0, 1, 2, 2]


def test_no_samples() -> None:
    assert corrupt(torch.empty(0, dtype=torch.int64), symmetric(0.5, 3), stream(13)).shape == (0,)


@pytest.mark.parametrize("shape", [(3,), (3, 3, 3), (0, 0), (4, 3)])
def test_probabilities_of_the_wrong_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(LabelNoiseError, match=r"\(classes, classes\) or \(2, classes\), not"):
        corrupt(torch.tensor([0, 1]), torch.ones(shape), stream(14))


@pytest.mark.parametrize("row", [[0.5, 0.4], [1.5, -0.5], [float("nan"), 1.0]])
@pytest.mark.parametrize("per_sample", [False, True])
def test_rows_that_are_no_probabilities(row: list[float], per_sample: bool) -> None:
    table = torch.tensor([[1.0, 0.0], row])
    with pytest.raises(LabelNoiseError, match="every row must sum to 1"):
        corrupt(torch.tensor([0, 1]), table, stream(15), per_sample=per_sample)


@pytest.mark.parametrize(("label", "shown"), [(3, "3"), (-1, "-1")])
def test_labels_outside_of_the_classes(label: int, shown: str) -> None:
    with pytest.raises(LabelNoiseError, match=f"label {shown} is outside of the 3 classes"):
        corrupt(torch.tensor([0, label]), torch.eye(3), stream(16))


@pytest.mark.parametrize("truth", [torch.tensor([0.0, 1.0]), torch.tensor([[0], [1]])])
def test_labels_that_are_not_one_whole_number_a_sample(truth: Tensor) -> None:
    with pytest.raises(LabelNoiseError, match="one whole number a sample"):
        corrupt(truth, torch.eye(3), stream(17))


def test_realised_of_a_small_example() -> None:
    truth = torch.tensor([0, 0, 0, 0, 1, 1])
    given_labels = torch.tensor([0, 0, 1, 2, 1, 0])
    rate, table = realised(truth, given_labels, 4)
    assert rate == 0.5
    assert table.dtype == torch.float64
    assert table.tolist() == [[0.5, 0.25, 0.25, 0], [0.5, 0.5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_realised_of_nothing() -> None:
    nothing = torch.empty(0, dtype=torch.int64)
    rate, table = realised(nothing, nothing, 3)
    assert rate == 0.0
    assert table.equal(torch.eye(3, dtype=torch.float64))


def test_realised_refuses_what_does_not_match() -> None:
    with pytest.raises(LabelNoiseError, match="2 true labels but 1 given ones"):
        realised(torch.tensor([0, 1]), torch.tensor([0]), 2)
    with pytest.raises(LabelNoiseError, match="label 2 is outside"):
        realised(torch.tensor([0, 1]), torch.tensor([0, 2]), 2)
