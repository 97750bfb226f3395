from __future__ import annotations

import pytest
import torch

from labelnoise.data.pages import LARGE, unfilled

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("size", [0, 96, LARGE - 96, LARGE, LARGE + 96])
def test_memory_of_any_size_can_be_written_and_read(size: int, dtype: torch.dtype) -> None:
    shape = (size // dtype.itemsize // 12, 3, 2, 2)
    found = unfilled(shape, dtype, CPU)
    assert (found.shape, found.dtype, found.device) == (shape, dtype, CPU)
    assert found.is_contiguous()
    found.fill_(7)
    assert found.eq(7).all()
    part = found[-2:]
    other = unfilled(shape, dtype, CPU).fill_(9)
    del found
    assert part.eq(7).all()  # what is still looked at stays
    assert other.eq(9).all()


def test_memory_goes_back_when_nobody_looks_at_it_any_more() -> None:
    def megabytes() -> float:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096 / 2**20

    before = megabytes()
    for _ in range(20):
        unfilled((2 * LARGE,), torch.uint8, CPU).fill_(1)
    assert megabytes() - before < 2 * LARGE / 2**20


def test_other_devices_have_memory_of_their_own() -> None:
    meta = torch.device("meta")
    assert unfilled((2 * LARGE,), torch.uint8, meta).device == meta
