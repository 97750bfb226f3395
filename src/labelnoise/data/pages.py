"""Memory for mini-batches of large images, used again and again.

Memory beyond what the C library keeps goes back to the system as soon as a mini-batch is dropped,
and the system fills every page with zeros when it is touched again: getting the memory for the next
one takes three times as long as the arithmetic that fills it. So some of it is kept here, in large
pages where there are any.
"""

from __future__ import annotations

import math
import mmap
import os
import weakref
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

LARGE = 32 << 20  # bytes: glibc keeps no more than that of what is freed
KEPT = 2  # pieces of memory: a mini-batch that is left and one that is made

_free: list[mmap.mmap] = []


def unfilled(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """`torch.empty`; what is large may lie where a tensor was that nobody looks at any more."""
    size = math.prod(shape) * dtype.itemsize
    memory = _memory(size) if size >= LARGE and device.type == "cpu" else None
    if memory is None:
        return torch.empty(*shape, dtype=dtype, device=device)
    array = np.frombuffer(memory, np.uint8, size)
    # All views of a tensor hold its array, and nothing else does.
    weakref.finalize(array, _give_back, memory).atexit = False
    return torch.from_numpy(array).view(dtype).view(*shape)


def _memory(size: int) -> mmap.mmap | None:
    """Some that is free and not much too large, or new; `None` where there is none to be had."""
    for place, memory in enumerate(_free):
        if size <= len(memory) <= 2 * size:
            return _free.pop(place)
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        return None
    with suppress(OSError):  # this system has no such pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _give_back(memory: mmap.mmap) -> None:
    _free.insert(0, memory)
    del _free[KEPT:]


# A copy of this process would hold what is free as it was, while it is filled anew here.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_free.clear)
