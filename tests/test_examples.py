"""The examples run as they are, with the real libraries, and find what they planted."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
NEEDS = {
    "huggingface_text": "transformers",
    "lightning_digits": "lightning",
    "skorch_digits": "skorch",
}


def test_there_is_one_for_every_framework() -> None:
    assert {path.stem for path in EXAMPLES} >= {*NEEDS, "recorder_loop"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_fits_on_a_screen(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 40


@pytest.mark.long
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_finds_the_labels_that_it_made_wrong(path: Path, tmp_path: Path) -> None:
    needed = NEEDS.get(path.stem)
    if needed and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = re.search(r"precision (\d\.\d+), recall (\d\.\d+)", done.stdout)
    assert found, done.stdout
    precision, recall = map(float, found.groups())
    assert precision > 0.9
    assert recall > 0.75
    written = {each.name for each in tmp_path.iterdir()}
    assert written <= {"issues.csv", "checkpoints"}
