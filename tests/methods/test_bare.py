"""BARE against a slow reference, its closed forms, its edge cases and its properties."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from labelnoise import BARE, CCE, Batch, LabelNoiseError, Learner, Problem, bare_select
from labelnoise.learner import Recipe
from labelnoise.rules.thresholds import SMALL, select, thresholds

from .small import largest_difference, weights

RULES = ("batch", "class", "midpoint")
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def rules_and_kappas() -> list[tuple[str, float | None]]:
    kappas = (None, -0.9, 0.0, 0.5, 1.0, 1.5)
    return [*((rule, kappa) for rule in ("batch", "class") for kappa in kappas), ("midpoint", None)]


# --- the slow reference: NumPy float64, one class and one sample after the other ------------------


def slow_thresholds(
    probs: Tensor, labels: Tensor, threshold: str, kappa: float | None
) -> list[float]:
    table = probs.double().numpy()
    how_many = 1.0 if kappa is None else kappa
    found = []
    for c in range(table.shape[1]):
        column = np.array([row[c] for row in table])
        if threshold == "batch":
            found.append(spread(column, len(column) - 1, how_many))
        elif threshold == "class":
            own = [row[c] for row, label in zip(table, labels, strict=True) if int(label) == c]
            found.append(spread(np.array(own), len(own), how_many))
        else:
            found.append(halfway(column))
    return found


def spread(values: np.ndarray[Any, Any], divisor: int, kappa: float) -> float:
    if divisor == 0:
        return math.nan
    mean = math.fsum(values) / len(values)
    return mean + kappa * math.sqrt(math.fsum((v - mean) ** 2 for v in values) / divisor)


def halfway(values: np.ndarray[Any, Any]) -> float:
    mean = math.fsum(values) / len(values)
    upper = [v for v in values if v >= mean * (1 - 1e-6)]
    lower = [v for v in values if v < mean * (1 - 1e-6)]
    if not upper or not lower:
        return 0.0
    return (math.fsum(upper) / len(upper) + math.fsum(lower) / len(lower)) / 2


def slow_select(probs: Tensor, labels: Tensor, bars: list[float]) -> list[bool]:
    table = probs.double().numpy()
    return [
        bool(table[i][int(label)] >= bars[int(label)] * (1 - 1e-6))
        for i, label in enumerate(labels)
    ]


def random_batch(
    rows: int, classes: int, seed: int, dtype: torch.dtype = torch.float64, sharpness: float = 2.0
) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    logits = sharpness * torch.randn(rows, classes, generator=chance, dtype=torch.float64)
    return logits.softmax(dim=1).to(dtype), torch.randint(classes, (rows,), generator=chance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("threshold", "kappa"), rules_and_kappas())
def test_thresholds_and_selection_equal_the_slow_reference(
    threshold: str, kappa: float | None, dtype: torch.dtype
) -> None:
    shapes = ((2, 2), (3, 10), (16, 4), (64, 10), (128, 10), (40, 101))
    for seed, (rows, classes) in enumerate(shapes):
        probs, labels = random_batch(rows, classes, seed, dtype)
        bars = thresholds(probs, labels, kappa=kappa, threshold=threshold)
        expected = slow_thresholds(probs, labels, threshold, kappa)
        tolerance = 1e-12 if dtype == torch.float64 else 2e-6
        assert bars.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        assert np.allclose(bars.numpy(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)
        keep = bare_select(probs, labels, kappa=kappa, threshold=threshold)
        assert keep.dtype == torch.bool
        assert keep.tolist() == slow_select(probs, labels, expected)
        assert torch.equal(keep, select(probs, labels, bars))


def test_one_is_the_kappa_that_is_meant_when_none_is_given() -> None:
    probs, labels = random_batch(64, 10, seed=0)
    for threshold in ("batch", "class"):
        left_out = thresholds(probs, labels, threshold=threshold)
        assert left_out.equal(thresholds(probs, labels, kappa=1.0, threshold=threshold))


# --- a worked example, with its numbers -----------------------------------------------------------

WORKED = torch.tensor(
    [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.5, 0.3, 0.2], [0.2, 0.1, 0.7]], dtype=torch.float64
)
WORKED_LABELS = torch.tensor([0, 1, 0, 1])  # the last one should have been 2


@pytest.mark.parametrize(
    ("threshold", "bars", "kept"),
    [
        # Column 0 is .7 .1 .5 .2: mean .375, unbiased deviation .275379.
        ("batch", [0.650379, 0.660913, 0.562228], [True, True, False, False]),
        # Class 0 is .7 .5: mean .6, population deviation .1; class 2 has no samples.
        ("class", [0.7, 0.8, math.nan], [True, True, False, False]),
        # Column 0 splits into .7 .5 (mean .6) and .1 .2 (mean .15).
        ("midpoint", [0.375, 0.5, 0.416667], [True, True, True, False]),
    ],
)
def test_worked_example(threshold: str, bars: list[float], kept: list[bool]) -> None:
    found = thresholds(WORKED, WORKED_LABELS, threshold=threshold)
    assert found.tolist() == pytest.approx(bars, abs=1e-6, nan_ok=True)
    assert bare_select(WORKED, WORKED_LABELS, threshold=threshold).tolist() == kept


def test_worked_example_of_a_step() -> None:
    network = nn.Linear(4, 3, bias=False, dtype=torch.float64)
    with torch.no_grad():  # sample i is unit vector i, so that its logits are column i
        network.weight.copy_(WORKED.log().T)
    method = with_learner(BARE(threshold="batch"), network, lr=1.0)
    inputs = torch.eye(4, dtype=torch.float64)
    step = method.step(Batch((inputs,), WORKED_LABELS, torch.arange(4), time=0.0))
    assert step.weight.tolist() == [1, 1, 0, 0]
    assert float(step.loss) == pytest.approx(-(math.log(0.7) + math.log(0.8)) / 2)  # 0.289909
    # Sample 0: half of (p - onehot) = ((.7, .2, .1) - (1, 0, 0)) / 2.
    assert network.weight.grad is not None
    assert network.weight.grad[:, 0].tolist() == pytest.approx([-0.15, 0.1, 0.05])
    assert network.weight.grad[:, 1].tolist() == pytest.approx([0.05, -0.1, 0.05])
    assert network.weight.grad[:, 2:].abs().max() == 0


# --- closed forms (ALGORITHMS.md, 1.1) ------------------------------------------------------------


def confident(labels: Tensor, classes: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return functional.one_hot(labels, classes).to(dtype)


def balanced(rows: int, classes: int) -> Tensor:
    return torch.arange(rows) % classes


@pytest.mark.parametrize(
    ("classes", "kappa", "bar"),
    [
        (10, -1.0, -0.20),
        (10, 0.0, 0.10),
        (10, 0.5, 0.25),
        (10, 1.0, 0.40),
        (10, 1.5, 0.55),
        (14, 1.0, 0.329),
        (101, 1.0, 0.109),
        (2, 1.0, 1.0),
    ],
)
def test_batch_rule_on_confident_balanced_predictions(
    classes: int, kappa: float, bar: float
) -> None:
    rows = 200 * classes
    labels = balanced(rows, classes)
    found = thresholds(confident(labels, classes), labels, kappa=kappa)
    exact = 1 / classes + kappa * math.sqrt(classes - 1) / classes * math.sqrt(rows / (rows - 1))
    assert found.tolist() == pytest.approx([exact] * classes, abs=1e-12)
    assert found.tolist() == pytest.approx([bar] * classes, abs=2e-3)  # the infinite-batch limit


def test_batch_rule_on_two_classes_keeps_nothing_at_kappa_1_and_all_below() -> None:
    labels = balanced(128, 2)
    probs = confident(labels, 2)
    assert not bare_select(probs, labels, kappa=1.0).any()
    assert bare_select(probs, labels, kappa=0.9).all()


@pytest.mark.parametrize("kappa", [-1.0, 0.5, 1.0])
def test_batch_rule_on_an_unbalanced_batch_follows_the_predicted_fractions(kappa: float) -> None:
    sizes = [600, 300, 90, 10]
    predicted = torch.repeat_interleave(torch.arange(4), torch.tensor(sizes))
    found = thresholds(confident(predicted, 4), balanced(1000, 4), kappa=kappa)
    for bar, size in zip(found.tolist(), sizes, strict=True):
        pi = size / 1000
        assert bar == pytest.approx(pi + kappa * math.sqrt(pi * (1 - pi)), abs=1e-3)


def test_batch_rule_never_selects_a_class_that_dominates_the_batch() -> None:
    labels = torch.repeat_interleave(torch.arange(3), torch.tensor([66, 33, 29]))
    keep = bare_select(confident(labels, 3), labels)
    assert keep.tolist() == (labels != 0).tolist()


@pytest.mark.parametrize("wrong", [0, 10, 25, 40, 49, 50, 51, 60, 75, 99])
def test_class_rule_needs_half_of_a_confident_class_to_be_wrong(wrong: int) -> None:
    labels = torch.zeros(100, dtype=torch.long)
    predicted = (torch.arange(100) < wrong).long()
    probs = confident(predicted, 2)
    q = wrong / 100
    bar = thresholds(probs, labels, threshold="class")[0]
    assert float(bar) == pytest.approx(1 - q + math.sqrt(q * (1 - q)), abs=1e-12)
    keep = bare_select(probs, labels, threshold="class")
    reachable = wrong == 0 or wrong >= 50
    assert keep.tolist() == ((predicted == 0) & reachable).tolist()


def test_class_rule_on_three_ones_and_a_zero_selects_none() -> None:
    labels = torch.zeros(4, dtype=torch.long)
    probs = confident(torch.tensor([0, 0, 0, 1]), 2)
    bar = thresholds(probs, labels, threshold="class")[0]
    assert float(bar) == pytest.approx(0.75 + math.sqrt(0.1875))  # 1.183
    assert not bare_select(probs, labels, threshold="class").any()


@pytest.mark.parametrize("rows", [8, 9, 100])
@pytest.mark.parametrize("classes", [2, 10])
def test_midpoint_of_confident_predictions_is_one_half_whatever_the_balance(
    rows: int, classes: int
) -> None:
    predicted = torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(rows))
    found = thresholds(confident(predicted, classes), balanced(rows, classes), threshold="midpoint")
    occurs = torch.bincount(predicted, minlength=classes) > 0
    assert found.tolist() == pytest.approx(occurs.double().mul(0.5).tolist(), rel=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_class_rule_meets_the_larger_of_any_two_exactly(dtype: torch.dtype) -> None:
    """Mean and deviation of two make the larger value; rounding must not decide."""
    classes = 200
    for seed in range(20):
        chance = torch.Generator().manual_seed(seed)
        values = torch.rand(2, classes, generator=chance, dtype=torch.float64).to(dtype)
        labels = torch.arange(classes).repeat(2)
        probs = torch.zeros(2 * classes, classes, dtype=dtype)
        probs[torch.arange(2 * classes), labels] = values.flatten()
        keep = bare_select(probs, labels, threshold="class").view(2, classes)
        assert torch.equal(keep, values == values.amax(dim=0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("threshold", "kappa"), rules_and_kappas())
def test_equal_probabilities_are_all_selected(
    threshold: str, kappa: float | None, dtype: torch.dtype
) -> None:
    chance = torch.Generator().manual_seed(0)
    for rows in (2, 3, 5, 7, 64, 100, 127, 128, 129, 256, 257, 500, 1000, 1023):
        for classes in (2, 10):
            values = torch.rand(classes, generator=chance, dtype=torch.float64).to(dtype)
            keep = bare_select(
                values.repeat(rows, 1), balanced(rows, classes), kappa=kappa, threshold=threshold
            )
            assert keep.all(), (rows, classes)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.7, 0.9999, 1e-3, 1e-8, 1 / 7, 0.123456, 0.0, 1.0])
@pytest.mark.parametrize("threshold", RULES)
def test_equal_probabilities_are_all_selected_in_a_huge_batch(threshold: str, value: float) -> None:
    labels = torch.zeros(65_536, dtype=torch.long)
    for dtype in (torch.float32, torch.float64):
        probs = torch.full((65_536, 2), value, dtype=dtype)
        assert bare_select(probs, labels, threshold=threshold).all()


@pytest.mark.parametrize("rows", [3, 4, 7, 64, 129])
def test_class_rule_never_keeps_more_than_half_of_a_class(rows: int) -> None:
    """Cantelli: at most 1 / (1 + kappa^2) lie kappa population deviations above the mean."""
    for seed in range(50):
        probs, _ = random_batch(rows, 3, seed, sharpness=0.5 * (1 + seed % 8))
        keep = bare_select(probs, torch.zeros(rows, dtype=torch.long), threshold="class")
        assert 2 * int(keep.sum()) <= rows


# --- edge cases -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("threshold", "kept"), [("batch", 0), ("class", 1), ("midpoint", 1)])
def test_a_batch_of_one(threshold: str, kept: int) -> None:
    for value in (0.0, 0.2, 1.0):
        probs = torch.tensor([[value, 1 - value]])
        keep = bare_select(probs, torch.tensor([0]), threshold=threshold)
        assert keep.tolist() == [bool(kept)]


@pytest.mark.parametrize("threshold", RULES)
def test_an_empty_batch_gives_an_empty_mask(threshold: str) -> None:
    keep = bare_select(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long), threshold=threshold)
    assert keep.shape == (0,)
    assert keep.dtype == torch.bool


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kappa", [-1.0, 0.0, 1.0, 3.0])
def test_class_rule_keeps_the_only_sample_of_a_class(kappa: float, dtype: torch.dtype) -> None:
    probs, labels = random_batch(32, 4, seed=1, dtype=dtype)
    labels = labels.clamp(max=2)
    labels[7] = 3
    assert bool(bare_select(probs, labels, kappa=kappa, threshold="class")[7])


def test_a_class_without_samples_has_a_batch_threshold_and_no_class_threshold() -> None:
    probs, _ = random_batch(32, 4, seed=2)
    labels = balanced(32, 3)
    assert thresholds(probs, labels, threshold="class").isnan().tolist() == [False] * 3 + [True]
    for threshold in ("batch", "midpoint"):
        assert thresholds(probs, labels, threshold=threshold).isfinite().all()
    for threshold in RULES:
        assert bare_select(probs, labels, threshold=threshold).any()


def test_more_classes_than_samples() -> None:
    probs, _ = random_batch(5, 101, seed=3)
    labels = torch.tensor([100, 3, 50, 7, 0])
    assert bare_select(probs, labels, threshold="class").all()  # singletons pass
    for threshold in ("batch", "midpoint"):
        expected = slow_select(probs, labels, slow_thresholds(probs, labels, threshold, None))
        assert bare_select(probs, labels, threshold=threshold).tolist() == expected


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("threshold", RULES)
def test_probabilities_of_exactly_0_and_1(threshold: str, dtype: torch.dtype) -> None:
    predicted = balanced(30, 3)
    labels = predicted.clone()
    labels[:15] = (labels[:15] + 1) % 3  # half of them are wrong
    keep = bare_select(confident(predicted, 3, dtype), labels, threshold=threshold)
    assert keep.tolist() == (predicted == labels).tolist()


@pytest.mark.parametrize("threshold", RULES)
def test_a_column_of_zeros_keeps_its_samples(threshold: str) -> None:
    probs = torch.tensor([[0.0, 0.3, 0.7]] * 6)
    assert bare_select(probs, torch.zeros(6, dtype=torch.long), threshold=threshold).all()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("threshold", RULES)
def test_nan_or_infinite_probabilities_are_an_error(threshold: str, bad: float) -> None:
    probs, labels = random_batch(8, 3, seed=0)
    probs[3, 1] = bad
    with pytest.raises(LabelNoiseError, match="NaN or infinite"):
        bare_select(probs, labels, threshold=threshold)


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (torch.tensor([0, 1, 3, 0]), r"must lie in \[0, 3\), got 0 to 3"),
        (torch.tensor([0, -1, 2, 0]), r"must lie in \[0, 3\), got -1 to 2"),
        (torch.tensor([0.0, 1.0, 2.0, 0.0]), "must be integers, got torch.float32"),
        (torch.tensor([True, False, True, True]), "must be integers, got torch.bool"),
        (torch.tensor([0, 1, 2]), r"shape \(4,\).*got \(3,\)"),
        (torch.tensor([[0], [1], [2], [0]]), r"shape \(4,\).*got \(4, 1\)"),
        (torch.tensor(0), r"shape \(4,\).*got \(\)"),
    ],
)
def test_labels_that_fit_no_batch_are_an_error(labels: Tensor, says: str) -> None:
    probs, _ = random_batch(4, 3, seed=0)
    with pytest.raises(LabelNoiseError, match=says):
        bare_select(probs, labels)


@pytest.mark.parametrize(
    ("probs", "says"),
    [
        (torch.tensor([[2.0, -1.0], [0.5, 0.5]]), "softmax"),
        (torch.tensor([[3.0, 0.0], [0.5, 0.5]]), "softmax"),
        (torch.tensor([0.5, 0.5]), r"shape \(batch, classes\)"),
        (torch.tensor([[1, 0], [0, 1]]), "floating"),
    ],
)
def test_what_is_no_table_of_probabilities_is_an_error(probs: Tensor, says: str) -> None:
    with pytest.raises(LabelNoiseError, match=says):
        bare_select(probs, torch.tensor([0, 1]))


SETTINGS: list[Callable[..., object]] = [
    lambda **fields: BARE(**fields),
    lambda **fields: bare_select(*random_batch(4, 3, seed=0), **fields),
]


@pytest.mark.parametrize("use", SETTINGS)
def test_an_unknown_threshold_suggests_the_nearest(use: Callable[..., object]) -> None:
    with pytest.raises(LabelNoiseError, match="did you mean 'midpoint'"):
        use(threshold="midpont")


@pytest.mark.parametrize("use", SETTINGS)
@pytest.mark.parametrize("kappa", [0.0, 0.5, 1.0])
def test_kappa_with_midpoint_is_an_error(use: Callable[..., object], kappa: float) -> None:
    with pytest.raises(LabelNoiseError, match="'midpoint' has no kappa"):
        use(threshold="midpoint", kappa=kappa)


@pytest.mark.parametrize("use", SETTINGS)
@pytest.mark.parametrize("kappa", [math.nan, math.inf, -math.inf])
def test_kappa_must_be_finite(use: Callable[..., object], kappa: float) -> None:
    with pytest.raises(LabelNoiseError, match="kappa must be a finite number"):
        use(threshold="batch", kappa=kappa)


def test_an_unknown_value_of_empty_suggests_the_nearest() -> None:
    with pytest.raises(LabelNoiseError, match="did you mean 'skip'"):
        BARE(empty="skp")


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.int8, torch.uint8])
@pytest.mark.parametrize("threshold", RULES)
def test_labels_may_be_of_any_integer_type(threshold: str, dtype: torch.dtype) -> None:
    probs, labels = random_batch(64, 5, seed=4)
    keep = bare_select(probs, labels, threshold=threshold)
    assert keep.any()
    assert not keep.all()
    assert torch.equal(bare_select(probs, labels.to(dtype), threshold=threshold), keep)


@pytest.mark.parametrize("threshold", RULES)
def test_no_graph_leaks_out_of_the_selection(threshold: str) -> None:
    probs, labels = random_batch(16, 3, seed=5)
    probs.requires_grad_()
    assert not thresholds(probs, labels, threshold=threshold).requires_grad
    assert not bare_select(probs, labels, threshold=threshold).requires_grad


@pytest.mark.parametrize("threshold", RULES)
def test_the_selection_changes_neither_probabilities_nor_labels(threshold: str) -> None:
    probs, labels = random_batch(16, 3, seed=6)
    before = probs.clone(), labels.clone()
    bare_select(probs, labels, threshold=threshold)
    assert probs.equal(before[0])
    assert labels.equal(before[1])


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what reaches the dispatcher."""

    count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        self.count += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    "shapes",
    [((8, 2), (8, 200), (512, 2), (300, 10)), ((512, 200), (4096, 2), (512, 20))],
    ids=["small", "large"],
)
@pytest.mark.parametrize("threshold", RULES)
def test_the_number_of_operations_depends_on_neither_classes_nor_samples(
    threshold: str, shapes: tuple[tuple[int, int], ...]
) -> None:
    counts = []
    for rows, classes in shapes:
        probs, labels = random_batch(rows, classes, seed=0)
        with Operations() as operations:  # type: ignore[no-untyped-call]
            bare_select(probs, labels, threshold=threshold)
        counts.append(operations.count)
    assert len(set(counts)) == 1
    assert counts[0] < 100


