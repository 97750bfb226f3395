"""The page of an audit, as far as it can be told without a browser."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch

from labelnoise.audit.findings import Findings
from labelnoise.audit.report import FEWEST_MORE, identity, suspects, write_report
from labelnoise.data.dataset import Dataset
from labelnoise.record.page import page

from .found import findings_of

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)><!--\u2028\u2029 &"
EMPTY = page(resources.files("labelnoise.audit") / "page", "report.html", {})


def dataset_of(rows: int = 100, **more: Any) -> Dataset:
    labels = torch.arange(rows) % 3
    settings = {"name": "mine.csv", "classes": ("a", "b", "c"), **more}
    return Dataset(inputs=torch.zeros(rows, 2), labels=labels, **settings)


def data_of(path: Path, found: Findings, dataset: Dataset, **options: Any) -> Any:
    write_report(path, found, dataset, **options)
    text = path.read_text("utf-8")
    held = re.search(r'<script type="application/json".*?>(.*?)</script>', text, re.S)
    assert held is not None
    return json.loads(held[1])


def test_what_is_flagged_comes_first_and_then_some_of_the_next_worst(tmp_path: Path) -> None:
    dataset = dataset_of()
    found = findings_of(dataset, {50: 0, 7: 2})
    data = data_of(tmp_path / "report.html", found, dataset)
    assert data["suspects"]["row"] == [50, 7, *[row for row in range(26) if row != 7]]
    assert data["suspects"]["issue"] == [1, 1] + [0] * FEWEST_MORE
    assert data["suspects"]["id"][0] == "50"
    assert (data["suspects"]["given"][0], data["suspects"]["suggested"][0]) == (2, 0)
    assert (data["samples"], data["issues"]) == (100, 2)
    assert data["issues_per_class"] == [0, 1, 1]
    assert len(data["transition"]) == 9


def test_a_large_audit_is_cut_at_the_worst(tmp_path: Path) -> None:
    dataset = dataset_of(400)
    found = findings_of(dataset, dict.fromkeys(range(300), 0))
    assert len(suspects(found)) == 300 + 75
    assert suspects(found, most=20) == list(range(20))
    assert write_report(tmp_path / "report.html", found, dataset, most=20) == 20


def test_the_page_is_told_of_noise_that_was_planted(tmp_path: Path) -> None:
    dataset = dataset_of()
    path, found = tmp_path / "report.html", findings_of(dataset)
    assert data_of(path, found, dataset)["planted"] is None
    assert data_of(path, found, dataset, planted="pair:0.2")["planted"] == "pair:0.2"


def test_two_audits_never_share_decisions() -> None:
    dataset = dataset_of()
    one, same = findings_of(dataset, {1: 0}), findings_of(dataset, {1: 0})
    other = findings_of(dataset, {1: 2})
    renamed = findings_of(dataset_of(ids=tuple(f"file{row}" for row in range(100))), {1: 0})
    assert identity(one) == identity(same)
    assert len({identity(found) for found in (one, other, renamed)}) == 3


def test_no_name_can_end_the_data_or_start_a_script(tmp_path: Path) -> None:
    ids = tuple(f"{HOSTILE}{row}" for row in range(100))
    dataset = dataset_of(
        ids=ids,
        name=HOSTILE,
        classes=(HOSTILE, "b", "c"),
        originals=[{HOSTILE: HOSTILE}] * 100,
    )
    data = data_of(tmp_path / "report.html", findings_of(dataset, {1: 0}), dataset)
    text = (tmp_path / "report.html").read_text("utf-8")
    assert text.count("</script") == EMPTY.count("</script")
    assert text.count("<img") == 0
    assert "\u2028" not in text
    assert data["classes"][0] == HOSTILE
    assert data["suspects"]["exhibit"][0] == {"table": [[HOSTILE] * 4]}


def test_the_page_may_run_its_own_script_alone_and_asks_for_nothing() -> None:
    assert "{{" not in EMPTY
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', EMPTY, re.S)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    assert len(re.findall(r"'sha256-[\w+/=]{44}'", policy[1])) == 2
    assert "http" not in EMPTY.replace("http-equiv", "")
    assert not re.search(r"\bsrc=|@import|url\(|fetch\(|XMLHttpRequest|innerHTML|eval\(", EMPTY)
    assert not re.search(r'\bstyle="| on\w+="', EMPTY)


def test_a_reviewer_may_name_a_new_class_where_it_can_be_written(tmp_path: Path) -> None:
    for name, may in {
        "mine.csv": True,
        "mine.npz": False,
        "mnist": False,
        str(tmp_path): True,
    }.items():
        dataset = dataset_of(name=name)
        data = data_of(tmp_path / "report.html", findings_of(dataset), dataset)
        assert data["new_classes"] is may, name


def test_a_thousand_classes_do_not_become_a_million_cells(tmp_path: Path) -> None:
    rows = 2000
    labels = torch.arange(rows) % 1000
    classes = tuple(f"class {number}" for number in range(1000))
    dataset = Dataset("mine.csv", torch.zeros(rows, 2), labels, classes)
    found = findings_of(dataset)
    found.transition[:] = np.eye(1000)
    data = data_of(tmp_path / "report.html", found, dataset)
    assert len(data["transition"]) == 1000
    assert (tmp_path / "report.html").stat().st_size < 200_000


def test_all_cards_have_one_order_of_columns_and_one_word_for_missing_values(
    tmp_path: Path,
) -> None:
    rows = [{"id": str(row), "size": str(10 * (row % 3)), "colour": "red"} for row in range(100)]
    rows[7] |= {"size": "20", "colour": "NaN"}  # given b, of size 20 as c is
    rows[50] |= {"size": " ", "colour": "n/a"}
    dataset = dataset_of(originals=rows)
    data = data_of(tmp_path / "report.html", findings_of(dataset, {7: 2, 50: 0}), dataset)
    tables = [exhibit["table"] for exhibit in data["suspects"]["exhibit"]]
    orders = {tuple(line[0] for line in table) for table in tables}
    assert len(orders) == 1
    assert orders.pop()[0] == "size"
    by_row = dict(zip(data["suspects"]["row"], tables, strict=True))
    assert ["size", "20", "10", "20"] in by_row[7]
    assert ["colour", "", "red", "red"] in by_row[7]
    assert ["size", "", "20", "0"] in by_row[50]
