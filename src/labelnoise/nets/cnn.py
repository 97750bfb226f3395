"""The paper's CNN for CIFAR-10: four 3x3 convolutions of 64, 128, 196 and 16 channels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from labelnoise.nets.images import image_shape

SMALLEST = 8  # three poolings halve the sides three times


def cnn(shape: Sequence[int], num_classes: int) -> nn.Module:
    """Convolution, batch norm, ReLU four times; 2x2 max pooling in the 1st, 2nd and 4th."""
    channels, height, width = image_shape(shape, "cnn", SMALLEST)
    net = nn.Sequential(
        *_block(channels, 64, nn.MaxPool2d(2)),
        *_block(64, 128, nn.MaxPool2d(2)),
        *_block(128, 196),
        *_block(196, 16, nn.MaxPool2d(2)),
        nn.Flatten(),
        nn.Linear(16 * (height // 8) * (width // 8), num_classes),
    )
    # The same numbers in another order in memory: a step takes three quarters of the time on a CPU.
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _block(before: int, after: int, *pooling: nn.Module) -> tuple[nn.Module, ...]:
    # The paper's table prints ReLU before the batch norm; the code that gave its numbers has it so.
    # Pooling first gives the same numbers to the bit, and leaves ReLU a quarter of the work.
    convolution = nn.Conv2d(before, after, 3, padding=1)
    return convolution, nn.BatchNorm2d(after), *pooling, nn.ReLU(inplace=True)
