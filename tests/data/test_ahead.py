from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from multiprocessing import active_children

import pytest
import torch

from labelnoise.data.ahead import ahead, possible


def square(number: int) -> tuple[int, int]:
    """Slower for small numbers, so that workers finish out of order."""
    time.sleep(0.02 / (1 + number))
    return number**2, os.getpid()


def refuse(number: int) -> int:
    if number == 2:
        raise KeyError("two")
    return number


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_results_come_in_order(workers: int) -> None:
    found = list(ahead(square, 8, workers))
    assert [result for result, _ in found] == [number**2 for number in range(8)]
    pids = {pid for _, pid in found}
    assert len(pids) == max(1, workers)
    assert (os.getpid() in pids) is (workers == 0)
    assert not active_children()


def test_nothing_to_do() -> None:
    assert list(ahead(square, 0, 2)) == []


def test_no_chance_is_used_up() -> None:
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    list(ahead(square, 3, 1))
    assert torch.rand(2).equal(expected)


def test_workers_end_when_nobody_asks_any_more() -> None:
    results = ahead(square, 1000, 2)
    next(results)
    assert len(active_children()) == 2
    results.close()  # type: ignore[attr-defined]
    assert not active_children()


def test_an_error_of_a_worker_is_raised_here() -> None:
    with pytest.raises(KeyError, match="two"):
        list(ahead(refuse, 4, 2))
    assert not active_children()


def count_from_inside(number: int) -> list[int]:
    return [possible(), *ahead(partial(pow, 2), 3)]


def test_a_worker_has_no_workers() -> None:
    assert list(ahead(count_from_inside, 1, 1)) == [[0, 1, 2, 4]]
    assert 1 <= possible() <= 4


PROGRAM = """
import os, sys, time
from labelnoise.data.ahead import ahead
def slow(number):
    time.sleep(0.05)
    return os.getpid()
pids = set()
try:
    for pid in ahead(slow, 10_000, 2):
        pids.add(pid)
        if len(pids) == 2:
            print(*pids, flush=True)
            pids.add(0)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_everything_in_silence() -> None:
    running = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stdout is not None
    workers = [int(pid) for pid in running.stdout.readline().split()]
    assert len(workers) == 2
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    output, errors = running.communicate(timeout=30)
    assert output == "interrupted\n"
    assert errors == ""
    assert running.returncode == 0
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


RESTLESS = """
import os
from multiprocessing import active_children
from labelnoise.data.ahead import ahead
print("ready", flush=True)
for _ in range(20):
    try:
        while True:
            list(ahead(abs, 2, 2))
    except KeyboardInterrupt:
        print("interrupted", len(active_children()), flush=True)
"""


def test_ctrl_c_while_workers_start_and_end() -> None:
    running = subprocess.Popen(
        [sys.executable, "-c", RESTLESS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    limit = threading.Timer(60, running.kill)
    limit.start()
    for moment in range(20):
        time.sleep(0.05 + 0.003 * moment)
        os.killpg(running.pid, signal.SIGINT)
        assert running.stdout.readline() == "interrupted 0\n"
    _, errors = running.communicate(timeout=30)
    limit.cancel()
    assert errors == ""
    assert running.returncode == 0
