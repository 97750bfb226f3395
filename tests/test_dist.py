"""Real processes over gloo: what they sum up is what one process would have seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

from labelnoise import dist

SCRIPT = """
import sys
import torch
from torch import distributed
from labelnoise import Evidence, dist
from labelnoise.rules.posterior import Posterior
from labelnoise.rules.remembered import RememberedBatch, RememberedClass

rank, world, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
distributed.init_process_group(
    "gloo", init_method=f"file://{folder}/meet{world}", rank=rank, world_size=world
)
assert dist.world() == world
chance = torch.Generator().manual_seed(0)
rules = {"evidence": Evidence(5, samples=100), "posterior": Posterior(5, samples=100)}
rules |= {"batch": RememberedBatch(5, 1.0), "class": RememberedClass(5, 1.0)}
for step in range(41):
    probs = (2 * torch.randn(48, 5, generator=chance)).softmax(dim=1)
    labels = torch.randint(5, (48,), generator=chance)
    # Uneven shares: rank 1 has five rows, in one step none.
    sizes = {1: [48], 2: [48, 0] if step == 3 else [43, 5]}[world]
    mine = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    for rule in rules.values():
        rule.remember(probs[mine], labels[mine], rule.judge(probs[mine], labels[mine]))
states = {name: rule.state_dict() for name, rule in rules.items()}
torch.save(states, f"{folder}/{world}-{rank}.pt")
distributed.destroy_process_group()
"""


def test_alone_everything_is_its_own_total() -> None:
    rows = torch.arange(6).view(3, 2)
    assert dist.world() == 1
    assert dist.total(rows).equal(torch.arange(6).view(3, 2))


def test_two_processes_gather_the_evidence_of_one(tmp_path: Path) -> None:
    for world in (1, 2):
        command = [sys.executable, "-c", SCRIPT]
        started = [
            subprocess.Popen([*command, str(rank), str(world), str(tmp_path)])
            for rank in range(world)
        ]
        assert [process.wait(timeout=120) for process in started] == [0] * world
    alone, *both = (torch.load(tmp_path / f"{name}.pt") for name in ("1-0", "2-0", "2-1"))
    for state in both:
        for name, values in alone["evidence"].items():
            if name != "_extra_state":  # what waits is each process's own
                assert torch.allclose(state["evidence"][name], values, rtol=1e-5), name
        for rule in ("batch", "class"):
            for name, values in alone[rule].items():
                assert torch.allclose(state[rule][name], values, rtol=1e-5), (rule, name)
    assert int(alone["evidence"]["seen"]) == 40 * 48
    assert float(alone["posterior"]["before"].sum()) > 0
    for name in ("before", "seen"):
        assert all(torch.equal(each["posterior"][name], alone["posterior"][name]) for each in both)
    # Those of an epoch that is not over are each process's own.
    votes = sum(each["posterior"]["votes"] for each in both)
    assert torch.equal(torch.as_tensor(votes), alone["posterior"]["votes"])
