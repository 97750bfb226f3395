"""What a training does with the machine."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from labelnoise.experiment.machine import suitable_threads
from labelnoise.nets import net_named

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


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(
    ("net", "shape", "batch_size", "threads"),
    [
        ("mlp", (1, 8, 8), 32, 1),
        ("mlp", (1, 8, 8), 128, 1),
        ("mlp", (1, 28, 28), 128, 2),
        ("cnn", (3, 32, 32), 128, 2),
    ],
)
def test_small_steps_have_one_thread(
    net: str, shape: tuple[int, ...], batch_size: int, threads: int
) -> None:
    network = net_named(net)(shape, 10)
    with suitable_threads(network, shape, batch_size):
        assert torch.get_num_threads() == threads
    assert torch.get_num_threads() == 2
    assert network.training


@pytest.mark.usefixtures("two_threads")
def test_threads_come_back_after_an_error() -> None:
    network = net_named("mlp")((4,), 2)
    with pytest.raises(KeyError), suitable_threads(network, (4,), 8):
        raise KeyError
    assert torch.get_num_threads() == 2
