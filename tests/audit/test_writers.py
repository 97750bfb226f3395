"""Corrected copies: only what was decided differs."""

from __future__ import annotations

import csv
import io
import os
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labelnoise.audit.writers import WRITERS, Correction, writer_of
from labelnoise.audit.writers.delimited import scan, write_delimited
from labelnoise.audit.writers.folder import write_folder
from labelnoise.audit.writers.listing import write_listing
from labelnoise.audit.writers.npz import write_npz
from labelnoise.audit.writers.parquet import write_parquet
from labelnoise.data.dataset import Dataset
from labelnoise.data.tree import Tree
from labelnoise.errors import LabelNoiseError


def correction_of(
    path: Path,
    before: list[str],
    changed: dict[int, str],
    bad: tuple[int, ...] = (),
    ids: tuple[str, ...] = (),
    **source: Any,
) -> Correction:
    classes = tuple(sorted(set(before)))
    labels = torch.tensor([classes.index(name) for name in before])
    dataset = Dataset(str(path), torch.zeros(len(before), 1), labels, classes, ids=ids)
    link = source.pop("link", False)
    return Correction({"data": str(path), **source}, dataset, changed, frozenset(bad), link)


# --- delimited text -------------------------------------------------------------------------------

ODD = (
    "\ufeffid; label ;note\r\n"
    '1; cat;"a ""quoted"", long; note"\r\n'
    "\r\n"
    '2;"dog";"two\nlines"\n'
    "3;;nothing\r"
    "4;cat;   spaces kept   \n"
    "5;dog;last line without a break"
)


def test_only_label_cells_differ_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_bytes(ODD.encode())
    correction = correction_of(
        path, ["cat", "dog", "cat", "dog"], {0: "dog", 1: "a;b", 3: 'q"'}, label="label"
    )
    write_delimited(correction, tmp_path / "new.csv")
    expected = ODD.replace("1; cat;", "1; dog;").replace('2;"dog";', '2;"a;b";')
    expected = expected.replace("5;dog;", '5;"q""";')
    assert (tmp_path / "new.csv").read_bytes().decode() == expected


def test_the_line_of_a_bad_sample_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_bytes(ODD.encode())
    correction = correction_of(
        path, ["cat", "dog", "cat", "dog"], {2: "dog"}, (1, 3), label="label"
    )
    write_delimited(correction, tmp_path / "new.csv")
    expected = ODD.replace('2;"dog";"two\nlines"\n', "").replace("4;cat;", "4;dog;")
    expected = expected.replace("5;dog;last line without a break", "")
    assert (tmp_path / "new.csv").read_bytes().decode() == expected


def test_the_scanner_finds_the_cells_that_the_csv_module_reads() -> None:
    rows = [["a", "b,c", 'd"e', "f\ng", ""], ["", "1", " 2", "\u00e4", '""'], ["x"] * 5]
    for ending in ("\n", "\r\n", "\r"):
        written = io.StringIO()
        csv.writer(written, lineterminator=ending).writerows(rows)
        text = written.getvalue()
        spans = [[text[slice(*cell)] for cell in record.cells] for record in scan(text, ",")]
        # One cell at a time, as wide as the scanner found it.
        alone = [
            [next(csv.reader(io.StringIO(f"{cell},", newline="")))[0] for cell in line]
            for line in spans
        ]
        assert alone == list(csv.reader(io.StringIO(text, newline=""), skipinitialspace=True))


def test_labels_written_as_floats_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "floats.csv"
    path.write_text("x,y\n1,0.0\n2,1.0\n3,\n4,1.0\n")
    write_delimited(correction_of(path, ["0", "1", "1"], {2: "0"}, label="y"), tmp_path / "new.csv")
    assert (tmp_path / "new.csv").read_text() == "x,y\n1,0.0\n2,1.0\n3,\n4,0\n"


