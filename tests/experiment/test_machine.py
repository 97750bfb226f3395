"""What a training does with the machine."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

STEPS, FLOATS = 100, 4_000_000  # blocks of 16 MB
FAULTS = f"""
import resource
import torch
from labelnoise.experiment.machine import keep_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range({STEPS}):
        torch.ones({FLOATS})
        torch.ones({2 * FLOATS})
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

torch.set_num_threads(1)
without = faults()
keep_memory()
faults()
print(without, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="is about glibc")
def test_freed_memory_is_used_again_without_asking_the_system() -> None:
    """Counted in pages that the system had to give, not in time."""
    done = subprocess.run(
        [sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True
    )
    without, kept = map(int, done.stdout.split())
    assert without > 10 * STEPS
    assert kept < STEPS
