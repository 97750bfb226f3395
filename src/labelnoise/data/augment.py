"""Random crops and flips of a whole batch of images at a time.

A generator is one of the CPU, so that every device sees the same augmentations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as functional
from torch import Tensor

PADDING = 4


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
    batch, device = len(images), images.device
    places = torch.tensor(images.shape[2:]) - torch.tensor([height, width]) + 1
    draw = torch.rand(3, batch, generator=generator)
    down, right = (draw[:2] * places[:, None]).long().to(device)
    rows = down[:, None] + torch.arange(height, device=device)
    columns = right[:, None] + torch.arange(width, device=device)
    # Reading the columns backwards mirrors the image without another copy of the batch.
    mirrored = (draw[2, :, None] < 0.5).to(device)
    columns = torch.where(mirrored, columns.flip(1), columns)
    sample = torch.arange(batch, device=device)[:, None, None]
    # Advanced indices around a slice put its axis last: (batch, height, width, channels).
    cropped = images[sample, :, rows[:, :, None], columns[:, None, :]]
    return cropped.permute(0, 3, 1, 2).contiguous()
