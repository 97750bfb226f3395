"""`labelnoise reproduce` in a process of its own, to be killed: what it starts carries a mark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MARK = "LABELNOISE_TEST"
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


def living(mark: str) -> dict[int, str]:
    """Every process that carries a mark in its environment, by its number, and its words."""
    variable = f"{MARK}={mark}".encode()
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if variable in (path / "environ").read_bytes().split(b"\0"):
                words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[int(path.name)] = words
        except OSError:  # it has just ended, or is not ours to look at
            continue
    return found


def training(mark: str) -> list[int]:
    """Those of them that train a run."""
    return [number for number, words in living(mark).items() if "experiment.worker" in words]


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
        words = ("reproduce", "own.toml", "--json", *self.words)
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            return subprocess.Popen(
                [sys.executable, "-m", "labelnoise", *words],
                cwd=self.folder,
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": "1",
                    MARK: self.mark,
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
        """The command itself, and workers."""
        return living(self.mark)

    def workers(self) -> list[int]:
        return training(self.mark)

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


def rows(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of every run, without what a clock decides."""
    return {
        path.parent.name: [
            {key: value for key, value in json.loads(line).items() if "seconds" not in key}
            for line in path.read_text().splitlines()
        ]
        for path in folder.glob("runs/*/epochs.jsonl")
    }
