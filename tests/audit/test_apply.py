"""A corrected copy of the labels, and back."""

from __future__ import annotations

import csv
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from labelnoise.audit.apply import apply, undo
from labelnoise.audit.findings import Findings
from labelnoise.cli import main
from labelnoise.data import Columns, read
from labelnoise.errors import LabelNoiseError

from .found import decide, findings_of, keep

NAMES = ["cat", "dog", "dog", "cat", "owl", "owl"]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.npz"
    np.savez(path, x=np.arange(12.0).reshape(6, 2), y=np.array(NAMES))
    return path


@pytest.fixture
def found(mine: Path) -> Findings:
    return findings_of(read(str(mine)), {3: 1, 0: 2})


@pytest.fixture
def audit(mine: Path, found: Findings, tmp_path: Path) -> Path:
    return keep(tmp_path / "audit", found, read(str(mine)), str(mine))


def lines(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_labels_are_corrected_logged_and_the_original_stays(
    mine: Path, audit: Path, found: Findings, tmp_path: Path
) -> None:
    before = mine.read_bytes()
    words = {"row0": ("keep", ""), "row3": ("relabel", "dog"), "row5": ("bad", "")}
    decisions = decide(tmp_path / "decisions.csv", found, **words)
    out = tmp_path / "new.npz"
    done = apply(audit, decisions, out)
    assert np.load(out)["y"].tolist() == ["cat", "dog", "dog", "dog", "owl"]
    assert np.load(out)["x"].tolist() == np.arange(10.0).reshape(5, 2).tolist()
    assert mine.read_bytes() == before
    assert (done.counts, done.planted) == ({"keep": 1, "relabel": 1, "bad": 1}, 0)
    assert lines(tmp_path / "new.npz.changes.csv") == [
        ["sample_id", "row", "before", "after", "decision"],
        ["3", "3", "cat", "dog", "relabel"],
        ["5", "5", "owl", "", "bad"],
    ]
    assert undo(out) == 1
    assert not list(tmp_path.glob("new.npz*"))
    assert mine.read_bytes() == before


def test_what_was_changed_since_is_not_removed(
    audit: Path, found: Findings, tmp_path: Path
) -> None:
    decisions, out = decide(tmp_path / "decisions.csv", found), tmp_path / "new.npz"
    apply(audit, decisions, out)
    out.write_bytes(out.read_bytes() + b" ")
    with pytest.raises(LabelNoiseError, match="changed since it was made: nothing is removed"):
        undo(out)
    assert out.exists()
    out.unlink()
    with pytest.raises(LabelNoiseError, match="is gone since"):
        undo(out)
    with pytest.raises(LabelNoiseError, match="only what `labelnoise apply` made"):
        undo(tmp_path / "mine.npz")
    (tmp_path / "x.applied.json").write_text("{}")
    with pytest.raises(LabelNoiseError, match="damaged"):
        undo(tmp_path / "x")


@pytest.mark.parametrize("there", ["new.npz", "new.npz.changes.csv", "new.npz.applied.json"])
def test_nothing_is_overwritten(audit: Path, found: Findings, tmp_path: Path, there: str) -> None:
    decisions = decide(tmp_path / "decisions.csv", found)
    (tmp_path / there).write_text("mine")
    with pytest.raises(LabelNoiseError, match="exists: choose another --out"):
        apply(audit, decisions, tmp_path / "new.npz")
    assert (tmp_path / there).read_text() == "mine"
    with pytest.raises(LabelNoiseError, match="exists"):
        apply(audit, decisions, tmp_path / "mine.npz")


def test_data_that_changed_since_the_audit_are_refused(
    mine: Path, audit: Path, found: Findings, tmp_path: Path
) -> None:
    np.savez(mine, x=np.zeros((6, 2)), y=np.array(NAMES))
    with pytest.raises(LabelNoiseError, match="has changed since it was audited"):
        apply(audit, decide(tmp_path / "decisions.csv", found), tmp_path / "new.npz")
    assert not list(tmp_path.glob("new.npz*"))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("9,9,cat,keep,", "no sample '9' in row 9"),
        ("0,1,cat,keep,", "no sample '0' in row 1"),
        ("0,0,dog,keep,", "has the label 'cat', not 'dog'"),
        ("0,0,cat,drop,", "unknown decision 'drop'"),
        ("0,0,cat,relabel,", "'relabel' without a new label"),
        ("0,0,cat,relabel,owk", "unknown class 'owk': did you mean 'owl'"),
        ("0,0,cat,keep,owl", "goes with 'relabel'"),
        ("3,3,cat,keep,\n3,3,cat,bad,", "decided twice"),
    ],
)
def test_a_decision_that_does_not_fit_the_audit_is_refused(
    audit: Path, tmp_path: Path, line: str, complaint: str
) -> None:
    path = tmp_path / "decisions.csv"
    path.write_text(f"sample_id,row,given_label,decision,new_label\n{line}\n")
    with pytest.raises(LabelNoiseError, match=rf"decisions.csv, line \d: .*{complaint}"):
        apply(audit, path, tmp_path / "new.npz")
    assert not list(tmp_path.glob("new.npz*"))


