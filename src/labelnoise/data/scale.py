"""How stored inputs become the numbers that a network sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from labelnoise.data.pages import unfilled
from labelnoise.data.stored import Files, Inputs, readable, walk
from labelnoise.errors import LabelNoiseError

PIXEL = 255.0  # the largest value of a byte
# Of ImageNet's red, green and blue in [0, 1]: what pre-trained networks expect.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ENOUGH = 4096  # images of a set too large to be read for its mean and deviation alone
CACHED = 1 << 18  # numbers at a time on a CPU: a megabyte stays in its cache from step to step
CHUNK = 4096  # rows at a time
CHUNK_VALUES = 1 << 24  # numbers at a time: 128 MB of float64


@dataclass(frozen=True)
class Scaling:
    """A map of the inputs, the same for training, validation, test and prediction.

    Attributes:
        shift: Subtracted first; a scalar, or one value a channel or feature.
        factor: Multiplied then.
        crop: Side of the square in the centre of an image that is all a network sees; an image that
            was cropped to it at random, for training, stays as it is.
    """

    shift: Tensor
    factor: Tensor
    crop: int | None = None

    def __call__(self, inputs: Tensor) -> Tensor:
        """Scale a whole batch: (batch, ...) of bytes or floats -> the same of floats."""
        if self.crop is not None:
            inputs = _centre(inputs, self.crop)
        # The copy is ours to change in place; floats would otherwise change in the data set itself.
        scaled = unfilled(inputs.shape, self.factor.dtype, inputs.device)
        if inputs.device.type != "cpu" or scaled.numel() <= CACHED:
            self._scale(inputs, scaled)
            return scaled
        rows = max(1, CACHED // inputs.shape[1:].numel())
        for values, part in zip(torch.split(inputs, rows), torch.split(scaled, rows), strict=True):
            self._scale(values, part)
        return scaled

    def _scale(self, inputs: Tensor, scaled: Tensor) -> None:
        scaled.copy_(inputs)
        if self._shifts:
            scaled.sub_(self.shift)
        if self._multiplies:
            scaled.mul_(self.factor)

    @cached_property
    def _shifts(self) -> bool:
        """Whether subtracting changes anything: raw pixels are read and written once less."""
        return bool(self.shift.any())

    @cached_property
    def _multiplies(self) -> bool:
        return bool((self.factor != 1).any())

    def to(self, device: torch.device) -> Scaling:
        """The same map on another device."""
        return replace(self, shift=self.shift.to(device), factor=self.factor.to(device))


def _centre(images: Tensor, side: int) -> Tensor:
    """The square in the middle of (batch, channels, height, width)."""
    top, left = ((length - side) // 2 for length in images.shape[2:])
    return images[:, :, top : top + side, left : left + side]


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
    for chunk in walk(inputs, max(1, min(CHUNK, CHUNK_VALUES // max(1, inputs.shape[1:].numel())))):
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


def imagenet(inputs: Inputs) -> Scaling:
    """As networks that were trained on ImageNet expect it; grey images by the mean of the colours.

    Floats are taken to lie in [0, 1] already.
    """
    channels = inputs.shape[1]
    if inputs.ndim != 4 or channels not in (1, 3):
        raise LabelNoiseError(
            f"scale 'imagenet' is for colour or grey images, the data have inputs of shape "
            f"{tuple(inputs.shape[1:])}: choose another one"
        )
    pixel = PIXEL if inputs.dtype == torch.uint8 else 1.0
    mean, deviation = (
        torch.tensor(values).view(1, 3, 1, 1).mean(dim=1, keepdim=True)
        if channels == 1
        else torch.tensor(values).view(1, 3, 1, 1)
        for values in (MEAN, DEVIATION)
    )
    return Scaling(mean * pixel, 1 / (deviation * pixel))


SCALES: dict[str, Callable[[Inputs], Scaling]] = {
    "raw": raw,
    "unit": unit,
    "standardised": standardised,
    "imagenet": imagenet,
}
