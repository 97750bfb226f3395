"""The result pages say what the records say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


PAGES = ROOT / "docs" / "results"


def program(name: str) -> ModuleType:
    found = importlib.util.spec_from_file_location(name, PAGES / f"{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_the_page_of_bare_is_what_its_records_give() -> None:
    pages = program("mnist_bare")
    runs = pages.records()
    assert len(runs) >= 18
    assert all(run.done for run in runs)
    assert (PAGES / "mnist-bare.md").read_text() == pages.page(runs)


def test_the_account_of_the_rule_shows_the_table_of_its_judgement() -> None:
    judged = (PAGES / "rule.md").read_text().splitlines()
    shown = (ROOT / "docs" / "rule.md").read_text().splitlines()
    lines = [line for line in shown if line.count("|") == 10]  # a name and eight methods
    assert len(lines) == 2 + 16 + 2  # heading, problems, mean rank and worst
    assert all(line in judged for line in lines)


def test_the_pages_of_the_papers_tables_are_what_the_records_give() -> None:
    pages = program("pages")
    runs = pages.records()
    assert all(run.done for run in runs)
    for name in pages.PAGES:
        text = (PAGES / f"{name}.md").read_text()
        assert text == pages.page(name, runs)
        for picture in re.findall(r"\]\(([^)]+\.png)\)", text):
            assert (PAGES / picture).exists()
