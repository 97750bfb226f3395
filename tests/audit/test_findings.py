"""Findings: the table, its order, the summary."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from labelnoise import Findings
from labelnoise.audit.findings import COLUMNS


def findings() -> Findings:
    """Five labels: of two cats one is a dog, of three dogs one is anything."""
    return Findings(
        classes=("cat", "dog, wet"),
        ids=("a.png", 'b".png', "c.png", "d.png", "e.png"),
        given=np.array([0, 0, 1, 1, 1]),
        quality=np.array([0.9, 0.1, 0.8, 0.4, 0.4]),
        predicted=np.array([0, 1, 1, 0, 0]),
        confidence=np.array([0.9, 0.85, 0.8, 0.6, 0.3]),
        selected=np.array([1.0, 0.0, 0.75, 0.5, 1 / 3]),
        issue=np.array([False, True, False, True, True]),
        noise_rate=0.48,
        interval=(0.2, 0.7),
        transition=np.array([[0.7, 0.3], [0.4, 0.6]]),
    )


def test_rows_come_worst_first_and_ties_in_the_order_of_the_data() -> None:
    assert findings().worst_first().tolist() == [1, 3, 4, 2, 0]
    rows = list(findings().rows())
    assert [row["sample_id"][0] for row in rows] == list("bdeca")
    assert rows[0] == {
        "sample_id": 'b".png',
        "is_label_issue": True,
        "label_quality": 0.1,
        "given_label": "cat",
        "predicted_label": "dog, wet",
        "suggestion_confidence": 0.85,
        "selected_fraction": 0.0,
    }
    assert tuple(rows[0]) == COLUMNS
    assert [row["sample_id"][0] for row in findings().rows([4, 0])] == ["e", "a"]
    assert {type(value) for row in rows for value in row.values()} == {str, bool, float}


def test_expected_precision_with_numbers() -> None:
    assert findings().expected_precision() == pytest.approx((0.9 + 0.6 + 0.6) / 3)
    assert findings().expected_precision(1) == pytest.approx(0.9)
    assert findings().expected_precision(4) == pytest.approx((0.9 + 0.6 + 0.6 + 0.2) / 4)
    assert findings().expected_precision(99) == pytest.approx(2.4 / 5)
    assert findings().expected_precision(0) is None


def test_the_summary_counts_and_is_json() -> None:
    summary = json.loads(json.dumps(findings().summary()))
    assert summary["samples"] == 5
    assert summary["issues"] == 3
    assert summary["samples_per_class"] == {"cat": 2, "dog, wet": 3}
    assert summary["issues_per_class"] == {"cat": 1, "dog, wet": 2}
    assert summary["noise_rate_interval"] == [0.2, 0.7]
    assert summary["transition"] == [[0.7, 0.3], [0.4, 0.6]]
    assert summary["expected_precision"] == pytest.approx(0.7)
    assert summary["expected_precision_by_budget"] == {}  # the smallest is 10


def test_nothing_found_has_no_precision() -> None:
    clean = Findings(**{**vars(findings()), "issue": np.zeros(5, dtype=np.bool_)})
    assert clean.expected_precision() is None
    assert clean.summary()["issues"] == 0


def test_the_table_as_a_file(tmp_path: Path) -> None:
    """Whatever is in a name comes back; six digits."""
    path = tmp_path / "new" / "issues.csv"
    findings().write_csv(path)
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["sample_id"] for line in lines] == [row["sample_id"] for row in findings().rows()]
    assert lines[0]["predicted_label"] == "dog, wet"
    assert lines[2]["selected_fraction"] == "0.333333"
    assert lines[2]["is_label_issue"] == "True"
    assert tuple(lines[0]) == COLUMNS
