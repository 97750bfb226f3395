"""Batch norm over some samples of a mini-batch as if all of them were there.

In a first pass over a mini-batch, the mean and deviation that every layer takes from it are kept;
in a second one over some of its samples, layers normalise by them, so that each sample comes out as
in the first. Backward, these statistics count as those of the samples that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode


def normalises(network: nn.Module) -> bool:
    """Whether samples of a mini-batch meet in the network's batch norm."""
    return any(isinstance(module, _BatchNorm) for module in network.modules())


class Statistics(TorchFunctionMode):
    """Where batch norm keeps what it takes from a mini-batch, or reuses what it took before.

    Args:
        before: The first pass, for a second one.

    Attributes:
        moments: (channels,) means and inverse deviations, one entry for every call of a layer in
            training mode, in order.
    """

    def __init__(self, before: Statistics | None = None) -> None:
        super().__init__()
        self.moments: list[tuple[Tensor, Tensor]] = []
        self._known = None if before is None else iter(before.moments)

    def __torch_function__(
        self,
        call: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Step in for batch norm alone."""
        call = self._norm if call is functional.batch_norm else call
        return call(*args, **(kwargs or {}))

    def _norm(
        self,
        inputs: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        """`torch.nn.functional.batch_norm`."""
        if training and self._known is not None:
            normed: Tensor = _Normed.apply(  # type: ignore[no-untyped-call]
                inputs, weight, bias, *next(self._known), eps
            )
            return normed
        normed, *moments = torch.native_batch_norm(
            inputs, weight, bias, running_mean, running_var, training, momentum, eps
        )
        if training:
            self.moments.append((moments[0], moments[1]))
        return normed


class _Normed(Function):
    """Batch norm by given statistics, differentiated as by its own."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        inverse: Tensor,
        eps: float,
    ) -> Tensor:
        ctx.save_for_backward(inputs, weight, mean, inverse)
        ctx.eps = eps
        variance = inverse.pow(-2).sub_(eps).clamp_(min=0)
        normed, *_ = torch.native_batch_norm(
            inputs, weight, bias, mean, variance, training=False, momentum=0.0, eps=eps
        )
        return normed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight, mean, inverse = ctx.saved_tensors
        wanted = list(ctx.needs_input_grad[:3])
        found = torch.ops.aten.native_batch_norm_backward(
            gradients[0], inputs, weight, None, None, mean, inverse, True, ctx.eps, wanted
        )
        return (*found, None, None, None)
