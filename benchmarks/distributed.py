"""What several processes cost and exchange: `python benchmarks/distributed.py`.

One and two processes take the same steps by turns, on the paper's MLP and CNN: a step of two with
half the mini-batch each against one with the whole. Bytes are counted where they are handed over
(statistics) and on the loopback device (all that gloo sends, gradients too). Then, on paper, what
8, 64 and 512 GPUs would do for ResNet-50: every assumption is printed.

"evidence" exchanges its tables in each of the first 32 steps and then less and less often, so what
is measured here, early in a training, is more than it sends later on.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from labelnoise import Batch, Learner, Method, Problem, dist
from labelnoise.learner import Recipe
from labelnoise.methods.bare import BARE
from labelnoise.methods.cce import CCE
from labelnoise.methods.coteaching import CoTeaching
from labelnoise.nets import NETS
from labelnoise.rules.evidence import TOGETHER

NETWORKS = {"mlp": (1, 28, 28), "cnn": (3, 32, 32)}
CLASSES, JOINED = 10, 256  # samples of all processes together
WARM = {"mlp": 40, "cnn": 3}
STEPS = {"mlp": 160, "cnn": 8}

CASES: dict[str, tuple[Callable[[], Method], str]] = {
    "cross-entropy": (CCE, "global"),
    "BARE, batch": (lambda: BARE(threshold="batch", backward="full"), "global"),
    "BARE, class": (lambda: BARE(threshold="class", backward="full"), "global"),
    "BARE, evidence": (lambda: BARE(backward="full"), "global"),
    "BARE, evidence, local": (lambda: BARE(backward="full"), "local"),
    "Co-teaching": (lambda: CoTeaching(backward="full"), "global"),
}

# On paper: what a GPU and its network do. Change them to yours.
IMAGES_A_SECOND = 2500  # ResNet-50 at 224, forward and backward, in bfloat16
BACKWARD = 2 / 3  # of the time of a step, in which gradients are sent while others are computed
PARAMETERS = 25_557_032
BATCH = 256
NODE = 8  # GPUs
INSIDE, OUTSIDE = 200e9, 25e9  # bytes a second by GPU in a node, by node between nodes
LATENCY, HOP = 20e-6, 15e-6  # seconds of a small exchange in a node, and by hop among nodes
LAST = 25e6  # bytes of gradients that DDP sends at a time; nothing hides the last of them
OFTEN = 3  # small exchanges in every step of BARE with "evidence": means, whether any counts, sum
SELDOM = 5  # and of its tables, once in as many steps as there are classes, but at least TOGETHER
GPUS = (8, 64, 512)


class Counted:
    """How many bytes were handed to torch.distributed, and in how many calls."""

    def __init__(self) -> None:
        self.bytes = self.calls = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Where it is counted."""
        before = {name: getattr(distributed, name) for name in ("all_reduce", "all_gather")}

        def counting(call: Callable[..., Any]) -> Callable[..., Any]:
            def counted(*words: Any, **named: Any) -> Any:
                self.calls += 1
                self.bytes += next(w for w in reversed(words) if torch.is_tensor(w)).nbytes
                return call(*words, **named)

            return counted

        for name, call in before.items():
            setattr(distributed, name, counting(call))
        try:
            yield
        finally:
            for name, call in before.items():
                setattr(distributed, name, call)


def loopback() -> int:
    """Bytes that this machine has sent to itself."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[8])
    return 0


def new_learner(net: str) -> Callable[[], Learner]:
    def make() -> Learner:
        torch.manual_seed(0)
        return Learner(NETS[net].build(NETWORKS[net], CLASSES), Recipe(schedule="constant"))

    return make


def measured(net: str, case: str) -> dict[str, float]:
    """Seconds of a step of this process, and what was exchanged in it."""
    make, scope = CASES[case]
    chance = torch.Generator().manual_seed(0)
    inputs = torch.rand(JOINED, *NETWORKS[net], generator=chance)
    labels = torch.randint(CLASSES, (JOINED,), generator=chance)
    own = dist.part(JOINED)
    batch = Batch((inputs[own],), labels[own], torch.arange(JOINED)[own], time=20.0)
    method = make()
    method.setup(Problem(labels, CLASSES, new_learner(net), torch.Generator(), noise_rate=0.3))
    counted = Counted()
    with nullcontext() if scope == "global" else dist.alone():
        for _ in range(WARM[net]):
            method.step(batch)
        with counted.watching():
            sent, begin = loopback(), time.perf_counter()
            for _ in range(STEPS[net]):
                method.step(batch)
            seconds = time.perf_counter() - begin
    return {
        "seconds": seconds / STEPS[net],
        "statistics": counted.bytes / STEPS[net],
        "calls": counted.calls / STEPS[net],
        "wire": (loopback() - sent) / STEPS[net],
        "gradients": sum(p.nbytes for one in method.learners() for p in one.parameters),
    }


def child(rank: int, world: int, folder: Path, net: str) -> None:
    """One process of a round."""
    torch.set_num_threads(1)
    if world > 1:
        meet = f"file://{folder}/meet"
        distributed.init_process_group("gloo", init_method=meet, rank=rank, world_size=world)
    found = {case: measured(net, case) for case in CASES}
    (folder / f"{rank}.json").write_text(json.dumps(found))
    if world > 1:
        distributed.destroy_process_group()


def round_of(world: int, net: str) -> dict[str, dict[str, float]]:
    """What the first of so many new processes measured; all take the same steps."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--child", folder, "--net", net, "--world", str(world)]
        started = [
            subprocess.Popen([*command, "--rank", str(rank)])  # noqa: S603 - this very file
            for rank in range(world)
        ]
        for process in started:
            if process.wait():
                raise SystemExit("a process failed; see above")
        found: dict[str, dict[str, float]] = json.loads((Path(folder) / "0.json").read_text())
        return found


