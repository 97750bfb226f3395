"""Where all tests must run, a library that is missing fails them before the first one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAM = """
import importlib.util, sys, pytest
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "skorch" else real(name, *rest)
sys.exit(pytest.main(["--collect-only", "-n", "0", "-p", "no:cacheprovider", __FILE__]))
"""


@pytest.mark.long
@pytest.mark.parametrize(("asked", "status"), [("required", 4), ("", 0)])
def test_a_missing_library_is_a_failure_where_it_is_asked_for(asked: str, status: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("__FILE__", repr(str(HERE / "test_readme.py")))],
        cwd=HERE.parent,
        env={**os.environ, "LABELNOISE_COMPLETE": asked},
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert ("but skorch not installed" in done.stdout + done.stderr) == bool(asked)