def test_rows_need_not_be_written_by_hand(audit: Path, tmp_path: Path) -> None:
    path = tmp_path / "decisions.csv"
    path.write_text("\ufeffsample_id,given_label,decision,new_label\r\n3,cat,relabel,owl\r\n")
    apply(audit, path, tmp_path / "new.npz")
    assert np.load(tmp_path / "new.npz")["y"].tolist() == ["cat", "dog", "dog", "owl", "owl", "owl"]
    path.write_text("sample_id,row\n3,3\n")
    with pytest.raises(LabelNoiseError, match="no column 'given_label'"):
        apply(audit, path, tmp_path / "other.npz")


def test_a_folder_that_is_no_audit_says_so(tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError, match="name a folder that `labelnoise audit` made"):
        apply(tmp_path, tmp_path / "decisions.csv", tmp_path / "new")


def test_what_is_not_there_is_said_with_the_fix(
    audit: Path, found: Findings, tmp_path: Path
) -> None:
    with pytest.raises(LabelNoiseError, match=r"nope.csv: No such .*; .*'Export decisions'"):
        apply(audit, tmp_path / "nope.csv", tmp_path / "new.npz")
    decisions = decide(tmp_path / "decisions.csv", found)
    with pytest.raises(LabelNoiseError, match=f"make the folder {tmp_path / 'sub'} first"):
        apply(audit, decisions, tmp_path / "sub" / "new.npz")