def compare(net: str, rounds: int) -> None:
    turns = [{world: round_of(world, net) for world in (1, 2)} for _ in range(rounds)]
    print(f"\n{net}, {JOINED} samples a step in all, {rounds} rounds, one thread a process\n")
    print(
        "| method | ms, 1 process | ms, 2 processes | ratio | quartiles | statistics, bytes a step "
        "| exchanges | gradients, bytes | on the wire, bytes |"
    )
    print("|---|---:|---:|---:|---|---:|---:|---:|---:|")
    for case in CASES:
        one, two = ([turn[world][case] for turn in turns] for world in (1, 2))
        ratios = [b["seconds"] / a["seconds"] for a, b in zip(one, two, strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
        middle = {
            key: statistics.median(each[key] for each in two) for key in two[0]
        }  # of processes, not of methods
        alone = statistics.median(each["seconds"] for each in one)
        print(
            f"| {case} | {1e3 * alone:.2f} | {1e3 * middle['seconds']:.2f} "
            f"| {statistics.median(ratios):.2f} | {low:.2f} to {high:.2f} "
            f"| {middle['statistics']:,.0f} | {middle['calls']:.1f} "
            f"| {middle['gradients']:,.0f} | {middle['wire']:,.0f} |"
        )


def on_paper(classes: int) -> None:
    """What DistributedDataParallel would do with ResNet-50, by arithmetic."""
    compute = BATCH / IMAGES_A_SECOND
    gradients = 4 * PARAMETERS
    # `evidence`: two sums a class and two scalars (one of eight bytes) in every step; now and then
    # two tables of classes squared, eight sums a class, and three a class and mini-batch.
    together = max(TOGETHER, classes)
    tables = 2 * classes**2 + 8 * classes + 3 * together * classes
    statistics_bytes = 4 * (2 * classes + 3 + tables / together)
    rounds = OFTEN + SELDOM / together
    print(f"\nOn paper: ResNet-50, {BATCH} images of {classes} classes by GPU")
    print(
        f"({IMAGES_A_SECOND:,} images a second by GPU; {gradients / 1e6:.0f} MB of gradients, ring "
        f"all-reduce, hidden behind the backward pass ({BACKWARD:.0%} of a step) where it fits, "
        f"but for the last {LAST / 1e6:.0f} MB; "
        f"{NODE} GPUs a node with {INSIDE / 1e9:.0f} GB/s each, {OUTSIDE / 1e9:.0f} GB/s between "
        f"nodes, sums in a node first; a small exchange takes {1e6 * LATENCY:.0f} us in a node and "
        f"{1e6 * HOP:.0f} us more for each of 2 log2(nodes) hops, nothing hides it, and there are "
        f"{rounds:.2f} of them; all GPUs are equally fast, and images are there in time)\n"
    )
    print(
        "| GPUs | compute, ms | gradients by GPU, MB | sent in, ms | not hidden, ms "
        "| statistics by GPU, bytes | sent in, ms | images a second | of perfect |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for gpus in GPUS:
        nodes = math.ceil(gpus / NODE)
        # A ring inside a node first; then its GPUs, each with its part of the sums, share the link
        # to other nodes.
        shares = 2 * (NODE - 1) / NODE, 2 * (nodes - 1) / nodes
        sent = gradients * (shares[0] + shares[1] / NODE)
        taken = gradients * (shares[0] / INSIDE + shares[1] / OUTSIDE)
        late = max(taken * LAST / gradients, taken - BACKWARD * compute)
        small = rounds * (LATENCY + HOP * 2 * math.log2(nodes))
        step = compute + late + small
        print(
            f"| {gpus} | {1e3 * compute:.1f} | {sent / 1e6:.0f} | {1e3 * taken:.1f} "
            f"| {1e3 * late:.1f} | {2 * statistics_bytes:,.0f} | {1e3 * small:.2f} "
            f"| {gpus * BATCH / step:,.0f} | {compute / step:.1%} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--net", choices=NETWORKS)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--world", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.rank, options.world, options.child, options.net)
        return
    for net in [options.net] if options.net else NETWORKS:
        compare(net, options.rounds)
    for classes in (14, 101, 1000):
        on_paper(classes)


if __name__ == "__main__":
    main()
