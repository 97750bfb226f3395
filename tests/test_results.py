"""The result pages say what the records say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_mnist_page_is_what_its_records_give() -> None:
    path = ROOT / "docs" / "results" / "mnist_bare.py"
    found = importlib.util.spec_from_file_location("mnist_bare", path)
    assert found is not None
    assert found.loader is not None
    pages = importlib.util.module_from_spec(found)
    found.loader.exec_module(pages)
    runs = pages.records()
    assert len(runs) >= 18
    assert all(run.done for run in runs)
    assert (path.parent / "mnist-bare.md").read_text() == pages.page(runs)
