"""A run that is killed goes on as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

WORDS = ("train", "digits", "--noise", "symmetric:0.5", "--epochs", "120", "--batch-size", "32")


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "labelnoise", *words, "--json"],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(folder: Path, *words: str) -> Path:
    running = start(folder, *words)
    output, error = running.communicate(timeout=300)
    assert running.returncode == 0, error
    return folder / str(json.loads(output)["run"])


def rows(run: Path) -> list[dict[str, Any]]:
    """The rows, without what a clock decides."""
    return [
        {key: value for key, value in json.loads(line).items() if "seconds" not in key}
        for line in (run / "epochs.jsonl").read_text().splitlines()
    ]


def assert_same_state(one: Any, two: Any) -> None:
    assert type(one) is type(two)
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, two)
    elif isinstance(one, dict):
        assert one.keys() == two.keys()
        for key in one:
            assert_same_state(one[key], two[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(two)
        for first, second in zip(one, two, strict=True):
            assert_same_state(first, second)
    else:
        assert one == two


def assert_same_run(one: Path, two: Path) -> None:
    assert rows(one) == rows(two)
    first, second = (torch.load(run / "checkpoint.pt", weights_only=True) for run in (one, two))
    assert_same_state(first["method"], second["method"])
    assert_same_state(first["tally"], second["tally"])


@pytest.mark.long
@pytest.mark.parametrize("preset", ["recommended", "paper"])
def test_killed_at_random_moments_it_ends_with_the_same_bits(tmp_path: Path, preset: str) -> None:
    words = (*WORDS, "--preset", preset)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    expected = finish(whole, *words)
    chance = random.Random(preset)  # noqa: S311 - not for secrets
    moments = [0]
    for _ in range(20):
        running = start(broken, *words)
        if chance.random() < 0.2:  # while it imports, reads, locks or restores
            time.sleep(chance.uniform(0, 4))
        else:  # in the middle of an epoch, of a checkpoint, of an append
            while _epochs(broken) == moments[-1] and running.poll() is None:
                time.sleep(0.002)
            time.sleep(chance.uniform(0, 0.1))
        running.send_signal(signal.SIGKILL)
        running.communicate()
        assert running.returncode == -signal.SIGKILL, f"it ended before the 20th kill: {moments}"
        moments.append(_epochs(broken))
    assert moments[-1] >= 10
    assert_same_run(expected, finish(broken, *words))


def _epochs(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("runs/*/epochs.jsonl"))


def test_killed_once_it_goes_on_from_the_last_finished_epoch(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    running = start(broken, *WORDS)
    while _epochs(broken) < 5:
        assert running.poll() is None
        time.sleep(0.005)
    running.kill()
    running.communicate()
    done = _epochs(broken)
    assert 5 <= done < 120
    before = next(broken.glob("runs/*/epochs.jsonl")).read_bytes()
    run = finish(broken, *WORDS)
    # The rows that were there are still there to the byte, their seconds too: none ran again.
    assert (run / "epochs.jsonl").read_bytes().startswith(before)
    assert_same_run(finish(whole, *WORDS), run)


def test_two_processes_on_one_run_the_second_says_so_and_leaves(tmp_path: Path) -> None:
    words = (*WORDS[:4], "--epochs", "100000")
    first = start(tmp_path, *words)
    while not _epochs(tmp_path):
        assert first.poll() is None
        time.sleep(0.01)
    second = start(tmp_path, *words)
    output, error = second.communicate(timeout=60)
    assert first.poll() is None
    first.kill()
    first.communicate()
    assert second.returncode == 2
    assert output == ""
    assert "another process" in error
    assert error.count("\n") == 1
