from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from labelnoise.data.dataset import Known
from labelnoise.data.npz import npz_rows, read_npz
from labelnoise.data.split import stratified_split
from labelnoise.errors import LabelNoiseError

Array = NDArray[Any]

X = np.arange(24, dtype=np.float64).reshape(6, 4)
Y = np.array([3, -1, 3, 100, -1, 3])


def save(folder: Path, **arrays: Any) -> Path:
    path = folder / "own.npz"
    np.savez(path, **arrays)
    return path


def message(path: Path) -> str:
    with pytest.raises(LabelNoiseError) as error:
        read_npz(path)
    text = str(error.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


def test_features_with_sparse_negative_labels(tmp_path: Path) -> None:
    path = save(tmp_path, x=X, y=Y)
    data = read_npz(path)
    assert data.name == str(path)
    assert data.inputs.dtype == torch.float32
    assert data.inputs.tolist() == X.tolist()
    assert data.classes == ("-1", "3", "100")
    assert data.labels.tolist() == [1, 0, 1, 2, 0, 1]
    assert data.labels.dtype == torch.int64
    assert data.test_inputs is None
    assert data.test_labels is None
    assert data.flips is None
    assert not data.verified
    assert data.split is stratified_split


def test_text_labels_are_sorted(tmp_path: Path) -> None:
    data = read_npz(save(tmp_path, x=X, y=np.array(["dog", "cat", "Öl", "dog", "cat", "dog"])))
    assert data.classes == ("cat", "dog", "Öl")
    assert data.labels.tolist() == [1, 0, 2, 1, 0, 1]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", ">i8", "uint64", "float16", ">f8"])
def test_other_numbers_become_float32(tmp_path: Path, dtype: str) -> None:
    data = read_npz(save(tmp_path, x=X.astype(dtype), y=Y))
    assert data.inputs.dtype == torch.float32
    assert data.inputs.tolist() == X.astype(dtype).astype(np.float32).tolist()


def test_bytes_stay_bytes(tmp_path: Path) -> None:
    data = read_npz(save(tmp_path, x=X.astype(np.uint8), y=Y))
    assert data.inputs.dtype == torch.uint8


@pytest.mark.parametrize("dtype", ["int8", ">i2", "uint64", "bool"])
def test_labels_of_every_integer_type(tmp_path: Path, dtype: str) -> None:
    data = read_npz(save(tmp_path, x=X, y=np.array([0, 1, 0, 1, 1, 0]).astype(dtype)))
    assert data.labels.tolist() == [0, 1, 0, 1, 1, 0]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((6, 8, 9), (6, 1, 8, 9)),
        ((6, 3, 8, 9), (6, 3, 8, 9)),
        ((6, 8, 9, 3), (6, 3, 8, 9)),
        ((6, 8, 9, 1), (6, 1, 8, 9)),
        ((6, 4, 8, 9), (6, 4, 8, 9)),
        ((6, 1, 3, 9), (6, 1, 3, 9)),
    ],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_images_come_out_channels_first(
    tmp_path: Path, shape: tuple[int, ...], expected: tuple[int, ...], dtype: type
) -> None:
    x: Array = (np.arange(np.prod(shape)) % 251).reshape(shape).astype(dtype)
    inputs = read_npz(save(tmp_path, x=x, y=Y)).inputs
    assert inputs.shape == expected
    assert inputs.is_contiguous()
    if shape[1:3] == (8, 9):
        last = x.reshape(6, 8, 9, -1)
        assert np.array_equal(inputs.numpy().transpose(0, 2, 3, 1), last)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((6,), "x has shape (6,): expected (rows, features)"),
        ((6, 2, 5, 2), "x has shape (6, 2, 5, 2): expected"),
        ((6, 3, 5, 3), "may have its channels first or last"),
        ((6, 1, 2, 2, 2), "x has shape (6, 1, 2, 2, 2): expected"),
        ((0, 4), "x is empty, its shape is (0, 4)"),
        ((6, 0), "x is empty"),
    ],
)
def test_other_shapes_are_refused(tmp_path: Path, shape: tuple[int, ...], text: str) -> None:
    assert text in message(save(tmp_path, x=np.zeros(shape), y=Y))


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"x": X}, "no array 'y', found 'x'"),
        ({"X": X, "y": Y}, "no array 'x', found 'X', 'y': rename 'X' to 'x'?"),
        ({"x_train": X, "y_train": Y}, "found 'x_train', 'y_train': rename 'x_train' to 'x'?"),
        ({"x": X, "labels": Y}, "no array 'y', found 'labels', 'x'"),
        ({"x": X, "y": Y[:5]}, "x has 6 rows but y has 5"),
        ({"x": X, "y": Y[:0]}, "y is empty"),
        ({"x": X, "y": np.zeros(6, int)}, "y has only one class, '0': at least two are needed"),
        ({"x": X, "y": np.zeros((6, 2), int)}, "y has shape (6, 2): one label a row"),
        ({"x": X, "y": Y.astype(float)}, "y holds float64: convert labels with y.astype(int)"),
        ({"x": X, "y": Y.astype("S4")}, "y holds bytes: convert labels with y.astype(str)"),
        ({"x": X, "y": Y.astype(complex)}, "y holds complex128: integers or text expected"),
        ({"x": X.astype(str), "y": Y}, "x holds <U32: numbers expected"),
        ({"x": X.astype(complex), "y": Y}, "x holds complex128: numbers expected"),
        ({"x": X, "y": Y, "x_test": X}, "only x_test is there"),
        ({"x": X, "y": Y, "y_test": Y}, "only y_test is there"),
        ({"x": X, "y": Y, "x_test": X[:, :3], "y_test": Y}, "rows of x are (4,) but rows of"),
        ({"x": X, "y": Y, "x_test": X[:2], "y_test": Y}, "x_test has 2 rows but y_test has 6"),
        ({"x": X, "y": Y, "x_test": X, "y_test": Y + 1}, "y_test has the label '0', which is"),
        (
            {"x": X, "y": Y, "x_test": X.astype(np.uint8), "y_test": Y},
            "x is float64 but x_test is uint8: save them alike",
        ),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, arrays: dict[str, Array], text: str) -> None:
    assert text in message(save(tmp_path, **arrays))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_values_that_are_not_finite_are_counted(tmp_path: Path, value: float) -> None:
    x = X.copy()
    x[2, 1] = x[4] = value
    text = "x has NaN or infinite values in 2 of 6 rows, the first is row 2"
    assert message(save(tmp_path, x=x, y=Y)) == text