@pytest.mark.parametrize("kappa", [-0.9, 0.0, 1.0])
def test_small_and_large_batches_have_the_same_thresholds(kappa: float) -> None:
    """A class's threshold depends on its own column: more columns only change how it is summed."""
    probs, labels = random_batch(200, 10, seed=1)
    wide = torch.cat([probs] * 5, dim=1)
    assert probs.numel() < SMALL <= wide.numel()
    few, many = thresholds(probs, labels, kappa=kappa), thresholds(wide, labels, kappa=kappa)
    assert torch.allclose(many, few.repeat(5), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(5000, 3), (4096, 40), (1030, 130), (300, 1000), (70, 9000)])
@pytest.mark.parametrize(
    ("threshold", "kappa"), [("batch", 1.0), ("batch", -0.5), ("midpoint", None)]
)
def test_sums_in_pieces_are_those_of_the_whole(
    threshold: str, kappa: float | None, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    """Also where the last piece is a smaller one, and where the table is not in one row."""
    probs, labels = random_batch(*shape, seed=2, sharpness=3)
    wide = probs.double()
    mean = wide.mean(dim=0)
    if kappa is not None:
        expected = mean + kappa * wide.std(dim=0)
    else:
        above = wide >= mean
        highs = torch.where(above, wide, 0).sum(dim=0) / above.sum(dim=0)
        expected = (highs + torch.where(above, 0, wide).sum(dim=0) / (~above).sum(dim=0)) / 2
    for table in (probs.to(dtype), probs.to(dtype).T.contiguous().T):
        found = thresholds(table, labels, threshold=threshold, kappa=kappa)
        assert found.dtype == dtype
        assert torch.allclose(found.double(), expected, rtol=2e-5, atol=1e-9)


@pytest.mark.parametrize("threshold", RULES)
def test_autocast_changes_no_threshold(threshold: str) -> None:
    for shape in ((64, 5), (200, 40), (600, 500)):
        probs, labels = random_batch(*shape, seed=1)
        expected = thresholds(probs, labels, threshold=threshold)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = thresholds(probs, labels, threshold=threshold)
        assert found.nan_to_num().equal(expected.nan_to_num())


@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.7, 1e-8, 1 / 7, 0.0, 1.0])
@pytest.mark.parametrize("threshold", RULES)
def test_equal_probabilities_are_all_selected_whatever_the_pieces(
    threshold: str, value: float
) -> None:
    for rows, classes in ((1100, 130), (513, 300), (200, 1500), (90, 9000)):
        labels = torch.arange(rows) % classes
        for kappa in (None,) if threshold == "midpoint" else (None, -2.0, 4.0):
            probs = torch.full((rows, classes), value)
            assert bare_select(probs, labels, threshold=threshold, kappa=kappa).all()


