"""Starts the scripts of this folder, one process each, and reads what they leave behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

PATIENCE = 300  # seconds, on a machine that is busy with other tests


def started(script: ModuleType, folder: Path, world: int) -> list[subprocess.Popen[bytes]]:
    """So many processes of `script RANK WORLD FOLDER`, which meet in the folder."""
    command = [sys.executable, str(script.__file__)]
    return [
        subprocess.Popen([*command, str(rank), str(world), str(folder)]) for rank in range(world)
    ]


def left(processes: list[subprocess.Popen[bytes]], folder: Path) -> list[Any]:
    """What each of them left in the folder, when all are done."""
    world = len(processes)
    assert [process.wait(PATIENCE) for process in processes] == [0] * world
    return [torch.load(folder / f"{world}-{rank}.pt") for rank in range(world)]
