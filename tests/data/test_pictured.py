from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from labelnoise.data import Columns, read, read_rows
from labelnoise.data.dataset import Dataset
from labelnoise.data.folder import read_folder
from labelnoise.data.stored import Files, walk
from labelnoise.errors import LabelNoiseError

from .pictures import CLASSES, coloured, noise, save, truncated

COLUMNS = Columns(label="kind", image="file")


def write(path: Path, rows: list[tuple[str, str]]) -> str:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("file", "size", "kind"))
        writer.writerows((name, 3, kind) for name, kind in rows)
    return str(path)


@pytest.fixture
def pictures(tmp_path: Path) -> list[tuple[str, str]]:
    """A tree of images, and the rows of a table that names them in another order."""
    root = coloured(tmp_path / "images", each=4)
    names = sorted(root.rglob("*.png"), key=lambda path: path.name)
    return [(f"images/{path.parent.name}/{path.name}", path.parent.name) for path in names]


def table(tmp_path: Path, rows: list[tuple[str, str]], columns: Columns = COLUMNS) -> Dataset:
    return read(write(tmp_path / "table.csv", rows), columns=columns)


def test_paths_relative_to_the_table(tmp_path: Path, pictures: list[tuple[str, str]]) -> None:
    dataset = table(tmp_path, pictures)
    assert dataset.classes == CLASSES
    assert dataset.ids == tuple(name for name, _ in pictures)
    assert [dataset.classes[label] for label in dataset.labels] == [kind for _, kind in pictures]
    folder = read_folder(tmp_path / "images")
    place = [folder.ids.index(name.removeprefix("images/")) for name in dataset.ids]
    assert dataset.inputs.equal(folder.inputs[place])
    assert dataset.encoding == {"kind": "image", "column": "file", "label": "kind", "unlabelled": 0}
    assert not dataset.originals  # the images themselves are shown
    assert dataset.skipped == ()


def test_parquet(tmp_path: Path, pictures: list[tuple[str, str]]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    names, kinds = zip(*pictures, strict=True)
    path = tmp_path / "table.parquet"
    parquet.write_table(arrow.table({"file": names, "kind": kinds}), path)
    found = read(str(path), columns=COLUMNS)
    assert found.inputs.equal(table(tmp_path, pictures).inputs)


def test_absolute_paths_and_ways_round(tmp_path: Path, pictures: list[tuple[str, str]]) -> None:
    elsewhere = save(tmp_path / "elsewhere/a.png", noise(16, 16))
    (tmp_path / "deep").mkdir()
    rows = [(str(elsewhere), "red"), ("./pics/../pics/b.png", "blue"), (" pics/b.png ", "blue")]
    save(tmp_path / "deep/pics/b.png", noise(16, 16, seed=1))
    dataset = table(tmp_path / "deep", rows)
    assert dataset.ids == (str(elsewhere), "./pics/../pics/b.png", "pics/b.png")
    assert dataset.inputs[1].equal(dataset.inputs[2])


@pytest.mark.parametrize("name", ["../a.png", "x/../../a.png", "..", "./../a.png"])
def test_a_path_that_leads_out_is_an_error(tmp_path: Path, name: str) -> None:
    save(tmp_path / "a.png", noise(8, 8))
    (tmp_path / "deep").mkdir()
    with pytest.raises(LabelNoiseError) as error:
        table(tmp_path / "deep", [("b.png", "red"), (name, "blue")])
    assert str(error.value).startswith(
        f"{tmp_path}/deep/table.csv: the path {name!r} leads out of the table's folder"
    )


def test_names_that_begin_with_dots_stay(tmp_path: Path) -> None:
    for name in ("..a.png", ".b.png"):
        save(tmp_path / name, noise(8, 8))
    assert len(table(tmp_path, [("..a.png", "red"), (".b.png", "blue")]).labels) == 2


def test_missing_and_broken_images_are_left_out(
    tmp_path: Path, pictures: list[tuple[str, str]]
) -> None:
    truncated(tmp_path / pictures[5][0])
    rows = [
        *pictures,
        ("images/absent.png", "red"),
        ("images/absent.png", "blue"),
        ("/absent/x.png", "pink"),  # the only one of its class
        ("", "red"),
        (pictures[0][0], ""),  # no label
    ]
    expected = r"5 of 16 images cannot be read and are left out: 'images/.*, \.\.\."
    with (
        pytest.warns(UserWarning, match="1 rows without a label"),
        pytest.warns(UserWarning, match=expected),
    ):
        dataset = table(tmp_path, rows)
    kept = [row for number, row in enumerate(pictures) if number != 5]
    assert dataset.ids == tuple(name for name, _ in kept)
    assert dataset.classes == CLASSES  # nothing is left of pink
    assert [dataset.classes[label] for label in dataset.labels] == [kind for _, kind in kept]
    assert dataset.skipped == (pictures[5][0], "images/absent.png", "/absent/x.png", "")


def test_nothing_can_be_read(tmp_path: Path) -> None:
    with pytest.raises(LabelNoiseError, match=r"none of 2 images can be read: 'a' \(No such file"):
        table(tmp_path, [("a", "red"), ("b", "blue")])


def test_a_column_that_does_not_exist(tmp_path: Path, pictures: list[tuple[str, str]]) -> None:
    with pytest.raises(LabelNoiseError, match="'file'"):
        table(tmp_path, pictures, Columns(label="kind", image="fil"))


def test_streamed(
    tmp_path: Path, pictures: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = table(tmp_path, pictures)
    monkeypatch.setenv("LABELNOISE_MEMORY", "0")
    files = table(tmp_path, pictures)
    assert isinstance(files.inputs, Files)
    assert torch.cat(list(walk(files.inputs, 5))).equal(memory.inputs)
    assert files.fingerprint.digest() == memory.fingerprint.digest()


def test_new_rows(tmp_path: Path, pictures: list[tuple[str, str]]) -> None:
    known = table(tmp_path, pictures).known
    save(tmp_path / "large.png", noise(50, 40))
    path = Path(
        write(tmp_path / "new.csv", [("large.png", "red"), (pictures[0][0], ""), ("x", "")])
    )
    with pytest.warns(UserWarning, match="1 of 3 images cannot be read"):
        rows = read_rows(path, known)
    assert rows.inputs.shape == (2, 3, 16, 16)
    assert rows.labels is not None
    assert rows.labels.tolist() == [2, -1]
    assert rows.ids == ("large.png", pictures[0][0])
    path.write_text("picture\nlarge.png\n")
    rows = read_rows(path, known, Columns(image="picture"))
    assert rows.labels is None
    assert len(rows.inputs) == 1


def test_a_folder_for_a_model_of_a_table(tmp_path: Path, pictures: list[tuple[str, str]]) -> None:
    rows = read_rows(tmp_path / "images", table(tmp_path, pictures).known)
    assert rows.labels is not None
    assert rows.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
