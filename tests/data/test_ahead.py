from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from typing import IO

import pytest
import torch

from labelnoise.data.ahead import ahead, possible
from labelnoise.errors import LabelNoiseError


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
    assert 1 <= possible() <= 16


def test_as_many_workers_as_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for asked, expected in (("3", 3), ("0", 0), ("40", 40)):
        monkeypatch.setenv("LABELNOISE_WORKERS", asked)
        assert possible() == expected
    monkeypatch.setenv("LABELNOISE_WORKERS", "3")
    assert len({pid for _, pid in ahead(square, 9)}) == 3
    monkeypatch.setenv("LABELNOISE_WORKERS", "0")
    assert {pid for _, pid in ahead(square, 3)} == {os.getpid()}
    for asked in ("many", "-1", "1.5"):
        monkeypatch.setenv("LABELNOISE_WORKERS", asked)
        with pytest.raises(LabelNoiseError, match=f"a number of processes, not '{asked}'"):
            possible()


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
import multiprocessing, sys
from multiprocessing import active_children
from labelnoise.data.ahead import ahead
if __name__ == "__main__":
    if sys.argv[1] != "fork":
        multiprocessing.set_start_method(sys.argv[1])
    print("ready", flush=True)
    for _ in range(int(sys.argv[2])):
        try:
            while True:
                list(ahead(abs, 2, 2))
        except KeyboardInterrupt:
            print("interrupted", len(active_children()), flush=True)
"""

BESIDE = """
import threading, time
from labelnoise.data.ahead import ahead
def work():
    for _ in range(60):
        list(ahead(abs, 2, 2))
    print("done", flush=True)
beside = threading.Thread(target=work)
beside.start()
print("ready", flush=True)
while beside.is_alive():
    try:
        time.sleep(0.01)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""

STUBBORN = """
import time
from labelnoise.data.ahead import ahead
def slow(number):
    time.sleep(0 if number == 0 else 60)
try:
    for _ in ahead(slow, 10, 2):
        print("ready", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@contextmanager
def started(program: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A program that has said that it is ready; it is gone afterwards, whatever happens."""
    with subprocess.Popen(
        [sys.executable, str(program), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        limit = threading.Timer(100, os.killpg, (running.pid, signal.SIGKILL))
        limit.start()
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "ready\n"
            yield running, running.stdout
        finally:
            limit.cancel()
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)


@pytest.mark.parametrize(("start", "times"), [("fork", 20), ("spawn", 4)])
def test_ctrl_c_while_workers_start_and_end(tmp_path: Path, start: str, times: int) -> None:
    program = tmp_path / "restless.py"
    program.write_text(RESTLESS)
    with started(program, start, str(times)) as (running, output):
        for moment in range(times):
            time.sleep(0.05 + 0.003 * moment)
            os.killpg(running.pid, signal.SIGINT)
            assert output.readline() == "interrupted 0\n"
        _, errors = running.communicate(timeout=30)
        assert errors == ""
        assert running.returncode == 0


def test_ctrl_c_spares_the_workers_of_another_thread(tmp_path: Path) -> None:
    program = tmp_path / "beside.py"
    program.write_text(BESIDE)
    with started(program) as (running, output):
        for _ in range(5):
            time.sleep(0.05)
            os.killpg(running.pid, signal.SIGINT)
            assert output.readline() == "interrupted\n"
        rest, errors = running.communicate(timeout=60)
        assert rest == "done\n"
        assert errors == ""


def test_a_second_ctrl_c_does_not_wait_for_workers(tmp_path: Path) -> None:
    program = tmp_path / "stubborn.py"
    program.write_text(STUBBORN)
    with started(program) as (running, output):
        time.sleep(0.5)  # until it waits for the second result
        os.killpg(running.pid, signal.SIGINT)
        time.sleep(0.5)  # until it waits for the workers' end
        begin = time.monotonic()
        os.killpg(running.pid, signal.SIGINT)
        assert output.readline() == "interrupted\n"
        assert time.monotonic() - begin < 4  # the first waits for 5 seconds, for every worker
