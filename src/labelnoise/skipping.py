"""Layers whose backward pass leaves out the samples that do not count.

Where a sample has weight 0, every gradient that reaches it is 0, and its share of a product is
nothing but multiplications by 0. Within `Skipping`, dense layers and convolutions multiply the rows
of the other samples alone, once these are known. Everything else is done as ever.

In batch norm samples meet: through the mean and the deviation, a sample that counts has a gradient
for those that do not. There some of these go backward, too, and stand for all of them: the gradient
differs by chance from that of all samples, the more the deeper the network is (what it does to
accuracy: docs/results/speed.md). No other layer may mix samples; that gradients are 0 where they
should be is checked until it was so once for mini-batches of that size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor
from torch.autograd import Function
from torch.overrides import TorchFunctionMode

STANDING_FOR = 6  # samples that do not count, at most, by one of them, in batch norm
STANDING = 16  # of them at least, where there are so many


class Skipping(TorchFunctionMode):
    """Where layers wait to be told which samples count.

    Args:
        samples: How many there are; what has another number of rows is none of them.
        checked: Whether it is known that the network treats so many samples apart.

    Attributes:
        rows: Those that go backward; `None` for all. Products want their numbers: a mask would have
            to be counted again by every layer.
        asked: Whether a layer has asked for them.
        mixed: Whether a sample was found that counts although it should not.
        norms: In how many batch norms samples have met.
    """

    def __init__(self, samples: int, *, checked: bool) -> None:
        super().__init__()
        self.rows: Tensor | None = None
        self.asked = self.mixed = False
        self.norms = 0
        self._samples, self._checked = samples, checked
        self._counting = samples

    def leave_out(self, weight: Tensor) -> int:
        """Leave out of the backward pass the samples without a weight (batch,).

        Where none or all have one, all go backward.

        Returns:
            How many have one.
        """
        counting = weight.nonzero().squeeze(1)
        if 0 < len(counting) < len(weight):
            self.rows, self._counting = counting, len(counting)
            if self.norms:
                others = weight.logical_not().nonzero().squeeze(1)
                self.rows = torch.cat([counting, others[:: _one_in(len(others))]])
        return len(counting)

    def shares(self) -> list[tuple[slice, float]]:
        """Parts of `rows`, with how many samples each of them stands for."""
        counting = self._counting
        drawn = 0 if self.rows is None else len(self.rows) - counting
        times = (self._samples - counting) / max(1, drawn)
        return [(slice(counting), 1.0), (slice(counting, None), times)]

    def __torch_function__(
        self,
        call: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Step in where there are products to be saved."""
        layer = LAYERS.get(call)
        if layer is None or not args or not self._suits(args[0]):
            return call(*args, **(kwargs or {}))
        return layer(self, *args, **(kwargs or {}))

    def _suits(self, inputs: Tensor) -> bool:
        """Whether these are samples, and nobody else has a hand in the gradient.

        Autocast, vmap and checkpoints, which repeat a forward pass from saved tensors, have.
        """
        return (
            inputs.ndim > 1
            and len(inputs) == self._samples
            and not torch.is_autocast_enabled(inputs.device.type)
            and torch._C._functorch.peek_interpreter_stack() is None
            and torch._C._autograd._top_saved_tensors_default_hooks(True) is None
        )

    def counting(self, gradient: Tensor) -> Tensor | None:
        """The rows to go on with, where all others have no gradient."""
        self.asked = True
        if self.rows is None or self._checked:
            return self.rows
        if bool(gradient.index_fill(0, self.rows, 0).any()):
            self.mixed, self.rows = True, None
        return self.rows


