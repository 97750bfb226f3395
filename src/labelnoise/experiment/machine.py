"""What a training does with the machine: its cores and its memory."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

# Of glibc's malloc.h.
TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4
PAD = 64 * 2**20  # bytes by which the heap grows

# Floating point operations of a step below which a second thread costs more than it does: with 10
# million two threads took 1.25 times as long as one, with 105 million 0.88 (docs/results/speed.md).
SMALL = 5e7
PASSES = 3  # forward, backward for weights, backward for activations


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_all_cores() -> None:
    """Let torch have the cores that this process may use, unless OMP_NUM_THREADS says otherwise."""
    if "OMP_NUM_THREADS" not in os.environ and hasattr(os, "sched_getaffinity"):
        torch.set_num_threads(len(os.sched_getaffinity(0)))


@contextmanager
def suitable_threads(network: nn.Module, shape: Sequence[int], batch_size: int) -> Iterator[None]:
    """One thread where steps are so small that several would only wait for each other."""
    some = next(network.parameters(), torch.empty(0))
    probe = torch.zeros(2, *shape, device=some.device)
    training, before = network.training, torch.get_num_threads()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network.eval()(probe)
    network.train(training)
    work = PASSES * counter.get_total_flops() / len(probe) * batch_size
    torch.set_num_threads(1 if work < SMALL else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def keep_memory() -> None:
    """Have this process keep freed memory for its next step.

    By default glibc gives large blocks back to the system and asks for them again in every step,
    and the system clears each page: a third of the time of the CNN on a CPU.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(MMAP_MAX, 0)
        libc.mallopt(TRIM_THRESHOLD, -1)
        libc.mallopt(TOP_PAD, PAD)
