"""What a convolutional net asks of its input."""

from __future__ import annotations

from collections.abc import Sequence

from labelnoise.errors import LabelNoiseError


def image_shape(shape: Sequence[int], net: str, smallest: int) -> tuple[int, int, int]:
    """`shape` as (channels, height, width), or an error that names a net that would do."""
    if len(shape) != 3 or min(shape[1:]) < smallest:
        size = "x".join(map(str, shape))
        raise LabelNoiseError(
            f"net {net!r} needs images of at least {smallest}x{smallest} pixels, "
            f"the data have {size}: use --net mlp"
        )
    channels, height, width = shape
    return channels, height, width
