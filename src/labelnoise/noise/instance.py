"""Instance-dependent noise: which samples are flipped, and to what, depends on the inputs.

Xia et al., "Part-dependent Label Noise: Towards Instance-dependent Label Noise", NeurIPS 2020,
arXiv 2006.07836. Every sample has its own flip rate; every true class has one random
projection of the inputs, whose softmax shares the flip rate out over the wrong classes.

Deviations from the paper's released code:
- Inputs are standardised per feature, so that pixels in 0..255 and in 0..1 give the same noise. A
  feature that never changes counts for nothing.
- The projection is divided by the square root of the number of features that do change. The
  logits have a spread of about 1; without it about that square root, 28 for MNIST, and every
  softmax would put all of its mass on one class.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from labelnoise.errors import LabelNoiseError
from labelnoise.noise.corrupt import check_labels
from labelnoise.noise.transition import check_rate

SPREAD = 0.1  # standard deviation of the flip rates, as in the paper
CHUNK = 1 << 21  # input values held at once: 16 MB in float64


def instance_dependent(
    rate: float,
    num_classes: int,
    *,
    truth: Tensor,
    inputs: Tensor,
    generator: torch.Generator,
    rule: torch.Generator | None = None,
) -> Tensor:
    """Probabilities of every given label, for every sample.

    Args:
        rate: The centre of the flip rates, see `flip_rates`.
        num_classes: How many classes there are.
        truth: (rows,) true labels.
        inputs: (rows, ...) of any number type.
        generator: Gives the flip rates.
        rule: Gives the projections, class by class; the parts of a data set that are to follow
            the same noise share it. By default the generator goes on with them.

    Returns:
        (rows, classes) float64, every row of which sums to 1.
    """
    _check(rate, num_classes, truth, inputs)
    rates = flip_rates(rate, len(truth), generator)
    flat = inputs.reshape(len(inputs), math.prod(inputs.shape[1:]))
    centre, scale = _standardisation(flat)
    probabilities = torch.zeros(len(truth), num_classes, dtype=torch.float64)
    for label in range(num_classes):
        # Drawn for a class without samples too: its absence must not shift the others.
        projection = torch.randn(
            flat.shape[1], num_classes, generator=rule or generator, dtype=torch.float64
        )
        of_class = (truth.cpu() == label).nonzero().squeeze(1)
        for rows in torch.split(of_class, _chunk_rows(flat)):
            logits = ((flat[rows].cpu().double() - centre) * scale) @ projection
            logits[:, label] = -math.inf
            shares = logits.softmax(dim=1) * rates[rows, None]
            shares[:, label] = 1 - rates[rows]
            probabilities[rows] = shares
    return probabilities


def flip_rates(rate: float, size: int, generator: torch.Generator) -> Tensor:
    """Flip rates from a normal distribution around `rate`, truncated to [0, 1].

    Truncation moves the mean inwards where it cuts: 0.4 stays 0.400 and 0.2 becomes 0.206, but
    0.1 becomes 0.129 and 0 becomes 0.080, as in the paper. For no noise at all ask for none.

    Returns:
        (size,) float64.
    """
    check_rate(rate)
    lowest, highest = torch.special.ndtr(
        torch.tensor([(0 - rate) / SPREAD, (1 - rate) / SPREAD], dtype=torch.float64)
    )
    draws = torch.rand(size, generator=generator, dtype=torch.float64)
    quantiles: Tensor = torch.special.ndtri(lowest + draws * (highest - lowest))
    # A draw next to an end rounds to a quantile a little outside, or infinitely far.
    return (rate + SPREAD * quantiles).clamp(0, 1)


def _check(rate: float, num_classes: int, truth: Tensor, inputs: Tensor) -> None:
    check_rate(rate)
    check_labels(truth, num_classes)
    if num_classes < 2:
        raise LabelNoiseError(f"noise needs at least 2 classes to confuse, not {num_classes}")
    if inputs.dim() == 0 or len(inputs) != len(truth):
        raise LabelNoiseError(f"{len(truth)} labels but inputs of shape {tuple(inputs.shape)}")


def _standardisation(flat: Tensor) -> tuple[Tensor, Tensor]:
    """Centre and factor of every feature, the factor divided by the root of their number.

    Accumulated in chunks relative to the first row: a constant feature then sums to exactly zero,
    and its variance is exactly zero rather than a rounding error to be blown up to 1.
    """
    origin = flat[:1].cpu().double().sum(dim=0)  # the first row, or zeros if there is none
    total = torch.zeros_like(origin)
    squares = torch.zeros_like(origin)
    for part in torch.split(flat, _chunk_rows(flat)):
        shifted = part.cpu().double() - origin
        total += shifted.sum(dim=0)
        squares += shifted.square().sum(dim=0)
    mean = total / max(1, len(flat))
    variance = squares / max(1, len(flat)) - mean.square()
    if not variance.isfinite().all():
        raise LabelNoiseError("instance noise needs finite inputs: they hold NaN or infinity")
    changing = variance > 0
    scale = torch.where(changing, variance, 1).rsqrt() * changing
    return origin + mean, scale / math.sqrt(max(1, int(changing.sum())))


def _chunk_rows(flat: Tensor) -> int:
    return max(1, CHUNK // max(1, flat.shape[1]))
