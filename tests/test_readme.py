"""The README's examples run as written, in order, in one empty folder."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from labelnoise.arguments import parse

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"^```(python|sh)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_there_are_examples_of_both_kinds() -> None:
    assert {language for language, _ in BLOCKS} == {"python", "sh"}


def test_examples_are_understood() -> None:
    """At once; whether they also do what they should, the next one tells."""
    for language, text in BLOCKS:
        if language == "python":
            compile(text, "README.md", "exec")
            continue
        for line in text.splitlines():
            program, *words = shlex.split(line)
            assert program == "labelnoise"
            parse(words)


@pytest.mark.long
def test_examples_run_as_written_one_after_the_other(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for language, text in BLOCKS:
        shell = [sys.executable, "-c"] if language == "python" else ["sh", "-e", "-c"]
        done = subprocess.run(
            [*shell, text],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"{text}\n{done.stderr}"


def test_pictures_and_pages_that_it_points_to_exist() -> None:
    root = Path(__file__).parents[1]
    for target in re.findall(r"\]\((?!http)([^)#]+)", README):
        assert (root / target).exists(), target
