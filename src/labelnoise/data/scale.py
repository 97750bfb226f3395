"""How stored inputs become the numbers that a network sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from labelnoise.data.stored import Files, Inputs, readable, walk

PIXEL = 255.0  # the largest value of a byte
ENOUGH = 4096  # images of a set too large to be read for its mean and deviation alone
CHUNK = 4096  # rows at a time


@dataclass(frozen=True)
class Scaling:
    """An affine map of the inputs, the same for training, validation, test and prediction.

    Attributes:
        shift: Subtracted first; a scalar, or one value a channel or feature.
        factor: Multiplied then.
    """

    shift: Tensor
    factor: Tensor

    def __call__(self, inputs: Tensor) -> Tensor:
        """Scale a whole batch: (batch, ...) of bytes or floats -> the same of floats."""
        # The copy is ours to change in place; floats would otherwise change in the data set itself.
        scaled = inputs.to(self.factor.dtype, copy=True)
        if self._shifts:
            scaled.sub_(self.shift)
        return scaled.mul_(self.factor) if self._multiplies else scaled

    @cached_property
    def _shifts(self) -> bool:
        """Whether subtracting changes anything: raw pixels are read and written once less."""
        return bool(self.shift.any())

    @cached_property
    def _multiplies(self) -> bool:
        return bool((self.factor != 1).any())

    def to(self, device: torch.device) -> Scaling:
        """The same map on another device."""
        return Scaling(self.shift.to(device), self.factor.to(device))


def raw(inputs: Inputs) -> Scaling:
    """Leave the numbers as stored; pixels stay 0..255, as in the authors' released code."""
    return Scaling(torch.tensor(0.0), torch.tensor(1.0))


def unit(inputs: Inputs) -> Scaling:
    """Bytes to [0, 1]; floats stay."""
    pixel = PIXEL if inputs.dtype == torch.uint8 else 1.0
    return Scaling(torch.tensor(0.0), torch.tensor(1.0 / pixel))


def standardised(inputs: Inputs) -> Scaling:
    """Mean 0 and deviation 1 over the training part, by channel of images or by feature."""
    if isinstance(inputs, Files) and inputs.unseen and len(inputs) > ENOUGH:
        inputs = inputs[torch.linspace(0, len(inputs) - 1, ENOUGH).long()]
    dims = [0, *range(2, inputs.ndim)]
    rows = 0
    total = squares = torch.zeros((), dtype=torch.float64)
    # A float64 copy of all pixels would take eight times the room.
    read = 0
    for chunk in walk(inputs, CHUNK):
        keep = readable(inputs, torch.arange(read, read + len(chunk)))
        read += len(chunk)
        values = (chunk if keep is None else chunk[keep]).double()
        rows += len(values)
        total = total + values.sum(dims, keepdim=True)
        squares = squares + values.square().sum(dims, keepdim=True)
    count = max(1, rows) * inputs.shape[2:].numel()
    mean = total / count
    deviation = (squares / count - mean.square()).clamp(min=0).sqrt()
    # A constant feature says nothing; dividing by its deviation would make rounding shout.
    factor = torch.where(deviation > 1e-6 * mean.abs().clamp(min=1e-6), 1 / deviation, 1.0)
    return Scaling(mean.float(), factor.float())


SCALES: dict[str, Callable[[Inputs], Scaling]] = {
    "raw": raw,
    "unit": unit,
    "standardised": standardised,
}