def test_planted_labels_do_not_get_into_the_copy_unless_they_were_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of four planted labels two are put right, one is kept, one is not decided."""
    dataset = read("digits")
    truth = dataset.labels.numpy()
    given = truth.copy()
    given[[0, 5, 9, 11]] = (given[[0, 5, 9, 11]] + 1) % 10
    found = findings_of(dataset, {row: int(truth[row]) for row in (0, 5, 9, 11)}, given)
    audit = keep(tmp_path / "audit", found, dataset, "digits", noise="symmetric:0.1")
    words = {f"row{row}": ("relabel", str(truth[row])) for row in (0, 5)}
    words |= {"row9": ("keep", ""), "row20": ("relabel", str((truth[20] + 3) % 10))}
    decisions = decide(tmp_path / "decisions.csv", found, **words)
    out = tmp_path / "labels.csv"
    assert main(["apply", str(audit), str(decisions), "--out", str(out), "--json"]) == 0
    told = capsys.readouterr()
    report = json.loads(told.out)
    assert (report["relabel"], report["keep"], report["changed"]) == (3, 1, 2)
    assert "noise was planted to try the audit out (4 labels)" in told.err
    heading, *rows = lines(out)
    assert heading == ["row", "label"]
    after = np.array([int(label) for _, label in rows])
    changed = np.flatnonzero(after != truth).tolist()
    assert changed == [9, 20]
    logged = lines(tmp_path / "labels.csv.changes.csv")[1:]
    assert logged == [
        [str(row), str(row), str(truth[row]), str(after[row]), word]
        for row, word in ((9, "keep"), (20, "relabel"))
    ]
    assert main(["apply", str(audit), str(decisions), "--out", str(out), "--undo"]) == 0
    assert not list(tmp_path.glob("labels.csv*"))
    assert main(["apply", str(audit), str(decisions), "--out", str(out)]) == 0
    assert "labels that differ from the data: 2\n" in capsys.readouterr().out


def test_the_command_says_what_it_needs(capsys: pytest.CaptureFixture[str], audit: Path) -> None:
    for words in (["apply"], ["apply", str(audit), "--out", "x"], ["apply", "--undo"]):
        assert main(words) == 2
        assert "labelnoise: " in capsys.readouterr().err


def test_a_copy_that_fails_leaves_nothing(audit: Path, found: Findings, tmp_path: Path) -> None:
    """The copy and its log can be written; the name of the list of what was made is too long."""
    decisions = decide(tmp_path / "decisions.csv", found)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(LabelNoiseError, match=r"File name too long; .*choose another place"):
        apply(audit, decisions, tmp_path / ("n" * 234 + ".npz"))
    assert sorted(tmp_path.iterdir()) == before


def test_a_copy_is_called_what_it_is(audit: Path, found: Findings, tmp_path: Path) -> None:
    decisions = decide(tmp_path / "decisions.csv", found)
    with pytest.raises(LabelNoiseError, match=r"end the name of --out in \.npz"):
        apply(audit, decisions, tmp_path / "new.csv")
    assert not (tmp_path / "new.csv").exists()


def test_a_slip_of_the_keys_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("x,kind\n" + "1,apple\n2,plum\n" * 10)
    dataset = read(str(tmp_path / "mine.csv"), columns=Columns(label="kind"))
    found = findings_of(dataset, {0: 1})
    audit = keep(tmp_path / "a", found, dataset, str(tmp_path / "mine.csv"), label="kind")
    decisions = decide(tmp_path / "decisions.csv", found, row0=("relabel", "plumm"))
    with pytest.warns(UserWarning, match="new class 'plumm', did you mean 'plum'"):
        apply(audit, decisions, tmp_path / "new.csv")


def test_a_file_of_ones_own_that_is_called_part_stays(
    audit: Path, found: Findings, tmp_path: Path
) -> None:
    decisions, mine = decide(tmp_path / "decisions.csv", found), tmp_path / "new.npz.part"
    mine.write_text("mine")
    apply(audit, decisions, tmp_path / "new.npz")
    with pytest.raises(LabelNoiseError, match="exists"):
        apply(audit, decisions, tmp_path / "new.npz")
    assert mine.read_text() == "mine"
    assert not list(tmp_path.glob(".labelnoise-*"))


def test_a_label_that_is_relabelled_to_itself_is_kept(
    audit: Path, found: Findings, tmp_path: Path
) -> None:
    decisions = decide(tmp_path / "decisions.csv", found, row3=("relabel", "cat"))
    assert apply(audit, decisions, tmp_path / "new.npz").counts["keep"] == 1
    assert lines(tmp_path / "new.npz.changes.csv")[1:] == []


# --- tables ---------------------------------------------------------------------------------------

TABLE = "age;note;kind\r\n" + "".join(
    f'{row % 7};"row ""{row}"""; {NAMES[row % 6]}\r\n' for row in range(24)
)


