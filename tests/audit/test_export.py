"""An audit in the words of other tools."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from labelnoise.arguments import TOOLS
from labelnoise.audit.export import EXPORTERS, export
from labelnoise.audit.findings import Findings
from labelnoise.cli import main
from labelnoise.data import read
from labelnoise.errors import LabelNoiseError

from .found import decide, findings_of, keep

NAMES = ["cat", "dog", "dog", "cat", "<owl>", "<owl>"]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.arange(12.0).reshape(6, 2), y=np.array(NAMES))
    return path


@pytest.fixture
def found(mine: Path) -> Findings:
    return findings_of(read(str(mine)), {3: 2, 0: 0})


@pytest.fixture
def audit(mine: Path, found: Findings, tmp_path: Path) -> Path:
    return keep(tmp_path / "audit", found, read(str(mine)), str(mine))


def lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_command_offers_every_exporter() -> None:
    assert list(TOOLS) == list(EXPORTERS)


def test_cleanlab_has_one_line_a_row_in_the_order_of_the_data(
    audit: Path, found: Findings, tmp_path: Path
) -> None:
    assert export(audit, "cleanlab", tmp_path / "out.csv") == 6
    rows = lines(tmp_path / "out.csv")
    columns = ["is_label_issue", "label_quality", "given_label", "predicted_label"]
    assert list(rows[0]) == columns
    assert [row["given_label"] for row in rows] == NAMES
    assert [row["is_label_issue"] for row in rows] == [str(row in (0, 3)) for row in range(6)]
    assert [float(row["label_quality"]) for row in rows] == pytest.approx(found.quality.tolist())


def test_more_than_ten_rows_stay_in_their_order(tmp_path: Path) -> None:
    """Row 10 comes after row 9, not after row 1."""
    dataset = read("digits")
    keep(tmp_path / "audit", findings_of(dataset, {1790: 3}), dataset, "digits")
    export(tmp_path / "audit", "cleanlab", tmp_path / "out.csv")
    given = [int(row["given_label"]) for row in lines(tmp_path / "out.csv")]
    assert given == dataset.labels.tolist()


def test_csv_has_the_decisions_too(audit: Path, found: Findings, tmp_path: Path) -> None:
    words = {"row0": ("keep", ""), "row3": ("relabel", "dog")}
    decisions = decide(tmp_path / "decisions.csv", found, **words)
    export(audit, "csv", tmp_path / "out.csv", decisions=decisions)
    rows = lines(tmp_path / "out.csv")
    assert [row["sample_id"] for row in rows[:2]] == ["3", "0"]
    assert [(row["decision"], row["new_label"]) for row in rows[:3]] == [
        ("relabel", "dog"),
        ("keep", ""),
        ("", ""),
    ]


def test_the_order_is_that_of_the_issues_where_rounding_left_ties(tmp_path: Path) -> None:
    dataset = read("digits")
    found = findings_of(dataset, {9: 1, 3: 2, 5: 0})
    found.quality[[9, 3, 5]] = [1e-9, 3e-9, 2e-9]
    keep(tmp_path / "audit", found, dataset, "digits")
    export(tmp_path / "audit", "csv", tmp_path / "out.csv")
    assert [row["sample_id"] for row in lines(tmp_path / "out.csv")[:3]] == ["9", "5", "3"]
    tasks, _ = label_studio(tmp_path / "audit", tmp_path / "tasks.json")
    assert [task["data"]["sample_id"] for task in tasks] == ["9", "5", "3"]


def test_fiftyone_has_classifications_and_mistakenness(
    audit: Path, found: Findings, tmp_path: Path
) -> None:
    export(audit, "fiftyone", tmp_path / "out.json")
    samples = json.loads((tmp_path / "out.json").read_text())["samples"]
    assert [sample["ground_truth"]["label"] for sample in samples] == NAMES
    assert samples[3]["ground_truth"]["_cls"] == "Classification"
    assert samples[3]["suggested"] == {"_cls": "Classification", "label": "dog", "confidence": 0.9}
    assert samples[3]["mistakenness"] == pytest.approx(1 - found.quality[3])
    assert [sample["tags"] for sample in samples[2:4]] == [[], ["label_issue"]]
    assert "filepath" not in samples[0]


def label_studio(audit: Path, out: Path) -> tuple[list[dict[str, Any]], Any]:
    export(audit, "label-studio", out)
    view = ElementTree.fromstring(out.with_suffix(".xml").read_text())  # noqa: S314 - our own
    return json.loads(out.read_text()), view


def test_label_studio_has_tasks_with_predictions_and_an_interface(
    audit: Path, tmp_path: Path
) -> None:
    tasks, view = label_studio(audit, tmp_path / "tasks.json")
    assert [task["data"]["sample_id"] for task in tasks] == ["3", "0"]
    assert tasks[0]["data"]["sample"] == {"x0": "6", "x1": "7"}
    assert tasks[0]["data"]["given_label"] == "cat"
    prediction = tasks[0]["predictions"][0]
    assert prediction["score"] == 0.9
    assert prediction["result"] == [
        {
            "from_name": "label",
            "to_name": "sample",
            "type": "choices",
            "value": {"choices": ["dog"]},
        }
    ]
    table, choices = view
    assert (table.tag, table.get("name"), table.get("value")) == ("Table", "sample", "$sample")
    assert (choices.get("name"), choices.get("toName")) == ("label", "sample")
    assert [choice.get("value") for choice in choices] == ["<owl>", "cat", "dog"]


def test_label_studio_shows_images(tmp_path: Path) -> None:
    dataset = read("digits")
    keep(tmp_path / "audit", findings_of(dataset, {5: 3}), dataset, "digits")
    tasks, view = label_studio(tmp_path / "audit", tmp_path / "tasks.json")
    assert tasks[0]["data"]["sample"].startswith("data:image/png;base64,")
    assert view[0].tag == "Image"


def test_files_are_named_and_shown_where_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("cat/a b.png", "cat/c.png", "dog/1.png")
    for name in names:
        path = tmp_path / "animals" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 20), "red").save(path)
    dataset = read(str(tmp_path / "animals"))
    audit = keep(tmp_path / "audit", findings_of(dataset, {1: 1, 0: 1}), dataset, dataset.name)
    export(audit, "cleanlab", tmp_path / "out.csv")
    assert [row["given_label"] for row in lines(tmp_path / "out.csv")] == ["cat", "cat", "dog"]
    export(audit, "fiftyone", tmp_path / "out.json")
    samples = json.loads((tmp_path / "out.json").read_text())["samples"]
    assert [sample["filepath"] for sample in samples] == [
        str(tmp_path / "animals" / name) for name in names
    ]
    encoded: list[object] = []
    save = Image.Image.save

    def counted(image: Image.Image, *words: Any, **options: Any) -> None:
        encoded.append(image)
        save(image, *words, **options)

    monkeypatch.setattr(Image.Image, "save", counted)
    tasks, view = label_studio(audit, tmp_path / "tasks.json")
    assert not encoded, "a file that is addressed needs no thumbnail"
    assert tasks[1]["data"]["sample"].startswith("/data/local-files/?d=")
    assert tasks[1]["data"]["sample"].endswith("/animals/cat/a%20b.png")
    assert view[0].tag == "Image"


def test_nothing_is_overwritten_and_tools_are_known(
    audit: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    out.write_text("mine")
    with pytest.raises(LabelNoiseError, match="exists"):
        export(audit, "fiftyone", out)
    with pytest.raises(LabelNoiseError, match="did you mean 'fiftyone'"):
        export(audit, "fifty-one", tmp_path / "other.json")
    assert main(["export", str(audit), "--to", "cleanlap", "--out", "x"]) == 2
    assert "did you mean 'cleanlab'" in capsys.readouterr().err
    words = ["export", str(audit), "--to", "cleanlab", "--out", str(tmp_path / "c.csv"), "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 6


@pytest.mark.parametrize("to", [name for name in EXPORTERS if name != "csv"])
def test_decisions_that_a_tool_would_not_see_are_refused(
    audit: Path, found: Findings, tmp_path: Path, to: str
) -> None:
    decisions = decide(tmp_path / "decisions.csv", found, row0=("keep", ""))
    with pytest.raises(LabelNoiseError, match="leave --decisions out, or --to csv"):
        export(audit, to, tmp_path / "out", decisions=decisions)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_there_is_to_be_made(audit: Path, tmp_path: Path) -> None:
    out = tmp_path / "sub" / "dir" / "x.json"
    for to in EXPORTERS:
        with pytest.raises(LabelNoiseError, match=f"make the folder {out.parent} first"):
            export(audit, to, out)
