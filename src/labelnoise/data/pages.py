"""Memory for mini-batches of large images, in large pages.

The system fills a page with zeros when it is first touched, and memory beyond what the C library
keeps goes back to it as soon as a mini-batch is dropped. In pages of 4 KB, getting the memory for
the next one takes three times as long as the arithmetic that fills it.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence

import torch
from torch import Tensor

LARGE = 32 << 20  # bytes: glibc keeps no more than that of what is freed


def unfilled(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """`torch.empty`; what is large lies in large pages where the system has them."""
    count = math.prod(shape)
    size = count * dtype.itemsize
    if size >= LARGE and device.type == "cpu" and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError:  # there is no room for it in one piece, or no such pages
            pass
        else:
            # The tensor holds it, and it goes back with the tensor.
            return torch.frombuffer(memory, dtype=dtype, count=count).view(*shape)
    return torch.empty(*shape, dtype=dtype, device=device)
