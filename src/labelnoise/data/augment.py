"""Random crops and flips of a whole batch of images at a time."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor

PADDING = 4


def crop_and_flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Shift every image by up to 4 pixels, filling with 0, and mirror half of them.

    Args:
        images: (batch, channels, height, width).
        generator: A CPU generator, so that every device sees the same augmentations.
    """
    batch, _, height, width = images.shape
    device = images.device
    draw = torch.rand(3, batch, generator=generator).to(device)
    down, right = (draw[:2] * (2 * PADDING + 1)).long()
    rows = down[:, None] + torch.arange(height, device=device)
    columns = right[:, None] + torch.arange(width, device=device)
    # Reading the columns backwards mirrors the image without another copy of the batch.
    columns = torch.where(draw[2, :, None] < 0.5, columns.flip(1), columns)
    padded = functional.pad(images, [PADDING] * 4)
    sample = torch.arange(batch, device=device)[:, None, None]
    # Advanced indices around a slice put its axis last: (batch, height, width, channels).
    cropped = padded[sample, :, rows[:, :, None], columns[:, None, :]]
    return cropped.permute(0, 3, 1, 2).contiguous()