# --- properties -----------------------------------------------------------------------------------


@st.composite
def batches(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Small batches of small fractions: full of ties, zeros, ones and absent classes."""
    rows, classes = draw(st.integers(1, 12)), draw(st.integers(2, 5))
    parts = st.lists(st.integers(0, 6), min_size=classes, max_size=classes).filter(any)
    table = draw(st.lists(parts, min_size=rows, max_size=rows))
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=rows, max_size=rows))
    probs = torch.tensor(table, dtype=draw(st.sampled_from((torch.float32, torch.float64))))
    return probs / probs.sum(dim=1, keepdim=True), torch.tensor(labels)


CHOICES = st.sampled_from(rules_and_kappas())
KAPPAS = st.floats(-4, 4)


@settings(deadline=None)
@given(batches(), CHOICES, st.randoms(use_true_random=False))
def test_permuting_the_batch_permutes_the_mask(
    batch: tuple[Tensor, Tensor], choice: tuple[str, float | None], chance: Any
) -> None:
    (probs, labels), (threshold, kappa) = batch, choice
    order = list(range(len(labels)))
    chance.shuffle(order)
    keep = bare_select(probs, labels, threshold=threshold, kappa=kappa)
    moved = bare_select(probs[order], labels[order], threshold=threshold, kappa=kappa)
    assert moved.equal(keep[order])


@settings(deadline=None)
@given(batches(), CHOICES, st.randoms(use_true_random=False))
def test_renaming_the_classes_changes_nothing(
    batch: tuple[Tensor, Tensor], choice: tuple[str, float | None], chance: Any
) -> None:
    (probs, labels), (threshold, kappa) = batch, choice
    old_of_new = list(range(probs.shape[1]))
    chance.shuffle(old_of_new)
    new_of_old = torch.tensor(old_of_new).argsort()
    keep = bare_select(probs, labels, threshold=threshold, kappa=kappa)
    renamed = bare_select(
        probs[:, old_of_new], new_of_old[labels], threshold=threshold, kappa=kappa
    )
    assert renamed.equal(keep)


@settings(deadline=None)
@given(batches(), st.sampled_from(("batch", "class")), KAPPAS, KAPPAS)
def test_a_larger_kappa_never_keeps_more(
    batch: tuple[Tensor, Tensor], threshold: str, one: float, other: float
) -> None:
    probs, labels = batch
    low = bare_select(probs, labels, threshold=threshold, kappa=min(one, other))
    high = bare_select(probs, labels, threshold=threshold, kappa=max(one, other))
    assert not (high & ~low).any()


@settings(deadline=None)
@given(batches(), CHOICES)
def test_any_small_batch_agrees_with_the_slow_reference(
    batch: tuple[Tensor, Tensor], choice: tuple[str, float | None]
) -> None:
    (probs, labels), (threshold, kappa) = batch, choice
    expected = slow_select(probs, labels, slow_thresholds(probs, labels, threshold, kappa))
    assert bare_select(probs, labels, threshold=threshold, kappa=kappa).tolist() == expected


# --- the step -------------------------------------------------------------------------------------


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4)).double()


def toy_batch(rows: int = 24, seed: int = 0) -> Batch:
    chance = torch.Generator().manual_seed(seed)
    inputs = torch.randn(rows, 6, generator=chance, dtype=torch.float64)
    labels = torch.randint(4, (rows,), generator=chance)
    return Batch((inputs,), labels, torch.arange(rows), time=0.0)


def with_learner(method: Any, module: nn.Module, optimiser: str = "sgd", lr: float = 0.1) -> Any:
    recipe = Recipe(optimiser=optimiser, lr=lr, schedule="constant")
    problem = Problem(
        labels=torch.zeros(24, dtype=torch.long),
        num_classes=4,
        new_learner=lambda: Learner(module, recipe),
        generator=torch.Generator(),
    )
    method.setup(problem)
    return method


def gradients(module: nn.Module) -> list[Tensor]:
    found = [parameter.grad for parameter in module.parameters()]
    return [gradient.clone() for gradient in found if gradient is not None]


@pytest.mark.parametrize(("threshold", "kappa"), rules_and_kappas())
def test_the_gradient_is_that_of_cross_entropy_on_the_selected_samples(
    threshold: str, kappa: float | None
) -> None:
    module, batch = network(), toy_batch()
    alone = copy.deepcopy(module)
    step = with_learner(BARE(threshold=threshold, kappa=kappa), module).step(batch)
    logits = alone(batch.inputs)
    keep = torch.tensor(
        slow_select(
            logits.detach().softmax(dim=1),
            batch.labels,
            slow_thresholds(logits.detach().softmax(dim=1), batch.labels, threshold, kappa),
        )
    )
    assert int(keep.sum()) > 0
    assert step.weight.tolist() == keep.double().tolist()
    loss = functional.cross_entropy(logits[keep], batch.labels[keep])
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(step.loss) == pytest.approx(float(loss.detach()), abs=1e-12)
    assert largest_difference(gradients(module), gradients(alone)) <= 1e-12


NOTHING_PASSES = 5.0  # of 24 samples none can lie further than 23 / sqrt(24) = 4.7 deviations out


def test_empty_all_trains_on_the_whole_batch() -> None:
    module, batch = network(), toy_batch()
    plain = copy.deepcopy(module)
    step = with_learner(BARE(threshold="batch", kappa=NOTHING_PASSES, empty="all"), module).step(
        batch
    )
    with_learner(CCE(), plain).step(batch)
    assert bool(step.notes["empty"])
    assert step.weight.tolist() == [1.0] * 24
    assert step.keep is not None
    assert step.keep.tolist() == [True] * 24  # what was trained on is what is recorded
    assert largest_difference(weights(module), weights(plain)) <= 1e-12


@pytest.mark.parametrize("optimiser", ["adam", "adamw", "sgd"])
def test_empty_skip_leaves_every_weight_to_the_bit(optimiser: str) -> None:
    module = network()
    method = with_learner(BARE(threshold="batch", empty="skip"), module, optimiser, lr=0.01)
    for seed in range(3):  # gives the optimiser its momentum
        assert not bool(method.step(toy_batch(seed=seed)).notes["empty"])
    before, momentum = weights(module), copy.deepcopy(method.learner.state_dict())
    method.rule.kappa = NOTHING_PASSES
    step = method.step(toy_batch(seed=3))
    assert bool(step.notes["empty"])
    assert step.weight.tolist() == [0.0] * 24
    assert float(step.loss) == 0
    assert all(a.equal(b) for a, b in zip(weights(module), before, strict=True))
    after = method.learner.state_dict()["optimiser"]["state"]
    for index, state in momentum["optimiser"]["state"].items():
        assert all(torch.equal(state[name], after[index][name]) for name in state)


def test_a_batch_of_one_is_empty_under_the_batch_rule_alone() -> None:
    for threshold, empty in (("batch", True), ("class", False), ("midpoint", False)):
        step = with_learner(BARE(threshold=threshold), network()).step(toy_batch(rows=1))
        assert bool(step.notes["empty"]) is empty
        assert step.weight.tolist() == [1.0]
        assert math.isfinite(float(step.loss))


def test_the_step_reports_what_it_did_without_a_graph() -> None:
    module, batch = network(), toy_batch()
    before = module(batch.inputs).detach().softmax(dim=1)
    step = with_learner(BARE(threshold="batch"), module).step(batch)
    assert step.probs is not None
    assert torch.allclose(step.probs, before, atol=1e-12)
    expected = slow_thresholds(before, batch.labels, "batch", 1.0)
    assert step.notes["thresholds"].tolist() == pytest.approx(expected, abs=1e-12)
    assert not bool(step.notes["empty"])
    assert step.index is batch.index
    for tensor in (step.weight, step.loss, step.probs, *step.notes.values()):
        assert not tensor.requires_grad


def test_kappa_minus_1_on_a_confident_ten_class_net_is_cross_entropy() -> None:
    """Then every threshold is about 1/10 - 3/10, which all probabilities reach."""
    rows, classes = 200, 10
    predicted = balanced(rows, classes)
    labels = torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(0))
    module = nn.Linear(classes, classes, bias=False, dtype=torch.float64)
    with torch.no_grad():
        module.weight.copy_(12 * torch.eye(classes))
    plain = copy.deepcopy(module)
    batch = Batch((confident(predicted, classes),), labels, torch.arange(rows), time=0.0)
    step = with_learner(BARE(threshold="batch", kappa=-1.0), module).step(batch)
    with_learner(CCE(), plain).step(batch)
    assert step.notes["thresholds"].tolist() == pytest.approx([-0.2] * classes, abs=2e-3)
    assert step.weight.tolist() == [1.0] * rows
    assert largest_difference(weights(module), weights(plain)) <= 1e-12
    assert largest_difference(gradients(module), gradients(plain)) <= 1e-12


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_averages_over_the_right_number_of_samples(dtype: torch.dtype) -> None:
    """bfloat16 cannot hold 4,097, and float16 overflows at 65,504."""
    rows = 4_097 if dtype == torch.bfloat16 else 70_000
    module = nn.Linear(2, 2, bias=False)
    nn.init.zeros_(module.weight)
    module = module.to(dtype)
    inputs = torch.eye(2, dtype=dtype)[balanced(rows, 2)]
    batch = Batch((inputs,), balanced(rows, 2), torch.arange(rows), time=0.0)
    step = with_learner(BARE(threshold="batch"), module).step(batch)
    assert step.weight.tolist() == [1.0] * rows
    assert float(step.loss) == pytest.approx(math.log(2), rel=2**-8)
    assert float(gradients(module)[0][0, 0]) == pytest.approx(-0.25, rel=2**-6)


@pytest.mark.parametrize("threshold", RULES)
def test_the_validation_loss_is_that_of_the_samples_that_pass(threshold: str) -> None:
    probs, labels = random_batch(50, 4, seed=7)
    keep = bare_select(probs, labels, threshold=threshold)
    assert 0 < int(keep.sum()) < 50
    loss = with_learner(BARE(threshold=threshold), network()).validation_loss(probs.log(), labels)
    expected = functional.nll_loss(probs.log()[keep], labels[keep])
    assert float(loss) == pytest.approx(float(expected), rel=1e-12)


def test_the_validation_loss_counts_all_where_none_passes() -> None:
    probs, labels = random_batch(24, 4, seed=8)
    method = with_learner(BARE(threshold="batch", kappa=NOTHING_PASSES), network())
    loss = method.validation_loss(probs.log(), labels)
    assert float(loss) == pytest.approx(float(functional.nll_loss(probs.log(), labels)), rel=1e-12)
