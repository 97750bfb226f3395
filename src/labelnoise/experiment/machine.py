"""What a training does with the machine: its cores and its memory."""

from __future__ import annotations

import ctypes
import os
import platform

import torch

# Of glibc's malloc.h.
TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4
PAD = 64 * 2**20  # bytes by which the heap grows


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def use_all_cores() -> None:
    """Let torch have the cores that this process may use, unless OMP_NUM_THREADS says otherwise."""
    if "OMP_NUM_THREADS" not in os.environ and hasattr(os, "sched_getaffinity"):
        torch.set_num_threads(len(os.sched_getaffinity(0)))


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
