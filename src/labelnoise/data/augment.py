"""Random crops and flips of a whole batch of images at a time.

A generator is one of the CPU, so that every device sees the same augmentations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as functional
from torch import Tensor

from labelnoise.data.pages import unfilled

PADDING = 4
LARGE = 1 << 14  # values of an image: three times 74x74


def crop_and_flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Shift every image by up to 4 pixels, filling with 0, and mirror half of them.

    Args:
        images: (batch, channels, height, width).
        generator: What draws.
    """
    _, _, height, width = images.shape
    return _windows(functional.pad(images, [PADDING] * 4), generator, height, width)


def crop_to(side: int) -> Callable[[Tensor, torch.Generator], Tensor]:
    """What takes a square of this side out of every image, anywhere, and mirrors half of them."""
    return partial(_windows, height=side, width=side)


def _windows(images: Tensor, generator: torch.Generator, height: int, width: int) -> Tensor:
    """A part of every image, of the same size and anywhere in it; half of them mirrored."""
    batch, channels = images.shape[:2]
    places = torch.tensor(images.shape[2:]) - torch.tensor([height, width]) + 1
    draw = torch.rand(3, batch, generator=generator)
    down, right = (draw[:2] * places[:, None]).long()
    mirrored = draw[2] < 0.5
    if images.device.type == "cpu" and channels * height * width >= LARGE:
        return _one_by_one(images, down, right, mirrored, height, width)
    return _at_once(images, down, right, mirrored, height, width)


def _one_by_one(
    images: Tensor, down: Tensor, right: Tensor, mirrored: Tensor, height: int, width: int
) -> Tensor:
    """For large images on a CPU: copies of whole lines, where an index would go by the pixel."""
    cropped = unfilled((*images.shape[:2], height, width), images.dtype, images.device)
    draws = zip(down.tolist(), right.tolist(), mirrored.tolist(), strict=True)
    for image, place, (top, left, turn) in zip(images, cropped, draws, strict=True):
        part = image[:, top : top + height, left : left + width]
        place.copy_(part.flip(2) if turn else part)
    return cropped


def _at_once(
    images: Tensor, down: Tensor, right: Tensor, mirrored: Tensor, height: int, width: int
) -> Tensor:
    """For small images, and for devices that are told of every copy."""
    device = images.device
    windows = images.unfold(2, height, 1).unfold(3, width, 1)  # a view: all of them, none copied
    sample = torch.arange(len(images), device=device)
    cropped = windows[sample, :, down.to(device), right.to(device)]
    turn = mirrored.nonzero().squeeze(1).to(device)  # of the CPU: no device is waited for
    cropped[turn] = cropped[turn].flip(3)
    return cropped
