"""An experiment whose command is killed leaves no process behind, and goes on as if nothing was."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.reproducing import LIBRARIES, PATIENCE, RUNS, Command, rows

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc"),
]

EARLY = ("spawned", *LIBRARIES)
STOPPED = "labelnoise: stopped; the same command goes on where it was"

Commands = Callable[..., Command]


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Commands]:
    made: list[Command] = []

    def make(folder: str, *words: str) -> Command:
        made.append(Command(tmp_path / folder, ("--jobs", "2", *words)))
        return made[-1]

    yield make
    for one in made:
        for number in one.living():
            os.kill(number, signal.SIGKILL)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The experiment, not interrupted by anything."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, Command(folder, ("--jobs", "2")).finish()


def assert_same(whole: tuple[Path, dict[str, Any]], folder: Path, report: dict[str, Any]) -> None:
    expected, expects = whole
    assert report == expects
    found = rows(folder)
    assert len(found) == RUNS
    assert found == rows(expected)
    assert all(len(of_run) == 150 for of_run in found.values())
    assert len(list(folder.glob("runs/*/done"))) == RUNS
    for suffix in ("md", "csv", "tex"):
        name = f"runs/own.{suffix}"
        assert (folder / name).read_bytes() == (expected / name).read_bytes()


def test_killed_at_any_moment_no_worker_stays_and_the_same_command_finishes(
    whole: tuple[Path, dict[str, Any]], command: Commands
) -> None:
    broken = command("broken")
    progress = []
    for moment in (*EARLY, "training", "one finished"):
        running = broken.start()
        broken.reach(moment, running)
        running.kill()
        assert running.wait() == -signal.SIGKILL, moment
        broken.assert_nobody_is_left()
        progress.append((broken.epochs, broken.finished))
    epochs, finished = zip(*progress, strict=True)
    assert epochs[:3] == (0, 0, 0)
    assert 3 <= epochs[3] <= epochs[4] < RUNS * 150
    assert 1 <= finished[4] < RUNS
    kept = {path: path.stat().st_mtime_ns for path in broken.folder.glob("runs/*/done")}
    before = {path: path.read_bytes() for path in broken.folder.glob("runs/*/epochs.jsonl")}
    report = broken.finish()
    assert broken.err.startswith(f"{RUNS} runs, {RUNS - finished[4]} of them to train\n")
    # Finished runs are as they were; of the others every finished epoch was kept, seconds and all.
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    for path, text in before.items():
        assert path.read_bytes().startswith(text[: text.rfind(b"\n") + 1])
    assert_same(whole, broken.folder, report)
    broken.assert_nobody_is_left()


def test_killed_with_more_jobs_than_runs_nobody_is_left(command: Commands) -> None:
    single = command("single", "--trials", "1", "--methods", "bare", "--epochs", "100000")
    running = single.start()
    single.reach("training", running)
    running.kill()
    running.wait()
    single.assert_nobody_is_left()


@pytest.mark.parametrize("moment", [*EARLY, "training"])
@pytest.mark.parametrize("whom", ["command", "terminal"])
def test_an_interrupt_says_one_line_and_leaves_nobody(
    moment: str, whom: str, command: Commands
) -> None:
    """By `kill -INT`, or by Ctrl-C, which reaches the workers too."""
    stopped = command("stopped", "--epochs", "100000")
    running = stopped.start()
    stopped.reach(moment, running)
    (os.kill if whom == "command" else os.killpg)(running.pid, signal.SIGINT)
    assert running.wait(PATIENCE) == 130
    stopped.assert_nobody_is_left()
    assert stopped.err.splitlines() == [f"{RUNS} runs, {RUNS} of them to train", STOPPED]
    assert (stopped.folder / "out").read_bytes() == b""


def test_interrupted_the_same_command_finishes(
    whole: tuple[Path, dict[str, Any]], command: Commands
) -> None:
    broken = command("broken")
    running = broken.start()
    broken.reach("training", running)
    os.killpg(running.pid, signal.SIGINT)
    assert running.wait(PATIENCE) == 130
    assert_same(whole, broken.folder, broken.finish())


def test_a_worker_that_dies_takes_no_run_with_it(
    whole: tuple[Path, dict[str, Any]], command: Commands
) -> None:
    """As when the kernel is out of memory: its run fails, the others finish, the next time all."""
    broken = command("broken")
    running = broken.start()
    broken.reach("training", running)
    os.kill(broken.workers()[0], signal.SIGKILL)
    assert running.wait(PATIENCE) == 1, broken.err
    assert "Traceback" not in broken.err
    assert len(re.findall(r"^\w+, seed \d: test", broken.err, re.MULTILINE)) == RUNS - 1
    report = json.loads((broken.folder / "out").read_text())
    assert ["SIGKILL" in reason for reason in report["failed"].values()] == [True]
    assert_same(whole, broken.folder, broken.finish())
    broken.assert_nobody_is_left()
