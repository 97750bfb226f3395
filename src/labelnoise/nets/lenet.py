"""LeNet-5 (LeCun et al. 1998) with ReLU and max pooling; 61,706 parameters on MNIST."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from labelnoise.nets.images import image_shape

SMALLEST = 12  # what leaves one pixel for the dense part


def lenet(shape: Sequence[int], num_classes: int) -> nn.Module:
    """Two 5x5 convolutions with pooling, then three dense layers.

    Pooling before ReLU gives the same numbers to the bit, and leaves ReLU a quarter of the work.
    """
    channels, height, width = image_shape(shape, "lenet", SMALLEST)
    rows, columns = (height // 2 - 4) // 2, (width // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(inplace=True),
        nn.Conv2d(6, 16, 5),
        nn.MaxPool2d(2),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Linear(16 * rows * columns, 120),
        nn.ReLU(inplace=True),
        nn.Linear(120, 84),
        nn.ReLU(inplace=True),
        nn.Linear(84, num_classes),
    )