@pytest.mark.parametrize("named", [None, "kind"])
def test_a_table_differs_in_its_label_cells_alone(tmp_path: Path, named: str | None) -> None:
    path, out = tmp_path / "mine.csv", tmp_path / "new.csv"
    text = TABLE.replace("2;", ";;\r\n2;", 1)  # a row without a label
    path.write_bytes(text.encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what is left out is said elsewhere
        dataset = read(str(path), columns=Columns(label=named))
    found = findings_of(dataset, {23: 0, 4: 2})
    audit = keep(tmp_path / "audit", found, dataset, str(path), label=named)
    assert found.ids[23] == "24"
    words = {"row23": ("relabel", "a; new one"), "row4": ("bad", ""), "row0": ("keep", "")}
    decisions = decide(tmp_path / "decisions.csv", found, **words)
    with pytest.warns(UserWarning, match="^1 label of a new class 'a; new one'$"):
        apply(audit, decisions, out)
    expected = text.replace('4;"row ""4"""; owl\r\n', "")
    expected = expected.replace('"row ""23"""; owl', '"row ""23"""; "a; new one"')
    assert out.read_bytes().decode() == expected
    assert path.read_bytes().decode() == text
    assert undo(out) == 1


@pytest.mark.parametrize(
    ("label", "complaint"),
    [
        ("NA", "'NA' is read as a missing label"),
        ("?", "read as a missing label"),
        ("3.0", "'3.0' is read as '3'"),
        (" 1", "' 1' is read as '1'"),
    ],
)
def test_a_new_label_that_would_be_read_as_another_is_refused(
    tmp_path: Path, label: str, complaint: str
) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("x,label\n" + "".join(f"{row % 7},{row % 4}\n" for row in range(24)))
    dataset = read(str(path), columns=Columns(label="label"))
    found = findings_of(dataset)
    audit = keep(tmp_path / "audit", found, dataset, str(path), label="label")
    decisions = decide(tmp_path / "decisions.csv", found, row5=("relabel", label))
    with pytest.raises(LabelNoiseError, match=complaint.replace("?", r"\?")):
        apply(audit, decisions, tmp_path / "new.csv")


def test_a_parquet_table_is_corrected(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")
    from pyarrow import parquet

    path = tmp_path / "mine.parquet"
    parquet.write_table(
        pyarrow.table({"x": [x % 7 for x in range(24)], "label": [0, 1] * 12}), path
    )
    dataset = read(str(path), columns=Columns(label="label"))
    found = findings_of(dataset, {5: 0})
    audit = keep(tmp_path / "audit", found, dataset, str(path), label="label")
    decisions = decide(tmp_path / "decisions.csv", found, row5=("relabel", "0"), row6=("bad", ""))
    apply(audit, decisions, tmp_path / "new.parquet")
    new = parquet.read_table(tmp_path / "new.parquet").to_pydict()
    assert new["x"] == [x % 7 for x in range(24) if x != 6]
    assert new["label"][4:7] == [0, 0, 1]


# --- images ---------------------------------------------------------------------------------------


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    for number, name in enumerate(("cat/1.png", "cat/2.png", "dog/1.png", "dog/3.png")):
        path = tmp_path / "pets" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 50 * number).save(path)
    return tmp_path / "pets"


@pytest.mark.parametrize("how", ["--link", "--copy"])
def test_a_folder_is_corrected_and_taken_back(pets: Path, tmp_path: Path, how: str) -> None:
    dataset = read(str(pets))
    found = findings_of(dataset, {0: 1})
    audit = keep(tmp_path / "audit", found, dataset, str(pets))
    words = {"row0": ("relabel", "dog"), "row1": ("relabel", "lynx"), "row3": ("bad", "")}
    decisions, out = decide(tmp_path / "decisions.csv", found, **words), tmp_path / "new"
    assert main(["apply", str(audit), str(decisions), "--out", str(out), how]) == 0
    made = {path.relative_to(out).as_posix(): path for path in out.rglob("*.png")}
    assert set(made) == {"dog/1-from-cat.png", "dog/1.png", "lynx/2.png"}
    assert made["dog/1-from-cat.png"].read_bytes() == (pets / "cat" / "1.png").read_bytes()
    assert read(str(out)).classes == ("dog", "lynx")
    assert lines(tmp_path / "new.changes.csv")[1] == ["cat/1.png", "0", "cat", "dog", "relabel"]
    (out / "dog" / "mine.txt").write_text("mine")
    assert main(["apply", "--undo", str(out)]) == 2
    assert len(list(out.rglob("*.png"))) == 3
    (out / "dog" / "mine.txt").unlink()
    assert main(["apply", "--undo", str(out)]) == 0
    assert not out.exists()
    assert len(list(pets.rglob("*.png"))) == 4
    with (
        pytest.warns(UserWarning, match="new class 'lynx'"),
        pytest.raises(LabelNoiseError, match="lies in the data"),
    ):
        apply(audit, decisions, pets / "new")


def test_a_table_of_images_with_one_that_cannot_be_read_and_one_named_twice(
    pets: Path, tmp_path: Path
) -> None:
    path = pets / "table.csv"
    rows = ["cat/1.png,cat", "no.png,dog", "dog/1.png,cat", "dog/1.png,dog", "dog/3.png,dog"]
    path.write_text("\n".join(["file,label", *rows, ""]))
    columns = {"label": "label", "image": "file"}
    with pytest.warns(UserWarning, match="1 of 5 images"):
        dataset = read(str(path), columns=Columns(**columns))
    found = findings_of(dataset, {2: 0, 1: 1})
    audit = keep(tmp_path / "audit", found, dataset, str(path), **columns)
    decisions = decide(tmp_path / "decisions.csv", found, row1=("relabel", "dog"), row3=("bad", ""))
    apply(audit, decisions, tmp_path / "new.csv")
    new = ["cat/1.png,cat", "no.png,dog", "dog/1.png,dog", "dog/1.png,dog"]
    assert (tmp_path / "new.csv").read_text() == "\n".join(["file,label", *new, ""])