def test_a_row_whose_image_was_unreadable_does_not_shift_the_others(tmp_path: Path) -> None:
    path = tmp_path / "images.csv"
    path.write_text("file,label\na.png,cat\nbroken.png,dog\nb.png ,dog\nc.png,cat\n")
    ids = ("a.png", "b.png", "c.png")
    correction = correction_of(
        path, ["cat", "dog", "cat"], {1: "cat", 2: "dog"}, ids=ids, label="label", image="file"
    )
    write_delimited(correction, tmp_path / "new.csv")
    assert (tmp_path / "new.csv").read_text() == (
        "file,label\na.png,cat\nbroken.png,dog\nb.png ,cat\nc.png,dog\n"
    )


def test_a_table_with_other_labels_than_were_audited_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("x,y\n1,cat\n2,dog\n")
    with pytest.raises(LabelNoiseError, match="row 1 has the label 'dog', not 'cat'"):
        write_delimited(correction_of(path, ["cat", "cat"], {}, label="y"), tmp_path / "new.csv")
    with pytest.raises(LabelNoiseError, match="unknown column 'z'"):
        write_delimited(correction_of(path, ["cat", "dog"], {}, label="z"), tmp_path / "new.csv")


# --- npz ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [["cat", "dog", "dog", "cat"], ["0", "1", "1", "0"]])
def test_an_archive_gets_another_y_and_keeps_the_rest(tmp_path: Path, labels: list[str]) -> None:
    path = tmp_path / "mine.npz"
    numbers = labels[0].isdecimal()
    y = np.array([int(name) for name in labels], dtype=np.int16) if numbers else np.array(labels)
    arrays: dict[str, Any] = {
        "x": np.arange(8.0).reshape(4, 2), "y": y, "x_test": np.zeros((4, 2)), "y_test": y,
        "weight": np.arange(4), "note": np.array("free text"), "objects": np.array([{}, 1]),
    }  # fmt: skip
    np.savez_compressed(path, **arrays)
    write_npz(correction_of(path, labels, {0: labels[1]}), tmp_path / "new.npz")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "new.npz") as new:
        assert old.namelist() == new.namelist()
        same = {name for name in old.namelist() if old.read(name) == new.read(name)}
        assert same == {*old.namelist()} - {"y.npy"}
        assert new.infolist()[0].compress_type == old.infolist()[0].compress_type
    after = np.load(tmp_path / "new.npz")["y"]
    assert after.dtype == y.dtype
    assert [str(one) for one in after] == [labels[1], *labels[1:]]


