"""The paper's MLP: one hidden layer of 256 units (784-256-10 on MNIST)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import nn

HIDDEN = 256


def mlp(shape: Sequence[int], num_classes: int) -> nn.Module:
    """Dense layers on the flattened input."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(shape), HIDDEN),
        nn.ReLU(inplace=True),
        nn.Linear(HIDDEN, num_classes),
    )
