"""What all tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

Labelnoise = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Several threads on tiny tensors only wait for each other, above all on busy cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def labelnoise(tmp_path: Path) -> Labelnoise:
    """Runs the command in an empty folder, as a user does."""

    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "labelnoise", *words],
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    return run
