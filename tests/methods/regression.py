"""The network of slow references: softmax regression in NumPy, one sample after the other."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from torch import nn

Array = NDArray[np.float64]


def softmax(scores: Array) -> Array:
    """Of one sample's scores."""
    unnormalised = np.exp(scores - scores.max())
    result: Array = unnormalised / unnormalised.sum()
    return result


class Regression:
    """Logits W x + b under SGD with momentum 0.9, its gradients written out.

    Attributes:
        twice: Take the softmax of the probabilities once more before the loss.
    """

    def __init__(self, linear: nn.Linear, lr: float) -> None:
        self.weight: Array = linear.weight.detach().numpy().copy()
        self.bias: Array = linear.bias.detach().numpy().copy()
        self.lr = lr
        self.twice = False
        self.momentum = [np.zeros_like(self.weight), np.zeros_like(self.bias)]

    def probs(self, x: Array) -> Array:
        """What it gives each class."""
        return softmax(self.weight @ x + self.bias)

    def losses(self, inputs: Array, labels: list[int]) -> list[float]:
        """The cross-entropy of every sample."""
        found = []
        for x, y in zip(inputs, labels, strict=True):
            probs = self.probs(x)
            found.append(-math.log(softmax(probs)[y] if self.twice else probs[y]))
        return found

    def predicted(self, inputs: Array) -> list[int]:
        """The likeliest class of every sample."""
        return [int(self.probs(x).argmax()) for x in inputs]

    def descend(self, inputs: Array, labels: list[int], chosen: list[int]) -> None:
        """One step on the mean cross-entropy of the chosen samples; on none, the momentum alone."""
        slopes = [np.zeros_like(self.weight), np.zeros_like(self.bias)]
        for i in chosen:
            probs = self.probs(inputs[i])
            error = softmax(probs) if self.twice else probs.copy()
            error[labels[i]] -= 1
            if self.twice:  # through the first softmax: dp_j/dz_k = p_j (1[j = k] - p_k)
                error = probs * (error - error @ probs)
            slopes[0] += np.outer(error, inputs[i]) / len(chosen)
            slopes[1] += error / len(chosen)
        self.momentum = [0.9 * m + s for m, s in zip(self.momentum, slopes, strict=True)]
        self.weight = self.weight - self.lr * self.momentum[0]
        self.bias = self.bias - self.lr * self.momentum[1]
