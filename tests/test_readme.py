"""The README's examples run as written, in order, in one empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"^```(python|sh)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reader")


def test_there_are_examples_of_both_kinds() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "sh"}


@pytest.mark.xdist_group("readme")
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_example_runs_as_written(number: int, folder: Path) -> None:
    language, text = BLOCKS[number]
    command = [sys.executable, "-c", text] if language == "python" else ["sh", "-e", "-c", text]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{text}\n{done.stderr}"
    for promised in re.findall(r"# -> (.*)", text):
        assert promised in done.stdout


def test_pictures_and_pages_that_it_points_to_exist() -> None:
    root = Path(__file__).parents[1]
    for target in re.findall(r"\]\((?!http)([^)#]+)", README):
        assert (root / target).exists(), target
