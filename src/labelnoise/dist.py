"""Several processes that train one network: the only importer of torch.distributed.

`torchrun` starts the processes, `group` has them meet. What is asked of the others here is sums
over their mini-batches, a number by sample where samples are put in order, now and then an object.
Alone, and within `alone`, nobody is asked: everything is its own total.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from labelnoise.errors import LabelNoiseError

PATIENCE = timedelta(minutes=10)  # for a process that neither answers nor is known to be gone
HEARD = 2.0  # seconds that the first has to say what is wrong, before torchrun ends it with us
SIGNS = (  # of a process that is gone, in what the backends say
    *("connection", "timed out", "timeout", "broken pipe", "peer", "socket", "nccl", "aborted"),
    "has previously errored",
)
LOST = (
    "another process of the group is gone or no longer answers; finished epochs are safe: start "
    "the same command again"
)

Answer = TypeVar("Answer")

_by_itself: ContextVar[bool] = ContextVar("_by_itself", default=False)


def processes() -> int:
    """How many processes train one network together; 1 where none were started as a group."""
    grouped = distributed.is_available() and distributed.is_initialized()
    return distributed.get_world_size() if grouped else 1


def rank() -> int:
    """Which of them this is, from 0; the first one alone locks, writes and prints."""
    return distributed.get_rank() if processes() > 1 else 0


def world() -> int:
    """Over how many of them statistics go: all, or 1 within `alone`."""
    return 1 if _by_itself.get() else processes()


def stands_for() -> int:
    """For how many of them what this one has seen must do: its own, or all within `alone`."""
    return processes() // world()


@contextmanager
def alone() -> Iterator[None]:
    """Where this process keeps its statistics to itself."""
    before = _by_itself.set(True)
    try:
        yield
    finally:
        _by_itself.reset(before)


def total(values: Tensor) -> Tensor:
    """The sum over all processes, in place; the same on each of them."""
    if world() > 1:
        distributed.all_reduce(values)
    return values


def largest(values: Tensor) -> Tensor:
    """The largest of all processes, number by number, in place."""
    if world() > 1:
        distributed.all_reduce(values, op=distributed.ReduceOp.MAX)
    return values


def part(rows: int) -> slice:
    """Which of so many rows are this process's."""
    return slice(rows * rank() // processes(), rows * (rank() + 1) // processes())


def nowhere(values: Tensor) -> Tensor:
    """Whether no sample of any process has a value but 0: a boolean scalar."""
    return ~values.any() if world() == 1 else total(values.any().long()) == 0


def gathered(values: Tensor) -> Tensor:
    """The rows of all processes, in the order of their ranks; each may have another number."""
    return torch.cat(_gathered(values)) if world() > 1 else values


def across(choose: Callable[..., Tensor], *values: Tensor) -> Tensor:
    """What `choose` makes of the samples of all processes: the part that belongs to this one.

    Args:
        choose: From one (batch, ...) tensor for each of `values` to a (batch,) mask.
        values: (batch, ...) of this process; numbers by sample, not logits, for what it sends.
    """
    if world() == 1:
        return _chosen(choose, values)
    # In one message: all as columns of the widest type, which holds booleans and losses exactly.
    wide = torch.stack([each.to(torch.float64) for each in values], dim=1)
    parts = _gathered(wide)
    joined = torch.cat(parts).unbind(dim=1)
    chosen = _chosen(choose, [x.to(own.dtype) for x, own in zip(joined, values, strict=True)])
    return torch.split(chosen, [len(part) for part in parts])[rank()]


def mean(values: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The mean over all processes of every tensor; gradients flow to all of them."""
    if world() == 1:
        return tuple(values)
    flat: Tensor = _Mean.apply(  # type: ignore[no-untyped-call]
        torch.cat([each.reshape(-1) for each in values])
    )
    parts = torch.split(flat, [each.numel() for each in values])
    return tuple(part.view_as(each) for part, each in zip(parts, values, strict=True))


def average_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """What DistributedDataParallel does, for a forward pass that went past it."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    if processes() > 1 and gradients:
        flat = torch.cat([each.reshape(-1) for each in gradients])
        distributed.all_reduce(flat)
        flat /= processes()
        parts = torch.split(flat, [each.numel() for each in gradients])
        for each, part in zip(gradients, parts, strict=True):
            each.copy_(part.view_as(each))


def parallel(network: nn.Module, *, find_unused: bool) -> DistributedDataParallel:
    """The network with gradients that are the means over all processes."""
    device = next(network.parameters()).device
    made = DistributedDataParallel(
        network,
        device_ids=[device] if device.type == "cuda" else None,
        find_unused_parameters=find_unused,
    )
    # Else those of the first process go to all before every pass; `Learner.settle` averages them.
    # As an argument it has another name in every other version.
    made.broadcast_buffers = False
    return made


def from_first(make: Callable[[], Answer]) -> Answer:
    """What the first process makes, on all of them; an error of it is an error of all."""
    if processes() == 1:
        return make()
    answer: list[Any] = [None, None]
    if rank() == 0:
        try:
            answer[0] = make()
        except LabelNoiseError as error:
            answer[1] = str(error)
    distributed.broadcast_object_list(answer)
    if answer[1] is not None:
        raise LabelNoiseError(answer[1])
    made: Answer = answer[0]
    return made


def agreed(make: Callable[[], Answer]) -> Answer:
    """What this process makes; if any of them fails, all do, with the word of the first that did.

    So no one waits for a process that is not to come, and one line says why.
    """
    if processes() == 1:
        return make()
    made, errors = None, [""] * processes()
    try:
        made = make()
        distributed.all_gather_object(errors, "")
    except LabelNoiseError as error:
        distributed.all_gather_object(errors, str(error))
    for number, why in enumerate(errors):
        if why:
            raise LabelNoiseError(f"process {number}: {why}" if number else why)
    return cast(Answer, made)


def everyones(thing: Answer) -> list[Answer]:
    """What every process has, in the order of their ranks, on all of them."""
    if processes() == 1:
        return [thing]
    found: list[Any] = [None] * processes()
    distributed.all_gather_object(found, thing)
    return found


def collected(thing: Answer) -> list[Answer]:
    """What every process has, in the order of their ranks, on the first of them."""
    if processes() == 1:
        return [thing]
    found: list[Any] | None = [None] * processes() if rank() == 0 else None
    distributed.gather_object(thing, found)
    return found or []


def started() -> bool:
    """Whether torchrun, or whatever speaks its language, started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def silent() -> bool:
    """Whether this process leaves it to the first one to print."""
    return started() and os.environ["RANK"] != "0"


def local_rank() -> int:
    """Which process of its machine this is, from 0."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def first_to_fail() -> bool:
    """Whether no other process has failed before this one, which then says why for all of them.

    What the others fail by is mostly that it has gone, or the same thing.
    """
    if processes() == 1:  # they have not met: it is the same for all
        if silent():
            time.sleep(HEARD)
        return not silent()
    try:
        store = distributed.distributed_c10d._get_default_store()
        return bool(store.add("failed", 1) == 1)
    except RuntimeError:  # who kept the count is gone, too
        return True


@contextmanager
def group(device: torch.device) -> Iterator[None]:
    """Have the processes meet that torchrun started; one that is lost ends all, in a few words.

    Args:
        device: What this one trains on. GPUs talk by NCCL, all else by gloo.
    """
    if not started():
        yield
        return
    try:
        if device.type == "cuda":
            torch.cuda.set_device(device)
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        distributed.init_process_group(backend, timeout=PATIENCE)
        yield
        distributed.destroy_process_group()
    except RuntimeError as error:
        if any(sign in str(error).lower() for sign in SIGNS):
            raise LabelNoiseError(LOST) from error
        raise


def _chosen(choose: Callable[..., Tensor], values: Sequence[Tensor]) -> Tensor:
    """None of none: a process may have a part of a mini-batch without samples."""
    return choose(*values) if len(values[0]) else values[0].new_zeros(0, dtype=torch.bool)


def _gathered(values: Tensor) -> list[Tensor]:
    rows = values.new_zeros(processes(), dtype=torch.long)
    rows[rank()] = len(values)
    distributed.all_reduce(rows)
    counts = rows.tolist()
    padded = values.new_zeros(max(counts), *values.shape[1:])
    padded[: len(values)] = values
    found = [torch.empty_like(padded) for _ in counts]
    distributed.all_gather(found, padded)
    return [each[:count] for each, count in zip(found, counts, strict=True)]


class _Mean(torch.autograd.Function):
    """The mean over all processes, whose gradient is theirs as well."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        found = values.detach().clone()
        distributed.all_reduce(found)
        return found.div_(processes())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        found = gradients[0].detach().clone()
        distributed.all_reduce(found)
        return found.div_(processes())
