from __future__ import annotations

import os

import pytest
import torch

from labelnoise.data import pages
from labelnoise.data.pages import KEPT, LARGE, unfilled

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


def test_memory_that_nobody_looks_at_any_more_is_used_again() -> None:
    first = unfilled((LARGE,), torch.uint8, CPU)
    place = first.data_ptr()
    part = first[5:7].fill_(7)
    del first
    others = [unfilled((LARGE,), torch.uint8, CPU).fill_(9) for _ in range(4)]
    assert place not in {other.data_ptr() for other in others}
    assert part.eq(7).all()
    del part, others[:3]
    assert len(pages._free) == KEPT
    found = unfilled((LARGE // 8, 2), torch.float32, CPU)
    assert len(pages._free) == KEPT - 1
    assert unfilled((3 * LARGE,), torch.uint8, CPU).fill_(1).eq(1).all()  # none is large enough
    assert found.fill_(2).eq(2).all()
    assert others[0].eq(9).all()


def test_copies_of_the_process_do_not_hold_what_is_free() -> None:
    unfilled((LARGE,), torch.uint8, CPU)
    assert pages._free
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert not pages._free


def test_other_devices_have_memory_of_their_own() -> None:
    meta = torch.device("meta")
    assert unfilled((2 * LARGE,), torch.uint8, meta).device == meta
