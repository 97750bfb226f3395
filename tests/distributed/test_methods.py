"""Two and three processes choose and descend as one does on the joined mini-batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.distributed import together

WORLDS = (1, 2, 3)
PATIENCE = 240  # seconds, on a machine that is busy with other tests
Found = dict[str, list[dict[str, Any]]]


def started(folder: Path, world: int, scope: str = "global") -> list[subprocess.Popen[bytes]]:
    command = [sys.executable, together.__file__]
    return [
        subprocess.Popen([*command, str(rank), str(world), str(folder), scope])
        for rank in range(world)
    ]


def waited(folder: Path, world: int, scope: str = "global") -> list[Found]:
    return [torch.load(folder / f"{scope}-{world}-{rank}.pt") for rank in range(world)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Found]]:
    """By number of processes, what each of them did."""
    folder = tmp_path_factory.mktemp("together")
    processes = [process for world in WORLDS for process in started(folder, world)]
    assert [process.wait(PATIENCE) for process in processes] == [0] * len(processes)
    return {world: waited(folder, world) for world in WORLDS}


@pytest.mark.long
@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("case", together.CASES)
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
            for mine, wanted in zip(each["gradients"], whole["gradients"], strict=True):
                assert (mine is None) == (wanted is None)
                if mine is not None:
                    assert torch.allclose(mine, wanted, rtol=0, atol=1e-6), number


@pytest.mark.long
def test_a_process_that_selects_nothing_was_among_them(found: dict[int, list[Found]]) -> None:
    for world in (2, 3):
        steps = [step for one in found[world] for step in one["bare batch"]]
        assert any(len(step["keep"]) and not step["keep"].any() for step in steps)
        assert any(step["keep"].any() for step in steps)


@pytest.mark.long
def test_with_a_scope_of_its_own_each_chooses_by_its_own_samples(
    found: dict[int, list[Found]], tmp_path: Path
) -> None:
    processes = started(tmp_path, 2, "local")
    assert [process.wait(PATIENCE) for process in processes] == [0, 0]
    first, second = (one["bare batch"] for one in waited(tmp_path, 2, "local"))
    for mine, other in zip(first, second, strict=True):
        for a, b in zip(mine["gradients"], other["gradients"], strict=True):
            assert torch.equal(a, b)  # they are averaged all the same
    shared = found[2][0]["bare batch"]
    assert not all(torch.equal(a["keep"], b["keep"]) for a, b in zip(first, shared, strict=True))