def test_a_bad_row_leaves_every_array_that_has_it_but_not_the_test_part(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    y = np.array([0, 1, 1, 0])
    arrays: dict[str, Any] = {
        "x": np.arange(4), "y": y, "x_test": np.zeros(4), "y_test": y, "weight": np.arange(4),
        "other": np.arange(3), "scalar": np.array(1),
    }  # fmt: skip
    np.savez(path, **arrays)
    write_npz(correction_of(path, ["0", "1", "1", "0"], {0: "1"}, bad=(2,)), tmp_path / "new.npz")
    new = np.load(tmp_path / "new.npz")
    assert new["x"].tolist() == new["weight"].tolist() == [0, 1, 3]
    assert new["y"].tolist() == [1, 1, 0]
    assert len(new["x_test"]) == len(new["y_test"]) == 4
    assert len(new["other"]) == 3


def test_rows_of_python_objects_are_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    objects: Any = np.array([{}, {}], dtype=object)
    np.savez(path, x=np.zeros(2), y=np.array([0, 1]), objects=objects)
    with pytest.raises(LabelNoiseError, match="rows cannot be taken out of 'objects'"):
        write_npz(correction_of(path, ["0", "1"], {}, bad=(0,)), tmp_path / "new.npz")


# --- parquet, named data --------------------------------------------------------------------------


def test_parquet_keeps_types_and_other_columns(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")
    from pyarrow import parquet

    path = tmp_path / "mine.parquet"
    table = pyarrow.table(
        {
            "x": [0.5, 1.5, 2.5, 3.5],
            "y": pyarrow.array([3, None, 4, 3], type=pyarrow.int16()),
        }
    )
    parquet.write_table(table, path)
    write_parquet(
        correction_of(path, ["3", "4", "3"], {0: "4"}, bad=(2,), label="y"),
        tmp_path / "new.parquet",
    )
    new = parquet.read_table(tmp_path / "new.parquet")
    assert new.schema == table.schema
    assert new.to_pydict() == {"x": [0.5, 1.5, 2.5], "y": [4, None, 4]}
    with pytest.raises(LabelNoiseError, match="holds int16 only"):
        write_parquet(correction_of(path, ["3", "4", "3"], {0: "cat"}, label="y"), tmp_path / "no")


def test_parquet_labels_that_are_no_text_keep_their_values(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")
    from pyarrow import parquet

    path, days = tmp_path / "mine.parquet", [date(2024, 1, 1), date(2024, 1, 2)]
    parquet.write_table(
        pyarrow.table({"y": [True, False, None, True], "day": [*days, *days]}), path
    )
    labels = ["True", "False", "True"]
    write_parquet(correction_of(path, labels, {0: "False"}, label="y"), tmp_path / "new.parquet")
    new = parquet.read_table(tmp_path / "new.parquet").to_pydict()
    assert new == {"y": [False, False, None, True], "day": [*days, *days]}
    labels = ["2024-01-01", "2024-01-02"] * 2
    write_parquet(
        correction_of(path, labels, {0: labels[1]}, label="day"), tmp_path / "day.parquet"
    )
    assert parquet.read_table(tmp_path / "day.parquet").to_pydict()["day"] == [
        days[1],
        days[1],
        *days,
    ]
    unfit = correction_of(path, ["True", "False", "True"], {0: "perhaps"}, label="y")
    with pytest.raises(LabelNoiseError, match="holds bool only"):
        write_parquet(unfit, tmp_path / "no")


def test_named_data_become_a_list_of_labels(tmp_path: Path) -> None:
    out = tmp_path / "labels.csv"
    write_listing(correction_of(Path("digits"), ["3", "4", "3"], {0: "4"}, bad=(1,)), out)
    assert out.read_text() == "row,label\n0,4\n2,3\n"


# --- folders --------------------------------------------------------------------------------------


@pytest.fixture
def animals(tmp_path: Path) -> Path:
    root = tmp_path / "animals"
    for name in ("cat/1.jpg", "cat/deep/2.jpg", "dog/1.jpg", "dog/3.jpg", "notes.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


IDS = ("cat/1.jpg", "cat/deep/2.jpg", "dog/1.jpg", "dog/3.jpg")
BEFORE = ["cat", "cat", "dog", "dog"]


def tree(root: Path) -> dict[str, str]:
    files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_text() for path in files}


@pytest.mark.parametrize("link", [False, True])
def test_files_move_to_the_folder_of_their_new_class(
    animals: Path, tmp_path: Path, link: bool
) -> None:
    old = tree(animals)
    changed = {0: "dog", 1: "tiger"}
    correction = correction_of(animals, BEFORE, changed, bad=(3,), ids=IDS, link=link)
    write_folder(correction, tmp_path / "new")
    assert tree(tmp_path / "new") == {
        "dog/1.jpg": "dog/1.jpg",
        "dog/1-from-cat.jpg": "cat/1.jpg",
        "tiger/deep/2.jpg": "cat/deep/2.jpg",
        "notes.txt": "notes.txt",
    }
    assert tree(animals) == old
    same = (tmp_path / "new" / "dog" / "1.jpg").samefile(animals / "dog" / "1.jpg")
    assert same is link


def test_where_nothing_can_be_linked_to_another_disk_a_symbolic_link_is_made(
    animals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    write_folder(correction_of(animals, BEFORE, {}, ids=IDS, link=True), tmp_path / "new")
    assert (tmp_path / "new" / "cat" / "1.jpg").is_symlink()
    assert tree(tmp_path / "new") == tree(animals)


def test_a_training_part_keeps_its_folder_and_the_test_part_comes_along(
    animals: Path, tmp_path: Path
) -> None:
    root = tmp_path / "parts"
    root.mkdir()
    animals.rename(root / "train")
    (root / "test" / "cat").mkdir(parents=True)
    (root / "test" / "cat" / "9.jpg").write_text("test")
    ids = tuple(f"train/{name}" for name in IDS)
    write_folder(correction_of(root, BEFORE, {3: "cat"}, ids=ids), tmp_path / "new")
    found = tree(tmp_path / "new")
    assert found["train/cat/3.jpg"] == "dog/3.jpg"
    assert found["test/cat/9.jpg"] == "test"


def test_a_class_may_be_called_as_the_part_that_it_lies_in(tmp_path: Path) -> None:
    """Of bus, car and train, in `train`: the second folder is the class, whatever it is called."""
    root = tmp_path / "traffic"
    ids = tuple(f"train/{name}/1.jpg" for name in ("bus", "car", "train"))
    for name in ids:
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(name)
    correction = correction_of(root, ["bus", "car", "train"], {2: "bus"}, ids=ids)
    write_folder(correction, tmp_path / "new")
    assert set(tree(tmp_path / "new")) == {*ids[:2], "train/bus/1-from-train.jpg"}
    (root / "notes").mkdir()
    (root / "notes" / "1.jpg").write_text("no part")  # so that `train` is a class of its own
    every = correction_of(root, ["notes", "train"], {1: "bus"}, ids=("notes/1.jpg", ids[2]))
    write_folder(every, tmp_path / "other")
    assert set(tree(tmp_path / "other")) == {*ids[:2], "notes/1.jpg", "bus/train/1.jpg"}


def test_a_folder_that_two_links_lead_to_comes_along_twice_as_it_was_read(
    animals: Path, tmp_path: Path
) -> None:
    (animals / "wolf").symlink_to(animals / "dog")
    (animals / "cat" / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    ids = (*IDS, "wolf/1.jpg", "wolf/3.jpg")
    assert sorted(name for files in Tree.of(animals).folders.values() for name in files) == sorted(
        (*ids, "cat/gone.jpg")
    )
    before = [*BEFORE, "wolf", "wolf"]
    write_folder(correction_of(animals, before, {4: "cat"}, ids=ids), tmp_path / "new")
    expected = {**tree(animals), "wolf/3.jpg": "dog/3.jpg", "cat/1-from-wolf.jpg": "dog/1.jpg"}
    expected.pop("wolf/1.jpg", None)  # rglob follows links of folders in some versions only
    assert tree(tmp_path / "new") == expected
    assert (tmp_path / "new" / "cat" / "gone.jpg").is_symlink()


def test_a_file_that_is_gone_is_not_left_out_in_silence(animals: Path, tmp_path: Path) -> None:
    (animals / "dog" / "3.jpg").unlink()
    with pytest.raises(LabelNoiseError, match=r"no file 'dog/3.jpg' any more: audit it again"):
        write_folder(correction_of(animals, BEFORE, {}, ids=IDS), tmp_path / "new")
    write_folder(correction_of(animals, BEFORE, {}, bad=(3,), ids=IDS), tmp_path / "new")


@pytest.mark.parametrize("name", ["../out", "a/b", ".hidden", "..", "c\0d", " cat "])
def test_a_class_cannot_lead_out_of_the_folder(animals: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(LabelNoiseError, match="cannot be the name of a class folder"):
        write_folder(correction_of(animals, BEFORE, {0: name}, ids=IDS), tmp_path / "new")


def test_a_name_that_is_no_text_and_links_in_a_circle(animals: Path, tmp_path: Path) -> None:
    odd = os.fsdecode(b"dog/\xff.jpg")
    (animals / odd).write_text("odd")
    (animals / "dog" / "loop").symlink_to(animals)
    ids = (*IDS, "dog/\\xff.jpg")
    write_folder(correction_of(animals, [*BEFORE, "dog"], {4: "cat"}, ids=ids), tmp_path / "new")
    assert (tmp_path / "new" / os.fsdecode(b"cat/\xff.jpg")).read_text() == "odd"


def test_the_kind_of_data_chooses_the_writer(tmp_path: Path) -> None:
    assert writer_of("digits").write is write_listing
    assert writer_of("mnist:rows=100").write is write_listing
    assert writer_of("mine.NPZ").write is write_npz
    assert writer_of("mine.csv") is WRITERS[".csv"]
    assert writer_of("mine.csv:rows=10").write is write_listing
    assert writer_of(str(tmp_path)).write is write_folder
    assert writer_of("mine.npy").write is write_listing
