"""Embeddings with a file of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from labelnoise.data import Columns, Known
from labelnoise.data.npy import npy_rows, read_npy
from labelnoise.errors import LabelNoiseError

X = np.arange(24, dtype=np.float64).reshape(6, 4)
NAMES = ["dog", "cat", "dog", "cat", "cat", "bird"]


def save(path: Path, array: Any) -> Path:
    np.save(path, array)
    return path


@pytest.fixture
def embeddings(tmp_path: Path) -> Path:
    return save(tmp_path / "emb.npy", X)


def message(path: Path, label: str | Path | None = None) -> str:
    with pytest.raises(LabelNoiseError) as error:
        read_npy(path, Columns(label=None if label is None else str(label)))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_integers(embeddings: Path) -> None:
    labels = save(embeddings.parent / "y.npy", np.array([10, 9, 10, 9, -1, 9]))
    data = read_npy(embeddings, Columns(label=str(labels)))
    assert data.classes == ("-1", "9", "10")
    assert data.labels.tolist() == [2, 1, 2, 1, 0, 1]
    assert data.inputs.tolist() == X.tolist()
    assert data.ids == ()
    assert data.encoding is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("y.txt", "\n".join(NAMES)),
        ("y.txt", "\r\n".join(NAMES) + "\r\n"),
        ("y.csv", "name\n" + "\n".join(NAMES) + "\n"),
        ("y.csv", "row,label,by\n" + "".join(f"{n},{w},me\n" for n, w in enumerate(NAMES))),
        ("y.csv", "row;animal\n" + "".join(f"{n};{w}\n" for n, w in enumerate(NAMES))),
    ],
)
def test_text(embeddings: Path, name: str, text: str) -> None:
    labels = embeddings.parent / name
    labels.write_bytes(text.encode())
    data = read_npy(embeddings, Columns(label=str(labels)))
    assert data.classes == ("bird", "cat", "dog")
    assert [data.classes[label] for label in data.labels.tolist()] == NAMES


def test_rows_without_a_label_are_left_out(embeddings: Path) -> None:
    labels = embeddings.parent / "y.txt"
    labels.write_text("a\n\nb\nNA\na\nb\n")
    with pytest.warns(UserWarning, match="2 rows without a label are left out"):
        data = read_npy(embeddings, Columns(label=str(labels)))
    assert data.ids == ("0", "2", "4", "5")
    assert data.inputs.tolist() == X[[0, 2, 4, 5]].tolist()
    assert data.labels.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("name", ["emb_labels.npy", "emb.labels.npy", "labels.npy"])
def test_labels_beside_are_found_and_named(embeddings: Path, name: str) -> None:
    save(embeddings.parent / name, np.array(NAMES))
    with pytest.warns(UserWarning, match=f"the labels are .*{name}; --label names another"):
        assert read_npy(embeddings).classes == ("bird", "cat", "dog")


def test_the_nearest_name_is_found_first(embeddings: Path) -> None:
    save(embeddings.parent / "labels.npy", np.arange(6))
    (embeddings.parent / "emb_labels.txt").write_text("\n".join(NAMES))
    with pytest.warns(UserWarning, match=r"emb_labels\.txt"):
        read_npy(embeddings)


def test_what_is_wrong_with_the_labels(embeddings: Path) -> None:
    folder = embeddings.parent
    assert message(embeddings) == (
        f"{embeddings} has no labels beside it: pass --label FILE, or call them emb_labels.npy"
    )
    assert message(embeddings, "species") == (
        "--label species: no such file; for emb.npy it names a file of labels"
    )
    (folder / "y.xlsx").write_text("")
    assert "a file of labels is a .npy, .csv, .txt file" in message(embeddings, folder / "y.xlsx")
    short = save(folder / "short.npy", np.arange(5))
    assert message(embeddings, short) == f"{embeddings} has 6 rows but {short} has 5 labels"
    (folder / "y.csv").write_text("\n".join(NAMES))
    assert message(embeddings, folder / "y.csv").endswith(
        "5 labels: its first line is taken for a name; a .txt file has none"
    )
    one = save(folder / "one.npy", np.zeros(6, int))
    assert message(embeddings, one) == (f"{one} has only one class, '0': at least two are needed")
    real = save(folder / "real.npy", np.linspace(0, 1, 6))
    assert "convert labels with" in message(embeddings, real)
    wide = save(folder / "wide.npy", np.zeros((6, 2), int))
    assert message(embeddings, wide).startswith(f"{wide}: the array has shape (6, 2): one label")
    (folder / "y.txt").write_bytes(b"\xff\xfe")
    assert message(embeddings, folder / "y.txt").endswith("not UTF-8: save the labels as UTF-8")


@pytest.mark.parametrize("which", ["inputs", "labels"])
def test_objects_are_refused_without_unpickling(tmp_path: Path, which: str) -> None:
    objects: NDArray[Any] = np.array([{}, None, 1, 2, 3, 4], dtype=object)
    inputs = save(tmp_path / "emb.npy", objects if which == "inputs" else X)
    labels = save(tmp_path / "y.npy", objects if which == "labels" else np.arange(6))
    assert "because they can run code" in message(inputs, labels)


def test_what_is_wrong_with_the_inputs(tmp_path: Path) -> None:
    labels = save(tmp_path / "y.npy", np.arange(6))
    path = tmp_path / "emb.npy"
    for content in (b"", b"hello", b"PK\x03\x04", b"\x93NUMPY\x01\x00v\x00{'descr': '<f8'"):
        path.write_bytes(content)
        assert message(path, labels).startswith(f"{path}: no readable .npy file (")
    spoilt = X.copy()
    spoilt[3, 1] = np.nan
    assert message(save(path, spoilt), labels) == (
        f"{path}: the array has NaN or infinite values in 1 of 6 rows, the first is row 3"
    )
    assert "the array has shape (6,): expected" in message(save(path, X[:, 0]), labels)
    assert message(tmp_path / "gone.npy", labels).endswith(
        "gone.npy: cannot be read (No such file or directory)"
    )


def test_rows_to_predict(embeddings: Path) -> None:
    known = Known(("bird", "cat", "dog"))
    save(embeddings.parent / "labels.npy", np.arange(99))  # of other rows; only named ones count
    inputs, labels, _ = npy_rows(embeddings, known)
    assert inputs.tolist() == X.tolist()
    assert labels is None
    named = embeddings.parent / "y.txt"
    named.write_text("cat\ndog\n\nbird\ncat\ncat\n")
    _, labels, _ = npy_rows(embeddings, known, Columns(label=str(named)))
    assert labels is not None
    assert labels.tolist() == [1, 2, -1, 0, 1, 1]


@pytest.mark.parametrize("name", ["image", "text"])
def test_there_are_no_columns(embeddings: Path, name: str) -> None:
    for read in (read_npy, lambda path, columns: npy_rows(path, Known(("a", "b")), columns)):
        with pytest.raises(LabelNoiseError, match=f"leave --{name} out"):
            read(embeddings, Columns(**{name: "a"}))
