"""Two and three processes choose and descend as one does on the joined mini-batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.distributed import together
from tests.distributed.processes import left, started

pytestmark = pytest.mark.long

WORLDS = (1, 2, 3)
Found = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Found]]:
    """By number of processes, what each of them did."""
    folder = tmp_path_factory.mktemp("together")
    processes = {world: started(together, folder, world) for world in WORLDS}
    return {world: left(group, folder) for world, group in processes.items()}


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("case", [*together.CASES, *together.ACCUMULATED])
def test_all_processes_do_what_one_does(
    found: dict[int, list[Found]], case: str, world: int
) -> None:
    alone = found[1][0][case]
    parts = [one[case] for one in found[world]]
    for number, whole in enumerate(alone):
        here = [part[number] for part in parts]
        for name in ("index", "weight", "keep"):
            joined = torch.cat([each[name] for each in here])
            assert torch.allclose(joined.double(), whole[name].double(), atol=1e-6), (number, name)
        loss = torch.stack([each["loss"] for each in here]).mean()
        assert torch.allclose(loss, whole["loss"], atol=1e-6), number
        for each in here:
            for name in ("gradients", "parameters"):
                for mine, wanted in zip(each[name], whole[name], strict=True):
                    assert (mine is None) == (wanted is None)
                    if mine is not None:
                        assert torch.allclose(mine, wanted, rtol=0, atol=1e-6), (number, name)


def test_a_process_that_selects_nothing_was_among_them(found: dict[int, list[Found]]) -> None:
    for world in (2, 3):
        steps = [step for one in found[world] for step in one["bare batch"]]
        assert any(len(step["keep"]) and not step["keep"].any() for step in steps)
        assert any(step["keep"].any() for step in steps)
