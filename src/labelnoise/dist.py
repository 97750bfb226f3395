"""Several processes that train one network: the only importer of torch.distributed."""

from __future__ import annotations

import torch
from torch import Tensor, distributed


def world() -> int:
    """How many processes train together; 1 where none were started as a group."""
    grouped = distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size() if grouped else 1


def gathered(rows: Tensor) -> Tensor:
    """The rows of all processes, in the order of their ranks; each may have another number."""
    if world() == 1:
        return rows
    size = torch.tensor([len(rows)], device=rows.device)
    sizes = [torch.zeros_like(size) for _ in range(world())]
    distributed.all_gather(sizes, size)
    most = int(torch.cat(sizes).max())
    padded = rows.new_zeros(most, *rows.shape[1:])
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in sizes]
    distributed.all_gather(parts, padded)
    return torch.cat([part[: int(size)] for part, size in zip(parts, sizes, strict=True)])
