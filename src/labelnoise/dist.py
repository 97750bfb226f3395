"""Several processes that train one network: the only importer of torch.distributed."""

from __future__ import annotations

from torch import Tensor, distributed


def world() -> int:
    """How many processes train together; 1 where none were started as a group."""
    grouped = distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size() if grouped else 1


def total(values: Tensor) -> Tensor:
    """The sum over all processes, in place; the same on each of them."""
    if world() > 1:
        distributed.all_reduce(values)
    return values