def _one_in(others: int) -> int:
    """Which part of those left out stands for all; mini-batches are in random order."""
    return max(1, min(STANDING_FOR, others // STANDING))


def rows_of(values: Tensor, rows: Tensor) -> Tensor:
    """Some rows, in the same order of memory: index_select alone would put channels first."""
    if _channels_last(values):
        return values.permute(0, 2, 3, 1).index_select(0, rows).permute(0, 3, 1, 2)
    return values.index_select(0, rows)


def among_zeros(values: Tensor, rows: Tensor, like: Tensor) -> Tensor:
    """`values` at their rows, 0 at all others, laid out as `like`."""
    zeros = torch.zeros_like(like)
    place, values_there = zeros, values
    if _channels_last(like):
        place, values_there = zeros.permute(0, 2, 3, 1), values.permute(0, 2, 3, 1)
    place.index_copy_(0, rows, values_there)
    return zeros


def _channels_last(values: Tensor) -> bool:
    return values.ndim == 4 and values.is_contiguous(memory_format=torch.channels_last)


class _Linear(Function):
    """A dense layer."""

    @staticmethod
    def forward(
        ctx: Any, skipping: Skipping, inputs: Tensor, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        _, inputs_too, weight_too, _ = ctx.needs_input_grad
        ctx.save_for_backward(inputs if weight_too else None, weight if inputs_too else None)
        ctx.skipping, ctx.shape = skipping, inputs.shape
        return functional.linear(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,), (inputs, weight) = gradients, ctx.saved_tensors
        rows = ctx.skipping.counting(gradient)
        if rows is not None:
            gradient = gradient.index_select(0, rows)
        back = of_weight = of_bias = None
        if weight is not None:
            back = gradient @ weight
            if rows is not None:
                back = back.new_zeros(ctx.shape).index_copy_(0, rows, back)
        flat = gradient.flatten(0, -2)
        if inputs is not None:
            inputs = inputs if rows is None else inputs.index_select(0, rows)
            of_weight = flat.T @ inputs.flatten(0, -2)
        if ctx.needs_input_grad[3]:
            of_bias = flat.sum(dim=0)
        return None, back, of_weight, of_bias


class _Convolution(Function):
    """A convolution of images."""

    @staticmethod
    def forward(
        ctx: Any,
        skipping: Skipping,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        *settings: Any,
    ) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.skipping, ctx.settings = skipping, settings
        ctx.bias = None if bias is None else bias.shape
        return torch.conv2d(inputs, weight, bias, *settings)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,), (inputs, weight) = gradients, ctx.saved_tensors
        rows, whole = ctx.skipping.counting(gradient), inputs
        if rows is not None:
            gradient, inputs = rows_of(gradient, rows), rows_of(inputs, rows)
        stride, padding, dilation, groups = ctx.settings
        back, of_weight, of_bias = torch.ops.aten.convolution_backward(
            *(gradient, inputs, weight, ctx.bias, stride, padding, dilation),
            *(False, (0, 0), groups, ctx.needs_input_grad[1:4]),
        )
        if back is not None and rows is not None:
            back = among_zeros(back, rows, whole)
        return (None, back, of_weight, of_bias, *(None for _ in ctx.settings))


class _Norm(Function):
    """Batch norm by the statistics of all samples."""

    @staticmethod
    def forward(
        ctx: Any,
        skipping: Skipping,
        inputs: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        momentum: float,
        eps: float,
    ) -> Tensor:
        normed, mean, inverse = torch.native_batch_norm(
            inputs, weight, bias, running_mean, running_var, True, momentum, eps
        )
        ctx.save_for_backward(inputs, weight, mean, inverse)
        ctx.skipping, ctx.eps = skipping, eps
        return normed

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,), (inputs, weight, mean, inverse) = gradients, ctx.saved_tensors
        rows, whole = ctx.skipping.counting(gradient), inputs
        wanted = ctx.needs_input_grad[1:4]
        if rows is not None:
            gradient, inputs = rows_of(gradient, rows), rows_of(inputs, rows)
            wanted = (False, True, True)
        weight = torch.ones_like(mean) if weight is None else weight
        back, of_weight, of_bias = torch.ops.aten.native_batch_norm_backward(
            *(gradient, inputs, weight, None, None, mean, inverse, True, ctx.eps), wanted
        )
        if rows is not None and ctx.needs_input_grad[1]:
            # What all samples owe to mean and deviation; a drawn one owes it for those it is for.
            scale = weight * inverse
            slope = -scale * inverse * of_weight * len(mean) / whole.numel()
            level = -scale * of_bias * len(mean) / whole.numel() - slope * mean
            scale, slope, level = (
                values.to(inputs.dtype).view(-1, *(1 for _ in inputs.shape[2:]))
                for values in (scale, slope, level)
            )
            back = torch.empty_like(inputs)
            for part, times in ctx.skipping.shares():
                torch.addcmul(level * times, inputs[part], slope * times, out=back[part])
            back = among_zeros(back.addcmul_(gradient, scale), rows, whole)
        of_weight = of_weight if ctx.needs_input_grad[2] else None
        of_bias = of_bias if ctx.needs_input_grad[3] else None
        return (None, back, of_weight, of_bias, None, None, None, None)


def _linear(
    skipping: Skipping, inputs: Tensor, weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """`torch.nn.functional.linear`."""
    made: Tensor = _Linear.apply(skipping, inputs, weight, bias)  # type: ignore[no-untyped-call]
    return made


def _convolution(
    skipping: Skipping,
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[int] | int = 1,
    padding: Sequence[int] | int | str = 0,
    dilation: Sequence[int] | int = 1,
    groups: int = 1,
) -> Tensor:
    """`torch.nn.functional.conv2d`."""
    numbers = [(n, n) if isinstance(n, int) else n for n in (stride, padding, dilation)]
    if inputs.ndim != 4 or isinstance(padding, str):
        return functional.conv2d(inputs, weight, bias, stride, padding, dilation, groups)
    made: Tensor = _Convolution.apply(  # type: ignore[no-untyped-call]
        skipping, inputs, weight, bias, *numbers, groups
    )
    return made


def _norm(
    skipping: Skipping,
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
    if not training:
        return functional.batch_norm(
            inputs, running_mean, running_var, weight, bias, training, momentum, eps
        )
    skipping.norms += inputs.requires_grad
    made: Tensor = _Norm.apply(  # type: ignore[no-untyped-call]
        skipping, inputs, weight, bias, running_mean, running_var, momentum, eps
    )
    return made


LAYERS: dict[Callable[..., Any], Callable[..., Tensor]] = {
    functional.linear: _linear,
    functional.conv2d: _convolution,
    functional.batch_norm: _norm,
}
