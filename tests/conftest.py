"""What all tests share."""

from __future__ import annotations

import importlib.util
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from torch import Tensor

COMPLETE = "LABELNOISE_COMPLETE"
OPTIONAL = (
    *("dask", "lightning", "pandas", "pyarrow", "ray", "safetensors", "skorch"),
    *("tensorboard", "transformers"),
)
Labelnoise = Callable[..., "subprocess.CompletedProcess[str]"]

CHROMIUM = Path("/usr/bin/chromium")
CHROMIUM_ARGUMENTS = (
    *("--no-sandbox", "--headless", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


def pytest_sessionstart() -> None:
    """Tests of a library that is missing are left out, but not where all of them must run."""
    missing = [name for name in OPTIONAL if importlib.util.find_spec(name) is None]
    if missing and os.environ.get(COMPLETE) == "required":
        raise pytest.UsageError(
            f"{COMPLETE}=required, but {', '.join(missing)} not installed: pip install -e '.[dev]'"
        )


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Several threads on tiny tensors only wait for each other, above all on busy cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


Shapes = dict[str, tuple[int, ...]]
BLOCKS = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3), "resnet50": (3, 4, 6, 3)}


def _norm(name: str, width: int) -> Shapes:
    parts = ("weight", "bias", "running_mean", "running_var")
    return {**{f"{name}.{part}": (width,) for part in parts}, f"{name}.num_batches_tracked": ()}


@pytest.fixture(scope="session")
def torchvision_shapes() -> Callable[[str], Shapes]:
    """Names and shapes of torchvision's state dicts, from table 1 of the paper on ResNets."""

    def shapes(name: str) -> Shapes:
        deep = name == "resnet50"
        found: Shapes = {"conv1.weight": (64, 3, 7, 7), **_norm("bn1", 64)}
        before = 64
        for stage, blocks in enumerate(BLOCKS[name]):
            width = 64 * 2**stage
            after = 4 * width if deep else width
            for block in range(blocks):
                place = f"layer{stage + 1}.{block}"
                sizes = (
                    [(width, before, 1), (width, width, 3), (after, width, 1)]
                    if deep
                    else [(width, before, 3), (width, width, 3)]
                )
                for number, (out, into, side) in enumerate(sizes, start=1):
                    found[f"{place}.conv{number}.weight"] = (out, into, side, side)
                    found |= _norm(f"{place}.bn{number}", out)
                if before != after:
                    found[f"{place}.downsample.0.weight"] = (after, before, 1, 1)
                    found |= _norm(f"{place}.downsample.1", after)
                before = after
        return {**found, "fc.weight": (1000, before), "fc.bias": (1000,)}

    return shapes


@pytest.fixture(scope="session")
def torchvision_state(
    torchvision_shapes: Callable[[str], Shapes],
) -> Callable[[str], dict[str, Tensor]]:
    """State dicts as torchvision saves them, made without our networks; values are chance."""

    def value(name: str, shape: torch.Size, chance: torch.Generator) -> Tensor:
        if name.endswith("num_batches_tracked"):
            return torch.tensor(7)
        drawn = torch.randn(shape, generator=chance)
        if len(shape) > 1:
            return drawn * (2 / shape[1:].numel()) ** 0.5 if name != "fc.weight" else drawn / 100
        positive = name.endswith(("weight", "running_var"))
        return drawn.abs().clamp(0.5, 1.5) if positive else drawn / 10

    def state(name: str) -> dict[str, Tensor]:
        chance = torch.Generator().manual_seed(0)
        shapes = torchvision_shapes(name).items()
        return {entry: value(entry, torch.Size(shape), chance) for entry, shape in shapes}

    return state


Terminal = Callable[..., tuple[str, str]]


@pytest.fixture
def on_a_terminal(tmp_path: Path) -> Terminal:
    """Runs the command with a terminal for standard error: what it printed, what was shown."""

    def run(*words: str) -> tuple[str, str]:
        ours, theirs = pty.openpty()
        environment = {"TERM": "xterm", "COLUMNS": "120", "LINES": "50", "OMP_NUM_THREADS": "1"}
        running = subprocess.Popen(
            [sys.executable, "-m", "labelnoise", *words],
            cwd=tmp_path,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
        )
        os.close(theirs)
        seen = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            seen += piece
        os.close(ours)
        output, _ = running.communicate(timeout=60)
        assert running.returncode == 0
        return output, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())

    return run


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


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium; where there is none tests are left out, or fail if `LABELNOISE_BROWSER` says so."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _without_browser("pip install playwright")
    if not CHROMIUM.exists():
        _without_browser(f"{CHROMIUM}: apt-get install chromium")
    with sync_playwright() as started:
        chromium = started.chromium
        opened = chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
        yield opened
        opened.close()


def _without_browser(remedy: str) -> NoReturn:
    required = os.environ.get("LABELNOISE_BROWSER") == "required"
    (pytest.fail if required else pytest.skip)(f"needs a browser: {remedy}")
