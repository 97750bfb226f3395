"""An experiment whose command is killed leaves no process behind, and goes on as if nothing was."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc"),
]

OWN = """
title = "Own"
explains = "two methods on digits"
trials = 2

[base]
dataset = "digits"
noise = "symmetric:0.5"
preset = "paper"
epochs = 150
batch_size = 32

[axes]
method = ["cce", "bare"]

[table]
block = "noise"
line = "method"
"""
RUNS = 4
GRACE = 10.0  # seconds that workers may outlive their parent
PATIENCE = 300.0  # seconds for everything else, on busy cores
LIBRARIES = {"importing": "numpy", "loading": "libtorch"}  # moments before a worker has its run
EARLY = ("spawned", *LIBRARIES)
STOPPED = "labelnoise: stopped; the same command goes on where it was"


@dataclass
class Command:
    """`labelnoise reproduce` in a folder of its own; what it starts carries its mark."""

    folder: Path
    words: tuple[str, ...] = ()
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def start(self) -> subprocess.Popen[bytes]:
        """Its output goes to files: orphans would keep a pipe open."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "own.toml").write_text(OWN)
        words = ("reproduce", "own.toml", "--jobs", "2", "--json", *self.words)
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            return subprocess.Popen(
                [sys.executable, "-m", "labelnoise", *words],
                cwd=self.folder,
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": "1",
                    "LABELNOISE_TEST": self.mark,
                    "TMPDIR": str(self.folder),
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def finish(self) -> dict[str, Any]:
        """Run it to its end: what it reports."""
        running = self.start()
        assert running.wait(PATIENCE) == 0, self.err
        report: dict[str, Any] = json.loads((self.folder / "out").read_text())
        return report

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()

    @property
    def epochs(self) -> int:
        """How many have been written."""
        files = self.folder.glob("runs/*/epochs.jsonl")
        return sum(path.read_bytes().count(b"\n") for path in files)

    @property
    def finished(self) -> int:
        return len(list(self.folder.glob("runs/*/done")))

    def living(self) -> dict[int, str]:
        """Every process that carries the mark, by its number: the command itself, and workers."""
        mark = f"LABELNOISE_TEST={self.mark}".encode()
        found = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found[int(path.name)] = words
            except OSError:  # it has just ended, or is not ours to look at
                continue
        return found

    def workers(self) -> list[int]:
        return [number for number, words in self.living().items() if "experiment.worker" in words]

    def wait_until(self, happened: Callable[[], Any], running: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not happened():
            assert running.poll() is None, f"it ended too early: {self.err}"
            assert time.monotonic() < deadline, self.err
            time.sleep(0.005)

    def reach(self, moment: str, running: subprocess.Popen[bytes]) -> None:
        """Wait for a moment of its life."""
        self.wait_until(lambda: self.err, running)
        self.wait_until(self.workers, running)
        if moment in LIBRARIES:
            self.wait_until(lambda: self.loads(LIBRARIES[moment]), running)
        elif moment == "training":
            already = self.epochs
            self.wait_until(lambda: self.epochs >= already + 3, running)
        elif moment == "one finished":
            already = self.finished
            self.wait_until(lambda: self.finished > already, running)
        else:
            assert moment == "spawned"

    def loads(self, library: str) -> bool:
        """Whether a worker is about to import `library`, or has."""
        for number in self.workers():
            try:
                if library in Path(f"/proc/{number}/maps").read_text():
                    return True
            except OSError:
                continue
        return False

    def assert_nobody_is_left(self) -> None:
        deadline = time.monotonic() + GRACE
        while left := self.living():
            assert time.monotonic() < deadline, f"still there: {left}"
            time.sleep(0.05)
        assert not list(self.folder.glob("labelnoise-*")), "what workers left notes in"


Commands = Callable[..., Command]


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Commands]:
    made: list[Command] = []

    def make(folder: str, *words: str) -> Command:
        made.append(Command(tmp_path / folder, words))
        return made[-1]

    yield make
    for one in made:
        for number in one.living():
            os.kill(number, signal.SIGKILL)


def rows(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of every run, without what a clock decides."""
    return {
        path.parent.name: [
            {key: value for key, value in json.loads(line).items() if "seconds" not in key}
            for line in path.read_text().splitlines()
        ]
        for path in folder.glob("runs/*/epochs.jsonl")
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The experiment, not interrupted by anything."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, Command(folder).finish()


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
