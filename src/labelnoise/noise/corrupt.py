"""Plant wrong labels: one sampler for every noise, and what it did.

A sample's given label is the inverse of its cumulative probabilities at one uniform number. All
labels are drawn from the true ones in one pass, so no label is ever corrupted twice.
"""

from __future__ import annotations

import torch
from torch import Tensor

from labelnoise.errors import LabelNoiseError

CHUNK = 1 << 21  # probabilities held at once: 16 MB in float64
TOLERANCE = 1e-5  # how far a row's sum may be from 1; wide enough for a float32 softmax


def corrupt(
    truth: Tensor,
    probabilities: Tensor,
    generator: torch.Generator,
    *,
    per_sample: bool | None = None,
) -> Tensor:
    """Draw given labels from the true ones.

    Label i depends on nothing but row i of its inputs and draw i of the generator.

    Args:
        truth: (rows,) true labels.
        probabilities: (classes, classes), one row for each true label, or (rows, classes), one
            for each sample. Every row sums to 1.
        generator: Gives one uniform number a sample; the labels do not depend on the device.
        per_sample: Which of the two `probabilities` is. By default a square one belongs to the
            true labels; say True if it is square only because there are as many samples.

    Returns:
        (rows,) int64 given labels.
    """
    truth, probabilities = torch.as_tensor(truth), torch.as_tensor(probabilities)
    if per_sample is None:
        per_sample = probabilities.dim() == 2 and probabilities.shape[0] != probabilities.shape[1]
    _check_shape(truth, probabilities, per_sample)
    num_classes = probabilities.shape[1]
    check_labels(truth, num_classes)

    # Drawn and looked up where the generator lives: every device plants the same labels.
    device = generator.device
    row, table = truth.to(device, torch.int64), probabilities.to(device)
    draws = torch.rand(len(row), generator=generator, dtype=torch.float64, device=device)
    cumulative = None if per_sample else _cumulative(table)
    given = torch.empty_like(row)
    step = max(1, CHUNK // num_classes)
    for start in range(0, len(row), step):
        part = slice(start, start + step)
        rows = _cumulative(table[part]) if cumulative is None else cumulative[row[part]]
        given[part] = _invert(rows, draws[part])
    return given.to(truth.device)


def realised(truth: Tensor, given: Tensor, num_classes: int) -> tuple[float, Tensor]:
    """What the noise turned out to be: the share of wrong labels, and the observed transition.

    Args:
        truth: (rows,) true labels.
        given: (rows,) given labels.
        num_classes: How many classes there are.

    Returns:
        The rate (0 if there are no rows) and the (classes, classes) transition, whose row is that
        of the identity for a class without samples.
    """
    check_labels(truth, num_classes)
    check_labels(given, num_classes)
    if len(truth) != len(given):
        raise LabelNoiseError(f"{len(truth)} true labels but {len(given)} given ones")
    cells = truth.long() * num_classes + given.long()
    counts = torch.bincount(cells, minlength=num_classes**2).reshape(num_classes, num_classes)
    size = counts.sum(dim=1, keepdim=True)
    identity = torch.eye(num_classes, dtype=torch.float64, device=counts.device)
    transition = torch.where(size > 0, counts / size.clamp(min=1).double(), identity)
    wrong = int((truth != given).sum())
    return wrong / max(1, len(truth)), transition


def check_labels(labels: Tensor, num_classes: int) -> None:
    """Refuse labels that are not whole numbers in [0, num_classes)."""
    if labels.dim() != 1 or labels.is_floating_point() or labels.is_complex():
        raise LabelNoiseError(
            f"labels are one whole number a sample, not {labels.dtype} {tuple(labels.shape)}"
        )
    if len(labels) == 0:
        return
    lowest, highest = int(labels.min()), int(labels.max())
    if lowest < 0 or highest >= num_classes:
        wrong = lowest if lowest < 0 else highest
        raise LabelNoiseError(f"label {wrong} is outside of the {num_classes} classes")


def _check_shape(truth: Tensor, probabilities: Tensor, per_sample: bool) -> None:
    shape = tuple(probabilities.shape)
    fits = probabilities.dim() == 2 and shape[1] > 0
    if not fits or shape[0] != (len(truth) if per_sample else shape[1]):
        raise LabelNoiseError(
            f"probabilities are (classes, classes) or ({len(truth)}, classes), not {shape}"
        )


def _cumulative(probabilities: Tensor) -> Tensor:
    """Running sums of every row, once the rows are known to be probabilities."""
    cumulative = probabilities.double().cumsum(dim=1)
    sums_to_one = ((cumulative[:, -1] - 1).abs() <= TOLERANCE).all()  # false for NaN
    if not sums_to_one or (probabilities < 0).any():
        raise LabelNoiseError("probabilities must not be negative, and every row must sum to 1")
    return cumulative


def _invert(cumulative: Tensor, draws: Tensor) -> Tensor:
    """The class in whose interval [cumulative before, cumulative) each draw falls."""
    # A draw is at most 1 - 2^-53, so its product with the row's sum rounds to less than that sum:
    # no draw falls behind the last class, nor into an empty interval, whatever the rounding.
    scaled = draws * cumulative[:, -1]
    return torch.searchsorted(cumulative, scaled.unsqueeze(1), right=True).squeeze(1)