def test_the_test_part(tmp_path: Path) -> None:
    data = read_npz(save(tmp_path, x=X, y=Y, x_test=X[:3] + 1, y_test=Y[3:]))
    assert data.test_inputs is not None
    assert data.test_labels is not None
    assert data.test_inputs.tolist() == (X[:3] + 1).tolist()
    assert data.test_labels.tolist() == [2, 0, 1]


@pytest.mark.parametrize("key", ["x", "y"])
def test_objects_are_refused_without_unpickling(tmp_path: Path, key: str) -> None:
    arrays = {"x": X, "y": Y} | {key: np.array([{}, None, 1, 2, 3, 4], dtype=object)}
    assert "because they can run code" in message(save(tmp_path, **arrays))


def test_a_file_that_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    path.write_bytes(b"hello")
    assert message(path) == "no readable .npz file (File is not a zip file)"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert message(tmp_path / "absent.npz") == "cannot be read (No such file or directory)"


def test_a_name_with_a_new_line_stays_on_one(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a\nb.npy", b"hello")
    assert message(path) == r"no array 'x', found 'a\nb'"


def test_a_member_that_is_no_array(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", b"hello")
        archive.writestr("y", b"world")
    assert message(path) == "x is not an array"


def test_other_arrays_in_the_file_do_no_harm(tmp_path: Path) -> None:
    extra = np.array([None], dtype=object)
    assert len(read_npz(save(tmp_path, x=X, y=Y, extra=extra)).labels) == 6


def test_rows_without_labels(tmp_path: Path) -> None:
    inputs, labels, _ = npz_rows(save(tmp_path, x=X), Known(("a", "b")))
    assert inputs.tolist() == X.tolist()
    assert labels is None


def test_rows_with_labels_in_the_order_of_the_model(tmp_path: Path) -> None:
    path = save(tmp_path, x=X[:2], y=np.array([3, 3]))
    _, labels, _ = npz_rows(path, Known(("-1", "3")))
    assert labels is not None
    assert labels.tolist() == [1, 1]
    with pytest.raises(LabelNoiseError, match="y has the label '3', which is none of the classes"):
        npz_rows(path, Known(("0", "1")))


def complaint(path: Path) -> str:
    """What the reader says of the file: nothing when it can read it."""
    try:
        read_npz(path)
    except LabelNoiseError as error:
        return str(error)
    return ""


def saved(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def stored(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


ARCHIVES = (saved(x=X, y=Y, x_test=X, y_test=Y), stored(x=X, y=Y.astype(str)))


@settings(max_examples=150, deadline=None)
@given(
    data=st.sampled_from(ARCHIVES),
    cut=st.one_of(st.just(0), st.integers(0, 3000)),
    damage=st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 255)), max_size=3),
)
def test_damage_gives_a_dataset_or_one_line(
    tmp_path_factory: pytest.TempPathFactory,
    data: bytes,
    cut: int,
    damage: list[tuple[int, int]],
) -> None:
    damaged = bytearray(data)
    for where, byte in damage:
        damaged[where % len(damaged)] = byte
    path = tmp_path_factory.mktemp("damage") / "own.npz"
    path.write_bytes(damaged[: max(0, len(damaged) - cut)])
    error = complaint(path)
    assert "\n" not in error
    assert not error or error.startswith(f"{path}: ")
