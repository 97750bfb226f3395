"""ahead: results that worker processes make before they are asked for."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any, Generic, TypeVar

import torch
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as Items

from labelnoise.errors import LabelNoiseError

Result = TypeVar("Result")

VARIABLE = "LABELNOISE_WORKERS"
"""The environment variable that says how many worker processes a training has; 0 is none."""

MOST_WORKERS = 16  # even for large images; one core decodes hundreds of them a second
WAITING = 4  # results that a worker makes in advance: one that is held up holds up no other


def ahead(
    work: Callable[[int], Result], count: int, workers: int | None = None
) -> Iterator[Result]:
    """`work(0)`, ..., `work(count - 1)`, in order, made by worker processes in advance.

    Args:
        work: What a worker does; it is sent to the workers once, and its results come back pickled
            (not through named shared memory, of which containers have little).
        count: How many results there are.
        workers: How many processes; 0 does the work here, when it is asked for. By default as many
            as LABELNOISE_WORKERS says, or as there are cores for this process, up to 16.
    """
    workers = started(workers, count)
    if workers == 0:
        yield from map(work, range(count))
        return
    results: Any = None
    try:
        with _put_off(), _hidden(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of more workers than cores, of fork beside threads
            loader: DataLoader[Result] = DataLoader(
                _Numbered(work, count),
                batch_size=None,
                num_workers=workers,
                multiprocessing_context=_context(),
                prefetch_factor=WAITING,
                collate_fn=_as_it_is,
                worker_init_fn=_leave_interrupts_to_the_parent,
                generator=torch.Generator(),  # else it draws from the chance of networks
            )
            results = iter(loader)
        for _ in range(count):  # one more, and it would end the workers itself, to be interrupted
            yield next(results)
    finally:
        # It would do so when it is deleted, but the traceback of an error keeps it.
        again = isinstance(
            sys.exception(), KeyboardInterrupt
        )  # who presses once more is in a hurry
        with nullcontext() if again else _put_off():
            if results is not None:
                results._shutdown_workers()
                del results  # here, where nothing can happen to what it leaves behind


def started(workers: int | None, count: int) -> int:
    """How many processes `ahead` starts."""
    return min(possible() if workers is None else workers, count)


def under_way(workers: int | None, count: int) -> int:
    """How many results of workers exist at a time at most, the last one that was given included."""
    found = started(workers, count)
    return found * WAITING + 1 if found else 0


def possible() -> int:
    """How many worker processes make sense here."""
    if multiprocessing.current_process().daemon:  # a worker itself, which may have none
        return 0
    asked = os.environ.get(VARIABLE)
    if asked:
        if not asked.isdecimal():
            raise LabelNoiseError(f"{VARIABLE} is a number of processes, not {asked!r}")
        return int(asked)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    # torchrun says how many processes train on this machine, each with workers of its own.
    beside = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(1, min(MOST_WORKERS, (cores or 1) // beside))


def copies() -> bool:
    """Whether workers start as copies of this process, which share its memory."""
    return (_context() or multiprocessing.get_start_method()) == "fork"


def _context() -> str | None:
    """How workers start: on Linux as copies, in an instant; elsewhere, or if told, as it is."""
    # Workers touch neither devices nor threads, which copies must not.
    told = multiprocessing.get_start_method(allow_none=True)
    return "fork" if told is None and sys.platform == "linux" else None


@dataclass(frozen=True)
class _Numbered(Items[Result], Generic[Result]):
    work: Callable[[int], Result]
    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Result:
        return self.work(number)


def _as_it_is(result: Result) -> Result:
    return result


@contextmanager
def _put_off() -> Iterator[None]:
    """Have Ctrl-C wait: half the workers started, or half of them ended, are nobody's to end.

    A second one does not wait. Only the main thread is ever interrupted.
    """
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not main or not callable(before):  # it is ignored, or not Python's to handle
        yield
        return
    pressed: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        pressed.append(number)
        if len(pressed) > 1:
            before(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if len(pressed) == 1:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def _hidden() -> Iterator[None]:
    """Have workers begin without Ctrl-C, which reaches all processes of a terminal.

    As soon as they can they ignore it themselves. Not on Windows, where nothing is passed on.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    if _context() is None:
        resource_tracker.ensure_running()  # which shows it again when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _leave_interrupts_to_the_parent(worker: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
